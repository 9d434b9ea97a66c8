"""Find how a scan is rotated against the detector, from the parallax of a defocused beam, without a probe.

A feature that lies Δr further in the beam appears Δq further in the pattern, where the far field has the
phase ``c q²``: in pixels of the pattern and of the object

    Δq = m R(φ) Δr,   m = ±π N / c

So patterns of neighbours j, k resemble each other after a shift by M (r_k − r_j), M the same of all pairs:
what is looked for is the m and φ at which the sum of the pairs' correlations is largest. φ of one sign
of c is φ + 180° of the other. The patterns are taken relative to their mean, where that is bright.

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

PATTERNS, NEAREST = 120, 6
BRIGHT = 0.3  # of the mean pattern's largest light: where shadows are seen
SHORTEST, LONGEST = 0.7, 8.0  # pixels of the pattern: shifts of neighbours
ANGLES, LENGTHS = 90, 24
FAR = 25.0  # degrees: the next best angle is so far off at least


class Parallax(NamedTuple):
    """Of the patterns as they are, or transposed.

    Attributes:
        degrees: that positions must be turned by, −90 to 90.
        magnification: |m|, pixels of the pattern for one of the object.
        height: of the sum of correlations, in standard deviations over all angles and lengths.
        lead: of the height over the next best angle's.
    """

    degrees: float
    magnification: float
    height: float
    lead: float


def parallax(data: Dataset) -> tuple[Parallax, Parallax]:
    """Of a scan of one object: of its patterns as they are, and transposed."""
    some = middle(data, PATTERNS)
    steps, likeness = _pairs(some)
    return _best(steps, likeness), _best(steps, np.swapaxes(likeness, 1, 2))


def _pairs(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Steps ``(K, 2)`` between neighbours, and the correlations of their patterns ``(K, N, N)``, no shift at
    N//2."""
    light = np.square(data.amplitudes[:].astype(float))
    mean = light.mean(axis=0)
    bright = mean > BRIGHT * np.percentile(mean, 99.5)
    seen = np.where(bright, light / np.maximum(mean, 1e-30) - 1, 0.0)
    seen = np.where(bright, seen - seen[:, bright].mean(axis=1)[:, None, None], 0.0)
    count = min(NEAREST + 1, len(light))
    near = cKDTree(data.positions).query(data.positions, k=count)[1]
    one, other = np.repeat(np.arange(len(light)), count - 1), near[:, 1:].ravel()
    far = np.fft.fft2(seen)
    likeness = np.fft.fftshift(np.fft.ifft2(far[one].conj() * far[other]).real, axes=(1, 2))
    return (data.positions[other] - data.positions[one]).astype(float), likeness


def _best(steps: np.ndarray, likeness: np.ndarray) -> Parallax:
    typical = float(np.median(np.linalg.norm(steps, axis=1)))
    sizes = np.geomspace(SHORTEST, LONGEST, LENGTHS) / max(typical, 1e-9)
    angles = np.linspace(-180, 180, ANGLES, endpoint=False)
    middle_ = likeness.shape[-1] // 2
    total = np.zeros((ANGLES, LENGTHS))
    pair = np.arange(len(steps))[:, None]
    for k, angle in enumerate(angles):
        turned = steps @ rotation(angle).T
        places = middle_ + turned[:, :, None] * sizes  # (K, 2, LENGTHS)
        where = np.broadcast_to(pair, places[:, 0].shape), places[:, 0], places[:, 1]
        total[k] = map_coordinates(likeness, np.stack(where), order=1, mode="grid-wrap").sum(axis=0)
    score = (total - total.mean(axis=0)) / total.std()
    angle, size = np.unravel_index(score.argmax(), score.shape)
    off = np.abs((angles - angles[angle] + 180) % 360 - 180)
    height, rest = float(score.max()), float(score[off > FAR].max())
    degrees = (angles[angle] + 90) % 180 - 90
    return Parallax(float(degrees), float(sizes[size]), height, height / max(rest, 1e-9))
