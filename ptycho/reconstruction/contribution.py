"""What some patterns say about object, probe, positions, flux and background: the compiled part of a pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.networks.losses import poisson_deviance


def contribution(
    windows: tf.Tensor,
    fractions: tf.Tensor,
    flux: tf.Tensor,
    measured: tf.Tensor,
    modes: tf.Tensor,
    background: tf.Tensor,
    *,
    photon: float | None,
    limit: float | None,
    one: float | None,
    probe: bool,
    moves: bool,
    shifted: bool = True,
) -> dict[str, tf.Tensor]:
    """What patterns say about the object, the probe, their positions, their flux and the background.

    Args:
        windows: the object at their whole pixels, ``(B, N, N)`` complex64.
        fractions: ``(B, 2)``, what is left of the positions; flux: ``(B,)``, zero where there is no pattern.
        measured: x, ``(B, N, N)`` float32, zero frequency at sample 0; negative: not measured.
        modes: ``(K, N, N)`` complex64; background: ``(N, N)``.
        photon, limit: as in :func:`ptycho.physics.far_field_step`.
        one: amplitude of one photon, for the deviance; None: there is none.
        probe, moves: compute what the probe and the positions need; zeros are given without.
        shifted: some of the fractions are not zero.
    """
    moved = physics.shifted_probe(modes, fractions) if shifted else modes[None]
    lit = physics.scaled(moved, flux[:, None, None, None])
    far_fields = physics.far_field(lit * windows[:, None])
    light = physics.total_light(far_fields, True, background)
    expected = tf.sqrt(light)
    seen = tf.cast((measured >= 0) & (flux > 0)[:, None, None], tf.float32)
    step = physics.far_field_step(far_fields, measured, photon, True, background, limit)
    change = physics.near_field(step)  # χ
    x = seen * measured
    found = {
        "back": physics.over_modes(tf.math.conj(lit) * change, True),
        "light": physics.over_modes(physics.intensity(lit), True),
        "residual": tf.reduce_sum(seen * tf.abs(expected - measured)),
        "measured": tf.reduce_sum(x),
        "surplus": tf.reduce_sum(seen * tf.square(tf.square(measured) - light)),
        "energy": tf.reduce_sum(tf.square(x)),
        "deviance": tf.zeros(()),
        "brighter": tf.reduce_sum(x * expected, (1, 2)) / (tf.reduce_sum(seen * light, (1, 2)) + 1e-20),
        "ratio": tf.reduce_sum(tf.square(x) / tf.maximum(light, 1e-12), 0),
        "seen": tf.reduce_sum(seen, 0),
        "turned": tf.zeros_like(modes),
        "seen_object": tf.zeros_like(background),
        "moves": tf.zeros_like(fractions),
    }
    if one is not None:
        as_seen = tf.where(seen > 0, measured, expected)
        mean = poisson_deviance(expected, as_seen, tf.constant(one, tf.float32))
        found["deviance"] = mean * tf.cast(tf.size(measured), tf.float32)
    if probe:
        weight = flux[:, None, None, None]
        turned = physics.scaled(tf.math.conj(windows)[:, None] * change, weight)
        if shifted:
            back = tf.math.conj(physics.shift_ramp(fractions, modes))  # (B, 1, N, N)
            turned = tf.signal.ifft2d(tf.reduce_sum(tf.signal.fft2d(turned) * back, 0))
        found["turned"] = turned if shifted else tf.reduce_sum(turned, 0)
        found["seen_object"] = tf.reduce_sum(physics.intensity(windows) * tf.square(weight[:, 0]), 0)
    if moves:
        found["moves"] = tf.stack([_move(windows, lit, change, axis) for axis in (1, 2)], -1)
    return found


def _move(windows: tf.Tensor, lit: tf.Tensor, change: tf.Tensor, axis: int) -> tf.Tensor:
    """``Re Σ conj(P ∂O) χ / Σ |P ∂O|²`` along one axis, ``(B,)``."""
    slope = lit * ((tf.roll(windows, -1, axis) - tf.roll(windows, 1, axis)) / 2)[:, None]
    along = tf.reduce_sum(tf.math.real(tf.math.conj(slope) * change), (1, 2, 3))
    return along / (tf.reduce_sum(physics.intensity(slope), (1, 2, 3)) + 1e-6)


@dataclass(frozen=True, eq=False)
class Found:
    """Of some patterns: for each, for each pixel, and altogether; see :func:`contribution`."""

    moves: np.ndarray
    brighter: np.ndarray
    ratio: np.ndarray
    seen: np.ndarray
    deviance: float
    residual: float
    measured: float
    surplus: float
    energy: float


@dataclass(eq=False)
class Fit:
    """Sums over patterns: ``Σ|√λ − x|``, ``Σ x``, ``Σ (x² − λ)²`` and ``Σ x²``, in normalised units."""

    residual: float = 0.0
    measured: float = 0.0
    surplus: float = 0.0
    energy: float = 0.0

    def add(self, found: Found) -> None:
        self.residual += found.residual
        self.measured += found.measured
        self.surplus += found.surplus
        self.energy += found.energy

    @property
    def r_factor(self) -> float:
        return self.residual / self.measured

    def misfit(self, one: float) -> float:
        """``Σ(n − λ)² / Σ n`` of counts, one photon having the normalised amplitude ``one``."""
        return self.surplus / (one**2 * max(self.energy, 1e-30))


@dataclass(eq=False)
class Sums:
    """Over a batch: numerators and denominators of ΔO ``(M, M)`` and ΔP ``(K, N, N)``."""

    back: np.ndarray
    light: np.ndarray
    turned: np.ndarray
    seen_object: np.ndarray

    @classmethod
    def zeros(cls, canvas: tuple[int, ...], modes: tuple[int, ...]) -> Sums:
        return cls(
            np.zeros(canvas, np.complex64),
            np.zeros(canvas, np.float32),
            np.zeros(modes, np.complex64),
            np.zeros(modes[1:], np.float32),
        )
