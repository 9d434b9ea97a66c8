"""A measured scan, interpreted: what was found, what was taken for granted, and what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import check
from ptycho.config.data import DataConfig
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.files.file_array import FileArray
from ptycho.preparation.detector import Detector, turn_axes
from ptycho.preparation.geometry import (
    PixelSize,
    check_scanned,
    check_steps,
    isolated,
    object_pixel,
    place_on_object,
    place_scans,
    positions_in_pixels,
    remove_common_fraction,
    resampled_probe,
    turned_positions,
    unfit_probe,
)
from ptycho.preparation.good_pixels import find_good_pixels
from ptycho.preparation.marks import FrameCheck, Limits, Zingers, blocks_of, guess_unmeasured
from ptycho.preparation.near_field import (
    NearField,
    looks_like_near_field,
    magnification_hint,
    near_field_of,
    probe_in_window,
)
from ptycho.preparation.numbers import SampleOptions, find_gain, find_numbers, repeated_frames
from ptycho.preparation.window import finer_pixels, pattern_side, zero_frequency
from ptycho.readers.raw_scan import RawScan, checked_frames, listed
from ptycho.scan.finding import Finding, findings_of, warnings_of


@dataclass(frozen=True, eq=False)
class ScanGeometry:
    """Interpretation of a raw scan."""

    raw: RawScan  # the scan, its patterns still in its file
    detector: Detector  # how a frame becomes a pattern
    frames: np.ndarray  # ``(J,)`` indices of the frames that are used
    pixel: PixelSize  # of the object
    positions: np.ndarray  # ``(J, 2)`` float64, top-left samples in object pixels, from 1 px up
    object_size: int  # side of the object
    probe: np.ndarray | None  # modes ``(K, N, N)`` complex64
    mean: np.ndarray  # mean intensity of some frames, ``(H, W)``, as stored
    counts: bool  # squares of the amplitudes are photons
    limits: Limits  # numbers of the file beyond them were not measured
    decisions: tuple[Finding, ...]  # for the log and for ``metrics.json``
    near_field: NearField | None = None  # the lengths of a near field; None: the patterns are a far field
    finds_zingers: bool = True  # single pixels of single frames, far above all around them, do not count

    @property
    def fresnel(self) -> Fresnel | None:
        """The way from the object to the detector, of a near field."""
        return None if self.near_field is None else self.near_field.fresnel

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Decisions that are no warnings."""
        return tuple(findings_of(self.decisions))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Texts of the warnings."""
        return tuple(warnings_of(self.decisions))

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.detector.N

    @property
    def scan_index(self) -> np.ndarray:
        """Index ``(J,)`` of the scan that each of the used frames belongs to."""
        return _scan_index(self.raw, self.frames)

    @property
    def pitch_m(self) -> tuple[float, float] | None:
        """(row, col) of the patterns' pixels, turned and binned as they are."""
        pitch, b = _exchanged(self.raw.detector_pixel_m, self.detector.transpose), self.detector.bin
        return None if pitch is None else (b * pitch[0], b * pitch[1])

    def with_pixel(self, pixel: PixelSize) -> ScanGeometry:
        """Return the scan with an object pixel that is stated for arrays, whose positions are in pixels."""
        finding = Finding("object pixel", pixel.text, "pixel_m")
        rest = tuple(finding if old.what == finding.what else old for old in self.decisions)
        return replace(self, pixel=pixel, decisions=rest)

    def place(self, positions: np.ndarray) -> ScanGeometry:
        """Return the scan with its frames at positions ``(J, 2)`` in object pixels, of any origin."""
        corners, size = place_on_object(positions, self.N)
        return replace(self, positions=corners, object_size=size)

    def patterns(self, chosen: np.ndarray | slice) -> np.ndarray:
        """Return amplitudes ``(K, N, N)`` float32 of some of the used frames, by their place among them."""
        return self.detector.amplitudes(self.raw.patterns.read(self.frames[chosen]), self.limits)

    def copied(
        self, scratch: Path, advance: Callable[[int], object] = lambda done: None, block_bytes: int = 2**25
    ) -> tuple[ScanGeometry, FileArray]:
        """Copy all patterns ``(J, N, N)`` float32 into a nameless file in ``scratch``, block by block.

        The scan comes back without the pixels that no frame has measured. ConfigError names all frames that
        cannot be used.
        """
        copy = FileArray.temporary(scratch, (len(self.frames), self.N, self.N), np.float32)
        check, lost = FrameCheck(self.limits, self.detector.good), np.zeros((self.N, self.N), int)
        measured = np.zeros((self.N, self.N))  # sum of the intensities that were
        zingers = Zingers(self.N) if self.counts and self.finds_zingers else None
        for part in blocks_of(self.raw, len(self.frames), block_bytes):
            frames = self.raw.patterns.read(self.frames[part])
            check.add(self.frames[part], frames)
            with np.errstate(invalid="ignore"):  # what is not finite is refused when all of it is known
                copy[part] = block = self.detector.amplitudes(frames, self.limits)
            lost += np.count_nonzero(block < 0, axis=0)
            measured += np.square(block, dtype=float).sum(axis=0, where=block > 0)
            if zingers is not None:
                zingers.add(block)
            advance(len(frames))
        check.refuse()
        several = None
        if lost.any():
            mean = measured / np.maximum(len(self.frames) - lost, 1)
            parts = blocks_of(self.raw, len(self.frames), block_bytes)
            guessed = np.sum([guess_unmeasured(copy, part, mean) for part in parts], axis=0)
            several = check.finding(lost, measured, guessed)
        detector = replace(self.detector, good=check.measured)
        if not np.array_equal(check.measured, self.detector.good):
            for part in blocks_of(self.raw, len(self.frames), block_bytes):
                copy[part] = np.where(detector.good_pixels, copy[part], np.float32(0))
        single = None if zingers is None else zingers.mark_in(copy, detector.good_pixels)
        new = tuple(finding for finding in (several, single) if finding is not None)
        return (replace(self, detector=detector, decisions=(*self.decisions, *new)) if new else self), copy


