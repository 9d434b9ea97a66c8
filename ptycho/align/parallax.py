"""Find how a scan is rotated against the detector, from the parallax of a defocused beam, without a probe.

A feature that lies Δr further in the beam appears Δq further in the pattern, where the far field has the
phase ``c q²``: in pixels of the pattern and of the object

    Δq = m R(φ) Δr,   m = ±π N / c

So patterns of neighbours j, k resemble each other after a shift by M (r_k − r_j), M the same of all pairs:
the estimate is the m and φ at which the sum of the pairs' correlations is largest. φ of one sign
of c is φ + 180° of the other. The patterns are divided by their mean, where that is bright.

This is what tcBF imaging of electron microscopy aligns (Varnavides et al., arXiv:2309.05250, section on
parallax imaging), here in the detector's pixels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from ptycho.reconstruction.trial import middle
from ptycho.scan.dataset import Dataset
from ptycho.scan.positions import rotation


class Parallax(NamedTuple):
    """The parallax of the patterns as they are, or transposed.

    Attributes:
        degrees: that positions must be rotated by, −90 to 90.
        magnification: |m|, pixels of the pattern for one of the object.
        height: of the sum of correlations, in standard deviations over all angles and lengths.
        lead: of the height over the next best angle's.
    """

    degrees: float
    magnification: float
    height: float
    lead: float


def parallax(data: Dataset, patterns: int = 120) -> tuple[Parallax, Parallax]:
    """Return the parallax of so many central ``patterns`` of one object as they are, and transposed."""
    some = middle(data, patterns)
    steps, likeness = _pairs(some)
    return _best(steps, likeness), _best(steps, np.swapaxes(likeness, 1, 2))


def _pairs(data: Dataset, nearest: int = 6, bright: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Return steps ``(K, 2)`` to the ``nearest`` positions, and correlations ``(K, N, N)``, no shift at N//2.

    Patterns are correlated where their mean is ``bright``, in units of its 99.5th percentile.
    """
    counts = np.square(data.amplitudes[:].astype(float))
    mean = counts.mean(axis=0)
    inside = mean > bright * np.percentile(mean, 99.5)
    contrast = np.where(inside, counts / np.maximum(mean, 1e-30) - 1, 0.0)
    contrast = np.where(inside, contrast - contrast[:, inside].mean(axis=1)[:, None, None], 0.0)
    count = min(nearest + 1, len(counts))
    near = cKDTree(data.positions).query(data.positions, k=count)[1]
    one, other = np.repeat(np.arange(len(counts)), count - 1), near[:, 1:].ravel()
    far = np.fft.fft2(contrast)
    likeness = np.fft.fftshift(np.fft.ifft2(far[one].conj() * far[other]).real, axes=(1, 2))
    return (data.positions[other] - data.positions[one]).astype(float), likeness


def _best(
    steps: np.ndarray,
    likeness: np.ndarray,
    shifts: tuple[float, float] = (0.7, 8.0),
    angles: int = 90,
    sizes: int = 24,
    apart: float = 25.0,
) -> Parallax:
    """Return the parallax of the largest sum of correlations, over a grid of angles and of ``shifts``.

    ``shifts`` are of neighbours, in pixels of the pattern; the next best angle is ``apart`` degrees off.
    """
    typical = float(np.median(np.linalg.norm(steps, axis=1)))
    magnifications = np.geomspace(*shifts, sizes) / max(typical, 1e-9)
    degrees = np.linspace(-180, 180, angles, endpoint=False)
    centre = likeness.shape[-1] // 2
    total = np.zeros((angles, sizes))
    pair = np.arange(len(steps))[:, None]
    for k, angle in enumerate(degrees):
        turned = steps @ rotation(angle).T
        places = centre + turned[:, :, None] * magnifications  # (K, 2, sizes)
        coordinates = np.broadcast_to(pair, places[:, 0].shape), places[:, 0], places[:, 1]
        total[k] = map_coordinates(likeness, np.stack(coordinates), order=1, mode="grid-wrap").sum(axis=0)
    score = (total - total.mean(axis=0)) / total.std()
    angle, size = np.unravel_index(score.argmax(), score.shape)
    off = np.abs((degrees - degrees[angle] + 180) % 360 - 180)
    height, rest = float(score.max()), float(score[off > apart].max())
    rotated = float((degrees[angle] + 90) % 180 - 90)
    return Parallax(rotated, float(magnifications[size]), height, height / max(rest, 1e-9))
