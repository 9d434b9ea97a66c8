"""The object's windows under chunks of patterns, and the sum of their gradients: in host memory, or a GPU's.

    O[w_j + x],   ∂/∂O[y] = Σ_j g_j[y − w_j]

Host memory is what a CPU computes from: windows are copied from it and added to it, a chunk's beside that of
others. A GPU has the object sent once and sends its gradient back once, so that nothing as large as the
patterns goes to and fro.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from ptycho.scan.windows import add_windows_to, inner_windows


class Windows(Protocol):
    """Windows of one object; ``corners (B, 2)`` int64 are their first samples."""

    def cut(self, corners: np.ndarray) -> tf.Tensor:
        """Return the windows at some corners, ``(B, N, N)``; of slices ``(B, L, N, N)``."""

    def part(self, gradient: tf.Tensor, corners: np.ndarray) -> Any:
        """Return what :meth:`add` takes, of the gradient ``(≥ B, N, N)`` of windows; safe in parallel."""

    def add(self, part: Any) -> None:
        """Add a part to the sum; parts come in the order of the chunks."""

    @property
    def sum(self) -> np.ndarray:
        """Sum ``(M, M)`` of the added windows; of slices ``(L, M, M)``."""


class Piece(NamedTuple):
    """Images ``(B, …, h, w)`` to be added to an object, and their corners ``(B, 2)``."""

    images: np.ndarray
    corners: np.ndarray


class InHostMemory:
    """Windows that are copied."""

    def __init__(self, image: np.ndarray, N: int) -> None:
        self._image, self._N = image, N
        self._total = np.zeros(image.shape, image.dtype)

    def cut(self, corners: np.ndarray) -> tf.Tensor:
        return tf.constant(inner_windows(self._image, corners, self._N))

    def part(self, gradient: tf.Tensor, corners: np.ndarray) -> Piece:
        return summed(gradient.numpy()[: len(corners)], corners)

    def add(self, part: Piece) -> None:
        add_windows_to(self._total, *part)

    @property
    def sum(self) -> np.ndarray:
        return self._total


class OnDevice:
    """Windows that TensorFlow gathers where it computes. Sums of a GPU differ by rounding from run to run."""

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


def windows_of(image: np.ndarray, N: int) -> Windows:
    """Return windows of an object ``(M, M)`` or slices ``(L, M, M)``, complex64, where TensorFlow runs."""
    return OnDevice(image, N) if has_gpu() else InHostMemory(image, N)


def summed(windows: np.ndarray, corners: np.ndarray) -> Piece:
    """Return windows ``(B, …, N, N)`` as few images with their corners: a sum, if they lie together.

    So that it is taken beside other chunks; where they lie far apart it would be larger than they are.
    """
    low, N = corners.min(axis=0), windows.shape[-1]
    shape = (*windows.shape[1:-2], *(corners.max(axis=0) - low + N))
    if np.prod(shape) > windows.size:
        return Piece(windows, corners)
    image = np.zeros(shape, windows.dtype)
    add_windows_to(image, windows, corners - low)
    return Piece(image[None], low[None])
