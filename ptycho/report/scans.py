"""One scan of a run as its folder holds it: scores, objects, beam, and what the scores are the sums of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config.sections import NAMED
from ptycho.files.npz import NpzError, NpzFile, read_all
from ptycho.files.run_product import product_of
from ptycho.files.text import shown
from ptycho.run import names

KINDS = {"object": "c", "mask": "b", "probe": "c", "positions": "f", "flux": "f"}
KINDS |= {"slices": "c", "opr_modes": "c", "opr_weights": "c"}
SIGMAS = {"sigma_amplitude": "f", "sigma_phase": "f"}
ORDER = ("solver", "refined", "pinn", *NAMED, "baseline", "lsqml", "gt")
REFERENCES = ("constant", "truth_blurred_1px")  # rows of scores without a picture
WELL_ILLUMINATED = 0.1  # of the strongest illumination
INSPECTED = 2000  # positions from which the illuminated part is determined


@dataclass(frozen=True, eq=False)
class StoredRecon:
    """A reconstruction in a file.

    Attributes:
        object, mask: ``(M, M)`` complex and bool, of the first image.
        probe: ``(K, N, N)`` complex; positions: ``(J, 2)`` in object pixels; flux: ``(J,)``. None: unknown.
        sigma_amplitude, sigma_phase: ``(M, M)`` one standard deviation, or None.
        slices: ``(L, M, M)`` complex, of a thick object; or None.
        opr_modes, opr_weights: ``(K', N, N)`` and ``(J, K')`` complex, of a probe that varies; or None.
    """

    object: np.ndarray
    mask: np.ndarray
    probe: np.ndarray | None = None
    positions: np.ndarray | None = None
    flux: np.ndarray | None = None
    sigma_amplitude: np.ndarray | None = None
    sigma_phase: np.ndarray | None = None
    slices: np.ndarray | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None

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


@dataclass(frozen=True, eq=False)
class ScanRecord:
    """Stored results of a scan.

    Attributes:
        name: of the scan; path: the folder of its files.
        metrics: its scores.
        recons: names of the reconstructions whose files are there.
        assessment: arrays of ``assessment.npz``; empty where there is none, as in older runs.
    """

    name: str
    path: Path
    metrics: Mapping[str, Any] = field(default_factory=dict)
    recons: tuple[str, ...] = ()
    assessment: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def product(self) -> str:
        """The reconstruction that is the result of the run; by default the best known."""
        return product_of(self.metrics, self.recons) or next(iter(self.recons), "")

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels."""
        pitch = self.metrics.get("pixel_m")
        if not isinstance(pitch, list) or len(pitch) != 2 or not all(map(_positive, pitch)):
            return None
        return float(pitch[0]), float(pitch[1])

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Scores of each reconstruction, the product's first."""
        every = [name for name in (*ORDER, *REFERENCES) if isinstance(self.metrics.get(name), dict)]
        return {name: self.metrics[name] for name in sorted(every, key=lambda name: name != self.product)}

    def read(self, name: str) -> StoredRecon | None:
        """Read a reconstruction; None where its file is missing or damaged."""
        try:
            with NpzFile(self.path / names.recon(name)) as file:
                kinds = {key: kind for key, kind in (KINDS | SIGMAS).items() if key in file.keys}
                return _recon({key: file.read(file.header(key, kind)) for key, kind in kinds.items()})
        except (NpzError, KeyError, ValueError, OSError):
            return None


def read_scan(name: str, path: Path, metrics: Mapping[str, Any], missing: list[str]) -> ScanRecord:
    """Read the scan in a folder; what cannot be read of it is noted in ``missing``."""
    recons = tuple(one for one in ORDER if (path / names.recon(one)).is_file())
    assessment: dict[str, np.ndarray] = {}
    if recons and metrics.get("product"):
        try:
            assessment = read_all(path / names.ASSESSMENT, "fiu")
        except (NpzError, OSError, ValueError) as error:
            missing.append(
                f"{names.ASSESSMENT} of {shown(name)}: {shown(str(error))}; runs of early versions lack it: "
                "the misfit map, the ring correlation and the convergence of the solver are not shown"
            )
    if not recons:
        missing.append(f"{shown(name)}: no reconstruction is stored")
    return ScanRecord(name, path, metrics, recons, assessment)


def _recon(arrays: dict[str, np.ndarray]) -> StoredRecon:
    """Checked in their shapes, so that no picture fails later.

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


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and np.isfinite(value) and value > 0
