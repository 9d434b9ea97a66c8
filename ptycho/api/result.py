"""Result of a reconstruction: the object, the beam that belongs to it, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ptycho.api import stored_result
from ptycho.api.reconstruction import WORDS
from ptycho.config import ConfigError
from ptycho.evaluation import scan_figures
from ptycho.evaluation.display import unwrap
from ptycho.evaluation.frc import Curve
from ptycho.exports.exported_scan import ExportedScan
from ptycho.files.atomic import write_text
from ptycho.installed import PAGES, remedy
from ptycho.report.wording import advice_of
from ptycho.scan.beam import Beam
from ptycho.scan.finding import Finding
from ptycho.scan.ramp import levelled
from ptycho.scan.reconstruction import ErrorMap, Reconstruction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ptycho.methods.prepared import Prepared

SHOWN = {"R": "r_factor", "free": "r_free", "noise": "r_noise"}  # of the scores, in a title


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A reconstruction of a scan, by :func:`ptycho.reconstruct`, or from a file by :meth:`load`.

    Attributes:
        method: that it was made with.
        scores: as in a run's ``metrics.json``: ``r_factor``, ``r_free``, ``deviance_holdout``,
            ``unexplained_variance``, ``flags``, ….
        product: object, probe, positions, pixel and error map with what is known of the measurement.
        beam: probe, positions, flux, background and point spread that go with the object.
        mask: ``(M, M)`` bool: the part of the object that the scan covers.
        illuminated: ``(M, M)`` bool: the part whose illumination is above a tenth of the maximum. There the
            phase plane is fitted.
        decisions: what was refined and selected, and what was kept as specified, with the reasons.
        findings: how the scan was read.
        warnings: suspected faults of the scan, a line each.
        assessment: the arrays behind the scores, as in a run's ``assessment.npz``.
        reconstruction, prepared: the values behind it, for further computations; None if it was loaded.
    """

    method: str
    scores: Mapping[str, Any]
    product: ExportedScan
    beam: Beam
    mask: np.ndarray
    illuminated: np.ndarray
    decisions: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    assessment: Mapping[str, np.ndarray] = field(default_factory=dict)
    reconstruction: Reconstruction | None = None
    prepared: Prepared | None = None

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read what :meth:`save` has written; nothing is unpickled.

        Raises:
            ConfigError: the file is missing, damaged, or another one.
        """
        return cls(**stored_result.load(Path(path)))

    @property
    def name(self) -> str:
        """Name of the scan."""
        return self.product.name

    @property
    def object(self) -> np.ndarray:
        """The transmission of the sample, ``(M, M)`` complex64; zero outside of :attr:`mask`."""
        assert self.product.object is not None
        return self.product.object

    @property
    def amplitude(self) -> np.ndarray:
        """``(M, M)`` float32, relative to the mean transmission; NaN outside of :attr:`mask`."""
        return np.where(self.mask, np.abs(self.object), np.float32(np.nan))

    @cached_property
    def phase(self) -> np.ndarray:
        """``(M, M)`` float32, rad in (−π, π], without its plane and its mean, which diffraction does not
        determine; NaN outside of :attr:`mask`."""
        inside = self.mask & self.illuminated
        level = levelled(np.where(self.mask, self.object, 0), inside if inside.any() else self.mask)
        return np.where(self.mask, np.angle(level), np.nan).astype(np.float32)

    @cached_property
    def unwrapped_phase(self) -> np.ndarray:
        """:attr:`phase` without its jumps by 2π, ``(M, M)`` float32; the median is within ±π."""
        phase = unwrap(self.phase)
        turns = np.round(np.nanmedian(phase) / (2 * np.pi)) if self.mask.any() else 0
        return (phase - 2 * np.pi * turns).astype(np.float32)

    @property
    def probe(self) -> np.ndarray:
        """Modes ``(K, N, N)`` complex64, the strongest first."""
        return self.beam.probe

    @property
    def positions(self) -> np.ndarray:
        """``(J, 2)``, (row, col) of each patch's first sample in :attr:`object`, in pixels."""
        return self.beam.positions

    @property
    def frc(self) -> Curve | None:
        """Fourier ring correlation of two half scans: frequencies ``(K,)`` as fractions of Nyquist, and
        correlations ``(K,)``; None: the halves were not compared."""
        curve = self.assessment.get("frequency"), self.assessment.get("correlation")
        return None if curve[0] is None or curve[1] is None else (curve[0], curve[1])

    @property
    def errors(self) -> ErrorMap | None:
        """Standard deviations of amplitude and phase, ``(1, M, M)`` each; None: they were not specified, or
        the object is not the solver's."""
        return self.product.errors

    @property
    def slices(self) -> np.ndarray | None:
        """``(L, M, M)`` complex64 along the beam, whose product the object is; None: it is thin."""
        return self.product.slices

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels; None: unknown."""
        return self.product.pixel_m

    @property
    def advice(self) -> dict[str, str]:
        """Remedies of the flags in ``scores["flags"]``, the gravest first."""
        return {advice.flag: advice.remedy for advice in advice_of(self.scores, WORDS)}

    def plot(self) -> Figure:
        """Draw amplitude and phase with a scale bar, and the probe; a Matplotlib figure, to show or save."""
        picture = scan_figures.Picture.of(self.object, self.mask, self.illuminated, self.probe[0])
        return scan_figures.draw_reconstruction(picture, self.pixel_m, "\n".join(self._lines()))

    def report(self, path: str | Path) -> Path:
        """Write the report on one page, HTML without anything beside it, as a run on the command line has it.

        Raises:
            ConfigError: the optional part that draws it is not installed.
            OSError: the file cannot be written.
        """
        if (advice := remedy(PAGES)) is not None:
            raise ConfigError(f"report: {advice}")
        page = import_module(f"{PAGES}.result_page").result_page(self, WORDS)
        write_text(Path(path), page)
        return Path(path)

    def save(self, path: str | Path) -> Path:
        """Write the result, which :meth:`load` reads back; what is there is replaced, whole or not at all.

        Args:
            path: ``….h5``: a product of ptychodus, which :func:`ptycho.open_scan` reads beside its patterns;
                ``….npz``: ``object``, ``mask``, ``probe``, ``positions``, ``flux``, ``background``,
                ``sigma_amplitude`` and ``sigma_phase`` if there are any, ``scores`` as JSON, ….

        Raises:
            ConfigError: a name with another ending.
            OSError: the file cannot be written.
        """
        stored_result.save(Path(path), self)
        return Path(path)

    def _lines(self) -> list[str]:
        values = {name: self.scores.get(key) for name, key in SHOWN.items()}
        shown = [f"{name} {value:.4f}" for name, value in values.items() if value is not None]
        return [f"{self.method}: {', '.join(shown)}", *(f"! {flag}" for flag in self.scores.get("flags", ()))]

    def __repr__(self) -> str:
        (first, *flags), K = self._lines(), len(self.probe)
        size = f"{' × '.join(map(str, self.object.shape))}, {100 * self.mask.mean():.0f} % covered"
        beam = f"{K} mode{'s'[: K > 1]}, {len(self.positions)} positions"
        facts = [f"object     {size}", f"beam       {beam}", *flags]
        return "\n  ".join([f"Result by {first}", *facts])

    def _repr_png_(self) -> bytes | None:
        """What a notebook shows."""
        return self.plot()._repr_png_()  # type: ignore[attr-defined]
