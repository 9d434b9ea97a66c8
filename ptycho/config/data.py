"""The section ``data``: which measured scan is read, and how it is interpreted."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from ptycho.config.messages import ConfigError, bounds_of, check, show
from ptycho.config.schema import Even, Flag, Integer, Number, Positive, Sign, Text, Texts, key, settings
from ptycho.config.waves import electron_wavelength_m, photon_energy_eV

SMALLEST_N, LARGEST_N = 16, 2048  # sides of a pattern
STEPS = {"scan_step_A": 1e-10, "scan_step_nm": 1e-9, "scan_step_m": 1.0}  # in metres
WAVES = ("energy_eV", "wavelength_m", "electrons_keV")  # one of them states the wavelength
OF_POSITIONS = ("positions_file", "unit", "position_axes", "position_columns")
EXCLUSIVE = (  # of the former keys and the latter one may be stated, and why
    (WAVES, WAVES, "each sets the wavelength"),
    (STEPS, STEPS, "each sets the step of the raster"),
    (OF_POSITIONS, STEPS, "the positions are those of a raster of this step"),
    (("distance_m", "detector_pixel_m"), ("detector_pixel_mrad",), "the angle replaces both"),
)


@settings("data.keys")
class KeyMap:
    """HDF5 paths or NPZ keys of the arrays in a file of unknown layout."""

    patterns: Text | None = key(None, "path of the diffraction patterns, (J, N, N)")
    positions: Text | None = key(None, "path of the positions, (J, 2); or positions_row and positions_col")
    positions_row: Text | None = key(None, "path of the row coordinates of the positions, (J,)")
    positions_col: Text | None = key(None, "path of the column coordinates of the positions, (J,)")
    probe: Text | None = key(None, "path of the probe, (N, N), or of its modes, (K, N, N)")
    object: Text | None = key(None, "path of a reference object: the truth, or an earlier reconstruction")
    good: Text | None = key(None, "path of a mask that is true at valid pixels")
    bad: Text | None = key(None, "path of a mask that is true at invalid pixels")
    dark: Text | None = key(None, "path of the dark counts, measured without a beam")
    flat: Text | None = key(None, "path of the flat field, the sensitivity of the pixels")
    energy_eV: Text | None = key(None, "path of the photon energy")
    distance_m: Text | None = key(None, "path of the distance from the sample to the detector")
    detector_pixel_m: Text | None = key(None, "path of the pixel size of the detector")

    def stated(self) -> dict[str, str]:
        """Return the keys that are set."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@settings("data")
