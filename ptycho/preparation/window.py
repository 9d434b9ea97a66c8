"""Which window of the detector becomes a pattern: its middle, and all of it, and unmeasured pixels beside it.

    N·b ≥ 2·max(c, n − c)    for rows and columns: n pixels, the zero frequency at c, b × b summed to one

So nothing that was measured is left out where the zero frequency is off the middle, and where the detector is
not square or has an odd side. What the window holds beyond the detector has no weight.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import fft

from ptycho.config import ConfigError
from ptycho.config.data import LARGEST_N, SMALLEST_N, DataConfig
from ptycho.preparation.centre import find_centre
from ptycho.preparation.detector import oriented
from ptycho.preparation.near_field import NearField
from ptycho.readers.raw_scan import RawScan
from ptycho.scan.finding import Finding


@dataclass(frozen=True)
class WindowOptions:
    """Limits of the size of a window, and of what is reported of it."""

    padded: float = 1.5  # times the detector's longer side: no window is larger
    falling: float = 2.5  # intensity an eighth of the way in over that at the edge
    faint: float = 0.1  # photons in a pixel at the edge
    large: int = 256  # side above which a window with nearly all of the intensity is named
    nearly_all: float = 0.999  # of the intensity


class Window(NamedTuple):
    """N, in words how it came about, and what is left out against the rule, if anything."""

    N: int
    why: str
    warning: str | None


def zero_frequency(
    raw: RawScan, config: DataConfig, mean: np.ndarray, good: np.ndarray, findings: list[Finding]
) -> tuple[int, int]:
    """Return (row, col) of the zero frequency of ``mean (H, W)``, as stored or its corner in the middle."""
    if config.near_field:
        middle = mean.shape[0] // 2, mean.shape[1] // 2
        why = "the detector's; a near field has no zero frequency"
        why += ", and data.zero_frequency no meaning" if config.zero_frequency else ""
        findings.append(Finding("middle", f"row {middle[0]}, column {middle[1]}", why))
        return middle
    zero, centre = raw.zero_frequency, raw.stated_centre()
    if centre is None:
        measured = find_centre(mean, good)
        centre, why = _centre_of_probe(raw, (measured.row, measured.col), measured.why)
        findings += [] if measured.warning is None else [Finding.warning(measured.warning)]
    elif isinstance(zero, tuple):
        why = "stated"
    else:
        why = "data.zero_frequency" if config.zero_frequency else f"by the format {raw.format}"
        why += ": in the corner, shifted to the centre" if zero == "corner" else ""
    if not all(0 <= c < n for c, n in zip(centre, mean.shape, strict=True)):
        raise ConfigError(
            f"data.zero_frequency={centre}: must lie on the detector of {mean.shape}, (row, column) as stored"
        )
    if config.transpose or config.flip_rows or config.flip_cols:
        why += "; in the frame as stored, before reorientation"
    findings.append(Finding("zero frequency", f"row {centre[0]}, column {centre[1]}", why))
    return centre


def _centre_of_probe(raw: RawScan, measured: tuple[int, int], why: str) -> tuple[tuple[int, int], str]:
    """The middle, where the file's probe is as large as a frame and the beam is seen a pixel off at most."""
    shape = raw.patterns.shape[1:]
    middle = shape[0] // 2, shape[1] // 2
    alike = raw.probe is not None and raw.probe.shape[1:] == shape
    if alike and measured != middle and max(abs(s - m) for s, m in zip(measured, middle, strict=True)) <= 1:
        seen = f"{why}: row {measured[0]}, column {measured[1]}"
        return middle, f"the centre of the window, as in the probe of the file; {seen}"
    return measured, why


def pattern_side(
    raw: RawScan,
    config: DataConfig,
    centre: tuple[int, int],
    mean: np.ndarray,
    near: NearField | None,
    findings: list[Finding],
) -> int:
    """Return N: as specified, or that of the window which contains the whole of ``mean (H, W)``.

    It is determined on the frame as stored, so that N does not depend on the orientation: in a flipped frame
    of even size the first row or column is one pixel too late, and the pattern's first one is bad.
    """
    if config.N is not None:
        doubt = None if near is None else aliasing(near, config.N)
        window = Window(config.N, f"data.N, {config.bin} × {config.bin} pixels each", doubt)
    elif near is None:
        upright = oriented(mean, raw.zero_frequency == "corner", False, False, False)
        window = whole_detector(upright, centre, config.bin)
    else:
        window = near_field_window(near, mean.shape, config.bin)
    findings.append(Finding("N", str(window.N), window.why))
    findings += [] if window.warning is None else [Finding.warning(window.warning)]
    return window.N


