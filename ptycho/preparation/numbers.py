"""Determine what a scan's numbers are: counts, intensities or amplitudes; repeated frames; the photon gain.

The gain is the intensity of one photon, from patterns that may be photon counts times a constant.

Two things must both be seen before a gain is claimed:

1. **A quantum.** All intensities are whole multiples ``v = q n`` of one number q.
2. **Photon noise of that quantum.** q may as well be a step of the detector's converter, or the last decimal
   that was written. For the second difference d of 3 × 3 pixels along both axes, of weights
   ``w = (1, −2, 1) ⊗ (1, −2, 1)``, Poisson counts n of means λ have

       E d² = Σ w² λ + (Σ w λ)²,     d = Σ w n,

   so that ``R = Σ d² / Σ (Σ w² n)`` is one where patterns are smooth, and larger elsewhere. That holds also
   among those blocks alone that have the same sum, as their counts are multinomial then. Patterns without
   noise have an R that grows in proportion to the sum, and vanishes where they are smooth; steps of which a
   photon makes several have an R of that number.

Counts that were divided by a flat field are multiples of a step of each pixel's own, ``v_p = s_p n_p``. It is
seen where single photons are, in pixels that many frames leave dark: all values there are whole multiples of
the smallest. Then the mean step stands for the gain; the noise is that of photons but for the spread of s_p.

Other intensities that are no multiples of one number (read noise, interpolation, a scale of each frame's own)
leave the gain open: a variance proportional to the mean does not distinguish it from other such noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_erosion, correlate

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.preparation.good_pixels import Pixels
from ptycho.preparation.marks import find_marks
from ptycho.readers.patterns import spread
from ptycho.readers.raw_scan import RawScan
from ptycho.readers.values import tell_domain
from ptycho.scan.finding import Finding

SUMS = 4 * 2 ** np.arange(12)  # classes of the sum of a block: 5–8, 9–16, …
WEIGHTS = np.outer([1.0, -2.0, 1.0], [1.0, -2.0, 1.0])


class Gain(NamedTuple):
    """Intensity per photon, or None where it is not clear; and why."""

    value: float | None
    why: str


def photon_gain(
    intensities: np.ndarray, good: np.ndarray, precision: float = 1e-6, most: int = 2**22, stray: float = 1e-3
) -> Gain:
    """Return the gain of intensities ``(K, H, W)``, where they are ``good``: ``(H, W)``, or of each frame.

    Args:
        precision: relative error of an intensity; by default after a few operations in single precision.
        most: number of intensities that are used.
        stray: share of them that may be no multiple of the gain (interpolated bad pixels), or below zero.
    """
    good = np.broadcast_to(good, intensities.shape)
    every = max(1, -(-intensities.size // most))
    some, usable = intensities[::every], good[::every]
    some, values = np.where(usable, some, 0), some[usable]
    if np.mean(values < 0) > stray:
        return Gain(None, "there are negative values: read noise")
    q = quantum(values[values > 0], precision, stray)
    if q is not None:
        return _with_photon_noise(q, f"multiples of {q:.6g}", np.rint(some / q), usable)
    steps = pixel_steps(intensities[:, good.all(axis=0)])
    if not len(steps):
        return Gain(None, "the intensities are no multiples of one number")
    q, scatter = float(steps.mean()), 100 * float(steps.std() / steps.mean())
    reason = (
        f"multiples of a step of each pixel's own, ± {scatter:.2g} %, as of counts over a flat field; better "
        "read the counts as they were, and the flat field by data.keys.flat"
    )
    return _with_photon_noise(q, reason, some / q, usable)


def pixel_steps(
    values: np.ndarray, dark: float = 0.2, fewest: int = 100, fitting: float = 0.98, off: float = 1e-4
) -> np.ndarray:
    """Return the step ``(n,)`` of each pixel in which single photons are seen; empty where they are no steps.

    Args:
        values: ``(K, P)``, intensities from 0 up.
        dark: share of the frames that leave a pixel dark where single photons are seen.
        fewest: such pixels, at least.
        fitting: share of them all of whose values are whole multiples of the smallest.
        off: largest distance from a multiple: of rounding alone.
    """
    values = values[:, np.mean(values == 0, axis=0) >= dark]
    least = np.min(values, axis=0, initial=np.inf, where=values > 0)
    ratios = values / least
    whole = np.rint(ratios)
    known = np.sum(whole > 1, axis=0) > 1  # by chance, one ratio may be whole
    steps = least[known & np.all(np.abs(ratios - whole) <= off * np.maximum(whole, 1), axis=0)]
    return steps if len(steps) >= max(fewest, fitting * np.count_nonzero(known)) else steps[:0]


def _with_photon_noise(q: float, description: str, counts: np.ndarray, good: np.ndarray) -> Gain:
    """Return the gain q, of multiples ``counts (K, H, W)`` of it, if their noise is that of photons."""
    ratios = noise_ratios(counts, good)
    low = ratios[:4]  # the sum grows tenfold over them
    description += f", noise over that of photons {', '.join(f'{r:.2f}' for r in low) or 'unknown'}"
    if len(low) < 4 or min(ratios) < 0.9 or max(low) > 1.25:
        return Gain(None, f"{description}: not clearly photon noise")
    return Gain(q, f"{description}: photon noise")


def quantum(
    values: np.ndarray, precision: float = 1e-6, stray: float = 1e-3, fewest: int = 1000, levels: int = 6
) -> float | None:
    """Return the largest q of which positive ``values (n,)`` are whole multiples; None if there is none.

    ``fewest`` values must be there, with so many different ``levels``; the rest as of :func:`photon_gain`.
    """
    if len(values) < fewest:
        return None
    different, often = _different(values, precision)
    if len(different) < levels:
        return None
    gaps = np.diff(different)
    candidates = np.concatenate([different[np.argsort(often)[-3:]], _most_common(gaps)])
    tried = np.unique((candidates[:, None] / np.arange(1, 5)).ravel())[::-1]
    refined = (_refined(q, different, often, precision, stray, levels) for q in tried)
    return next((q for q in refined if q is not None), None)


def _different(values: np.ndarray, precision: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that occur, those closer than their error as one, and how often each does."""
    ordered = np.sort(values)
    first = np.flatnonzero(np.diff(ordered, prepend=-1.0) > precision * ordered)
    often = np.diff(np.append(first, len(ordered)))
    return np.add.reduceat(ordered, first) / often, often