class DataConfig:
    """A measured scan, or several that ``shared`` makes one. Else ``file`` names one for each run.

    What is null is taken from the file, or from its format's convention.
    """

    file: Texts = key(
        (),
        "HDF5, NPZ or TIFF file of the scan, or a folder of TIFF files. [A,B,C] or scans/*.h5: one run "
        "for each file, or one for all with data.shared",
        level="always",
    )
    shared: Literal["object", "probe", "both"] | None = key(
        None,
        "reconstruct the scans of several files together, in one run: scans of one object, with one probe, "
        "or both; null: a run for each",
    )
    format: Text | None = key(
        None,
        "name of the file format, or my_module:read for your own reader (docs/own_code.md); null: detected "
        "from the content",
        program="import path",
        level="sometimes",
    )
    keys: KeyMap = key(KeyMap(), "HDF5 paths or NPZ keys of the arrays, for a file of unknown layout")
    patterns_file: Text | None = key(
        None, "separate file of the patterns, if data.file holds only the positions", level="sometimes"
    )
    positions_file: Text | None = key(
        None, "separate file of the positions (CSV, TXT, NPY, HDF5), if data.file has none", level="sometimes"
    )
    links_root: Text | None = key(
        None, "folder to which external HDF5 links may lead; null: the file's folder and its subfolders"
    )
    mask_file: Text | None = key(
        None, "NPY, NPZ, TIFF or HDF5 file of one array that is non-zero at bad pixels", level="sometimes"
    )
    N: Even | None = key(
        None,
        "side of a pattern around the zero frequency, cropped or padded to it; null: the whole detector, or"
        " 1.4 times as much if finer object pixels explain held-out patterns better",
        ge=SMALLEST_N,
        le=LARGEST_N,
        allowed=f"even, from {SMALLEST_N} to {LARGEST_N}",
        level="always",
    )
    bin: Integer = key(1, "binning factor of the detector pixels, which are summed", ge=1, level="sometimes")
    domain: Literal["counts", "intensity", "amplitude"] | None = key(
        None, "quantity that the file holds; null: detected from the values", level="always"
    )
    gain: Number | None = key(None, "detector signal per photon", gt=0)
    zero_frequency: Text | None = key(
        None,
        "position of the zero frequency in the file: centre | corner | 'row,col' in detector pixels; "
        "null: detected",
        level="sometimes",
    )
    unit: Literal["m", "mm", "um", "nm", "angstrom", "px"] | None = key(
        None, "length unit of the positions; null: that of the file", level="sometimes"
    )
    position_axes: Literal["rc", "xy"] | None = key(
        None, "order of the two position columns: rc (row, column) or xy", level="sometimes"
    )
    position_columns: Texts = key(
        (),
        "columns of the positions in a table that has more than two, by name or by number from 1, such as"
        " [x_rb,y_rb]",
        level="sometimes",
    )
    scan_shape: tuple[Positive, Positive] | None = key(
        None,
        "rows and columns of a raster scan whose file holds no positions; null: the first axes of a cube",
        allowed="[rows,columns], positive integers",
    )
    scan_step_A: Number | None = key(
        None, "step of a raster scan, in place of the file's positions or axes", gt=0, unit="Å"
    )
    scan_step_nm: Number | None = key(None, "step of a raster scan, in nanometres", gt=0, unit="nm")
    scan_step_m: Number | None = key(None, "step of a raster scan, in metres", gt=0, unit="m")
    scan_path: Literal["raster", "snake"] = key(
        "raster", "order of a raster scan: each row from its first column on, or back and forth"
    )
    position_sign: Sign = key(
        1, "sign of the positions: 1 for those of the probe, -1 for those of the sample", level="sometimes"
    )
    rotation_deg: Number | None = key(
        None,
        "angle from the position axes to the detector axes, from down to the right; null: estimated for "
        "electrons, else 0",
        ge=-360,
        le=360,
        unit="degrees",
        level="sometimes",
    )
    scan_affine: tuple[tuple[Number, Number], tuple[Number, Number]] | None = key(
        None,
        "affine correction [[a,b],[c,d]] of the positions: (row, col) → (a·row + b·col, c·row + d·col)",
        allowed="[[a,b],[c,d]], finite and invertible",
    )
    pattern_shift: tuple[tuple[Number, Number], tuple[Number, Number]] | None = key(
        None,
        "descan [[a,b],[c,d]]: pixels by which patterns are shifted, (a·row + b·col, c·row + d·col), for a "
        "position from the middle in units of the window (N pixels); null: tested, [[0,0],[0,0]]: none",
        allowed="[[a,b],[c,d]], finite",
    )
    transpose: Flag = key(
        False, "transpose the detector relative to the positions, before the flips", level="sometimes"
    )
    flip_rows: Flag = key(False, "reverse the rows of the detector", level="sometimes")
    flip_cols: Flag = key(False, "reverse the columns of the detector", level="sometimes")
    energy_eV: Number | None = key(
        None, "photon energy; or wavelength_m, or electrons_keV", ge=10, le=1e6, unit="eV", level="always"
    )
    wavelength_m: Number | None = key(
        None, "wavelength of the radiation", ge=1.24e-12, le=1e-4, unit="m", level="sometimes"
    )
    electrons_keV: Number | None = key(
        None, "kinetic energy of the electrons", ge=0.01, le=600, unit="keV", level="sometimes"
    )
    physics: Literal["far_field", "near_field"] | None = key(
        None, "propagation to the detector, Fraunhofer or Fresnel; null: far_field", level="sometimes"
    )
    distance_m: Number | None = key(
        None, "distance from the sample to the detector", ge=1e-6, le=1e4, unit="m", level="always"
    )
    source_distance_m: Number | None = key(
        None,
        "distance from the focus or source to the sample, for a near field; null: a parallel beam",
        ge=1e-6,
        le=1e4,
        unit="m",
    )
    detector_pixel_m: Number | None = key(
        None, "pixel size of the detector", ge=1e-8, le=1e-2, unit="m", level="always"
    )
    detector_pixel_mrad: Number | None = key(
        None, "detector pixel as an angle, instead of its size and distance", ge=1e-5, le=10, unit="mrad"
    )
    saturation: Number | None = key(
        None,
        "number from which on a pixel is saturated, and does not count in its frame; null: the file's, or "
        "the largest one, if it is held too often",
        gt=0,
    )
    hot_pixels: Flag = key(True, "mask the pixels that always or never count")
    zingers: Flag = key(
        True, "leave out single pixels of single frames that are far above their neighbours in space and time"
    )
    negative: Literal["auto", "noise", "bad"] = key(
        "auto", "meaning of negative values: noise, or marks of bad pixels; auto: chosen from the values"
    )
    dark_frames: Number = key(
        0.05,
        "minimum intensity of a frame, as a fraction of the median; darker frames without a beam are "
        "excluded. 0: empty frames only",
        ge=0,
        lt=1,
    )
    stride: Integer = key(1, "interval between the frames used; 1: every frame", ge=1, level="sometimes")
    frames: Integer | None = key(None, "maximum number of frames; null: all", ge=1, level="sometimes")
    drop: tuple[Integer, ...] = key((), "indices of frames to exclude", allowed="a list of integers")
    frame_offset: Integer | None = key(
        None,
        "frame j was measured at position j + frame_offset, as after a missed trigger; null: 1 and -1 are "
        "tested, 0: as stored",
        level="sometimes",
    )
    position_jumps: Flag = key(
        True,
        "detect position errors of tens of pixels, or of one in a near field, and patterns that contradict "
        "all others",
    )
    orientation: Literal["as_stored", "auto"] = key(
        "as_stored",
        "orientation of the detector: as stored, or auto, which tests the others and takes one that "
        "explains the patterns clearly better",
    )

    def __post_init__(self) -> None:
        check(bool(self.file), "data.file", "''", "the path of a measured scan, or a list")
        check(len(set(self.file)) == len(self.file), "data.file", list(self.file), "free of repetition")
        if self.shared is not None:
            several = f"at least two files, or null; data.file={list(self.file)}"
            check(len(self.file) > 1, "data.shared", self.shared, several)
            near = f"null with data.physics={self.physics}: scans of near fields are reconstructed one by one"
            check(not self.near_field, "data.shared", self.shared, near)
        for name in ("patterns_file", "positions_file"):
            if len(self.file) > 1 and getattr(self, name) is not None:
                raise ConfigError(f"data.{name}: belongs to one scan; data.file names {len(self.file)}")
        parallel, near = self.source_distance_m is None, "removed, or belongs to data.physics=near_field"
        check(parallel or self.near_field, "data.source_distance_m", self.source_distance_m, near)
        check(
            self.pattern_shift is None or not self.near_field,
            "data.pattern_shift",
            self.pattern_shift,
            "null with data.physics=near_field",
        )
        if self.scan_affine is not None:
            (a, b), (c, d) = self.scan_affine
            shown = [list(row) for row in self.scan_affine]
            check(a * d != b * c, "data.scan_affine", shown, "[[a,b],[c,d]], finite and invertible, or null")
        stated = {name: value for name, value in vars(self).items() if value not in (None, ())}
        for names, others, why in EXCLUSIVE:
            pairs = ((a, b) for a in names for b in others if a != b and {a, b} <= stated.keys())
            for pair in pairs:
                specified = ", ".join(f"data.{name}={show(stated[name])}" for name in pair)
                raise ConfigError(f"{specified}: {why}; must be only one of them")
        self.stated_zero_frequency()

    @property
    def near_field(self) -> bool:
        """Whether Fresnel diffraction leads from the sample to the detector."""
        return self.physics == "near_field"

    def stated_quantities(self) -> dict[str, Any]:
        """Return those of ``energy_eV``, ``distance_m`` and ``detector_pixel_m`` that the user specifies.

        The energy is that of photons of the stated wavelength, the pitch is (row, col), and pixels that are
        stated as angles are those of a detector at one metre.
        """
        stated: dict[str, Any] = {"energy_eV": self.energy_eV, "distance_m": self.distance_m}
        if self.wavelength_m is not None:
            stated["energy_eV"] = photon_energy_eV(self.wavelength_m)
        if self.electrons_keV is not None:
            stated["energy_eV"] = photon_energy_eV(electron_wavelength_m(self.electrons_keV))
        if self.detector_pixel_m is not None:
            stated["detector_pixel_m"] = (self.detector_pixel_m,) * 2
        if self.detector_pixel_mrad is not None:
            stated |= {"distance_m": 1.0, "detector_pixel_m": (1e-3 * self.detector_pixel_mrad,) * 2}
        return {key: value for key, value in stated.items() if value is not None}

    def stated_scan_step_m(self) -> float | None:
        """Return the step of a raster in metres; None: positions are those of the file."""
        values = ((getattr(self, name), metres) for name, metres in STEPS.items())
        return next((value * metres for value, metres in values if value is not None), None)

    @property
    def path(self) -> str:
        """The file of the only scan; ConfigError: there are several."""
        if len(self.file) > 1:
            raise ConfigError(f"data.file={list(self.file)}: must be one scan here; use one command for each")
        return self.file[0]

    @property
    def name(self) -> str:
        """Name of the scan: its file, without the ending; of several that are joined, all of them."""
        return "+".join(Path(file).stem for file in (self.file if self.shared else (self.path,)))

    @property
    def paths(self) -> str:
        """The file of the scan, or the files that are joined, as a text on one line."""
        return ", ".join(self.file)

    def stated_zero_frequency(self) -> str | tuple[float, float] | None:
        """Return ``centre``, ``corner``, (row, col) in detector pixels, or None where it is not stated."""
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
