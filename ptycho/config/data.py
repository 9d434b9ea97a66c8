"""The section ``data``: which measured scan is read, and how it is to be understood."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Literal

from ptycho.config.errors import ConfigError, check
from ptycho.config.messages import bounds_of
from ptycho.config.schema import Even, Flag, Integer, Number, Sign, Text, Texts, key, settings
from ptycho.config.waves import electron_wavelength_m, photon_energy_eV

SMALLEST_N, LARGEST_N = 16, 2048  # sides of a pattern
WAVES = ("energy_eV", "wavelength_m", "electrons_keV")  # one of them states the wavelength


@settings("data.keys")
class KeyMap:
    """Where things are in a file of no known layout: HDF5 paths or NPZ keys."""

    patterns: Text | None = key(None, "(J, N, N)")
    positions: Text | None = key(None, "(J, 2); or the two below")
    positions_row: Text | None = key(None, "(J,)")
    positions_col: Text | None = key(None, "(J,)")
    probe: Text | None = key(None, "(N, N) or modes")
    object: Text | None = key(None, "the truth, or what was reconstructed")
    good: Text | None = key(None, "mask, true where a pixel counts")
    bad: Text | None = key(None, "mask, true where it does not")
    dark: Text | None = key(None, "counts without the beam")
    flat: Text | None = key(None, "sensitivity of the pixels")
    energy_eV: Text | None = key(None, "photon energy")
    distance_m: Text | None = key(None, "from sample to detector")
    detector_pixel_m: Text | None = key(None, "pitch of the detector's pixels")

    def stated(self) -> dict[str, str]:
        """Those that are set."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@settings("data")
