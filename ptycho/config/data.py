"""The section ``data``: which measured scan is read, and how it is to be understood."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import ClassVar

from ptycho.config.errors import ConfigError, at_least, check, finite
from ptycho.config.waves import electron_wavelength_m, photon_energy_eV

SMALLEST_N, LARGEST_N = 16, 2048  # sides of a pattern

RANGES = {  # of what a measurement can have, with its unit
    "energy_eV": (10.0, 1e6, "eV"),
    "wavelength_m": (1.24e-12, 1e-4, "m"),
    "electrons_keV": (0.01, 600.0, "keV"),
    "distance_m": (1e-6, 1e4, "m"),
    "detector_pixel_m": (1e-8, 1e-2, "m"),
}

WAVES = ("energy_eV", "wavelength_m", "electrons_keV")  # one of them states the wavelength


@dataclass(frozen=True)
class KeyMap:
    """Where things are in a file of no known layout: HDF5 paths or NPZ keys."""

    patterns: str | None = None
    positions: str | None = None
    positions_row: str | None = None
    positions_col: str | None = None
    probe: str | None = None
    object: str | None = None
    good: str | None = None
    bad: str | None = None
    dark: str | None = None
    flat: str | None = None
    energy_eV: str | None = None
    distance_m: str | None = None
    detector_pixel_m: str | None = None

    def stated(self) -> dict[str, str]:
        """Those that are set."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@dataclass(frozen=True)
