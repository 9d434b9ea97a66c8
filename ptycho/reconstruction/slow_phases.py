"""Slow phases of the object, of which patterns tell little: longer steps along them.

A phase that is the same all over the probe changes no pattern, and one that changes slowly moves the far
field by little: along a phase of k cycles per pixel the curvature of −log p is about H·k²/k_c² where k is
below k_c, the reciprocal of the probe's width, while :mod:`~ptycho.reconstruction.unknowns` takes it for H.
Minimisation by differences of gradients needs many steps for what is slow. So steps are scaled beforehand by
a symmetric positive operator,

    q → q + i e O/|O|,   e = m F⁻¹[ 1/((k² + k₀²)/k_c² + s) · F (m Im(q conj(O)/|O|)) ]

with m one where the object is lit, k₀ the reciprocal of its side, and s what the prior adds to the curvature,
over H. It is of use where O is near enough for its phases to be known, not from a constant, and where
patterns overlap well: sparse ones are ambiguous, and long steps end in a worse place (benchmarks/panel.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import fft

from ptycho.reconstruction.state import State
from ptycho.reconstruction.unknowns import LIT, lit_pixels, object_light
from ptycho.scan.probe import energy_diameter

SLOW = 0.5  # k_c over the reciprocal of the probe's diameter
DENSE = 5.0  # patterns that light a pixel, on average


def overlaps_well(state: State) -> bool:
    """Whether enough patterns light a pixel, on average, for steps to be scaled."""
    lit = np.pi * (energy_diameter(state.modes) / 2) ** 2
    return len(state.positions) * lit >= DENSE * lit_pixels(state)


def longer_steps(state: State, stiffness: float = 0.0) -> Callable[[np.ndarray], np.ndarray]:
    """The operator near a state, of a vector ``(n,)`` float32 that begins with the object's part.

    Args:
        state: O and the modes that light it.
        stiffness: s.
    """
    shape = state.object.shape
    size = np.abs(state.object)
    unit = np.divide(state.object, size, out=np.ones(shape, np.complex64), where=size > 0)
    light = object_light(state)
    lit = (light > LIT * light.max()).astype(np.float32)
    rows, columns = np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])
    squares = (rows**2 + columns**2 + max(shape) ** -2.0) * (energy_diameter(state.modes) / SLOW) ** 2
    gain = (1 / (squares + stiffness)).astype(np.float32)
    count = 2 * state.object.size

    def scaled(q: np.ndarray) -> np.ndarray:
        wave = np.ascontiguousarray(q[:count]).view(np.complex64).reshape(shape)
        sideways = lit * (wave * unit.conj()).imag
        slow = lit * fft.irfft2(gain * fft.rfft2(sideways), s=shape)
        longer = q.copy()
        longer[:count] += (1j * slow * unit).astype(np.complex64).view(np.float32).ravel()
        return longer

    return scaled
