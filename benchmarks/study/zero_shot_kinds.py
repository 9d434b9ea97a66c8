"""Kinds of probes and objects of the study: those of the training, and others that no network has seen.

Lengths and parameters are those of :mod:`ptycho_pretrain.probe_kinds` and
:mod:`ptycho_pretrain.object_kinds`.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree
from skimage.draw import ellipse, line_aa

from ptycho.scan.probe import central_wave, centred_axes
from ptycho_pretrain.kinds import Kind, Parameter
from ptycho_pretrain.object_kinds import BLUR, DENSITY, OBJECT_KINDS, SIZED, count_for, smooth
from ptycho_pretrain.probe_kinds import COMMON, DIAMETER, PROBE_KINDS, REACH, disk, propagate


def mirrors(
    N: int, rng: np.random.Generator, *, diameter: float, reach: float, strength: float
) -> np.ndarray:
    """Return the focus ``(N, N)`` of two bent mirrors: a rectangular pupil, with figure errors along each."""
    aspect, waves = rng.uniform(0.6, 1.0), rng.normal(size=(2, 4)) * strength
    sign, c = rng.choice([-1, 1]), diameter * N / 2 / reach

    def mirror(window: int, reach: float, waves: np.ndarray) -> np.ndarray:
        nu = np.fft.fftshift(np.fft.fftfreq(window)) / reach
        figure = sum(a * np.cos(np.pi * (k + 1) * nu + k) for k, a in enumerate(waves))
        return (np.abs(nu) <= 1) * np.exp(1j * (sign * np.pi * c * (nu * reach) ** 2 + figure))

    window = 2 * N  # computed wider, and cropped
    pupil = mirror(window, reach, waves[0])[:, None] * mirror(window, reach * aspect, waves[1])
    return central_wave(pupil, N)


def mask(N: int, rng: np.random.Generator, *, diameter: float, grain: float) -> np.ndarray:
    """Return a disk cut up by a coded aperture, some way before the sample; ``(N, N)``."""
    code = gaussian_filter(rng.normal(size=(N, N)), grain, mode="wrap") > 0
    open_ = disk(N, rng, diameter=diameter, edge=0.7) * gaussian_filter(code.astype(float), 0.7)
    return propagate(open_, (diameter * N / 2) ** 2 / 12)


def ring(N: int, rng: np.random.Generator, *, diameter: float, width: float) -> np.ndarray:
    """Return a ring with a weakly curved wave; ``(N, N)``."""
    radius = np.hypot(*centred_axes(N)) / (diameter * N / 2)
    curved = np.exp(1j * rng.uniform(-3, 3) * radius**2)
    return np.exp(-(((radius - 1 + width) / width) ** 2)) * curved


def fibres(side: int, rng: np.random.Generator, *, size: float, blur: float, density: float) -> np.ndarray:
    """Draw bent threads; ``(side, side)``."""
    thickness = np.zeros((side, side))
    for _ in range(3 * count_for(side, 2 * size, density)):
        point, angle = rng.uniform(0, side, 2), rng.uniform(0, 2 * np.pi)
        bend, height = rng.normal(0, 0.15), rng.uniform(0.4, 1)
        for _ in range(12):
            angle += bend + rng.normal(0, 0.1)
            after = point + size / 2 * np.array([np.sin(angle), np.cos(angle)])
            rows, cols, share = line_aa(*np.round(np.concatenate([point, after])).astype(int))
            inside = (rows >= 0) & (rows < side) & (cols >= 0) & (cols < side)
            thickness[rows[inside], cols[inside]] += height * share[inside]
            point = after
    return smooth(thickness, max(blur, 0.8))


def rings(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw rings about a few centres, finer and finer outwards, as in a zone plate; ``(side, side)``."""
    thickness = np.zeros((side, side))
    rows, cols = np.mgrid[:side, :side]
    for row, col in rng.uniform(0, side, (max(2, round((side / (5 * size)) ** 2)), 2)):
        radius = np.hypot(rows - row, cols - col)
        thickness = np.where(radius < 3 * size, np.sin(np.pi * (radius / size) ** 2 * 2) > 0, thickness)
    return smooth(thickness, blur)


def foam(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw walls between the cells of a foam; ``(side, side)``."""
    points = rng.uniform(-size, side + size, (max(8, round((side / size + 2) ** 2)), 2))
    near, _ = cKDTree(points).query(np.mgrid[:side, :side].reshape(2, -1).T, k=2)
    wall = near[:, 1] - near[:, 0] < max(0.18 * size, 1.5)
    return smooth(wall.reshape(side, side), blur)


def leaves(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw ellipses that cover each other, of sizes without a scale ("dead leaves"); ``(side, side)``."""
    thickness = np.zeros((side, side))
    for _ in range(round(6 * (side / size) ** 2)):
        long = np.clip(size * 0.4 * rng.pareto(2.0) + 1.5, 1.5, side / 3)
        row, col = rng.uniform(0, side, 2)
        wide = max(long * rng.uniform(0.4, 1), 1)
        inside = ellipse(row, col, long, wide, thickness.shape, rotation=rng.uniform(-np.pi, np.pi))
        thickness[inside] = rng.uniform(0, 1)
    return smooth(thickness, blur)


PROBES = PROBE_KINDS | {
    draw.__name__: Kind(draw, {"diameter": DIAMETER} | parameters | COMMON)
    for draw, parameters in (
        (mirrors, {"reach": REACH, "strength": Parameter(0.0, 1.0)}),
        (mask, {"grain": Parameter(1.5, 4.0)}),
        (ring, {"width": Parameter(0.15, 0.5)}),
    )
}
OBJECTS = OBJECT_KINDS | {
    "fibres": Kind(fibres, SIZED | {"density": DENSITY}),
    "rings": Kind(rings, {"size": Parameter(10.0, 40.0, log=True), "blur": BLUR}),
    "foam": Kind(foam, SIZED),
    "leaves": Kind(leaves, SIZED),
}
