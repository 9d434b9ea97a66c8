"""A measured scan, understood: what was found, what was taken for granted, and what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.files.file_array import FileArray
from ptycho.preparation.detector import (
    SAMPLED,
    Detector,
    checked_frames,
    found_centre,
    oriented,
    suspicious_pixels,
)
from ptycho.preparation.geometry import (
    PixelSize,
    lonely,
    object_pixel,
    placed,
    positions_in_pixels,
    resampled_probe,
)
from ptycho.readers.scans.mask_file import read_mask
from ptycho.readers.scans.raw_scan import RawScan

READ_AT_ONCE = 2**25  # bytes of raw frames
DARK = 0.05  # of the median pattern's energy: a frame below it saw no beam


@dataclass(frozen=True)
class Finding:
    """One thing that was settled: ``what`` it is, its ``value``, and ``why``."""

    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value} ({self.why})"


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
        findings, warnings: for the log and for ``metrics.json``.
    """

    raw: RawScan
    detector: Detector
    frames: np.ndarray
    pixel: PixelSize
    positions: np.ndarray
    object_size: int
    probe: np.ndarray | None
    mean: np.ndarray
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]

    @property
    def N(self) -> int:
        return self.detector.N

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
    domain, sample = _domain(raw, config, frames, found)
    good, mean = _good_pixels(raw, config, sample, domain, found, warnings)
    turning = (raw.zero_frequency == "corner", config.transpose, config.flip_rows, config.flip_cols)
    seen = oriented(mean, *turning)
    centre = _centre(raw, config, seen, oriented(good, *turning), found)
    N = _side(raw, config, seen.shape, centre, found)
    detector = Detector(
        centre,
        N,
        config.bin,
        good,
        raw.dark,
        raw.flat,
        domain,
        config.gain or 1.0,
        *turning,
    )
    pixel = object_pixel(raw.energy_eV, raw.distance_m, raw.detector_pixel_m, N * config.bin)
    found.append(Finding("object pixel", pixel.text, _pixel_reason(raw, N * config.bin)))
    positions = _positions(raw, config, frames, pixel, N * config.bin, found, warnings)
    corners, size = placed(positions, N)
    probe = None
    if raw.probe is not None:
        probe, how = resampled_probe(raw.probe, raw.probe_pixel_m, pixel, N)
        found.append(Finding("probe", f"{len(probe)} modes, {N} × {N}", how))
    return Understood(raw, detector, frames, pixel, corners, size, probe, mean, tuple(found), tuple(warnings))


def _stated(raw: RawScan, config: DataConfig) -> RawScan:
    """What the user states stands above what the file says."""
    pitch = config.detector_pixel_m
    changes: dict[str, Any] = {
        "domain": config.domain,
        "unit": config.unit,
        "zero_frequency": config.stated_zero_frequency(),
        "energy_eV": config.energy_eV,
        "distance_m": config.distance_m,
        "detector_pixel_m": None if pitch is None else (pitch, pitch),
    }
    return replace(raw, **{key: value for key, value in changes.items() if value is not None})


def _domain(
    raw: RawScan, config: DataConfig, frames: np.ndarray, found: list[Finding]
) -> tuple[str, np.ndarray]:
    """What the frames hold, and some of them, spread over the scan."""
    spread = frames[np.unique(np.linspace(0, len(frames) - 1, min(SAMPLED, len(frames))).astype(int))]
    sample = raw.patterns.read(spread).astype(np.float64)
    if not np.isfinite(sample).all():
        raise ConfigError("patterns hold NaN or infinity; mark such pixels as bad (data.mask_file=…)")
    if raw.domain is None:
        raise ConfigError(
            f"patterns are {raw.patterns.dtype} up to {sample.max():.4g}: counts, intensities or amplitudes "
            "cannot be told apart; set data.domain=counts, intensity or amplitude"
        )
    why = "data.domain" if config.domain else f"{raw.patterns.dtype}, the largest of some {sample.max():.6g}"
    found.append(Finding("patterns", f"{len(frames)} of {raw.patterns.shape}, {raw.domain}", why))
    return raw.domain, sample


