"""What a reconstruction gives: the object, the beam that goes with it, and how far they can be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.evaluation import scan_figures
from ptycho.exports import product
from ptycho.exports.from_dataset import product_of
from ptycho.files.atomic import write_atomically
from ptycho.files.npz_writing import write_npz
from ptycho.scan.beam import Beam
from ptycho.scan.error_map import ErrorMap
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import Reconstruction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ptycho.methods.prepared import Prepared


SHOWN = {"R": "r_factor", "free": "r_free", "noise": "r_noise"}  # of the scores, in a title


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A reconstruction of a scan, by :func:`ptycho.reconstruct`.

    Attributes:
        method: that it was made with.
        scores: as in a run's ``metrics.json``: ``r_factor``, ``r_free``, ``deviance_holdout``,
            ``unexplained_variance``, ``flags``, ….
        decisions: what was found, and what was kept as it was told, with the figures that decided.
        reconstruction, prepared: the values behind it, for whoever goes on from there.
    """

    method: str
    scores: Mapping[str, Any]
    decisions: tuple[Finding, ...]
    reconstruction: Reconstruction
    prepared: Prepared

    @property
    def object(self) -> np.ndarray:
        """The transmission of the sample, ``(M, M)`` complex64; zero outside of :attr:`mask`."""
        return self.reconstruction.object

    @property
    def mask(self) -> np.ndarray:
        """``(M, M)`` bool: the part of the object that the scan covers."""
        return self.reconstruction.covered

    @property
    def errors(self) -> ErrorMap | None:
        """Standard deviations of amplitude and phase, ``(1, M, M)`` each; None: none were asked for, or the
        object is not the solver's."""
        return self.reconstruction.errors

    @property
    def beam(self) -> Beam:
        """Probe, positions, flux and background that go with the object."""
        return self.prepared.beam_under(self.reconstruction)

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels; None: unknown."""
        return self.prepared.scan.pixel.metres

    @property
    def warnings(self) -> list[str]:
        """What looks wrong with the scan, a line each."""
        return [*self.prepared.scan.warnings, *self.reconstruction.warnings]

    def plot(self) -> Figure:
        """Amplitude and phase with a scale bar, and the probe; a Matplotlib figure, to show or to save."""
        from ptycho.methods.assessment import picture_of

        return scan_figures.draw_reconstruction(
            picture_of(self.reconstruction, self.prepared), self.pixel_m, "\n".join(self._lines())
        )

    def save(self, path: str | Path) -> Path:
        """Write object, mask, error map, beam and scores; what is there is replaced, whole or not at all.

        Args:
            path: ``….h5``: a product of ptychodus, which :func:`ptycho.open_scan` reads beside its patterns;
                ``….npz``: ``object``, ``mask``, ``probe``, ``positions``, ``flux``, ``background``,
                ``sigma_amplitude`` and ``sigma_phase`` if there are any, and ``scores`` as JSON.

        Raises:
            ConfigError: a name with another ending.
            OSError: the file cannot be written.
        """
        path = Path(path)
        if path.suffix not in WRITERS:
            raise ConfigError(f"path={path}: must end in {' or '.join(WRITERS)}")
        WRITERS[path.suffix](path, self)
        return path

    def _lines(self) -> list[str]:
        """Scores and flags, a line each."""
        values = {name: self.scores[key] for name, key in SHOWN.items()}
        told = [f"{name} {value:.4f}" for name, value in values.items() if value is not None]
        return [f"{self.method}: {', '.join(told)}", *(f"! {flag}" for flag in self.scores["flags"])]

    def __repr__(self) -> str:
        side, K, J = len(self.object), len(self.beam.probe), len(self.beam.positions)
        first, *flags = self._lines()
        shape = f"  object     {side} × {side}, {100 * self.mask.mean():.0f} % covered"
        beam = f"  beam       {K} mode{'s'[: K > 1]}, {J} positions"
        return "\n".join([f"Result by {first}", shape, beam, *(f"  {flag}" for flag in flags)])


def _write_product(path: Path, result: Result) -> None:
    each = result.prepared
    made = product_of(each.scan, each.whole, result.object, result.pixel_m, each.name, result.beam)
    product.write(path, replace(made, errors=result.errors))


def _write_arrays(path: Path, result: Result) -> None:
    arrays = {"object": result.object, "mask": result.mask, **result.beam.arrays()}
    if result.errors is not None:
        arrays |= {key: sigma[0] for key, sigma in result.errors.arrays().items()}
    arrays["scores"] = np.array(json.dumps(dict(result.scores)))
    write_atomically(path, lambda file: write_npz(file, arrays))


WRITERS = {".h5": _write_product, ".npz": _write_arrays}
