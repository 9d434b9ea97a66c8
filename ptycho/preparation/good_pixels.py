"""The good pixels of a scan: without those that file and user name, and those that are clearly defective.

Pixels that are left out are reported with their share of the intensity, and from 1 % on with a warning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.files.reading import FileError, damage_named
from ptycho.preparation.detector import oriented
from ptycho.preparation.marks import Limits, clipped, find_marks, lost_frames, refuse_unusable
from ptycho.preparation.pixels import classify_negative, dark_gaps, hot_pixels, outlying_pixels, saturates
from ptycho.preparation.window import find_centre
from ptycho.readers.archive import Archive, container_of
from ptycho.readers.places import open_archive
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.tiff import read_image
from ptycho.scan.finding import Finding


@dataclass(eq=False)
class Pixels:
    """State of the pixels so far."""

    good: np.ndarray  # ``(H, W)`` bool, as stored
    mean: np.ndarray  # mean intensity of the inspected frames, ``(H, W)``, from zero up
    limits: Limits  # numbers beyond them were not measured, in any frame
    noise: float = 0.0  # standard deviation of read noise seen below zero, in the patterns' own numbers
    why: list[str] = field(default_factory=list)  # what is bad, in words
    decisions: list[Finding] = field(default_factory=list)

    def measured(self, frames: np.ndarray) -> np.ndarray:
        """Return where good pixels of ``frames (K, H, W)`` were measured."""
        marked, saturated = self.limits.exceeded(frames)
        return self.good & ~(marked | saturated)

    def drop(self, bad: np.ndarray, what: str, key: str) -> None:
        """Leave out some more pixels ``(H, W)``; ``key`` keeps them."""
        bad = bad & self.good
        if not bad.any():
            return
        share = float(self.mean[bad].sum() / max(self.mean[self.good].sum(), np.finfo(float).tiny))
        self.good = self.good & ~bad
        held = f"{bad.sum()} {what}, {100 * share:.2g} % of the intensity"
        self.why.append(f"{held} ({key})")
        if share > 0.01:
            self.decisions.append(Finding.warning(f"bad pixels: {held}, masked; if they are valid, {key}"))


def find_good_pixels(raw: RawScan, config: DataConfig, frames: np.ndarray, sample: np.ndarray) -> Pixels:
    """Return the good pixels, from ``sample (K, H, W)``, of some of ``frames (J,)``, as the file has them.

    Raises:
        ConfigError: frames lack good pixels, none is good, all are dark, or numbers cannot be counted.
    """
    good, why = _known_pixels(raw, config, sample)
    marks = find_marks(sample, raw.patterns.dtype)
    if np.any(~np.isfinite(sample) & good) or lost_frames(marks, good).any():
        refuse_unusable(raw, frames, good)
    numbers = np.where(good & ~marks, sample, 0)
    intensity = np.square(np.maximum(numbers, 0)) if raw.domain == "amplitude" else numbers
    known, top = config.saturation or raw.saturation, numbers.max(initial=0)
    saturation = known or (top if saturates(intensity, good) else np.inf)  # before defects are known
    stuck = good & clipped(numbers) & (numbers.max(axis=0) < saturation)
    why += [f"{stuck.sum()} stuck at the end of a converter"] if stuck.any() else []
    mean = np.maximum(intensity.sum(axis=0), 0) / np.maximum(np.count_nonzero(~marks, axis=0), 1)
    pixels = Pixels(good & ~stuck, mean, Limits(raw.patterns.dtype, saturation=known or np.inf), why=why)
    _drop_negative(pixels, numbers, config)
    _refuse_nothing(pixels, len(sample))
    if config.hot_pixels:
        _drop_defects(pixels, raw, intensity)
        _refuse_nothing(pixels, len(sample))
    if known is None and saturates(intensity, pixels.good):
        top = float(numbers.max(where=pixels.good, initial=0))
        pixels.limits = replace(pixels.limits, saturation=top)
        pixels.decisions.append(_saturated(top, int(np.count_nonzero((numbers == top) & pixels.good))))
    reasons = ", ".join(pixels.why)
    if pixels.good.mean() < 0.5:
        share = 100 * pixels.good.mean()
        text = f"only {share:.0f} % of the pixels are good ({reasons}): is the mask inverted?"
        pixels.decisions.append(Finding.warning(text))
    bad = f"{(~pixels.good).sum()} of {pixels.good.size}"
    pixels.decisions.insert(0, Finding("bad pixels", bad, reasons or "none known"))
    pixels.mean = np.where(pixels.good, pixels.mean, 0)
    return pixels


def _known_pixels(raw: RawScan, config: DataConfig, sample: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return pixels ``(H, W)`` that neither file nor user call bad and that hold no marks; why others are."""
    height, width = raw.patterns.shape[1:]
    good = np.ones((height, width), bool) if raw.good is None else raw.good.copy()
    why = ["the file's mask"] if raw.good is not None else []
    if config.mask_file is not None:
        bad = read_mask(config.mask_file, (height, width))
        good &= ~bad
        why.append(f"{bad.sum()} in data.mask_file")
    wrong = {}
    if raw.flat is not None:
        wrong["where the flat field is not above 0"] = blind = ~(np.isfinite(raw.flat) & (raw.flat > 0))
        good &= ~blind
    missing, finite = find_marks(sample, raw.patterns.dtype), np.isfinite(sample)
    # marks, and numbers that are never finite, count in frames that are not lost as a whole
    whole = ~lost_frames(missing, good & (missing.mean(axis=0) < 0.5))
    if whole.any():
        some = np.where(finite, sample, 0)[whole]
        marked = (missing & finite)[whole].all(axis=0) | (clipped(some) & (np.ptp(some, axis=0) == 0))
        wrong |= {"never finite": good & ~finite[whole].any(axis=0), "hold marks": good & marked}
    for what, bad in wrong.items():
        good &= ~bad
        why += [f"{bad.sum()} {what}"] if bad.any() else []
    return good, why


