"""Waves: complex tensors or, for consumers that have no complex numbers, pairs of real ones.

The physics and the generators are written once, for both: with a complex probe every wave is a complex
tensor, and with a probe that is a :class:`Pair` every wave is one. Pairs need no operation beyond those on
real tensors; their Fourier transform is two matrix products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf


@dataclass(frozen=True, eq=False)
class Pair:
    """``real + i·imag``, two real tensors of one shape; with the operators that the physics uses."""

    real: tf.Tensor
    imag: tf.Tensor

    @property
    def shape(self) -> tf.TensorShape:
        """Shape ``(…)`` of either part."""
        return self.real.shape

    @property
    def dtype(self) -> tf.DType:
        """Real dtype of the parts."""
        return self.real.dtype

    def __getitem__(self, index: Any) -> Pair:
        return Pair(self.real[index], self.imag[index])

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Pair) -> Pair:
        """The complex product."""
        return Pair(
            self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real
        )

    def __rmul__(self, factor: float) -> Pair:
        return Pair(factor * self.real, factor * self.imag)


Waves: TypeAlias = "tf.Tensor | Pair"
"""A complex ``tf.Tensor`` or a :class:`Pair`; who gives one kind gets that kind."""


def of_parts(real: tf.Tensor, imag: tf.Tensor, like: Waves) -> Waves:
    """Return ``real + i·imag``, both ``(…)``, of the kind that ``like`` is."""
    return Pair(real, imag) if isinstance(like, Pair) else tf.complex(real, imag)


def real(waves: Waves) -> tf.Tensor:
    """Return the real part of ``waves (…)``, complex or a pair."""
    return waves.real if isinstance(waves, Pair) else tf.math.real(waves)


def imag(waves: Waves) -> tf.Tensor:
    """Return the imaginary part of ``waves (…)``, complex or a pair."""
    return waves.imag if isinstance(waves, Pair) else tf.math.imag(waves)


def conj(waves: Waves) -> Waves:
    """Return the complex conjugate of ``waves (…)``, of the same kind."""
    return Pair(waves.real, -waves.imag) if isinstance(waves, Pair) else tf.math.conj(waves)


def by_part(function: Callable[[tf.Tensor], tf.Tensor], waves: Waves) -> Waves:
    """Apply a real-linear ``function`` to ``waves (…)``; of a pair, to each part."""
    return Pair(function(waves.real), function(waves.imag)) if isinstance(waves, Pair) else function(waves)


def fourier_matrix(side: int, inner: int | None = None) -> np.ndarray:
    """Return the unitary transform of a signal that is zero but for its central ``inner`` samples.

    Returns:
        ``M[q, x] = exp(−2πi q (x + x₀)/side)/√side``, ``(side, inner)`` complex128; the inner samples begin
        at ``x₀``, and the zero frequency is q = 0. Its adjoint gives the inner samples back.
    """
    inner = side if inner is None else inner
    x = np.arange(inner) + (side - inner) // 2
    return np.exp(-2j * np.pi * (np.arange(side)[:, None] * x % side) / side) / side**0.5


def transformed(waves: Pair, matrix: np.ndarray) -> Pair:
    """Return ``M ψ Mᵀ`` for ``ψ (…, n, n)`` and a complex matrix ``(m, n)``: ``(…, m, m)``.

    The complex products are real ones of blocks, with ``B = [[Re Mᵀ, Im Mᵀ], [−Im Mᵀ, Re Mᵀ]]``:

        [Re Mψ; Im Mψ] = Bᵀ [Re ψ; Im ψ],   [Re MψMᵀ, Im MψMᵀ] = [Re Mψ, Im Mψ] B.
    """
    M = matrix.T
    B = np.block([[M.real, M.imag], [-M.imag, M.real]])
    stacked = tf.concat([waves.real, waves.imag], axis=-2)  # (…, 2n, n)
    along = tf.matmul(tf.constant(B.T, waves.dtype), stacked)  # (…, 2m, n)
    beside = tf.concat(tf.split(along, 2, axis=-2), axis=-1)  # (…, m, 2n)
    return Pair(*tf.split(_times_matrix(beside, tf.constant(B, waves.dtype)), 2, axis=-1))


def _times_matrix(images: tf.Tensor, matrix: tf.Tensor) -> tf.Tensor:
    """``images @ matrix`` for one matrix, as a product of two matrices.

    As a product of batches, TensorFlow 2.21's kernel of oneDNN writes beyond its result where an axis has the
    length one: ``(16, 1, 64, 64)`` times ``(64, 128)``.
    """
    shape = [-1 if n is None else n for n in images.shape[:-1]]  # a batch may be of any size
    product = tf.matmul(tf.reshape(images, (-1, images.shape[-1])), matrix)
    return tf.reshape(product, (*shape, matrix.shape[-1]))
