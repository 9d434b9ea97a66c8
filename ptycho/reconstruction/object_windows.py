"""The object's windows under chunks of patterns, and the sum of their gradients: in host memory, or a GPU's.

    O[w_j + x],   ∂/∂O[y] = Σ_j g_j[y − w_j]

A CPU copies windows from host memory and adds them to it. A GPU has the object sent once and sends its
gradient back once, so that nothing as large as the patterns goes to and fro.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import tensorflow as tf

from ptycho.scan.windows import add_windows_to, inner_windows


class InHostMemory:
    """Windows that are copied; ``corners (B, 2)`` int64 are their first samples."""

    def __init__(self, image: np.ndarray, N: int) -> None:
        self._image, self._N = image, N
        self.sum = np.zeros(image.shape, image.dtype)

    def cut(self, corners: np.ndarray) -> tf.Tensor:
        """Return the windows at some corners, ``(B, N, N)``; of slices ``(B, L, N, N)``."""
        return tf.constant(inner_windows(self._image, corners, self._N))

    def part(self, gradient: tf.Tensor, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what :meth:`add` takes, of the gradient ``(≥ B, N, N)`` of windows; safe in parallel.

        Windows that lie together are summed here, beside other chunks; a sum of windows that lie far apart
        would be larger than they are.
        """
        windows, low = gradient.numpy()[: len(corners)], corners.min(axis=0)
        shape = (*windows.shape[1:-2], *(corners.max(axis=0) - low + windows.shape[-1]))
        if np.prod(shape) > windows.size:
            return windows, corners
        image = np.zeros(shape, windows.dtype)
        add_windows_to(image, windows, corners - low)
        return image[None], low[None]

    def add(self, part: tuple[np.ndarray, np.ndarray]) -> None:
        """Add a part to the sum ``(M, M)``; parts come in the order of the chunks."""
        add_windows_to(self.sum, *part)


class OnDevice:
    """The same, gathered where TensorFlow computes. Sums of a GPU differ by rounding from run to run."""

    def __init__(self, image: np.ndarray, N: int) -> None:
        self._shape = image.shape
        slices = np.arange(int(np.prod(image.shape[:-2]))).reshape(*image.shape[:-2], 1, 1)
        self._flat = tf.constant(image.ravel())
        # int64: int32 indices would stay in host memory.
        rows = slices * image.shape[-2] + np.arange(N)[:, None]
        self._inside = tf.constant(rows * image.shape[-1] + np.arange(N))
        self._sum = tf.zeros((image.size, 2))

    def _places(self, corners: np.ndarray) -> tf.Tensor:
        first = corners @ (self._shape[-1], 1)
        return tf.constant(first.reshape(-1, *(1,) * len(self._shape))) + self._inside

    def cut(self, corners: np.ndarray) -> tf.Tensor:
        return tf.gather(self._flat, self._places(corners))

    def part(self, gradient: tf.Tensor, corners: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        kept = gradient[: len(corners)]
        return self._places(corners)[..., None], tf.stack([tf.math.real(kept), tf.math.imag(kept)], -1)

    def add(self, part: tuple[tf.Tensor, tf.Tensor]) -> None:
        self._sum = tf.tensor_scatter_nd_add(self._sum, *part)

    @property
    def sum(self) -> np.ndarray:
        return self._sum.numpy().view(np.complex64).reshape(self._shape)


@cache
def has_gpu() -> bool:
    """Return whether TensorFlow computes on a GPU."""
    return bool(tf.config.list_logical_devices("GPU"))


def windows_of(image: np.ndarray, N: int) -> InHostMemory | OnDevice:
    """Return windows of an object ``(M, M)`` or slices ``(L, M, M)``, complex64, where TensorFlow runs."""
    return OnDevice(image, N) if has_gpu() else InHostMemory(image, N)