def _drop_negative(pixels: Pixels, numbers: np.ndarray, config: DataConfig) -> None:
    """Leave out what is marked by, or wrong below, zero; say what is noise."""
    negative = classify_negative(numbers, pixels.good, config.negative)
    left = pixels.good & ~negative.bad
    if (not left.any() and pixels.good.any()) or numbers[:, left].sum() < 0:
        raise ConfigError(
            f"patterns: their sum over {len(numbers)} inspected patterns is negative; is a background "
            "subtracted? read patterns with the background, and the background by data.keys.dark"
        )
    pixels.drop(negative.bad, "below zero", "data.negative=noise keeps them")
    pixels.noise, pixels.limits = negative.sigma, replace(pixels.limits, lowest=negative.lowest)
    if negative.noisy:
        why = (
            f"{negative.noisy} pixels have numbers below zero, which scatter about it; the pixels stay, and "
            "such numbers become zero; data.negative=bad leaves the pixels out"
        )
        pixels.decisions.append(Finding("read noise", f"σ ≈ {negative.sigma:.2g}", why))


def _drop_defects(pixels: Pixels, raw: RawScan, intensity: np.ndarray) -> None:
    """Leave out hot and dead pixels, of frames ``(K, H, W)``."""
    corner, centre = raw.zero_frequency == "corner", raw.stated_centre()
    frames, good, mean = (
        oriented(images, corner, False, False, False) for images in (intensity, pixels.good, pixels.mean)
    )
    gaps = dark_gaps(frames, good)
    good = good & ~gaps
    bright, dead = outlying_pixels(mean, good)
    usual, hot = good & ~bright, np.zeros_like(good)
    if centre is None and bright.any() and mean[usual].any():
        centre = find_centre(mean, usual)[:2]
    if centre is not None:
        hot = hot_pixels(frames, good, bright, centre)
    for bad, what in ((gaps, "in gaps of zeros"), (hot, "hot in the data"), (dead, "dead in the data")):
        pixels.drop(np.fft.ifftshift(bad) if corner else bad, what, "data.hot_pixels=false keeps them")


def _saturated(top: float, held: int) -> Finding:
    """Return the warning of a largest number that is held so many times."""
    return Finding.warning(
        f"the largest number, {top:.17g}, is held {held} times in the inspected frames: the detector "
        "saturates; such numbers do not count; if they are valid, set data.saturation to a larger number"
    )


def _refuse_nothing(pixels: Pixels, count: int) -> None:
    """Raise where no pixel is good, or the good ones are dark."""
    if not pixels.good.any():
        remedy = "is it inverted? turn it over where it is stored"
        raise ConfigError(f"mask: no pixel is good ({', '.join(pixels.why)}); {remedy}")
    if not pixels.mean[pixels.good].any():
        raise ConfigError(f"patterns: dark, all values of the {count} inspected patterns are zero")


def read_mask(path: str | Path, shape: tuple[int, int]) -> np.ndarray:
    """Read bad pixels, ``shape`` ``(H, W)`` bool: where the file's only image is true or not zero.

    The file is NPY, NPZ, TIFF, or HDF5 with one image in it. ConfigError: it cannot be read, holds no single
    image, or one of another shape.
    """
    try:
        with damage_named("cannot be read"):
            image = _image(Path(path), shape)
    except ValueError as error:  # of the file, or of the archive that it is
        raise ConfigError(f"data.mask_file={path}: {str(error).removeprefix(f'{path}: ')}") from error
    finite = image.dtype.kind in "biuf" and bool(np.isfinite(image).all())
    if image.shape != shape or not finite:
        holds = f"{image.shape} of {image.dtype}" + ("" if finite else ", NaN or what is no number")
        raise ConfigError(
            f"data.mask_file={path}: holds {holds}; must be an image of {shape}, true or not zero where a "
            "pixel is bad"
        )
    return image != 0


def _image(path: Path, shape: tuple[int, int]) -> np.ndarray:
    kind, _ = container_of(path)
    if kind == "NPY":
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if kind == "TIFF":
        return read_image(path)
    if kind not in ("HDF5", "NPZ"):
        raise FileError("is no NPY, NPZ, TIFF or HDF5 file")
    with open_archive(path, ReadOptions()) as file:
        return _only(file, shape)


def _only(
    file: Archive, shape: tuple[int, int], most_pixels: int = 2**28, most_arrays: int = 10_000
) -> np.ndarray:
    """Return the image of this shape, or the only one."""
    shapes = {key: entry.shape for key in file.names(most_arrays) if (entry := file.entry(key)) is not None}
    images = [
        key for key, held in shapes.items() if held and len(held) == 2 and math.prod(held) < most_pixels
    ]
    fitting = [key for key in images if shapes[key] == shape] or images
    if len(fitting) != 1:
        raise FileError(f"holds {len(fitting)} images ({', '.join(fitting) or 'none'}); must hold one")
    image = file.read(fitting[0], "biuf")
    file.refuse()
    return np.asarray(image)