def _scan_index(raw: RawScan, frames: np.ndarray) -> np.ndarray:
    return np.zeros(len(frames), int) if raw.scan_index is None else raw.scan_index[frames]


def interpret(raw: RawScan, config: DataConfig, sampling: SampleOptions = SampleOptions()) -> ScanGeometry:
    """Determine how a scan is read, from the file, the configuration, and a sample of its frames.

    ConfigError: a value cannot be determined; the message names the key to set.
    """
    findings = [Finding.warning(text) for text in raw.warnings]
    raw = _stated(raw, config)
    frames = checked_frames(config, raw.patterns.shape[0])
    frames, places = _placed(raw, frames, config.frame_offset or 0)
    check_scanned(places, frames)
    domain, inspected, sample = find_numbers(raw, config, frames, findings, sampling)
    findings += map(Finding.warning, repeated_frames(sample, inspected))
    pixels = find_good_pixels(raw, config, frames, sample)
    good, mean = pixels.good, pixels.mean
    findings += pixels.decisions
    gain = find_gain(raw, config, sample, pixels, findings)
    pitch = _exchanged(raw.detector_pixel_m, config.transpose)
    near = near_field_of(raw, pitch, config)
    doubt = looks_like_near_field(mean, good) if near is None and config.physics is None else None
    if near is not None:
        findings.append(Finding("physics", "near field", near.way))
    elif doubt is not None:
        findings.append(Finding.warning(doubt))
    stored = zero_frequency(raw, config, mean, good, findings)
    N = pattern_side(raw, config, stored, mean, near, findings)
    if near is None and config.N is None and gain is not None:
        finer = finer_pixels(mean / gain, good, N)
        findings += [] if finer is None else [finer]
    turning, corner = (config.transpose, config.flip_rows, config.flip_cols), raw.zero_frequency == "corner"
    centre, flat = turn_axes(stored, good.shape, *turning), raw.flat
    detector = Detector(centre, N, config.bin, good, raw.dark, flat, domain, gain or 1.0, corner, *turning)
    pixel, why = _pixel(raw, config, pitch, N, near)
    findings.append(Finding("object pixel", pixel.text, why))
    if pixel.metres is not None and config.electrons_keV is not None:
        angle = 500 * wavelength_m(float(raw.energy_eV or 0)) / max(pixel.metres)
        why = "λ/(2·pixel), half of what N pixels span"
        findings.append(Finding("detector", f"to {angle:.4g} mrad", why))
    hint = magnification_hint(near, doubt is not None)
    positions = _positions(raw, config, frames, places, pixel, N * config.bin, hint, findings)
    if config.shared is not None:
        positions = place_scans(positions, _scan_index(raw, frames), N, config.shared, findings)
    corners, size = place_on_object(positions, N)
    probe = _probe(raw, config, pixel, N, findings)
    return ScanGeometry(
        raw=raw,
        detector=detector,
        frames=frames,
        pixel=pixel,
        positions=corners,
        object_size=size,
        probe=probe,
        mean=mean,
        counts=gain is not None,
        limits=pixels.limits,
        decisions=tuple(findings),
        near_field=near,
        finds_zingers=config.zingers,
    )


def interpret_again(scan: ScanGeometry, config: DataConfig) -> ScanGeometry:
    """Return a scan as another ``config`` reads it, with the pixel that was stated for arrays."""
    again, pixel = interpret(scan.raw, config), scan.pixel.metres
    if pixel is None or again.pixel.metres is not None:
        return again
    turned = config.transpose != scan.detector.transpose
    return again.with_pixel(PixelSize(pixel[::-1] if turned else pixel))