def _good_pixels(
    raw: RawScan,
    config: DataConfig,
    sample: np.ndarray,
    domain: str,
    found: list[Finding],
    warnings: list[str],
) -> tuple[np.ndarray, np.ndarray]:
    """Good pixels and the mean intensity, both ``(H, W)`` as stored."""
    intensity = np.square(sample) if domain == "amplitude" else sample
    shape = raw.patterns.shape[1:]
    good = np.ones(shape, bool) if raw.good is None else raw.good.copy()
    why = ["the file's mask"] if raw.good is not None else []
    if config.mask_file is not None:
        bad = read_mask(config.mask_file, (shape[0], shape[1]))
        good &= ~bad
        why.append(f"{bad.sum()} in data.mask_file")
    negative = (sample < 0).any(axis=0)
    if negative.any():
        good &= ~negative
        why.append(f"{negative.sum()} negative")
    if config.saturation is not None:
        saturated = (sample >= config.saturation).any(axis=0)
        good &= ~saturated
        why.append(f"{saturated.sum()} saturated (data.saturation={config.saturation:g})")
    mean = np.where(good, np.maximum(intensity, 0).mean(axis=0), 0)
    if config.hot_pixels:
        hot, dead = suspicious_pixels(mean, good)
        good &= ~(hot | dead)
        if hot.any() or dead.any():
            why.append(f"{hot.sum()} hot, {dead.sum()} dead in the data (data.hot_pixels=false keeps them)")
    if good.mean() < 0.5:
        warnings.append(f"only {100 * good.mean():.0f} % of the pixels are good: is the mask inverted?")
    if not good.any():
        raise ConfigError("mask: no pixel is good; is it inverted?")
    found.append(Finding("bad pixels", f"{(~good).sum()} of {good.size}", ", ".join(why) or "none known"))
    return good, np.where(good, mean, 0)


def _centre(
    raw: RawScan, config: DataConfig, mean: np.ndarray, good: np.ndarray, found: list[Finding]
) -> tuple[int, int]:
    """(row, col) of the zero frequency in the oriented frame."""
    zero = raw.zero_frequency
    if zero in ("centre", "corner"):
        centre = (mean.shape[0] // 2, mean.shape[1] // 2)
        why = "data.zero_frequency" if config.zero_frequency else f"by the format {raw.format}"
        if zero == "corner":
            why += ": in the corner, brought to the middle"
    elif isinstance(zero, tuple):
        centre, why = (round(zero[0]), round(zero[1])), "stated"
    else:
        centre, why = found_centre(mean, good), "centre of mass of the mean pattern"
    if not all(0 <= c < n for c, n in zip(centre, mean.shape, strict=True)):
        raise ConfigError(f"data.zero_frequency={centre}: must lie on the detector of {mean.shape}")
    found.append(Finding("zero frequency", f"row {centre[0]}, column {centre[1]}", why))
    return centre


def _side(
    raw: RawScan, config: DataConfig, shape: tuple[int, ...], centre: tuple[int, int], found: list[Finding]
) -> int:
    """N: as asked for, or the largest power of two up to 256 that fits on the detector around the centre."""
    if config.N is not None:
        found.append(Finding("N", str(config.N), f"data.N, {config.bin} × {config.bin} pixels each"))
        return config.N
    room = 2 * min(min(c, n - c) for c, n in zip(centre, shape, strict=True)) // config.bin
    if room < 16:
        raise ConfigError(f"data.N: only {room} pixels fit around the zero frequency at {centre}; set data.N")
    N = min(2 ** int(np.log2(room)), 256)
    found.append(Finding("N", str(N), f"{room} pixels fit around the centre; data.N chooses another"))
    return N


def _pixel_reason(raw: RawScan, side: int) -> str:
    known = {
        "data.energy_eV": raw.energy_eV,
        "data.distance_m": raw.distance_m,
        "data.detector_pixel_m": raw.detector_pixel_m,
    }
    missing = [key for key, value in known.items() if value is None]
    if missing:
        return f"{', '.join(missing)} not known"
    assert raw.detector_pixel_m is not None
    pitch = f"{1e6 * raw.detector_pixel_m[0]:.4g} µm"
    return f"λz/(N·p) of {raw.energy_eV:.6g} eV, {raw.distance_m:.4g} m, {side} × {pitch}"


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
    height, width = raw.patterns.shape[1:]
    positions = positions_in_pixels(raw.positions[frames], raw.unit, pixel, side, (height, width))
    why = [f"in {raw.unit}", f"convention of {raw.format}"]
    if config.position_axes == "xy" and not raw.format.startswith(("keymap", "tiff")):
        positions = positions[:, ::-1]
        why.append("columns exchanged: data.position_axes=xy")
    if config.position_sign == -1:
        positions = -positions
        why.append("negated: data.position_sign=-1")
    if len(positions) > 1 and not np.ptp(positions, axis=0).any():
        raise ConfigError(f"positions: all {len(positions)} are equal; nothing was scanned")
    alone = lonely(positions)
    if len(alone):
        warnings.append(
            f"{len(alone)} positions lie far from all others (the first is frame {frames[alone[0]]})"
        )
    span = np.ptp(positions, axis=0)
    found.append(Finding("positions", f"{span[0]:.1f} × {span[1]:.1f} object pixels", ", ".join(why)))
    return positions