def whole_detector(
    mean: np.ndarray, centre: tuple[int, int], b: int, options: WindowOptions = WindowOptions()
) -> Window:
    """Return the window of a detector with its zero frequency at ``centre``; ``mean (H, W)`` intensity.

    A square detector of even side with the zero frequency in its middle is taken as it is; else N is the
    next even number with a fast Fourier transform.
    """
    shape = mean.shape
    reach = 2 * max(max(c, n - c) for c, n in zip(centre, shape, strict=True))
    needed = max(fast_side(-(-reach // b)), SMALLEST_N)
    if set(shape) == {reach} and reach % (2 * b) == 0 and reach // b >= SMALLEST_N:
        needed = reach // b
    most = min(2 * int(options.padded * max(shape) / b / 2), LARGEST_N)
    N = max(min(needed, most), SMALLEST_N)
    beyond = (N * b) ** 2 - _inside(np.ones(shape), centre, N * b)
    why = f"the whole detector of {shape[0]} × {shape[1]} around the zero frequency"
    why += f", {100 * beyond / (N * b) ** 2:.2g} % of it unmeasured pixels beside that" if beyond else ""
    if needed > N:
        warning = _cut_off(mean, centre, b, N, needed, options.padded)
        return Window(N, why.replace("the whole", "most of the"), warning)
    if options.large < N:
        share = options.nearly_all
        narrow = _of_most_intensity(mean, centre, b, N, share)
        why += f"; {100 * share:.1f} % of the intensity is within data.N={narrow}" if narrow < N else ""
    return Window(N, f"{why}; set data.N to change it", None)


def near_field_window(
    near: NearField, detector: tuple[int, ...], b: int, options: WindowOptions = WindowOptions()
) -> Window:
    """Return the window of the whole detector ``(H, W)``, its middle in the middle, with a margin."""
    whole = max(2 * (-(-(n - n // 2) // b)) for n in detector)
    most = min(2 * int(options.padded * max(detector) / b / 2), LARGEST_N)
    N = max(min(fast_side(whole + 2 * near.margin), max(most, fast_side(whole))), SMALLEST_N)
    beside = (N - whole) // 2
    why = (
        f"the whole detector of {detector[0]} × {detector[1]} and {beside} unmeasured pixels beside it, "
        "which scatter into it; set data.N to change it"
    )
    return Window(N, why, aliasing(near, N))


def aliasing(near: NearField, N: int) -> str | None:
    """Return a warning where the transfer function turns by more than π from sample to sample."""
    if not near.fresnel.aliases(N):
        return None
    wider = 2 * math.ceil(max(near.fresnel.numbers) / 2)
    remedy = f"data.N={wider}, or " if wider <= LARGEST_N else ""
    return (
        f"near field: λz/dx² = {max(near.fresnel.numbers):.4g} is more than the window's {N} pixels, so "
        "that the transfer function of free space is not sampled and fine structure is wrong; "
        f"{remedy}data.bin=2 helps, and so far away data.physics=far_field may be right"
    )


def finer_pixels(
    photons: np.ndarray, good: np.ndarray, N: int, options: WindowOptions = WindowOptions()
) -> Finding | None:
    """Return a finding where the intensity falls off towards the detector's edge and is above zero there.

    Then scattering goes on beyond, and the object is finer than pixels of ``λz/(N·p)``. The fit takes the
    rest for position errors. A window with unmeasured pixels around the detector has finer pixels.

    Args:
        photons: mean pattern ``(H, W)``; ``good (H, W)`` are the pixels that count.
    """
    finer = fast_side(round(options.padded * N))
    edge, further_in = (_ring(photons, good, depth) for depth in (0, min(photons.shape) // 8))
    if finer > LARGEST_N or not (edge > options.faint and further_in > options.falling * edge):
        return None
    return Finding(
        "intensity at the detector edge",
        f"{edge:.2g} photons in a pixel",
        "scattering continues beyond the edge: object details may be finer than its pixels, and positions "
        f"less accurate; data.N={finer} has finer pixels, and takes two to three times as long",
    )


def _ring(image: np.ndarray, good: np.ndarray, depth: int) -> float:
    """Return the mean over the good pixels that lie so deep in an image ``(H, W)``."""
    rows, cols = (np.minimum(np.arange(n), np.arange(n)[::-1]) for n in image.shape)
    there = good & (np.minimum(rows[:, None], cols) == depth)
    return float(image[there].mean()) if there.any() else 0.0


def fast_side(side: int) -> int:
    """Return the smallest even number from ``side`` up that has small prime factors alone."""
    return 2 * int(fft.next_fast_len(-(-side // 2)))


def _inside(image: np.ndarray, centre: tuple[int, int], side: int) -> float:
    """Return the sum of an image ``(H, W)`` over the window of ``side`` around ``centre``."""
    rows, cols = (slice(max(0, c - side // 2), max(0, c + side // 2)) for c in centre)
    return float(image[rows, cols].sum())


def _cut_off(mean: np.ndarray, centre: tuple[int, int], b: int, N: int, needed: int, padded: float) -> str:
    """Return the warning of a window that is too small."""
    held = _inside(mean, centre, N * b) / max(float(mean.sum()), np.finfo(float).tiny)
    limit = f"{LARGEST_N}" if N == LARGEST_N else f"{padded} times the detector's longer side"
    remedy = f"data.N={needed} holds all" if needed <= LARGEST_N else "data.bin=2 would hold more"
    return (
        f"N: the whole detector around the zero frequency at {centre} takes {needed} pixels; {N} are used "
        f"({limit} at most), without {100 * (1 - held):.2g} % of the intensity; {remedy}"
    )


def _of_most_intensity(mean: np.ndarray, centre: tuple[int, int], b: int, N: int, share: float) -> int:
    """Return the smallest window with a ``share`` of the intensity of that of side N."""
    wanted = share * _inside(mean, centre, N * b)
    sides = range(SMALLEST_N, N + 1, 2)
    first = bisect_left(sides, wanted, key=lambda side: _inside(mean, centre, side * b))
    return min(fast_side(sides[min(first, len(sides) - 1)]), N)
