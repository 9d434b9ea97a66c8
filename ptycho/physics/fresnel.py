"""Propagate an exit wave to a near detector, by Fresnel diffraction in a periodic window.

======== ==================================================================================================
``ψ``    exit wave, ``(…, N, N)`` complex64, N even
``F``    ``λ z / dx²`` along rows and columns, z from object to detector: ``Fresnel`` of ``config/waves.py``
``q``    cycles per pixel, ``k/N``
``H``    transfer function of free space, ``exp(−iπ Σ F q²)``, of modulus one
``Ψ``    ``F⁻¹[(−1)^(k_r + k_c) H Fψ]``: the wave on the detector, its middle at sample 0
======== ==================================================================================================

The sign ``(−1)^k`` shifts the wave by N/2, so that the detector's middle is at sample 0, like the zero
frequency of a far field: the later steps (:func:`~ptycho.physics.centre`, masks, background) are the same.

If a position is w + s, w whole, the probe is shifted by s, ``P(x − s) O[w + x]``: this is the true exit wave,
shifted by s. A far field does not change by this; here ``exp(+2πi q·s)`` shifts it back. Source: Goodman,
Introduction to Fourier Optics, 4.2. A diverging beam is equivalent to a parallel one of other lengths
(Paganin, Coherent X-Ray Optics, appendix B: Fresnel scaling theorem; :mod:`ptycho.preparation.near_field`).
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ptycho.config.waves import FreeSpace, Fresnel


def fresnel_field(exit_waves: tf.Tensor, fresnel: Fresnel, ramp: tf.Tensor | None = None) -> tf.Tensor:
    """Return ``Ψ`` of ``ψ (…, N, N)``; ``ramp (…, N, N)``: other phases of the spectrum, zero at sample 0."""
    transfer = tf.constant(to_sample_0(fresnel, exit_waves.shape[-1]), exit_waves.dtype)
    spectrum = tf.signal.fft2d(exit_waves) * transfer
    return tf.signal.ifft2d(spectrum if ramp is None else spectrum * ramp)


def to_sample_0(fresnel: Fresnel, side: int) -> np.ndarray:
    """Return ``(−1)^(k_r + k_c) H``, ``(side, side)`` complex128, zero frequency at sample 0."""
    signs = (-1.0) ** np.arange(side)
    return fresnel.transfer(side) * signs[:, None] * signs[None, :]


def transfer_of(between: FreeSpace, side: int) -> tf.Tensor:
    """Return ``H``, ``(side, side)`` complex64, zero frequency at sample 0."""
    return tf.constant(between.transfer(side), tf.complex64)


def propagate(waves: tf.Tensor, transfer: tf.Tensor) -> tf.Tensor:
    """Return ``F⁻¹[H Fψ]`` of waves ``(…, N, N)`` complex64 behind one slice: those in front of the next.

    ``transfer``: H of the space between the slices, by :func:`transfer_of`.
    """
    return tf.signal.ifft2d(tf.signal.fft2d(waves) * transfer)
