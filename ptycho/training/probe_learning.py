"""A probe that is learned together with a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.networks.layers import Model
from ptycho.networks.pinn import PtychoPINN
from ptycho.scan.probe import orthogonal_modes


class ProbeLearner(Model):
    """A network, and the change of the probe that it is trained with: both are variables.

        P = c (P₀ + δ),   c so that Σ|P|² = Σ|P₀|²,   δ ⊥ ∂P₀/∂y, ∂P₀/∂x, i y P₀, i x P₀, i P₀

    The patterns leave open what δ is kept from: a shift or a phase ramp of all modes, which the object can
    undo, and the phase. The power is what the counts say. Orthogonal is meant as for vectors of real numbers.

    Args:
        network: what predicts the patterns; its weights are its own.
        probe: P₀, ``s·f·P`` of the training data, ``(N, N)`` complex64 or with modes ``(K, N, N)``.
        mask: ``(N, N)`` bool, where the probe may be other than zero; None: everywhere.
    """

    def __init__(
        self, *, network: PtychoPINN, probe: np.ndarray, mask: np.ndarray | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.network = network
        self._mask = None if mask is None else tf.constant(mask, tf.float32)
        self._open = tf.constant(find_ambiguities(probe))
        self.change = self.add_weight(shape=(2, *probe.shape), initializer="zeros", name="probe_change")
        self.built = True

    def apply_change(self, probe: tf.Tensor) -> tf.Tensor:
        """Return the learned P ``(…, N, N)`` complex64 of P₀, of its shape and power."""
        flat = tf.reshape(self.change, (-1, 1))
        kept = flat - tf.matmul(self._open, tf.matmul(self._open, flat, transpose_a=True))
        kept = tf.reshape(kept, self.change.shape)
        wave = probe + tf.complex(kept[0], kept[1])
        if self._mask is not None:
            wave = physics.scaled(wave, self._mask)
        power = tf.reduce_sum(physics.intensity(probe)) / tf.reduce_sum(physics.intensity(wave))
        return physics.scaled(wave, tf.sqrt(power))

    def losses_of(self, batch, probe, normalisation):
        """Return the network's losses under the learned probe; ``probe`` is P₀."""
        return self.network.losses_of(batch, self.apply_change(probe), normalisation)

    def modes(self, probe: np.ndarray) -> np.ndarray:
        """Return the learned modes, ``(K, N, N)`` complex64, orthogonal and the strongest first."""
        wave = self.apply_change(tf.constant(probe)).numpy()
        return orthogonal_modes(wave.reshape(-1, *wave.shape[-2:]))[0]


def find_ambiguities(probe: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span ∂P/∂y, ∂P/∂x, i y P, i x P and i P, ``(2·P.size, 5)`` float32.

    Each is the real parts of a change of the probe, then its imaginary parts.
    """
    wave = probe.astype(np.complex128)
    rows, cols = np.meshgrid(*(np.arange(side) - side / 2 for side in probe.shape[-2:]), indexing="ij")
    far = np.fft.fft2(wave)
    q = [2j * np.pi * np.fft.fftfreq(side) for side in probe.shape[-2:]]
    slopes = [np.fft.ifft2(far * q[0][:, None]), np.fft.ifft2(far * q[1][None, :])]
    changes = [*slopes, 1j * rows * wave, 1j * cols * wave, 1j * wave]
    columns = np.stack([np.concatenate([c.real.ravel(), c.imag.ravel()]) for c in changes], axis=1)
    return np.linalg.qr(columns)[0].astype(np.float32)