class DataConfig:
    """A measured scan, or several of one instrument: ``file`` names one or more.

    What is null is taken from the file, or from its format's convention.
    """

    file: Texts = key(
        (),
        "HDF5, NPZ or TIFF; a folder of TIFFs. [A,B,C]: several scans of one instrument in one run; "
        "scans/*.h5: a run for each",
        level="always",
    )
    format: Text | None = key(
        None,
        "force a format; null: told by the content; my_module:read: your own reader, docs/own_code.md",
        program="import path",
        level="sometimes",
    )
    keys: KeyMap = key(KeyMap(), "where things are, in a file of no known layout: HDF5 paths or NPZ keys")
    patterns_file: Text | None = key(
        None, "the patterns, where data.file has positions alone", level="sometimes"
    )
    positions_file: Text | None = key(
        None, "the positions (CSV, TXT, NPY, HDF5), where data.file has none", level="sometimes"
    )
    links_root: Text | None = key(
        None, "folder to which links in an HDF5 file may lead; null: the file's own and what is below it"
    )
    mask_file: Text | None = key(
        None, "NPY, NPZ, TIFF or HDF5 of one array: non-zero where a pixel is bad", level="sometimes"
    )
    N: Even | None = key(
        None,
        "side of a pattern around the zero frequency: cuts or pads; null: the whole detector",
        ge=SMALLEST_N,
        le=LARGEST_N,
        allowed=f"even, from {SMALLEST_N} to {LARGEST_N}",
        level="always",
    )
    bin: Integer = key(1, "sum so many × so many detector pixels", ge=1, level="sometimes")
    domain: Literal["counts", "intensity", "amplitude"] | None = key(
        None, "what the numbers are", level="always"
    )
    gain: Number | None = key(None, "intensity of one photon", gt=0)
    zero_frequency: Text | None = key(
        None, "centre | corner | 'row,col' in detector pixels", level="sometimes"
    )
    unit: Literal["m", "mm", "um", "nm", "angstrom", "px"] | None = key(
        None, "of the positions", level="sometimes"
    )
    position_axes: Literal["rc", "xy"] | None = key(None, "of the positions' two columns", level="sometimes")
    position_columns: Texts = key(
        (),
        "[x_rb,y_rb]: of a table with more columns those of the positions, by name or number from 1",
        level="sometimes",
    )
    position_sign: Sign = key(
        1, "-1: the positions are those of the sample, not of the probe", level="sometimes"
    )
    rotation_deg: Number | None = key(
        None,
        "turns positions to the detector's axes, from down to the right; null: found for electrons, else 0",
        ge=-360,
        le=360,
        unit="degrees",
        level="sometimes",
    )
    scan_affine: tuple[tuple[Number, Number], tuple[Number, Number]] | None = key(
        None,
        "[[a,b],[c,d]]: then (row, col) → (a·row + b·col, c·row + d·col)",
        allowed="[[a,b],[c,d]], finite and invertible",
    )
    transpose: Flag = key(False, "detector against positions: transposed, then flipped", level="sometimes")
    flip_rows: Flag = key(False, "rows backwards", level="sometimes")
    flip_cols: Flag = key(False, "columns backwards", level="sometimes")
    energy_eV: Number | None = key(
        None, "photon energy; or one of the two below", ge=10, le=1e6, unit="eV", level="always"
    )
    wavelength_m: Number | None = key(None, "of the light", ge=1.24e-12, le=1e-4, unit="m", level="sometimes")
    electrons_keV: Number | None = key(
        None, "kinetic energy of electrons", ge=0.01, le=600, unit="keV", level="sometimes"
    )
    physics: Literal["far_field", "near_field"] | None = key(
        None,
        "from the sample to the detector: Fraunhofer or Fresnel diffraction; null: far_field",
        level="sometimes",
    )
    distance_m: Number | None = key(
        None, "from sample to detector", ge=1e-6, le=1e4, unit="m", level="always"
    )
    source_distance_m: Number | None = key(
        None,
        "of a near field: from the focus or source to the sample; null: a parallel beam",
        ge=1e-6,
        le=1e4,
        unit="m",
    )
    detector_pixel_m: Number | None = key(
        None, "pitch of the detector's pixels", ge=1e-8, le=1e-2, unit="m", level="always"
    )
    detector_pixel_mrad: Number | None = key(
        None, "the same as an angle, in place of it and of the distance", ge=1e-5, le=10, unit="mrad"
    )
    saturation: Number | None = key(None, "a pixel that reaches this in some frame is bad", gt=0)
    hot_pixels: Flag = key(True, "leave out pixels that shine by themselves, or never")
    zingers: Flag = key(True, "replace single pixels of single frames that are far above all around them")
    negative: Literal["auto", "noise", "bad"] = key(
        "auto", "below zero; auto: marks are bad, scatter is noise"
    )
    dark_frames: Number = key(
        0.05,
        "leave out frames with less than this of the median light and none where the beam is; 0: empty ones",
        ge=0,
        lt=1,
    )
    stride: Integer = key(1, "take every so many-th frame", ge=1, level="sometimes")
    frames: Integer | None = key(None, "take so many frames at most", ge=1, level="sometimes")
    drop: tuple[Integer, ...] = key((), "leave these frames out, by index", allowed="a list of integers")
    position_slips: Flag = key(
        True, "find positions that err by tens of pixels: slips, jumps, backlash, drift; see solver.positions"
    )
    orientation: Literal["format", "auto"] = key("format", "auto: another one where it explains more")

    def __post_init__(self) -> None:
        check(bool(self.file), "data.file", "''", "the path of a measured scan, or a list")
        check(len(set(self.file)) == len(self.file), "data.file", list(self.file), "free of repetition")
        for name in ("patterns_file", "positions_file"):
            if len(self.file) > 1 and getattr(self, name) is not None:
                raise ConfigError(f"data.{name}: belongs to one scan; data.file names {len(self.file)}")
        if self.source_distance_m is not None and not self.near_field:
            raise ConfigError(
                f"data.source_distance_m={self.source_distance_m:g}: belongs to a near field; leave it "
                "out, or set data.physics=near_field"
            )
        if self.scan_affine is not None:
            (a, b), (c, d) = self.scan_affine
            shown = [list(row) for row in self.scan_affine]
            check(a * d != b * c, "data.scan_affine", shown, "[[a,b],[c,d]], finite and invertible, or null")
        if len(stated := [name for name in WAVES if getattr(self, name) is not None]) > 1:
            said = ", ".join(f"data.{name}={getattr(self, name):g}" for name in stated)
            raise ConfigError(f"{said}: each says the wavelength; must be one of them alone")
        if self.detector_pixel_mrad is not None:
            for name in ("distance_m", "detector_pixel_m"):
                if getattr(self, name) is not None:
                    raise ConfigError(
                        f"data.{name}={getattr(self, name):g}, data.detector_pixel_mrad="
                        f"{self.detector_pixel_mrad:g}: the angle stands in place of distance and pitch; "
                        "must be one or the others"
                    )
        self.stated_zero_frequency()

    @property
    def near_field(self) -> bool:
        """Fresnel diffraction leads from the sample to the detector."""
        return self.physics == "near_field"

    def stated_quantities(self) -> dict[str, float]:
        """Photon energy, distance and pitch, as far as the user says them."""
        stated = {
            "energy_eV": self.stated_energy_eV(),
            "distance_m": self.stated_distance_m(),
            "detector_pixel_m": self.stated_pitch_m(),
        }
        return {key: value for key, value in stated.items() if value is not None}

    def stated_distance_m(self) -> float | None:
        """One metre, where the pixels' angle is stated in its place."""
        return self.distance_m if self.detector_pixel_mrad is None else 1.0

    def stated_pitch_m(self) -> float | None:
        """Of the detector's pixels, at :meth:`stated_distance_m`."""
        return self.detector_pixel_m if self.detector_pixel_mrad is None else 1e-3 * self.detector_pixel_mrad

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
        parts = str(text).split(",")
        try:
            row, col = map(float, parts)
        except ValueError:
            allowed = "centre, corner, or 'row,col' in detector pixels"
            raise ConfigError(f"data.zero_frequency={text}: must be {allowed}") from None
        return row, col


RANGES = {  # of what a measurement can have, with its unit
    name: bounds_of(DataConfig, name) for name in (*WAVES, "distance_m", "detector_pixel_m")
}
