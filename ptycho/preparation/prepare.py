"""A measured scan, understood: what was found, what was taken for granted, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.files.file_array import FileArray
from ptycho.preparation.centre import find_centre
from ptycho.preparation.detector import (
    SAMPLED,
    Detector,
    checked_frames,
    oriented,
    turn_axes,
)
from ptycho.preparation.geometry import (
    PixelSize,
    check_scanned,
    check_steps,
    drop_words,
    lonely,
    object_pixel,
    place_on_object,
    positions_in_pixels,
    resampled_probe,
    turned_positions,
    unfit_probe,
)
from ptycho.preparation.good_pixels import NOT_FINITE, Pixels, find_good_pixels
from ptycho.preparation.near_field import (
    NearField,
    aliasing,
    near_field_of,
    near_field_window,
    probe_in_window,
    smell,
)
from ptycho.preparation.photon_gain import Gain, photon_gain
from ptycho.preparation.window import finer_pixels, whole_detector
from ptycho.readers.domain import squares_are_whole
from ptycho.readers.raw_scan import RawScan
from ptycho.scan.finding import Finding

READ_AT_ONCE = 2**25  # bytes of raw frames
LOOKED_AT = 2**29  # bytes of frames in double precision that are looked at, of large ones
FEWEST = 4  # frames, however large


@dataclass(frozen=True, eq=False)
class Understood:
    """How a raw scan is read.

    Attributes:
        raw: the scan, its patterns still in its file.
        detector: how a frame becomes a pattern.
        frames: ``(J,)`` indices of the frames that are used.
        pixel: of the object.
        positions: ``(J, 2)`` float64, top-left samples in object pixels, from 1 px up.
        object_size: side of the object.
        probe: modes ``(K, N, N)`` complex64, or None.
        mean: mean intensity of some frames, ``(H, W)``, as stored.
        counts: squares of the amplitudes are photons.
        findings, warnings: for the log and for ``metrics.json``.
        near_field: the lengths of a near field; None: the patterns are a far field.
    """

    raw: RawScan
    detector: Detector
    frames: np.ndarray
    pixel: PixelSize
    positions: np.ndarray
    object_size: int
    probe: np.ndarray | None
    mean: np.ndarray
    counts: bool
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    near_field: NearField | None = None

    @property
    def fresnel(self) -> Fresnel | None:
        """The way from the object to the detector, of a near field."""
        return None if self.near_field is None else self.near_field.fresnel

    @property
    def N(self) -> int:
        return self.detector.N

    @property
    def pitch_m(self) -> tuple[float, float] | None:
        """(row, col) of the patterns' pixels, turned and binned as they are."""
        pitch, b = _exchanged(self.raw.detector_pixel_m, self.detector.transpose), self.detector.bin
        return None if pitch is None else (b * pitch[0], b * pitch[1])

    def patterns(self, chosen: np.ndarray | slice) -> np.ndarray:
        """Amplitudes ``(K, N, N)`` float32 of some of the used frames, by their place among them."""
        return self.detector.amplitudes(self.raw.patterns.read(self.frames[chosen]))

    def copied(self, scratch: Path, advance: Callable[[int], object] = lambda done: None) -> FileArray:
        """All patterns ``(J, N, N)`` float32, in a nameless file in ``scratch``; read once, by blocks."""
        copy = FileArray.temporary(scratch, (len(self.frames), self.N, self.N), np.float32)
        height, width = self.raw.patterns.shape[1:]
        step = max(1, READ_AT_ONCE // (height * width * 8))
        for start in range(0, len(self.frames), step):
            block = self.patterns(slice(start, start + step))
            wrong = np.flatnonzero(~np.isfinite(block).all(axis=(1, 2)))
            if len(wrong):
                raise ConfigError(NOT_FINITE.format("some pixels", self.frames[start + wrong[0]]))
            copy[start : start + len(block)] = block
            advance(len(block))
        return copy


def understand(raw: RawScan, config: DataConfig) -> Understood:
    """Settle everything that can be, from the file, the configuration, and a look at some frames.

    Raises:
        ConfigError: something cannot be told; the message names the key that says it.
    """
    found: list[Finding] = []
    warnings = list(raw.warnings)
    raw = _stated(raw, config)
    frames = checked_frames(config, raw.patterns.shape[0])
    check_scanned(raw.positions[frames])
    domain, looked_at, sample = _domain(raw, config, frames, found)
    warnings += _repeated(sample, looked_at)
    pixels = find_good_pixels(raw, config, looked_at, sample)
    good, mean = pixels.good, pixels.mean
    found += pixels.findings
    warnings += pixels.warnings
    gain = _gain(raw, config, sample, pixels, found)
    pitch = _exchanged(raw.detector_pixel_m, config.transpose)
    near = near_field_of(raw, pitch, config)
    if near is not None:
        found.append(Finding("physics", "near field", near.way))
    elif config.physics is None and (doubt := smell(mean, good)) is not None:
        warnings.append(doubt)
    stored = _centre(raw, config, mean, good, found, warnings)
    N = _side(raw, config, stored, mean, near, found, warnings)
    if near is None and config.N is None and gain is not None:
        finer = finer_pixels(mean / gain, good, N)
        found += [] if finer is None else [finer]
    detector = _detector(raw, config, stored, N, good, domain, gain)
    pixel, why = _pixel(raw, config, pitch, N, near)
    found.append(Finding("object pixel", pixel.text, why))
    if pixel.metres is not None and config.electrons_keV is not None:
        angle = 500 * wavelength_m(float(raw.energy_eV or 0)) / max(pixel.metres)
        found.append(Finding("detector", f"to {angle:.4g} mrad", "λ/(2·pixel), half of what N pixels span"))
    positions = _positions(raw, config, frames, pixel, N * config.bin, found, warnings)
    corners, size = place_on_object(positions, N)
    probe = _probe(raw, config, pixel, N, found, warnings)
    return Understood(
        raw,
        detector,
        frames,
        pixel,
        corners,
        size,
        probe,
        mean,
        gain is not None,
        tuple(found),
        tuple(warnings),
        near,
    )


def _detector(
    raw: RawScan,
    config: DataConfig,
    centre: tuple[int, int],
    N: int,
    good: np.ndarray,
    domain: str,
    gain: float | None,
) -> Detector:
    """How the frames become patterns; ``centre`` and ``good (H, W)`` are those of the frames as stored."""
    turning = config.transpose, config.flip_rows, config.flip_cols
    return Detector(
        turn_axes(centre, good.shape, *turning),
        N,
        config.bin,
        good,
        raw.dark,
        raw.flat,
        domain,
        gain or 1.0,
        raw.zero_frequency == "corner",
        *turning,
    )


def _probe(
    raw: RawScan,
    config: DataConfig,
    pixel: PixelSize,
    N: int,
    found: list[Finding],
    warnings: list[str],
) -> np.ndarray | None:
    """The file's probe on the object's pixels, modes ``(K, N, N)``; None if it has none that can be used."""
    if raw.probe is None:
        return None
    height, width = raw.patterns.shape[1:]
    unfit = unfit_probe(raw.probe, (width, height) if config.transpose else (height, width))
    if unfit is not None:
        warnings.append(
            f"the file's probe {unfit}; one is guessed, unless probe=zone_plate or probe=npz says"
        )
        return None
    place = probe_in_window if config.near_field else resampled_probe
    probe, how = place(raw.probe, raw.probe_pixel_m, pixel, N)
    found.append(Finding("probe", f"{len(probe)} modes, {N} × {N}", how))
    return probe


def _stated(raw: RawScan, config: DataConfig) -> RawScan:
    """What the user states stands above what the file says."""
    pitch = config.stated_pitch_m()
    changes: dict[str, Any] = {
        "domain": config.domain,
        "unit": config.unit,
        "zero_frequency": "centre" if config.near_field else config.stated_zero_frequency(),
        "energy_eV": config.stated_energy_eV(),
        "distance_m": config.stated_distance_m(),
        "detector_pixel_m": None if pitch is None else (pitch, pitch),
    }
    return replace(raw, **{key: value for key, value in changes.items() if value is not None})


def _domain(
    raw: RawScan, config: DataConfig, frames: np.ndarray, found: list[Finding]
) -> tuple[str, np.ndarray, np.ndarray]:
    """What the frames hold; the indices of some, spread over the scan, and these themselves."""
    fitting = max(FEWEST, LOOKED_AT // (8 * math.prod(raw.patterns.shape[1:])))
    some = min(SAMPLED, len(frames), fitting)
    spread = frames[np.unique(np.linspace(0, len(frames) - 1, some).astype(int))]
    sample = raw.patterns.read(spread).astype(np.float64)
    largest = float(np.max(sample, initial=0, where=np.isfinite(sample)))
    if raw.domain is None:
        raise ConfigError(
            f"patterns are {raw.patterns.dtype} up to {largest:.4g}: counts, intensities or amplitudes "
            "cannot be told apart; set data.domain=counts, intensity or amplitude"
        )
    why = "data.domain" if config.domain else f"{raw.patterns.dtype}, the largest of some {largest:.6g}"
    found.append(Finding("patterns", f"{len(frames)} of {raw.patterns.shape}, {raw.domain}", why))
    return raw.domain, spread, sample


def _repeated(sample: np.ndarray, looked_at: np.ndarray) -> list[str]:
    """A warning of frames that are the same to the last photon; dark ones are none."""
    seen: dict[bytes, int] = {}
    twins = []
    for frame, index in zip(sample, looked_at, strict=True):
        if np.any(frame[np.isfinite(frame)]):
            before = seen.setdefault(frame.tobytes(), index)
            twins += [(before, index)] if before != index else []
    if len(sample) > 1 and len(twins) == len(sample) - 1:
        raise ConfigError(
            f"patterns: all {len(sample)} that were looked at are the same; nothing was scanned"
        )
    if not twins:
        return []
    first, second = twins[0]
    more = f" ({len(twins)} such pairs in {len(sample)} that were looked at)" if len(twins) > 1 else ""
    return [f"frames {first} and {second} are the same{more}; if one was not measured: data.drop=[{second}]"]


def _gain(
    raw: RawScan, config: DataConfig, sample: np.ndarray, pixels: Pixels, found: list[Finding]
) -> float | None:
    """Intensity per photon, or None where it is unknown, or where noise is not that of photons."""
    if config.gain is not None:
        found.append(Finding("photon gain", f"{config.gain:g}", "data.gain"))
        return config.gain
    if raw.domain == "counts" and not pixels.noise:
        return 1.0
    told = _told_gain(raw, sample, pixels)
    if told.value is None:
        why = f"{told.why}; patterns are not taken as counts, data.gain=… would state it"
        found.append(Finding("photon gain", "unknown", why))
    else:
        found.append(Finding("photon gain", f"{told.value:.6g}", f"{told.why}; data.gain=… says otherwise"))
    return told.value


def _told_gain(raw: RawScan, sample: np.ndarray, pixels: Pixels) -> Gain:
    """What the numbers say of the gain."""
    if pixels.noise:
        return Gain(None, f"read noise of σ ≈ {pixels.noise:.2g}, which is Gaussian and not that of photons")
    if raw.dark is not None or raw.flat is not None:
        return Gain(None, "a dark or flat field changes the intensities")
    intensity = np.square(sample) if raw.domain == "amplitude" else sample
    told = photon_gain(intensity, pixels.good, 8 * max(_rounding(raw.patterns.dtype), _rounding(np.float32)))
    if told.value is None and raw.domain == "amplitude" and squares_are_whole(sample[:, pixels.good]):
        return Gain(1.0, "the squares of the amplitudes are whole numbers: counts")
    return told


def _rounding(dtype: np.typing.DTypeLike) -> float:
    """Relative, of numbers of a dtype."""
    return float(np.finfo(dtype).eps) if np.dtype(dtype).kind == "f" else 0.0


def _centre(
    raw: RawScan,
    config: DataConfig,
    mean: np.ndarray,
    good: np.ndarray,
    found: list[Finding],
    warnings: list[str],
) -> tuple[int, int]:
    """(row, col) of the zero frequency in the frame as stored, or with its corner brought to the middle."""
    if config.near_field:
        middle = mean.shape[0] // 2, mean.shape[1] // 2
        why = "the detector's; a near field has no zero frequency"
        why += ", and data.zero_frequency no meaning" if config.zero_frequency else ""
        found.append(Finding("middle", f"row {middle[0]}, column {middle[1]}", why))
        return middle
    zero, centre = raw.zero_frequency, raw.stated_centre()
    if centre is None:
        seen = find_centre(mean, good)
        centre, why = _told_by_probe(raw, (seen.row, seen.col), seen.why)
        warnings += [] if seen.warning is None else [seen.warning]
    elif isinstance(zero, tuple):
        why = "stated"
    else:
        why = "data.zero_frequency" if config.zero_frequency else f"by the format {raw.format}"
        why += ": in the corner, brought to the middle" if zero == "corner" else ""
    if not all(0 <= c < n for c, n in zip(centre, mean.shape, strict=True)):
        raise ConfigError(
            f"data.zero_frequency={centre}: must lie on the detector of {mean.shape}, (row, column) as stored"
        )
    if config.transpose or config.flip_rows or config.flip_cols:
        why += "; in the frame as stored, before it is turned"
    found.append(Finding("zero frequency", f"row {centre[0]}, column {centre[1]}", why))
    return centre


def _told_by_probe(raw: RawScan, seen: tuple[int, int], why: str) -> tuple[tuple[int, int], str]:
    """The middle, where the file's probe is as large as a frame and the beam is seen a pixel off at most."""
    shape = raw.patterns.shape[1:]
    middle = shape[0] // 2, shape[1] // 2
    alike = raw.probe is not None and raw.probe.shape[1:] == shape
    if alike and seen != middle and max(abs(s - m) for s, m in zip(seen, middle, strict=True)) <= 1:
        return middle, f"the middle, as the file's probe has it; {why}: row {seen[0]}, column {seen[1]}"
    return seen, why


def _side(
    raw: RawScan,
    config: DataConfig,
    centre: tuple[int, int],
    mean: np.ndarray,
    near: NearField | None,
    found: list[Finding],
    warnings: list[str],
) -> int:
    """N: as asked for, or that of the window which holds the whole detector.

    Of the frame as stored, so that N does not change where it is turned: a flipped one of even size has its
    first row or column one pixel too late, and the pattern's first is bad there.
    """
    if config.N is not None:
        found.append(Finding("N", str(config.N), f"data.N, {config.bin} × {config.bin} pixels each"))
        if near is not None and (doubt := aliasing(near, config.N)) is not None:
            warnings.append(doubt)
        return config.N
    upright = oriented(mean, raw.zero_frequency == "corner", False, False, False)
    window = (
        whole_detector(upright, centre, config.bin)
        if near is None
        else near_field_window(near, mean.shape, config.bin)
    )
    found.append(Finding("N", str(window.N), window.why))
    warnings += [] if window.warning is None else [window.warning]
    return window.N


def _exchanged(pair: tuple[float, float] | None, transpose: bool) -> tuple[float, float] | None:
    """(row, col) of the detector as stored → of the oriented frames."""
    return (pair[1], pair[0]) if pair is not None and transpose else pair


def _pixel(
    raw: RawScan,
    config: DataConfig,
    pitch: tuple[float, float] | None,
    N: int,
    near: NearField | None,
) -> tuple[PixelSize, str]:
    """Of the object, and why."""
    if near is not None:
        return near.pixel, near.pixel_reason
    side = N * config.bin
    pixel = object_pixel(raw.energy_eV, raw.distance_m, pitch, side)
    if pixel.missing:
        return pixel, f"{', '.join(pixel.missing)} not known"
    assert raw.detector_pixel_m is not None and raw.energy_eV is not None
    wave = f"{raw.energy_eV:.6g} eV"
    if config.electrons_keV is not None:
        wave = f"electrons of {config.electrons_keV:g} keV, {1e12 * wavelength_m(raw.energy_eV):.4g} pm"
    if config.detector_pixel_mrad is not None:
        return pixel, f"λ/(N·α) of {wave}, {side} × {config.detector_pixel_mrad:g} mrad"
    width = f"{1e6 * raw.detector_pixel_m[0]:.4g} µm"
    return pixel, f"λz/(N·p) of {wave}, {raw.distance_m:.4g} m, {side} × {width}"


def _exchanged_by_reader(format_: str, config: DataConfig) -> bool:
    """Whether the columns are exchanged already: those of a table, of a named array, and PtyLab's are."""
    return format_ == "ptylab" or config.positions_file is not None or config.keys.positions is not None


def in_object_pixels(
    positions: np.ndarray, raw: RawScan, config: DataConfig, pixel: PixelSize, side: int
) -> tuple[np.ndarray, list[str]]:
    """Positions ``(J, 2)`` of a scan, as its reader gives them, in object pixels; and how they became that.

    Args:
        pixel: of the object.
        side: of the window, in detector pixels.
    """
    height, width = raw.patterns.shape[1:]
    shape = (width, height) if config.transpose else (height, width)
    why = [f"in {raw.unit}", f"convention of {raw.format}"]
    if config.position_axes == "xy" and not _exchanged_by_reader(raw.format, config):
        positions = positions[:, ::-1]
        why.append("columns exchanged: data.position_axes=xy")
    ratio = 1 / config.bin if config.near_field else side / np.array(shape, float)
    positions = positions_in_pixels(positions, raw.unit, pixel, side, ratio, raw.warnings)
    if config.rotation_deg or config.scan_affine is not None:
        turn = config.rotation_deg or 0.0
        positions = turned_positions(positions, pixel, turn, config.scan_affine)
        why.append(f"turned by {turn:g}°: data.rotation_deg" if turn else "")
        why.append("" if config.scan_affine is None else "transformed: data.scan_affine")
    if config.position_sign == -1:
        positions = -positions
        why.append("negated: data.position_sign=-1")
    return positions, why


def _positions(
    raw: RawScan,
    config: DataConfig,
    frames: np.ndarray,
    pixel: PixelSize,
    side: int,
    found: list[Finding],
    warnings: list[str],
) -> np.ndarray:
    """Positions of the used frames in object pixels, of any origin."""
    positions, why = in_object_pixels(raw.positions[frames], raw, config, pixel, side)
    check_steps(positions, raw.positions[frames], raw.unit, pixel, side, side // config.bin)
    alone = lonely(positions)
    if len(alone):
        warnings.append(
            f"{len(alone)} positions lie far from all others (the first is frame {frames[alone[0]]}); "
            f"{drop_words(frames[alone])} leaves them out"
        )
    span = np.ptp(positions, axis=0)
    found.append(
        Finding("positions", f"{span[0]:.1f} × {span[1]:.1f} object pixels", ", ".join(filter(None, why)))
    )
    return positions
