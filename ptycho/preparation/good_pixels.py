"""The good pixels of a scan: without those that file and user name, and those that are clearly defective.

What is left out is said with its share of the light, and with a warning where that is more than ``MUCH``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.preparation.centre import find_centre
from ptycho.preparation.pixels import hot_pixels, judge_negative, outlying_pixels
from ptycho.readers.mask_file import read_mask
from ptycho.readers.raw_scan import RawScan
from ptycho.scan.finding import Finding

NOT_FINITE = (
    "patterns: {0} that should count hold NaN or infinity in frame {1}; mark such pixels as bad "
    "(data.mask_file=), or leave the frame out (data.drop=[{1}])"
)
MUCH = 0.01  # of the light, in pixels that are taken for defective


@dataclass(eq=False)
class Pixels:
    """What is known of the pixels so far.

    Attributes:
        good: ``(H, W)`` bool, as stored.
        mean: mean intensity of the frames that were looked at, ``(H, W)``, from zero up.
        noise: standard deviation of read noise that was seen below zero, in the patterns' own numbers.
        why: what is bad, in words; findings, warnings: for the log.
    """

    good: np.ndarray
    mean: np.ndarray
    noise: float = 0.0
    why: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def drop(self, bad: np.ndarray, what: str, key: str) -> None:
        """Leave out some more pixels ``(H, W)``; ``key`` keeps them."""
        bad = bad & self.good
        if not bad.any():
            return
        share = float(self.mean[bad].sum() / max(self.mean[self.good].sum(), np.finfo(float).tiny))
        self.good = self.good & ~bad
        held = f"{bad.sum()} {what}, {100 * share:.2g} % of the light"
        self.why.append(f"{held} ({key})")
        if share > MUCH:
            self.warnings.append(f"bad pixels: {held}, left out; if they are none, {key}")


def find_good_pixels(raw: RawScan, config: DataConfig, looked_at: np.ndarray, sample: np.ndarray) -> Pixels:
    """Good pixels, from ``sample (K, H, W)``: the frames ``looked_at (K,)`` in the file's own numbers.

    Raises:
        ConfigError: no pixel is good, no light is there, or what is there cannot be counted.
    """
    finite = np.isfinite(sample)
    good, why = _stated(raw, config, finite)
    spoilt = np.argwhere(~finite & good)
    if len(spoilt):
        count = len(np.unique(spoilt[:, 1:], axis=0))
        raise ConfigError(NOT_FINITE.format(f"{count} of the pixels", looked_at[spoilt[0, 0]]))
    numbers = np.where(good, sample, 0)
    intensity = np.square(np.maximum(numbers, 0)) if raw.domain == "amplitude" else numbers
    pixels = Pixels(good, np.maximum(intensity.mean(axis=0), 0), why=why)
    _drop_negative(pixels, numbers, config)
    if config.saturation is not None:
        saturated = np.any(numbers >= config.saturation, axis=0)
        pixels.drop(saturated, "saturated", f"data.saturation={config.saturation:g}")
    _refuse_nothing(pixels, len(sample))
    if config.hot_pixels:
        _drop_defects(pixels, raw, intensity)
        _refuse_nothing(pixels, len(sample))
    said = ", ".join(pixels.why)
    if pixels.good.mean() < 0.5:
        share = 100 * pixels.good.mean()
        pixels.warnings.append(f"only {share:.0f} % of the pixels are good ({said}): is the mask inverted?")
    bad = f"{(~pixels.good).sum()} of {pixels.good.size}"
    pixels.findings.insert(0, Finding("bad pixels", bad, said or "none known"))
    pixels.mean = np.where(pixels.good, pixels.mean, 0)
    return pixels


def _stated(raw: RawScan, config: DataConfig, finite: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Pixels ``(H, W)`` that nobody calls bad and that are finite in some frame, and what was said."""
    height, width = raw.patterns.shape[1:]
    good = np.ones((height, width), bool) if raw.good is None else raw.good.copy()
    why = ["the file's mask"] if raw.good is not None else []
    if config.mask_file is not None:
        bad = read_mask(config.mask_file, (height, width))
        good &= ~bad
        why.append(f"{bad.sum()} in data.mask_file")
    never = ~finite.any(axis=0)
    if never.any():
        good &= ~never
        why.append(f"{never.sum()} never finite")
    return good, why


def _drop_negative(pixels: Pixels, numbers: np.ndarray, config: DataConfig) -> None:
    """Leave out what is marked by, or wrong below, zero; say what is noise."""
    negative = judge_negative(numbers, pixels.good, config.negative)
    left = pixels.good & ~negative.bad
    if (not left.any() and pixels.good.any()) or numbers[:, left].sum() < 0:
        raise ConfigError(
            f"patterns: less than nothing, in the sum over the {len(numbers)} that were looked at; is a "
            "background subtracted? give the patterns without that, and the background as data.keys.dark"
        )
    pixels.drop(negative.bad, "below zero", "data.negative=noise keeps them")
    pixels.noise = negative.sigma
    if negative.noisy:
        why = (
            f"{negative.noisy} pixels have numbers below zero, which scatter about it; the pixels stay, and "
            "such numbers become zero; data.negative=bad leaves the pixels out"
        )
        pixels.findings.append(Finding("read noise", f"σ ≈ {negative.sigma:.2g}", why))


def _drop_defects(pixels: Pixels, raw: RawScan, intensity: np.ndarray) -> None:
    """Leave out hot and dead pixels, of frames ``(K, H, W)``."""
    wrap = raw.zero_frequency == "corner"
    bright, dead = outlying_pixels(pixels.mean, pixels.good, wrap)
    hot = np.zeros_like(bright)
    if bright.any():
        usual = pixels.good & ~bright
        centre = raw.stated_centre()
        if centre is None and pixels.mean[usual].any():
            centre = find_centre(pixels.mean, usual)[:2]
        if centre is not None:
            hot = hot_pixels(intensity, pixels.good, bright, (0, 0) if wrap else centre, wrap)
    key = "data.hot_pixels=false keeps them"
    pixels.drop(hot, "hot in the data", key)
    pixels.drop(dead, "dead in the data", key)


def _refuse_nothing(pixels: Pixels, count: int) -> None:
    """Raise where no pixel is good, or no light on those that are."""
    if not pixels.good.any():
        said = ", ".join(pixels.why)
        raise ConfigError(f"mask: no pixel is good ({said}); is it inverted? turn it over where it is stored")
    if not pixels.mean[pixels.good].any():
        raise ConfigError(f"patterns: dark, nothing but zeros in the {count} that were looked at")