def _placed(raw: RawScan, frames: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """Return those of ``frames (J,)`` that have a position in their scan, and it, ``(J, 2)``, as stored."""
    count = len(raw.positions)
    inside = np.clip(frames + offset, 0, count - 1)
    there = (inside == frames + offset) & (_scan_index(raw, inside) == _scan_index(raw, frames))
    check(there.any(), "data.frame_offset", offset, f"nearer to 0 than the number of positions, {count}")
    return frames[there], raw.positions[inside[there]]


def _probe(
    raw: RawScan, config: DataConfig, pixel: PixelSize, N: int, findings: list[Finding]
) -> np.ndarray | None:
    """The file's probe on the object's pixels, modes ``(K, N, N)``; None if it has none that can be used."""
    if raw.probe is None:
        return None
    unfit = unfit_probe(raw.probe, _exchanged(raw.patterns.shape[1:], config.transpose))
    if unfit is not None:
        text = f"the probe of the file {unfit}; it is estimated instead; or set probe=zone_plate or probe=npz"
        findings.append(Finding.warning(text))
        return None
    place = probe_in_window if config.near_field else resampled_probe
    probe, why = place(raw.probe, raw.probe_pixel_m, pixel, N)
    findings.append(Finding("probe", f"{len(probe)} modes, {N} × {N}", why))
    return probe


def _stated(raw: RawScan, config: DataConfig) -> RawScan:
    """Return the scan with the user's values, which take precedence over those of the file."""
    zero = "centre" if config.near_field else config.stated_zero_frequency()
    changes: dict[str, Any] = {"domain": config.domain, "unit": config.unit, "zero_frequency": zero}
    changes = {key: value for key, value in changes.items() if value is not None}
    return replace(raw, **changes, **config.stated_quantities())


def _exchanged(pair: Any, transpose: bool) -> Any:
    """(row, col) of the detector as stored → of the oriented frames; None stays."""
    return pair[::-1] if pair is not None and transpose else pair


def _pixel(
    raw: RawScan, config: DataConfig, pitch: tuple[float, float] | None, N: int, near: NearField | None
) -> tuple[PixelSize, str]:
    """Of the object, and why."""
    if near is not None:
        own = f"the detector's {1e6 * near.pitch_m[0]:.4g} µm"
        return PixelSize(near.pixel_m), f"near field: {own} over the magnification {near.magnification:.4g}"
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


def in_object_pixels(
    positions: np.ndarray, raw: RawScan, config: DataConfig, pixel: PixelSize, side: int
) -> tuple[np.ndarray, list[str]]:
    """Return positions ``(J, 2)`` of a scan, as its reader gives them, in object pixels; and how.

    ``pixel``: of the object. ``side``: of the window, in detector pixels.
    """
    shape = _exchanged(raw.patterns.shape[1:], config.transpose)
    why = [f"in {raw.unit}", f"convention of {raw.format}"]
    own_axes = config.positions_file is not None or config.keys.positions is not None
    by_reader = own_axes or raw.format == "ptylab"  # these have their columns exchanged already
    if config.position_axes == "xy" and not by_reader:
        positions = positions[:, ::-1]
        why.append("columns exchanged: data.position_axes=xy")
    ratio = 1 / config.bin if config.near_field else side / np.array(shape, float)
    positions = positions_in_pixels(positions, raw.unit, pixel, side, ratio, raw.warnings)
    if config.rotation_deg or config.scan_affine is not None:
        turn = config.rotation_deg or 0.0
        positions = turned_positions(positions, pixel, turn, config.scan_affine)
        why.append(f"rotated by {turn:g}°: data.rotation_deg" if turn else "")
        why.append("" if config.scan_affine is None else "transformed: data.scan_affine")
    if config.position_sign == -1:
        positions = -positions
        why.append("negated: data.position_sign=-1")
    return positions, why


def _positions(
    raw: RawScan,
    config: DataConfig,
    frames: np.ndarray,
    places: np.ndarray,
    pixel: PixelSize,
    side: int,
    magnified: str,
    findings: list[Finding],
) -> np.ndarray:
    """Positions of the used frames in object pixels, of any origin, from those as stored, ``places``."""
    positions, why = in_object_pixels(places, raw, config, pixel, side)
    if config.frame_offset:
        why.append(f"of frame j + {config.frame_offset}: data.frame_offset")
    positions = remove_common_fraction(positions, raw.unit)
    check_steps(positions, places, raw.unit, pixel, side, side // config.bin, magnified)
    alone = isolated(positions)
    if len(alone):
        some, more = listed(frames[alone].tolist())
        findings.append(
            Finding.warning(
                f"{len(alone)} isolated positions (the first is frame {frames[alone[0]]}); "
                f"data.drop=[{some}]{more} excludes them"
            )
        )
    span = np.ptp(positions, axis=0)
    size = f"{span[0]:.1f} × {span[1]:.1f} object pixels"
    findings.append(Finding("positions", size, ", ".join(filter(None, why))))
    return positions
