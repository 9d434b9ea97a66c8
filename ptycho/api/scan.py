"""A scan in memory or in a file, and how it was interpreted. Nothing here imports TensorFlow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ptycho.api.arrays import check_pixel, raw_scan
from ptycho.config import ConfigError, ScanRunConfig, check
from ptycho.config.data import DataConfig
from ptycho.config.mapping import from_mapping, to_dataclass
from ptycho.config.messages import argument_words, name_arguments
from ptycho.config.own_code import allow
from ptycho.preparation.dataset import check_disk, check_memory_for
from ptycho.preparation.geometry import PixelSize, object_pixel, remove_common_fraction
from ptycho.preparation.marks import blocks_of
from ptycho.preparation.prepare import ScanGeometry, interpret
from ptycho.readers.table import open_raw
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ARRAYS = "arrays"
WORDS = argument_words(DataConfig)


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """A ptychographic scan: what was measured, and how it was interpreted.

    Made by :func:`ptycho.open_scan`, :meth:`Scan.from_arrays` or :func:`ptycho.simulate`.

    Attributes:
        name: of the file, or what it was made by.
        data: the settings that it was read with, the section ``data`` of the configuration.
        geometry: how patterns follow from the frames of the file; see
            :class:`ptycho.preparation.prepare.ScanGeometry`.
        truth: the object ``(M, M')`` complex, where it is known.
    """

    name: str
    data: DataConfig
    geometry: ScanGeometry
    truth: np.ndarray | None = None

    @classmethod
    @name_arguments(DataConfig)
    def from_arrays(
        cls,
        patterns: np.ndarray,
        positions: np.ndarray | None = None,
        probe: np.ndarray | None = None,
        *,
        positions_m: np.ndarray | None = None,
        counts: bool,
        pixel_m: float | tuple[float, float] | None = None,
        good: np.ndarray | None = None,
        truth: np.ndarray | None = None,
        physics: Literal["far_field", "near_field"] | None = None,
        **lengths: float,
    ) -> Scan:
        """Return a scan of arrays, which are taken as they are: not cropped, turned or centred.

            patterns_j = |F(probe · object[r_j : r_j + N])|²,   r_j = positions_j − (any constant)

        Args:
            patterns: intensities ``(J, N, N)``, zero frequency at ``[N//2, N//2]``; real, from 0 up.
            positions: ``(J, 2)``, (row, col) of the probe on the object in object pixels, of any origin; they
                increase with the object's index.
            probe: ``(N, N)`` or modes ``(K, N, N)``, of any scale; None: one is estimated.
            positions_m: the same in metres, instead of ``positions``; the object's pixel must be known.
            counts: whether the patterns are photons, so that their noise is Poisson's.
            pixel_m: pitch of the object's pixels in metres, or (row, col); None: it follows from ``lengths``,
                or is unknown, and lengths stay in pixels.
            good: ``(N, N)`` bool, detector pixels that were measured, or ``(J, N, N)``, those of each
                pattern; None: all.
            truth: the object, if it is known, of any size: results are scored against it.
            physics: ``near_field``: the patterns are images by Fresnel diffraction, and the window becomes
                wider than they are, by pixels that were not measured. ``far_field``: they are far fields,
                even if they look like near fields.
            **lengths: ``energy_eV`` (or ``wavelength_m``, ``electrons_keV``), ``distance_m`` to the detector,
                ``detector_pixel_m``, and of a near field whose beam diverges ``source_distance_m``, from its
                focus to the sample. The object's pixel follows; a near field needs them.

        Raises:
            ConfigError: an array cannot be used; the message names it, its value, and what to do.
        """
        unit: Literal["px", "m"] = "px" if positions_m is None else "m"
        places = positions if positions_m is None else positions_m
        if places is None or (positions is not None and positions_m is not None):
            raise ConfigError("positions, positions_m: pass one: in object pixels, or in metres")
        raw = raw_scan(patterns, places, unit, probe, counts, good, truth)
        near = physics == "near_field"
        values = {"file": [ARRAYS], "N": None if near else raw.patterns.shape[1], "physics": physics}
        data: DataConfig = to_dataclass(DataConfig, plain(values | lengths))
        pixel = _stated_pixel(data, pixel_m)
        if unit == "m" and pixel is not None:
            steps = remove_common_fraction(raw.positions / np.array(pixel.metres), unit)
            raw = replace(raw, positions=steps, unit="px")
        elif unit == "m" and not near and _far_field_pixel(data) is None:
            raise ConfigError(
                "positions_m: the object's pixel is unknown; pass pixel_m=, or energy_eV=, distance_m= and "
                "detector_pixel_m=; or positions= in object pixels"
            )
        geometry = interpret(raw, data)
        return cls(ARRAYS, data, geometry if pixel is None else geometry.with_pixel(pixel), raw.object)

    @property
    def findings(self) -> list[Finding]:
        """Decisions about the scan, with their reasons."""
        return [finding.in_words(WORDS) for finding in self.geometry.findings]

    @property
    def warnings(self) -> list[str]:
        """Warnings of what looks wrong, a line each."""
        return [WORDS(warning) for warning in self.geometry.warnings]

    @property
    def N(self) -> int:
        """Side of the patterns."""
        return self.geometry.N

    @property
    def positions(self) -> np.ndarray:
        """``(J, 2)`` float64, (row, col) of each patch's first sample, in object pixels."""
        return self.geometry.positions

    @property
    def positions_m(self) -> np.ndarray | None:
        """Positions ``(J, 2)`` float64 (row, col) in metres; None: the pixel is unknown."""
        return None if self.pixel_m is None else self.positions * np.array(self.pixel_m)

    @property
    def probe(self) -> np.ndarray | None:
        """Modes ``(K, N, N)`` complex64 on the object's pixels; None: one will be guessed."""
        return self.geometry.probe

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels; None: unknown."""
        return self.geometry.pixel.metres

    @property
    def energy_eV(self) -> float | None:
        """Photon energy, of other waves that of photons of their wavelength; None: unknown."""
        return self.geometry.raw.energy_eV

    @property
    def mask(self) -> np.ndarray:
        """``(N, N)`` bool, True where a pixel of the patterns is measured and valid."""
        return self.geometry.detector.good_pixels

    @property
    def counts(self) -> bool:
        """Whether the patterns are photon counts."""
        return self.geometry.counts

    def patterns(self, chosen: int | slice | np.ndarray = np.s_[:]) -> np.ndarray:
        """Return intensities ``(K, N, N)`` float32 of some patterns, as they are fitted; 0 in bad pixels."""
        some = np.array([chosen]) if isinstance(chosen, int) else chosen
        return np.square(self.geometry.patterns(some))

    @cached_property
    def mean_pattern(self) -> np.ndarray:
        """``(N, N)`` float64, the mean intensity of all patterns, which are read once; zero in bad pixels."""
        total = np.zeros((self.N, self.N))
        for part in blocks_of(self.geometry.raw, len(self)):
            total += self.patterns(part).sum(axis=0, dtype=float)
        return total / len(self)

    def plot(self) -> Figure:
        """Draw the mean frame with the window of the patterns, one pattern, positions and probe."""
        from ptycho.evaluation.scan_figures import draw_inspection

        scan, detector, probe = self.geometry, self.geometry.detector, self.probe
        strongest = None if probe is None else probe[np.argmax(np.abs(probe).sum(axis=(1, 2)))]
        return draw_inspection(
            detector.oriented(scan.mean),
            detector.oriented(detector.good),
            detector.centre,
            detector.N * detector.bin,
            self.patterns(len(self) // 2)[0],
            self.positions,
            strongest,
            self._title(),
            self.pixel_m,
        )

    def dataset(self, group_size: int = 1, tiles: bool = False) -> Dataset:
        """Return all usable patterns in groups, under the scan's probe; if it has none, under a guessed one.

        Args:
            group_size: C, patterns in a group: each with its nearest.
            tiles: groups share the patterns among them instead.

        Raises:
            ConfigError: the copy of the patterns does not fit in the temporary folder, or in memory.
        """
        config = ScanRunConfig(data=self.data, group_size=group_size, tiles=tiles)
        scratch = Path(tempfile.gettempdir())
        check_disk(self.geometry.raw, self.data, scratch, "TMPDIR")
        check_memory_for(self.geometry, self.name)
        from ptycho.align.aligned import RunContext
        from ptycho.align.cached import align  # imports TensorFlow

        return align(self.geometry, config, RunContext(scratch, bar=False)).data

    def __len__(self) -> int:
        return len(self.geometry.frames)

    def _title(self) -> str:
        return f"Scan {self.name!r} ({self.geometry.raw.format})"

    def __repr__(self) -> str:
        span, probe = np.ptp(self.positions, axis=0), self.probe
        modes = "none, it will be estimated" if probe is None else f"{len(probe)} mode{'s'[: len(probe) > 1]}"
        kind = "photon counts" if self.counts else "intensities"
        facts = [
            f"patterns   {len(self)} of {self.N} × {self.N}, {kind}",
            f"positions  {span[0]:.1f} × {span[1]:.1f} object pixels",
            f"pixel      {self.geometry.pixel.text}",
            f"probe      {modes}",
        ]
        return "\n  ".join([self._title(), *facts, *(f"! {warning}" for warning in self.warnings)])

    def _repr_png_(self) -> bytes | None:
        """What a notebook shows."""
        return self.plot()._repr_png_()  # type: ignore[attr-defined]


@name_arguments(DataConfig)
def open_scan(file: str | Path | Sequence[str | Path], **data: Any) -> Scan:
    """Open a measured scan in a file of any format that is known; its patterns are read when they are needed.

    Args:
        file: its path, or a folder of TIFF files; several with ``shared="object"``, ``"probe"`` or
            ``"both"``, what they have in common.
        **data: values that the file lacks, or has wrong: every key of the section ``data``
            (``energy_eV``, ``distance_m``, ``N``, ``domain``, ``keys={"patterns": "/data"}``, …).

    Raises:
        ConfigError: an unknown key, a wrong value, or a file that cannot be interpreted; the message is one
            line that names the key.
    """
    files = [str(file)] if isinstance(file, str | Path) else [str(path) for path in file]
    config = from_mapping(plain({"data": {"file": files, **data}}))
    assert isinstance(config, ScanRunConfig)
    allow([config.data.format])
    geometry = interpret(open_raw(config.data), config.data)
    return Scan(config.data.name, config.data, geometry, geometry.raw.object)


def as_scan(scan: Scan | str | Path, data: Mapping[str, Any] | None = None) -> Scan:
    """Return a scan, or that in a file of this path, which is read with the settings ``data``.

    ConfigError: it is neither; settings for a scan that has been read; or as of :func:`open_scan`.
    """
    if isinstance(scan, str | Path):
        return open_scan(scan, **data or {})
    if data:
        raise ConfigError(f"{', '.join(data)}: says how a file is read; pass it to ptycho.open_scan")
    allowed = "a ptycho.Scan, or the path of a file; ptycho.Scan.from_arrays makes a scan of arrays"
    check(isinstance(scan, Scan), "scan", type(scan).__name__, allowed)
    return scan


def plain(value: Any) -> Any:
    """Turn numbers of NumPy, tuples, arrays or paths, also in a dictionary, into what YAML can hold."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _stated_pixel(data: DataConfig, pixel_m: float | tuple[float, float] | None) -> PixelSize | None:
    """Return the object's pixel that the user states; None: it follows from the lengths, or is unknown."""
    if pixel_m is None:
        lengths = [name for name in ("distance_m", "detector_pixel_m") if getattr(data, name) is not None]
        if lengths and not data.near_field and _far_field_pixel(data) is None:
            raise ConfigError(
                f"{', '.join(lengths)}: sets no pixel; pass energy_eV=, distance_m= and detector_pixel_m= "
                "together, or pixel_m=; or physics='near_field', if the patterns are images"
            )
        return None
    if data.near_field or _far_field_pixel(data) is not None:
        raise ConfigError("pixel_m: follows from wavelength, distance and detector pixel; remove it")
    return PixelSize(check_pixel(pixel_m))


def _far_field_pixel(data: DataConfig) -> tuple[float, float] | None:
    stated = data.stated_quantities()
    energy, distance, pitch = map(stated.get, ("energy_eV", "distance_m", "detector_pixel_m"))
    return object_pixel(energy, distance, pitch, data.N or 1).metres
