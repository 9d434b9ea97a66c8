"""A reconstruction that a run has stored, checked in its shapes, so that no picture fails later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ptycho.files.npz import NpzFile
from ptycho.files.reading import FileError
from ptycho.run import names

KINDS = {"object": "c", "mask": "b", "probe": "c", "positions": "f", "flux": "f"}
KINDS |= {"slices": "c", "opr_modes": "c", "opr_weights": "c"}
SIGMAS = {"sigma_amplitude": "f", "sigma_phase": "f"}
WELL_ILLUMINATED = 0.1  # of the strongest illumination
INSPECTED = 2000  # positions from which the illuminated part is determined


@dataclass(frozen=True, eq=False)
class StoredRecon:
    """A reconstruction in a file; None: it holds none."""

    object: np.ndarray  # (M, M) complex, of the first image
    mask: np.ndarray  # (M, M) bool
    probe: np.ndarray | None = None  # (K, N, N) complex
    positions: np.ndarray | None = None  # (J, 2) in object pixels
    flux: np.ndarray | None = None  # (J,)
    sigma_amplitude: np.ndarray | None = None  # (M, M), one standard deviation
    sigma_phase: np.ndarray | None = None
    slices: np.ndarray | None = None  # (L, M, M) complex, of a thick object
    opr_modes: np.ndarray | None = None  # (K', N, N) complex, of a probe that varies
    opr_weights: np.ndarray | None = None  # (J, K') complex

    @cached_property
    def illuminated(self) -> np.ndarray:
        """Mask ``(M, M)`` bool of the well illuminated part; all that is covered if the beam is not known."""
        if self.probe is None or self.positions is None or not len(self.positions):
            return self.mask
        one, illumination = np.sum(np.abs(self.probe) ** 2, axis=0), np.zeros(self.mask.shape)
        some = np.unique(np.linspace(0, len(self.positions) - 1, INSPECTED).astype(int))
        for row, col in np.round(self.positions[some]).astype(int):
            if row >= 0 and col >= 0:
                place = illumination[row : row + len(one), col : col + len(one)]
                place += one[: place.shape[0], : place.shape[1]]
        illuminated = self.mask & (illumination > WELL_ILLUMINATED * illumination.max())
        return illuminated if illuminated.any() else self.mask


def recon_of(arrays: dict[str, np.ndarray]) -> StoredRecon:
    """Return what the arrays of a file hold, without what does not fit.

    Raises:
        KeyError, ValueError: an array is missing or has a wrong shape.
    """
    image, mask = arrays["object"], arrays["mask"]
    if image.ndim != 3 or mask.shape != image.shape or 0 in image.shape:
        raise ValueError("object and mask must be (images, M, M)")

    def checked(name: str, fits: Callable[[np.ndarray], bool]) -> np.ndarray | None:
        array = arrays.get(name)
        return array if array is not None and fits(array) and np.isfinite(array).all() else None

    known = mask[0] & np.isfinite(image[0])
    probe = checked("probe", lambda array: array.ndim == 3 and array.shape[1] == array.shape[2])
    positions = checked("positions", lambda array: array.ndim == 2 and array.shape[1] == 2 and len(array) > 0)
    flux = checked("flux", lambda array: array.ndim == 1 and len(array) > 0)
    slices = checked("slices", lambda array: array.ndim == 3 and array.shape[1:] == image.shape[1:])
    weights = checked("opr_weights", lambda array: probe is not None and array.ndim == 2 and len(array) > 0)
    sides = None if probe is None or weights is None else (weights.shape[1], *probe.shape[1:])
    modes = checked("opr_modes", lambda array: array.shape == sides)
    return StoredRecon(
        np.where(known, image[0], 0),
        known,
        probe,
        positions,
        flux,
        slices=None if slices is None else np.where(known, slices, 0),
        opr_modes=modes,
        opr_weights=None if modes is None else weights,
        **{name: arrays[name][0] for name in SIGMAS if name in arrays and arrays[name].shape == image.shape},
    )


def read_recon(run: Path, name: str) -> StoredRecon | None:
    """Read a reconstruction of a run; None where its file is missing or damaged."""
    try:
        with NpzFile(run / names.recon(name)) as file:
            kinds = {key: kind for key, kind in (KINDS | SIGMAS).items() if key in file.keys}
            return recon_of({key: file.read(file.header(key, kind)) for key, kind in kinds.items()})
    except (FileError, KeyError, ValueError, OSError):
        return None
