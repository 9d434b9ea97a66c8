"""Detector frames → diffraction amplitudes ``(N, N)``: corrected, oriented, centred, padded or cut, binned.

The order is that of the measurement, undone: dark and flat, bad pixels, orientation (transposed first, then
flipped), cut around the zero frequency, counts of ``b × b`` pixels summed, square root.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptycho.preparation.marks import Limits
from ptycho.scan.patterns import unmeasured


@dataclass(frozen=True, eq=False)
class Detector:
    """Map of a frame ``(H, W)`` to amplitudes ``(N, N)``."""

    centre: tuple[int, int]  # (row, col) of the zero frequency in the oriented frame, whole pixels
    N: int  # side of the pattern
    bin: int  # pixels of the frame summed to one of it, per axis
    good: np.ndarray  # ``(H, W)`` bool of the frame as stored
    dark: np.ndarray | None  # ``(H, W)``, as flat
    flat: np.ndarray | None
    domain: str  # what the frames hold
    gain: float  # units of an intensity per photon; 1 for counts
    corner: bool  # frames have the zero frequency at sample 0, and are brought to the middle first
    transpose: bool
    flip_rows: bool
    flip_cols: bool

    def amplitudes(self, frames: np.ndarray, limits: Limits) -> np.ndarray:
        """Return ``A (K, N, N)`` float32 of frames ``(K, H, W)``, zero where no good pixel was read.

        What exceeds the ``limits`` was not measured: negative, see :mod:`~ptycho.scan.patterns`.
        """
        marked, saturated = limits.exceeded(frames)
        values = np.where(marked, 0.0, frames.astype(np.float64))
        if self.domain == "amplitude":
            values = np.square(np.maximum(values, 0))
        if self.dark is not None:
            values = values - self.dark
        if self.flat is not None:
            values = values / np.where(self.flat > 0, self.flat, 1)
        photons = np.maximum(values / self.gain, 0)  # or what stands for them
        cut = self._cut(np.where(self.good, photons, 0))
        amplitudes = np.sqrt(self._summed(cut)).astype(np.float32)
        lacking = self.good & (marked | saturated)
        if lacking.any():
            reached = self._summed(self._cut(lacking.astype(np.float32))) > 0
            amplitudes = np.where(reached, unmeasured(amplitudes), amplitudes)
        return amplitudes

    @property
    def good_pixels(self) -> np.ndarray:
        """Mask ``(N, N)`` bool: pixels on the detector, made of good pixels alone."""
        return self._summed(self._cut(~self.good[None], outside=True).astype(np.float32))[0] == 0

    def oriented(self, frames: np.ndarray) -> np.ndarray:
        """Return frames ``(…, H, W)`` as the positions see them."""
        return oriented(frames, self.corner, self.transpose, self.flip_rows, self.flip_cols)

    def _cut(self, frames: np.ndarray, outside: float = 0) -> np.ndarray:
        """The window of side ``N·bin`` around the centre; ``outside`` beyond the frame."""
        return window_of(self.oriented(frames), self.centre, self.N * self.bin, outside)

    def _summed(self, cut: np.ndarray) -> np.ndarray:
        """Sums over ``bin × bin`` pixels, so aligned that sample ``N//2`` holds the centre's pixel."""
        b = self.bin
        if b == 1:
            return cut
        return cut.reshape(len(cut), self.N, b, self.N, b).sum(axis=(2, 4))


def window_of(images: np.ndarray, centre: tuple[int, int], side: int, outside: float = 0) -> np.ndarray:
    """Return ``(K, side, side)`` of images ``(K, H, W)``, with pixel ``centre`` at ``side//2``.

    Beyond the images it is ``outside``.
    """
    starts = [c - side // 2 for c in centre]
    before = [max(0, -s) for s in starts]
    after = [max(0, s + side - n) for s, n in zip(starts, images.shape[-2:], strict=True)]
    images = np.pad(images, [(0, 0), *zip(before, after, strict=True)], constant_values=outside)
    row, col = (s + b for s, b in zip(starts, before, strict=True))
    return images[:, row : row + side, col : col + side]


def oriented(
    frames: np.ndarray, corner: bool, transpose: bool, flip_rows: bool, flip_cols: bool
) -> np.ndarray:
    """Orient frames ``(…, H, W)``: the corner brought to the middle if need be, transposed, then flipped."""
    frames = np.fft.fftshift(frames, axes=(-2, -1)) if corner else frames
    frames = np.swapaxes(frames, -1, -2) if transpose else frames
    frames = frames[..., ::-1, :] if flip_rows else frames
    return frames[..., ::-1] if flip_cols else frames


def turn_axes(
    centre: tuple[int, int], shape: tuple[int, ...], transpose: bool, flip_rows: bool, flip_cols: bool
) -> tuple[int, int]:
    """Return where the pixel ``centre`` (row, col) of a stored frame lies in the oriented one."""
    (row, col), (height, width) = centre, shape
    if transpose:
        row, col, height, width = col, row, width, height
    return (height - 1 - row if flip_rows else row), (width - 1 - col if flip_cols else col)
