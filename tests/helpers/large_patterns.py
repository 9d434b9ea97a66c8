"""Large patterns of an object that has no fine detail, by NumPy alone."""

from __future__ import annotations

import numpy as np

from helpers.datasets import single_patterns
from ptycho.scan.dataset import Dataset

N, SCALE = 256, 300.0


def far_of(exit_wave: np.ndarray) -> np.ndarray:
    return np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(exit_wave), norm="ortho"))


def wave(side: int, most: float, seed: int) -> np.ndarray:
    """Return random values, ``(side, side)``, without frequencies above ``most`` cycles per pixel."""
    rng = np.random.default_rng(seed)
    far = rng.standard_normal((side, side)) + 1j * rng.standard_normal((side, side))
    inside = np.abs(np.fft.fftfreq(side)) <= most
    found = np.fft.ifft2(far * np.outer(inside, inside))
    return found / np.abs(found).max()


def smooth_scan(finest: float = 1 / 12) -> tuple[Dataset, np.ndarray]:
    """Nine patterns without noise of a narrow far field, and the object ``(M, M)``.

    ``finest``: its highest frequency, cycles per pixel.
    """
    axis = np.arange(N) - N // 2
    probe = np.exp(-(axis[:, None] ** 2 + axis**2) / (2 * 20.0**2)) * np.exp(0.05j * axis)
    positions = np.array([(4 * row, 8 * column) for row in range(3) for column in range(3)])
    object_ = 1 + 0.5 * wave(N + 16, finest, 3)
    waves = (probe * object_[r : r + N, c : c + N] for r, c in positions)
    intensity = np.stack([np.abs(SCALE * far_of(wave)) ** 2 for wave in waves])
    known = {"photon_scale": SCALE, "region_size": N, "counts": False}
    return single_patterns(np.sqrt(intensity), probe[None], positions, N + 16, **known), object_
