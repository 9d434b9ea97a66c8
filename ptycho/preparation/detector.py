"""Detector frames → diffraction amplitudes ``(N, N)``: corrected, oriented, centred, cropped, binned.

The order is that of the measurement, undone: dark and flat, bad pixels, orientation (transposed first, then
flipped), cut around the zero frequency, counts of ``b × b`` pixels summed, square root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import median_filter

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig

SAMPLED = 64  # frames that are looked at before all are read
HOT_SIGMAS = 12.0  # above the median of the neighbours, in units of √(that + 1)


@dataclass(frozen=True, eq=False)
class Detector:
    """How a frame ``(H, W)`` becomes amplitudes ``(N, N)``.

    Attributes:
        centre: (row, col) of the zero frequency in the oriented frame, whole pixels.
        N: side of the pattern; ``bin``: pixels of the frame summed to one of it, per axis.
        good: ``(H, W)`` bool of the frame as stored.
        dark, flat: ``(H, W)`` or None.
        domain: what the frames hold.
        gain: units of an intensity per photon; 1 for counts.
        corner: frames have the zero frequency at sample 0, and are brought to the middle first.
        transpose, flip_rows, flip_cols: the orientation.
    """

    centre: tuple[int, int]
    N: int
    bin: int
    good: np.ndarray
    dark: np.ndarray | None
    flat: np.ndarray | None
    domain: str
    gain: float
    corner: bool
    transpose: bool
    flip_rows: bool
    flip_cols: bool

    def amplitudes(self, frames: np.ndarray) -> np.ndarray:
        """``A (K, N, N)`` float32 of frames ``(K, H, W)``, zero where no good pixel was read."""
        intensity = self._intensity(frames)
        cut = self._cut(np.where(self.good, intensity, 0))
        return np.sqrt(self._summed(cut)).astype(np.float32)

    @property
    def good_pixels(self) -> np.ndarray:
        """``(N, N)`` bool: pixels of the pattern that are on the detector and made of good pixels alone."""
        return self._summed(self._cut(~self.good[None], outside=True).astype(np.float32))[0] == 0

    def _intensity(self, frames: np.ndarray) -> np.ndarray:
        """Photons, or what stands for them, ``(K, H, W)`` float64; what the dark makes negative is zero."""
        values = frames.astype(np.float64)
        if self.domain == "amplitude":
            values = np.square(values)
        if self.dark is not None:
            values = values - self.dark
        if self.flat is not None:
            values = values / np.where(self.flat > 0, self.flat, 1)
        return np.maximum(values / self.gain, 0)

    def oriented(self, frames: np.ndarray) -> np.ndarray:
        """Frames ``(…, H, W)`` as the positions see them."""
        return oriented(frames, self.corner, self.transpose, self.flip_rows, self.flip_cols)

    def _cut(self, frames: np.ndarray, outside: float = 0) -> np.ndarray:
        """The window of side ``N·bin`` around the centre; ``outside`` beyond the frame."""
        frames, side = self.oriented(frames), self.N * self.bin
        starts = [c - side // 2 for c in self.centre]
        shape = frames.shape[-2:]
        before = [max(0, -s) for s in starts]
        after = [max(0, s + side - n) for s, n in zip(starts, shape, strict=True)]
        frames = np.pad(frames, [(0, 0), *zip(before, after, strict=True)], constant_values=outside)
        row, col = (s + b for s, b in zip(starts, before, strict=True))
        return frames[:, row : row + side, col : col + side]

    def _summed(self, cut: np.ndarray) -> np.ndarray:
        """Sums over ``bin × bin`` pixels, so aligned that sample ``N//2`` holds the centre's pixel."""
        b = self.bin
        if b == 1:
            return cut
        return cut.reshape(len(cut), self.N, b, self.N, b).sum(axis=(2, 4))


def oriented(
    frames: np.ndarray, corner: bool, transpose: bool, flip_rows: bool, flip_cols: bool
) -> np.ndarray:
    """Frames ``(…, H, W)`` with the corner brought to the middle if need be, transposed, then flipped."""
    frames = np.fft.fftshift(frames, axes=(-2, -1)) if corner else frames
    frames = np.swapaxes(frames, -1, -2) if transpose else frames
    frames = frames[..., ::-1, :] if flip_rows else frames
    return frames[..., ::-1] if flip_cols else frames


def turned(
    centre: tuple[int, int], shape: tuple[int, ...], transpose: bool, flip_rows: bool, flip_cols: bool
) -> tuple[int, int]:
    """Where the pixel ``centre`` of a stored frame of some shape, (row, col), lies in the oriented one."""
    (row, col), (height, width) = centre, shape
    if transpose:
        row, col, height, width = col, row, width, height
    return (height - 1 - row if flip_rows else row), (width - 1 - col if flip_cols else col)


def found_centre(mean: np.ndarray, good: np.ndarray) -> tuple[int, int]:
    """(row, col) of the zero frequency of a mean pattern ``(H, W)``, to a pixel.

    The centre of mass of its amplitude over the good pixels, taken again inside ever smaller windows around
    it, so that a background that is not centred loses its pull.
    """
    weight = np.where(good, np.sqrt(np.maximum(mean, 0)), 0.0)
    rows, cols = np.indices(mean.shape)
    centre, reach = np.array(mean.shape) / 2, max(mean.shape)
    for _ in range(6):
        near = (abs(rows - centre[0]) <= reach) & (abs(cols - centre[1]) <= reach)
        light = np.where(near, weight, 0)
        total = light.sum()
        if not total > 0:
            raise ConfigError("patterns: the mean pattern is dark; no zero frequency can be found in it")
        centre = np.array([(rows * light).sum(), (cols * light).sum()]) / total
        reach = max(reach * 0.7, 8)
    return round(float(centre[0])), round(float(centre[1]))


def suspicious_pixels(mean: np.ndarray, good: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hot and dead pixels of a mean pattern ``(H, W)``: both ``(H, W)`` bool, among the good ones.

    Hot: far above the median of the 5 × 5 pixels around it. Dead: never lit, where that median says that
    many photons should have come.
    """
    around = median_filter(np.where(good, mean, 0), size=5, mode="nearest")
    hot = good & (mean > around + HOT_SIGMAS * np.sqrt(around + 1)) & (mean > 5 * (around + 1))
    dead = good & (mean == 0) & (around > 20)
    return hot, dead


def checked_frames(config: DataConfig, count: int) -> np.ndarray:
    """Indices of the frames that are used: every ``stride``-th, at most ``frames``, without those dropped."""
    wrong = [index for index in config.drop if not 0 <= index < count]
    if wrong:
        raise ConfigError(
            f"data.drop={wrong[0]}: must be from 0 to {count - 1}; the scan has {count} patterns"
        )
    chosen = np.setdiff1d(np.arange(0, count, config.stride), config.drop)
    return chosen if config.frames is None else chosen[: config.frames]
