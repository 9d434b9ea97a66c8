"""Determine what a scan's numbers are: counts, intensities or amplitudes; repeated frames; photon gain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.preparation.good_pixels import Pixels
from ptycho.preparation.photon_gain import Gain, photon_gain
from ptycho.readers.raw_scan import RawScan
from ptycho.readers.values import squares_are_whole
from ptycho.scan.finding import Finding


@dataclass(frozen=True)
class SampleOptions:
    """Size of the sample of frames that is inspected before all are read."""

    frames: int = 64
    most_bytes: int = 2**29  # of these frames in double precision,
    fewest: int = 4  # frames, however large


def find_numbers(
    raw: RawScan, config: DataConfig, frames: np.ndarray, findings: list[Finding], options: SampleOptions
) -> tuple[str, np.ndarray, np.ndarray]:
    """Return the domain, the indices ``(n,)`` of a sample spread over ``frames``, and it, ``(n, H, W)``."""
    fitting = max(options.fewest, options.most_bytes // (8 * math.prod(raw.patterns.shape[1:])))
    some = min(options.frames, len(frames), fitting)
    spread = frames[np.unique(np.linspace(0, len(frames) - 1, some).astype(int))]
    sample = raw.patterns.read(spread).astype(np.float64)
    largest = float(np.max(sample, initial=0, where=np.isfinite(sample)))
    if raw.domain is None:
        raise ConfigError(
            f"patterns are {raw.patterns.dtype} up to {largest:.4g}: counts, intensities or amplitudes "
            "cannot be told apart; set data.domain=counts, intensity or amplitude"
        )
    why = "data.domain" if config.domain else f"{raw.patterns.dtype}, the largest of some {largest:.6g}"
    findings.append(Finding("patterns", f"{len(frames)} of {raw.patterns.shape}, {raw.domain}", why))
    return raw.domain, spread, sample


def repeated_frames(sample: np.ndarray, inspected: np.ndarray) -> list[str]:
    """Return a warning of frames in ``sample (n, H, W)`` that are the same to the last photon; dark ones are
    none.
    """
    first_indices: dict[bytes, int] = {}
    twins = []
    for frame, index in zip(sample, inspected, strict=True):
        if np.any(frame[np.isfinite(frame)]):
            before = first_indices.setdefault(frame.tobytes(), index)
            twins += [(before, index)] if before != index else []
    if len(sample) > 1 and len(twins) == len(sample) - 1:
        raise ConfigError(f"patterns: all {len(sample)} inspected patterns are the same; nothing was scanned")
    if not twins:
        return []
    first, second = twins[0]
    more = f" ({len(twins)} such pairs in {len(sample)} inspected patterns)" if len(twins) > 1 else ""
    return [f"frames {first} and {second} are the same{more}; if one was not measured: data.drop=[{second}]"]


def find_gain(
    raw: RawScan, config: DataConfig, sample: np.ndarray, pixels: Pixels, findings: list[Finding]
) -> float | None:
    """Return the intensity per photon from ``sample (n, H, W)``; None: unknown, or the noise is other."""
    if config.gain is not None:
        findings.append(Finding("photon gain", f"{config.gain:g}", "data.gain"))
        return config.gain
    if raw.domain == "counts" and not pixels.noise:
        if raw.flat is not None:
            flat = raw.flat[pixels.good]
            spread = f"± {100 * float(np.std(flat) / np.mean(flat)):.2g} % from pixel to pixel"
            why = f"divided by a flat field, {spread}, they are not quite Poisson's"
            findings.append(Finding("photon gain", "1 on average", why))
        return 1.0
    gain = _stated_gain(raw, sample, pixels)
    if gain.value is None:
        why = f"{gain.why}; patterns are not taken as counts; set data.gain=… if they are"
        findings.append(Finding("photon gain", "unknown", why))
    else:
        why = f"{gain.why}; set data.gain=… to change it"
        findings.append(Finding("photon gain", f"{gain.value:.6g}", why))
    return gain.value


def _stated_gain(raw: RawScan, sample: np.ndarray, pixels: Pixels) -> Gain:
    """Return the gain as the numbers of the file show it."""
    if pixels.noise:
        return Gain(None, f"read noise of σ ≈ {pixels.noise:.2g}, which is Gaussian and not that of photons")
    if raw.dark is not None or raw.flat is not None:
        return Gain(None, "a dark or flat field changes the intensities")
    intensity = np.square(sample) if raw.domain == "amplitude" else sample
    stored = raw.patterns.dtype if raw.patterns.dtype.kind == "f" else np.float32
    rounding = max(float(np.finfo(dtype).eps) for dtype in (stored, np.float32))
    gain = photon_gain(intensity, pixels.good, 8 * rounding)
    if gain.value is None and raw.domain == "amplitude" and squares_are_whole(sample[:, pixels.good]):
        return Gain(1.0, "the squares of the amplitudes are whole numbers: counts")
    return gain
