"""A scan on other object pixels: coarser ones, from the middle of its patterns, or finer ones.

    F P'(q) = F P(q),   r' = r N'/N,   |q| < N'/2 on both axes

The window is as wide as before, so N' = N/2 doubles the object pixel and makes steps four times as cheap.
The intensity at q comes from frequencies of the object within k_P of q, the radius of the probe's far field.
So the downsampled object explains the middle exactly, except a rim of k_P, and only this part counts as
measured. F is unitary: photons, flux and the probe's power do not change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import centred_axes, far_field, intensity_of, padded, waves_of


@dataclass(frozen=True, eq=False)
class Coarser:
    """A scan, and the same scan downsampled.

    Attributes:
        fine, data: the scan at N, and at N'.
    """

    fine: Dataset
    data: Dataset

    @property
    def ratio(self) -> float:
        """N'/N."""
        return self.data.N / self.fine.N

    def modes(self, fine: np.ndarray) -> np.ndarray:
        """Return modes ``(K, N, N)`` downsampled, ``(K, N', N')``."""
        return waves_of(central(far_field(fine), self.data.N))

    def background(self, fine: np.ndarray) -> np.ndarray:
        """Return the middle ``(N', N')`` of a background ``(N, N)``, zero frequency at sample 0."""
        return np.fft.ifftshift(central(np.fft.fftshift(fine), self.data.N))

    def finer_probe(self, probe: np.ndarray) -> np.ndarray:
        """Return a probe ``(…, N', N')`` of the coarser scan, its far field zero outside; ``(…, N, N)``."""
        return finer_waves(probe, self.fine.N)

    def finer_object(self, image: np.ndarray, sigma: float = 0.7) -> np.ndarray:
        """Upsample an object ``(M', M')`` of the coarser scan by cubic splines, to ``(M, M)`` complex64.

        A Gaussian of ``sigma`` coarser pixels damps its highest frequencies, which are determined least.
        """
        from scipy.ndimage import gaussian_filter

        return on_finer_pixels(gaussian_filter(image, sigma), 1 / self.ratio, self.fine.object_size)


def reach(probe: np.ndarray, share: float = 0.999) -> int:
    """Return the pixels from the zero frequency with a ``share`` of the far field's power of ``probe (…, N,
    N)``.
    """
    return int(np.searchsorted(_within(intensity_of(far_field(probe))), share)) + 1


def _distance(N: int) -> np.ndarray:
    """Return the distance from the zero frequency on the axis on which it is farther, ``(N, N)`` int."""
    rows, columns = centred_axes(N)
    return np.maximum(np.abs(rows), np.abs(columns)).astype(int)


def _within(intensity: np.ndarray) -> np.ndarray:
    """Return the share ``(N//2 + 1,)`` of an intensity ``(N, N)`` within 0, 1, … pixels of its middle."""
    return np.cumsum(np.bincount(_distance(len(intensity)).ravel(), intensity.ravel())) / intensity.sum()


def downsampled(data: Dataset) -> Coarser:
    """Return large patterns downsampled, others as they are."""
    return coarser(data) or Coarser(data, data)


def coarser(data: Dataset, share: float = 0.6, smallest: int = 64, large: int = 256) -> Coarser | None:
    """Return the coarsest scan that explains a ``share`` of the intensity; None: there is none.

    Patterns below ``large`` pixels are not downsampled; N' is at least ``smallest``.
    """
    if large > data.N or data.fresnel is not None:
        return None
    rim = reach(data.probe)
    mean = data.amplitudes.statistics.mean_intensity
    within = _within(mean)
    halvings = max(1, (data.N // smallest).bit_length() - 1)
    for k in range(halvings, 0, -1):
        side = 2 * round(data.N / 2 ** (k + 1))
        exact = side // 2 - rim
        if exact > side // 4 and within[exact] >= share:
            return Coarser(data, at_larger_pixels(data, side, rim))
    return None


def at_larger_pixels(data: Dataset, side: int, rim: int) -> Dataset:
    """Return the scan of the middle ``side × side`` of its patterns, of which a ``rim`` is not measured."""
    inside = _distance(side) < side // 2 - rim
    good = inside if data.good is None else inside & central(data.good, side)
    return _at_other_pixels(data, data.amplitudes.middle(good), good)


def at_smaller_pixels(data: Dataset, side: int) -> Dataset:
    """Return the scan on finer object pixels: patterns of ``side × side``, unmeasured beyond those of N × N.

    The window is as wide as before, so r' = r N'/N; the far field of the probe is zero outside. For a far
    field under a probe that does not vary.
    """
    good = np.ones((data.N, data.N), bool) if data.good is None else data.good
    amplitudes = Patterns(padded(data.amplitudes[:], side), shifts=data.amplitudes.shifts)
    return _at_other_pixels(data, amplitudes, padded(good, side))


def _at_other_pixels(data: Dataset, amplitudes: Patterns, good: np.ndarray) -> Dataset:
    """Return the scan of ``amplitudes`` on other pixels, measured where ``good (N', N')`` is true."""
    side, beam = len(good), data.beam
    ratio, background, resized = side / data.N, beam.background, central if side < data.N else padded
    size = data.object_size  # every position within the object stays within it
    return replace(
        data.single_patterns(None),
        amplitudes=amplitudes,
        beam=replace(
            beam,
            probe=waves_of(resized(far_field(beam.probe), side)),
            positions=(beam.positions * np.float32(ratio)).astype(np.float32),
            background=None if background is None else resized(background, side),
            opr_modes=None,
            opr_weights=None,
        ),
        region_size=side + 2,
        object_size=max(int(np.ceil((size - 1) * ratio)), int(size * ratio)) + 1,
        objects=None,
        good=good,
        exact=True,
        stated_tiling=None,
    )


def finer_waves(waves: np.ndarray, side: int) -> np.ndarray:
    """Return waves ``(…, N, N)`` on finer pixels of the same window, ``(…, side, side)``."""
    return waves if side == waves.shape[-1] else waves_of(padded(far_field(waves), side))


def on_finer_pixels(image: np.ndarray, ratio: float, side: int | None = None) -> np.ndarray:
    """Return an image ``(H, W)`` by cubic splines on pixels ``ratio`` times as fine, complex64.

    ``side``: of the result, which then goes on beyond the image by its edge; None: as far as the image.
    """
    from scipy.ndimage import map_coordinates

    sides = [int((n - 1) * ratio) + 1 if side is None else side for n in image.shape]
    grid = np.meshgrid(*(np.arange(n) / ratio for n in sides), indexing="ij")
    return map_coordinates(image, grid, order=3, mode="nearest").astype(np.complex64)


def central(images: np.ndarray, side: int) -> np.ndarray:
    """Return the middle ``(…, side, side)`` of images ``(…, N, N)``; sample ``N//2`` becomes ``side//2``."""
    low = images.shape[-1] // 2 - side // 2
    return images[..., low : low + side, low : low + side]
