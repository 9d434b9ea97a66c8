"""Test objects."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.draw import line

from ptycho.config import ConfigError, LinesObject

BLURS = ((1.0, 1.0), (5.0, 2.0), (10.0, 5.0))  # (σ in pixels, weight)


def line_amplitude(size: int, n_lines: int, rng: np.random.Generator) -> np.ndarray:
    """Return the amplitude of a "grid lines" object: blurred random line segments, maximum one.

    Segments with uniform random end points are counted on a canvas of side ``2·size``; the sum of its
    Gaussian blurs ``Σ w·G_σ`` (σ, w = 1, 1; 5, 2; 10, 5 px) is cropped to its centre.

    Returns:
        ``(size, size)`` float64 in [0, 1].

    Raises:
        ConfigError: so few lines were drawn that none came near the object.
    """
    canvas = np.zeros((2 * size, 2 * size))
    for r0, c0, r1, c1 in rng.integers(0, 2 * size, (n_lines, 4)):
        canvas[line(r0, c0, r1, c1)] += 1.0
    blurred = np.sum([weight * gaussian_filter(canvas, sigma) for sigma, weight in BLURS], axis=0)
    start = size // 2
    cropped = blurred[start : start + size, start : start + size]
    if not cropped.max() > 0:
        raise ConfigError(f"object.n_lines={n_lines}: no line crosses the object; draw more lines")
    return cropped / cropped.max()


def make_object(config: LinesObject, size: int, set_phi: bool, rng: np.random.Generator) -> np.ndarray:
    """Return one object ``a·exp(iφ)``, ``φ = sin(π(a − ½))`` or, unless ``set_phi``, 0.

    ``(size, size)`` complex64.
    """
    amplitude = line_amplitude(size, config.n_lines, rng)
    phase = np.sin(np.pi * (amplitude - 0.5)) if set_phi else np.zeros_like(amplitude)
    return (amplitude * np.exp(1j * phase)).astype(np.complex64)
