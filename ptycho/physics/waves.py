"""Waves: complex tensors or, for consumers that have no complex numbers, pairs of real ones.

The physics and the generators are written once, for both: what they are given a complex probe for they compute
in complex tensors, and with a probe that is a :class:`Pair` every wave is one. A pair has no Fourier transform
but by matrix products,

    M ψ Mᵀ = ([Re ψ, Im ψ] B)…,   B = [[Re Mᵀ, Im Mᵀ], [−Im Mᵀ, Re Mᵀ]],

first along the rows, then along the columns; all is float32, and none of it needs an operation beyond matrix
products, sums and products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf


@dataclass(frozen=True, eq=False)
class Pair:
    """``real + i·imag``, two real tensors of one shape; with the operators that the physics uses."""

    real: tf.Tensor
    imag: tf.Tensor

    @property
    def shape(self) -> tf.TensorShape:
        return self.real.shape

    @property
    def dtype(self) -> tf.DType:
        """Of the parts."""
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
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )

    def __rmul__(self, factor: float) -> Pair:
        return Pair(factor * self.real, factor * self.imag)


Waves = tf.Tensor | Pair


def of_parts(real: tf.Tensor, imag: tf.Tensor, like: Waves) -> Waves:
    """``real + i·imag``, of the kind that ``like`` is."""
    return Pair(real, imag) if isinstance(like, Pair) else tf.complex(real, imag)


def real(waves: Waves) -> tf.Tensor:
    return waves.real if isinstance(waves, Pair) else tf.math.real(waves)


def imag(waves: Waves) -> tf.Tensor:
    return waves.imag if isinstance(waves, Pair) else tf.math.imag(waves)


def conj(waves: Waves) -> Waves:
    return Pair(waves.real, -waves.imag) if isinstance(waves, Pair) else tf.math.conj(waves)


def by_part(function: Callable[[tf.Tensor], tf.Tensor], waves: Waves) -> Waves:
    """A ``function`` that is linear with real coefficients; of a pair, of either part."""
    return Pair(function(waves.real), function(waves.imag)) if isinstance(waves, Pair) else function(waves)


def fourier_matrix(side: int, inner: int | None = None) -> np.ndarray:
    """The unitary transform of a signal that is zero but for its central ``inner`` samples.

    Returns:
        ``M[q, x] = exp(−2πi q (x + start)/side)/√side``, ``(side, inner)`` complex128, with the place ``start``
        of the first inner sample; zero frequency at q = 0. Its adjoint gives the inner samples back.
    """
    inner = side if inner is None else inner
    x = np.arange(inner) + (side - inner) // 2
    return np.exp(-2j * np.pi * (np.arange(side)[:, None] * x % side) / side) / side**0.5


def transformed(waves: Pair, matrix: np.ndarray) -> Pair:
    """``M ψ Mᵀ`` for ``ψ (…, n, n)`` and a complex matrix ``(m, n)``: ``(…, m, m)``."""
    M = matrix.T
    columns = np.block([[M.real, M.imag], [-M.imag, M.real]])
    along = tf.matmul(tf.concat([waves.real, waves.imag], axis=-1), tf.constant(columns, waves.dtype))
    stacked = tf.concat(tf.split(along, 2, axis=-1), axis=-2)  # (…, 2n, m)
    both = tf.matmul(tf.constant(columns.T, waves.dtype), stacked)  # (…, 2m, m)
    return Pair(*tf.split(both, 2, axis=-2))
