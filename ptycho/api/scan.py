"""A scan in memory or in a file, and how it was understood. Nothing here imports TensorFlow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ptycho.api.arguments import name_arguments
from ptycho.api.arrays import check_pixel, raw_scan
from ptycho.config import ConfigError, ScanRunConfig, check
from ptycho.config.data import DataConfig
from ptycho.config.former_names import warn_of
from ptycho.config.mapping import from_mapping, to_dataclass
from ptycho.config.own_code import allow
from ptycho.preparation.geometry import PixelSize
from ptycho.preparation.prepare import Understood, understand
from ptycho.preparation.room import check_room
from ptycho.readers.table import open_raw
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding

ARRAYS = "arrays"


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """A ptychographic scan: what was measured, and how it was understood.

    Made by :func:`ptycho.open_scan`, :meth:`Scan.from_arrays` or :func:`ptycho.simulate`.

    Attributes:
        name: of the file, or what it was made by.
        data: the settings that it was read with, the section ``data`` of the configuration.
        geometry: how patterns follow from the frames of the file; see
            :class:`ptycho.preparation.prepare.Understood`.
        truth: the object ``(M, M')`` complex, where it is known.
    """

    name: str
    data: DataConfig
    geometry: Understood
    truth: np.ndarray | None = None

    @classmethod
    @name_arguments(DataConfig)
    def from_arrays(
        cls,
        patterns: np.ndarray,
        positions: np.ndarray,
        probe: np.ndarray | None = None,
        *,
        counts: bool,
        pixel_m: float | tuple[float, float] | None = None,
        good: np.ndarray | None = None,
        truth: np.ndarray | None = None,
        physics: Literal["far_field", "near_field"] | None = None,
        **lengths: float,
    ) -> Scan:
        """A scan of arrays, which are taken as they are: not cropped, turned or centred.

            patterns_j = |F(probe · object[r_j : r_j + N])|²,   r_j = positions_j − (any constant)

        Args:
            patterns: intensities ``(J, N, N)``, zero frequency at ``[N//2, N//2]``; real, from 0 up.
            positions: ``(J, 2)``, (row, col) of the probe on the object in object pixels, of any origin; they
                increase with the object's index.
            probe: ``(N, N)`` or modes ``(K, N, N)``, of any scale; None: one is guessed.
            counts: whether the patterns are photons, so that their noise is Poisson's.
            pixel_m: pitch of the object's pixels in metres, or (row, col); None: lengths stay in pixels.
            good: ``(N, N)`` bool, detector pixels that were measured; None: all.
            truth: the object, if it is known, of any size: results are scored against it.
            physics: ``near_field``: the patterns are images by Fresnel diffraction, and the window becomes
                wider than they are, by pixels that were not measured. ``far_field``: they are none, though
                they may look so.
            **lengths: of a near field: ``energy_eV`` (or ``wavelength_m``, ``electrons_keV``), ``distance_m``
                to the detector, ``detector_pixel_m``, and of a beam that diverges ``source_distance_m``, from
                its focus to the sample. The object's pixel follows.

        Raises:
            ConfigError: an array that cannot be used; the message names it, what came, and what to do.
        """
        raw = raw_scan(patterns, positions, probe, counts, good, truth)
        near = physics == "near_field"
        if lengths and not near:
            raise ConfigError(
                f"{', '.join(lengths)}: belong to physics='near_field'; a far field has pixel_m"
            )
        if near and pixel_m is not None:
            raise ConfigError("pixel_m: follows from the lengths of a near field; remove it")
        values = {"file": [ARRAYS], "N": None if near else raw.patterns.shape[1], "physics": physics}
        data: DataConfig = to_dataclass(DataConfig, plain(values | lengths))
        found = understand(raw, data)
        if pixel_m is not None:
            found = _with_pixel(found, PixelSize(check_pixel(pixel_m)))
        return cls(ARRAYS, data, found, raw.object)

    @property
    def understood(self) -> Understood:
        """Former name of :attr:`geometry`."""
        warn_of("Scan.understood", "Scan.geometry")
        return self.geometry

    @property
    def findings(self) -> list[Finding]:
        """What was settled, and why."""
        return list(self.geometry.findings)

    @property
    def warnings(self) -> list[str]:
        """What looks wrong, a line each."""
        return list(self.geometry.warnings)

    @property
    def N(self) -> int:
        """Side of the patterns."""
        return self.geometry.N

    @property
    def positions(self) -> np.ndarray:
        """``(J, 2)`` float64, (row, col) of each patch's first sample, in object pixels."""
        return self.geometry.positions

    @property
    def probe(self) -> np.ndarray | None:
        """Modes ``(K, N, N)`` complex64 on the object's pixels; None: one will be guessed."""
        return self.geometry.probe

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels; None: unknown."""
        return self.geometry.pixel.metres

    @property
    def counts(self) -> bool:
        """Whether the patterns are photon counts."""
        return self.geometry.counts

    def patterns(self, chosen: int | slice | np.ndarray = np.s_[:]) -> np.ndarray:
        """Intensities ``(K, N, N)`` float32 of some patterns, as they are fitted; zero in bad pixels."""
        some = np.array([chosen]) if isinstance(chosen, int) else chosen
        return np.square(self.geometry.patterns(some))

    def dataset(self, group_size: int = 1, tiles: bool = False) -> Dataset:
        """All usable patterns in groups, under the scan's probe; where it has none, under a guessed one.

        Args:
            group_size: C, patterns in a group: each with its nearest.
            tiles: groups share the patterns among them instead.

        Raises:
            ConfigError: the copy of the patterns does not fit in the temporary folder, or in memory.
        """
        config = ScanRunConfig(data=self.data, group_size=group_size, tiles=tiles)
        scratch = Path(tempfile.gettempdir())
        check_room(config, self.geometry, scratch)
        from ptycho.methods.prepared import Surroundings, align_scan  # imports TensorFlow

        return align_scan(self.geometry, config, Surroundings(scratch, bar=False)).data

    def __len__(self) -> int:
        return len(self.geometry.frames)

    def __repr__(self) -> str:
        span = np.ptp(self.positions, axis=0)
        probe = self.probe
        kind = "photon counts" if self.counts else "intensities"
        lines = [
            f"Scan {self.name!r} ({self.geometry.raw.format})",
            f"  patterns   {len(self)} of {self.N} × {self.N}, {kind}",
            f"  positions  {span[0]:.1f} × {span[1]:.1f} object pixels",
            f"  pixel      {self.geometry.pixel.text}",
            "  probe      "
            + (
                "none, it will be estimated" if probe is None else f"{len(probe)} mode{'s'[: len(probe) > 1]}"
            ),
        ]
        return "\n".join([*lines, *(f"  ! {warning}" for warning in self.warnings)])


@name_arguments(DataConfig)
def open_scan(file: str | Path, **data: Any) -> Scan:
    """A measured scan in a file of any format that is known; its patterns are read when they are needed.

    Args:
        file: its path, or a folder of TIFF files.
        **data: what the file does not say, or says wrongly: every key of the section ``data``
            (``energy_eV``, ``distance_m``, ``N``, ``domain``, ``keys={"patterns": "/data"}``, …).

    Raises:
        ConfigError: an unknown key, a wrong value, or a file that cannot be understood; the message is one
            line that names the key.
    """
    config = from_mapping(plain({"data": {"file": [str(file)], **data}}))
    assert isinstance(config, ScanRunConfig)
    allow([config.data.format])
    found = understand(open_raw(config.data), config.data)
    return Scan(Path(file).stem, config.data, found, found.raw.object)


def as_scan(scan: Scan | str | Path, data: Mapping[str, Any] | None = None) -> Scan:
    """Return a scan, or that in a file of this path, which is read with the settings ``data``.

    Raises:
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
    """What YAML could hold, of numbers of NumPy, tuples, arrays or paths, also in a dictionary."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def _with_pixel(scan: Understood, pixel: PixelSize) -> Understood:
    """A scan whose pixel is stated."""
    finding = Finding("object pixel", pixel.text, "pixel_m")
    rest = tuple(finding if old.what == finding.what else old for old in scan.findings)
    return replace(scan, pixel=pixel, findings=rest)