class DataConfig:
    """A measured scan, or several of one instrument: ``file`` names one or more.

    What is null is taken from the file, or from its format's convention.
    """

    file: tuple[str, ...] = ()
    format: str | None = None
    keys: KeyMap = field(default_factory=KeyMap)
    patterns_file: str | None = None
    positions_file: str | None = None
    mask_file: str | None = None
    N: int | None = None
    bin: int = 1
    domain: str | None = None
    gain: float | None = None
    zero_frequency: str | None = None
    unit: str | None = None
    position_axes: str | None = None
    position_sign: int = 1
    rotation_deg: float = 0.0
    scan_affine: tuple[tuple[float, ...], ...] | None = None
    transpose: bool = False
    flip_rows: bool = False
    flip_cols: bool = False
    energy_eV: float | None = None
    wavelength_m: float | None = None
    electrons_keV: float | None = None
    distance_m: float | None = None
    detector_pixel_m: float | None = None
    saturation: float | None = None
    hot_pixels: bool = True
    negative: str = "auto"
    dark_frames: float = 0.05
    stride: int = 1
    frames: int | None = None
    drop: tuple[int, ...] = ()
    orientation: str = "format"
    DOMAINS: ClassVar[tuple[str, ...]] = ("counts", "intensity", "amplitude")
    NEGATIVE: ClassVar[tuple[str, ...]] = ("auto", "noise", "bad")
    UNITS: ClassVar[tuple[str, ...]] = ("m", "mm", "um", "nm", "angstrom", "px")

    def __post_init__(self) -> None:
        if isinstance(self.file, str):
            object.__setattr__(self, "file", (self.file,) if self.file else ())
        files = list(self.file)
        check(
            bool(files) and all(files), "data.file", files or "''", "the path of a measured scan, or a list"
        )
        check(len(set(files)) == len(files), "data.file", files, "free of repetition")
        if len(files) > 1:
            for key in ("patterns_file", "positions_file"):
                if getattr(self, key) is not None:
                    raise ConfigError(f"data.{key}: belongs to one scan; data.file names {len(files)}")
        if self.domain is not None:
            check(
                self.domain in self.DOMAINS, "data.domain", self.domain, f"one of {', '.join(self.DOMAINS)}"
            )
        if self.unit is not None:
            check(self.unit in self.UNITS, "data.unit", self.unit, f"one of {', '.join(self.UNITS)}")
        if self.position_axes is not None:
            check(self.position_axes in ("rc", "xy"), "data.position_axes", self.position_axes, "rc or xy")
        check(self.position_sign in (1, -1), "data.position_sign", self.position_sign, "1 or -1")
        turn = self.rotation_deg
        check(abs(turn) <= 360, "data.rotation_deg", turn, "from -360 to 360 degrees")
        self._check_affine()
        allowed = "format or auto"
        check(self.orientation in ("format", "auto"), "data.orientation", self.orientation, allowed)
        if self.N is not None:
            fits = self.N % 2 == 0 and SMALLEST_N <= self.N <= LARGEST_N
            check(fits, "data.N", self.N, f"even, from {SMALLEST_N} to {LARGEST_N}, or null")
        for key in ("bin", "stride"):
            at_least(f"data.{key}", getattr(self, key), 1)
        if self.frames is not None:
            at_least("data.frames", self.frames, 1)
        for key in ("gain", "saturation"):
            if getattr(self, key) is not None:
                finite(f"data.{key}", getattr(self, key), above=True)
        for key, (low, high, unit) in RANGES.items():
            if (value := getattr(self, key)) is not None:
                check(low <= value <= high, f"data.{key}", value, f"from {low:g} to {high:g} {unit}")
        if len(stated := [key for key in WAVES if getattr(self, key) is not None]) > 1:
            said = ", ".join(f"data.{key}={getattr(self, key):g}" for key in stated)
            raise ConfigError(f"{said}: each says the wavelength; must be one of them alone")
        check(
            self.negative in self.NEGATIVE,
            "data.negative",
            self.negative,
            f"one of {', '.join(self.NEGATIVE)}",
        )
        check(0 <= self.dark_frames < 1, "data.dark_frames", self.dark_frames, "from 0 to less than 1")
        self.stated_zero_frequency()

    def _check_affine(self) -> None:
        if self.scan_affine is None:
            return
        square = [len(row) for row in self.scan_affine] == [2, 2]
        flat = [value for row in self.scan_affine for value in row]
        sound = square and all(map(math.isfinite, flat)) and flat[0] * flat[3] != flat[1] * flat[2]
        shown = [list(row) for row in self.scan_affine]
        check(sound, "data.scan_affine", shown, "[[a,b],[c,d]], finite and invertible, or null")

    def stated_quantities(self) -> dict[str, float]:
        """Photon energy, distance and pitch, as far as the user says them."""
        stated = {
            "energy_eV": self.stated_energy_eV(),
            "distance_m": self.distance_m,
            "detector_pixel_m": self.detector_pixel_m,
        }
        return {key: value for key, value in stated.items() if value is not None}

    def stated_energy_eV(self) -> float | None:
        """The energy that photons of the stated wavelength have."""
        if self.wavelength_m is not None:
            return photon_energy_eV(self.wavelength_m)
        if self.electrons_keV is not None:
            return photon_energy_eV(electron_wavelength_m(self.electrons_keV))
        return self.energy_eV

    @property
    def path(self) -> str:
        """The file of the only scan.

        Raises:
            ConfigError: there are several.
        """
        if len(self.file) > 1:
            raise ConfigError(f"data.file={list(self.file)}: must be one scan here")
        return self.file[0]

    def each(self) -> tuple[DataConfig, ...]:
        """One section for every scan."""
        return tuple(replace(self, file=(file,)) for file in self.file)

    def names(self) -> list[str]:
        """A name for every scan: that of its file, with a number where several files have the same."""
        stems = [Path(file).stem for file in self.file]
        return [
            stem if stems.count(stem) == 1 else f"{stem}_{stems[: i + 1].count(stem)}"
            for i, stem in enumerate(stems)
        ]

    def stated_zero_frequency(self) -> str | tuple[float, float] | None:
        """``centre``, ``corner``, (row, col) in detector pixels, or None."""
        text = self.zero_frequency
        if text in (None, "centre", "corner"):
            return text
        try:
            row, col = (float(part) for part in str(text).split(","))
        except ValueError:
            allowed = "centre, corner, or 'row,col' in detector pixels"
            check(False, "data.zero_frequency", text, allowed)
            raise
        return row, col
