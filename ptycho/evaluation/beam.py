"""How far a probe and scan positions are from the true ones, without what diffraction leaves open.

A probe is known up to a complex factor, a shift (the object moves with it) and a phase ramp (the object gets
the opposite one); positions are known up to a common shift.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

CONVENTIONS = {
    "probe_error": "least ‖c·P(x − s)·exp(ik·x) − T‖/‖T‖ over c, s and k: first mode P against the true one "
    "T; the mean over the images where each has a probe of its own",
    "position_error_px": "rms of each coordinate's error, without the mean error of each image",
}


def probe_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return ``min ‖c·P(x − s)·exp(ik·x) − T‖ / ‖T‖`` over complex c, a shift s and a ramp k, for ``(N, N)``.

    With the best c this is ``√(1 − γ²)``, γ the normalised overlap of the two, whose largest value is looked
    for from no shift and from that of the largest correlation.
    """
    P, T = (probe / np.linalg.norm(probe) for probe in (estimate.astype(complex), truth.astype(complex)))
    N, spectrum = len(P), np.fft.fft2(P)
    nu, x = np.fft.fftfreq(N), (np.arange(N) - N // 2) / N

    def lost(moves: np.ndarray) -> float:
        shift = np.exp(-2j * np.pi * (moves[0] * nu[:, None] + moves[1] * nu))
        ramp = np.exp(2j * np.pi * (moves[2] * x[:, None] + moves[3] * x))
        return 1 - abs(np.vdot(T, np.fft.ifft2(spectrum * shift) * ramp)) ** 2

    correlation = np.abs(np.fft.ifft2(np.fft.fft2(T) * spectrum.conj()))
    peak = np.array(np.unravel_index(correlation.argmax(), correlation.shape))
    shift = (peak + N // 2) % N - N // 2
    starts = np.zeros(4), np.array([*shift, 0.0, 0.0])
    return float(np.sqrt(max(min(minimize(lost, start).fun for start in starts), 0.0)))


def position_error_px(positions: np.ndarray, truth: np.ndarray, image: np.ndarray) -> float:
    """Return the rms of ``positions − truth (J, 2)`` in pixels, without the mean of each ``image (J,)``."""
    error = positions.astype(float) - truth
    for i in np.unique(image):
        error[image == i] -= error[image == i].mean(axis=0)
    return float(np.sqrt(np.mean(error**2)))