def _most_common(gaps: np.ndarray) -> np.ndarray:
    """Return the gap that most others are within 1 % of."""
    logs = np.sort(np.log(gaps))
    within = np.searchsorted(logs, logs + 0.01) - np.arange(len(logs))
    start = int(np.argmax(within))
    return np.exp(np.median(logs[start : start + within[start]]))[None]


def _refined(
    q: float,
    different: np.ndarray,
    often: np.ndarray,
    precision: float,
    stray: float,
    levels: int,
    off: float = 0.005,
) -> float | None:
    """Return q to the precision of all values, if they are multiples of it to ``off`` q."""
    top, reach = different[-1] / q, 8.0
    limit = 0.1 / precision  # beyond, a multiple cannot be determined from another number
    while True:
        near = different < reach * q
        n, weight = np.rint(different[near] / q), often[near]
        if np.any(n > 0):
            q = float(np.sum(weight * n * different[near]) / np.sum(weight * n * n))
        aside = np.abs(different[near] / q - n) > off + precision * n
        if np.sum(weight[aside]) > stray * np.sum(weight):
            return None
        if reach > min(top, limit):
            return q if len(np.unique(n)) >= levels else None
        reach *= 2


def noise_ratios(counts: np.ndarray, good: np.ndarray, fewest: int = 2000) -> list[float]:
    """Return R of counts, good ones ``(K, H, W)``, for classes of sums that have the ``fewest`` blocks."""
    usable = binary_erosion(good, np.ones((1, 3, 3)))  # middles of 3 × 3 good pixels
    sums, differences, variances = (
        correlate(counts, weights[None], mode="constant")[usable]
        for weights in (np.ones((3, 3)), WEIGHTS, np.square(WEIGHTS))
    )
    which, n = np.searchsorted(SUMS, sums), len(SUMS) + 1
    above, below = np.bincount(which, differences**2, n), np.bincount(which, variances, n)
    enough = np.bincount(which, minlength=n) >= fewest
    return [float(above[i] / below[i]) for i in range(1, n - 1) if enough[i]]


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
    some = frames[spread(len(frames), min(options.frames, len(frames), fitting))]
    sample = raw.patterns.read(some).astype(np.float64)
    largest = float(np.max(sample, initial=0, where=~find_marks(sample, raw.patterns.dtype)))
    if raw.domain is None:
        raise ConfigError(
            f"patterns are {raw.patterns.dtype} up to {largest:.4g}: counts, intensities or amplitudes "
            "cannot be told apart; set data.domain=counts, intensity or amplitude"
        )
    why = "data.domain" if config.domain else f"{raw.patterns.dtype}, the largest of some {largest:.6g}"
    findings.append(Finding("patterns", f"{len(frames)} of {raw.patterns.shape}, {raw.domain}", why))
    return raw.domain, some, sample


def repeated_frames(sample: np.ndarray, inspected: np.ndarray) -> list[str]:
    """Return a warning of frames in ``sample (n, H, W)`` that are the same to the last photon, not dark."""
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
    if raw.domain == "counts" and not pixels.noise and config.gain is None and raw.flat is None:
        return 1.0
    gain = _gain_of(raw, config, sample, pixels)
    value = "unknown" if gain.value is None else f"{gain.value:.6g}"
    findings.append(Finding("photon gain", value, gain.why))
    return gain.value


def _gain_of(raw: RawScan, config: DataConfig, sample: np.ndarray, pixels: Pixels) -> Gain:
    """Return the gain that is specified, or that the numbers of the file show."""
    unknown = "patterns are not taken as counts; set data.gain=… if they are"
    if config.gain is not None:
        return Gain(config.gain, "data.gain")
    if pixels.noise:
        noise = f"read noise of σ ≈ {pixels.noise:.2g}, which is Gaussian and not that of photons"
        return Gain(None, f"{noise}; {unknown}")
    if raw.domain == "counts" and raw.flat is not None:
        flat = raw.flat[pixels.good]
        scatter = f"± {100 * float(np.std(flat) / np.mean(flat)):.2g} % from pixel to pixel"
        return Gain(1.0, f"on average: divided by a flat field, {scatter}, they are not quite Poisson's")
    if raw.dark is not None or raw.flat is not None:
        return Gain(None, f"a dark or flat field changes the intensities; {unknown}")
    intensity = np.square(sample) if raw.domain == "amplitude" else sample
    stored = raw.patterns.dtype if raw.patterns.dtype.kind == "f" else np.float32
    rounding = max(float(np.finfo(dtype).eps) for dtype in (stored, np.float32))
    measured = pixels.measured(sample)
    gain = photon_gain(intensity, measured, 8 * rounding)
    if gain.value is None and raw.domain == "amplitude":
        squares = tell_domain(sample.dtype, [sample[measured]])
        if squares.name == "amplitude":
            gain = Gain(1.0, "the squares of the amplitudes are whole numbers: counts")
    return Gain(
        gain.value, f"{gain.why}; {unknown if gain.value is None else 'set data.gain=… to change it'}"
    )
