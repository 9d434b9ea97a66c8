"""Kinds of objects, as maps of thickness: 0 where there is nothing, 1 where most is.

A map is turned into a transmission by :func:`ptycho_pretrain.distributions.transmission`. Lengths are in
pixels; ``size`` is the typical length of a kind's structures. NumPy, SciPy and scikit-image alone.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.ndimage import affine_transform, gaussian_filter
from scipy.spatial import cKDTree
from skimage import color, data
from skimage.draw import disk, ellipse, polygon

from ptycho.simulation.measured_like import line_amplitude
from ptycho_pretrain.kinds import Kind, Parameter, rotation

PICTURES = ("astronaut", "brick", "camera", "coffee", "coins", "grass", "gravel", "moon", "rocket", "chelsea")
PHOTOGRAPHS = (
    "china.jpg",
    "flower.jpg",
    "ascent",
    "aero",
    "stereo_motorcycle",
    "stereo_motorcycle",
    "immunohistochemistry",
    "retina",
    "hubble_deep_field",
    "grass",
    "cell",
    "text",
    "page",
    "clock",
)
SIZE = Parameter(4.0, 40.0, log=True)
BLUR = Parameter(0.5, 2.5)  # standard deviation of the smoothing: how sharp edges are


def lines(side: int, rng: np.random.Generator, *, density: float) -> np.ndarray:
    """Draw the published "grid lines", ``(side, side)``: blurred segments; ``density`` 1: 400 on 392 px."""
    count = max(4, round(400 * density * side / 392))
    return line_amplitude(side, count, rng)


def polygons(side: int, rng: np.random.Generator, *, size: float, blur: float, density: float) -> np.ndarray:
    """Draw convex plates of random heights that lie on each other; ``(side, side)``."""
    thickness = np.zeros((side, side))
    for _ in range(count_for(side, size, density)):
        angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 7)))
        radii = size * rng.uniform(0.6, 1.6)
        row, col = rng.uniform(0, side, 2)
        inside = polygon(row + radii * np.sin(angles), col + radii * np.cos(angles), thickness.shape)
        thickness[inside] += rng.uniform(0.3, 1)
    return smooth(thickness, blur)


def gratings(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw fields of bars, each field with a pitch and a direction of its own; ``(side, side)``."""
    field = _cells(side, 5 * size, rng)
    count = int(field.max()) + 1
    pitch, angle = size * rng.uniform(0.5, 1.5, count), rng.uniform(0, np.pi, count)
    duty, height = rng.uniform(0.3, 0.7, count), rng.uniform(0.4, 1, count)
    rows, cols = np.mgrid[:side, :side]
    along = (rows * np.sin(angle[field]) + cols * np.cos(angle[field])) / pitch[field]
    return smooth(height[field] * (along % 1 < duty[field]), blur)


def stars(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw Siemens stars; ``(side, side)``."""
    thickness = np.zeros((side, side))
    rows, cols = np.mgrid[:side, :side]
    for row, col in rng.uniform(0, side, (max(2, round((side / (6 * size)) ** 2)), 2)):
        angle, radius = np.arctan2(rows - row, cols - col), np.hypot(rows - row, cols - col)
        spokes = np.sin(rng.integers(6, 24) * angle + rng.uniform(0, 2 * np.pi)) > 0
        thickness = np.where(radius < 4 * size, rng.uniform(0.5, 1) * spokes, thickness)
    return smooth(thickness, blur)


def cells(side: int, rng: np.random.Generator, *, size: float, blur: float, density: float) -> np.ndarray:
    """Draw round bodies, thickest in the middle, with a nucleus and grains; ``(side, side)``."""
    thickness = np.zeros((side, side))
    rows, cols = np.mgrid[:side, :side]
    for row, col in rng.uniform(0, side, (count_for(side, 1.5 * size, density), 2)):
        radius = size * rng.uniform(0.6, 1.6)
        body = np.maximum(1 - ((rows - row) ** 2 + (cols - col) ** 2) / radius**2, 0)
        thickness += rng.uniform(0.3, 1) * np.sqrt(body)
        for _ in range(4):
            inner = (row + rng.uniform(-0.5, 0.5) * radius, col + rng.uniform(-0.5, 0.5) * radius)
            thickness[disk(inner, max(radius * rng.uniform(0.1, 0.35), 1), shape=thickness.shape)] += 0.3
    return smooth(thickness, blur)


def blobs(side: int, rng: np.random.Generator, *, size: float, blur: float, density: float) -> np.ndarray:
    """Draw islands with edges: smoothed noise above a threshold, of two sizes; ``(side, side)``."""
    share = 0.1 + 0.6 * density / 2
    thickness = np.zeros((side, side))
    for scale in (0.4 * size, size):
        noise = gaussian_filter(rng.normal(size=(side, side)), scale, mode="wrap")
        thickness += noise > np.quantile(noise, 1 - share)
    return smooth(thickness, blur)


def grains(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw Voronoi cells of random heights; ``(side, side)``."""
    cell = _cells(side, size, rng)
    return smooth(rng.uniform(0, 1, int(cell.max()) + 1)[cell], blur)


def clouds(side: int, rng: np.random.Generator, *, size: float) -> np.ndarray:
    """Draw smooth noise without edges; ``(side, side)``."""
    return _scale(gaussian_filter(rng.normal(size=(side, side)), size / 3, mode="wrap"))


def pictures(side: int, rng: np.random.Generator, *, magnification: float) -> np.ndarray:
    """Draw part of a photograph of ``skimage.data``, turned at random; ``(side, side)``."""
    return _part_of(_photograph(PICTURES[rng.integers(len(PICTURES))]), side, rng, magnification)


def _part_of(
    picture: np.ndarray, side: int, rng: np.random.Generator, magnification: float, sharpness: float = 1.0
) -> np.ndarray:
    """A part ``(side, side)`` of a picture ``(H, W)``, turned; made smooth before it is made smaller."""
    if magnification < 1 and sharpness < 1:
        picture = gaussian_filter(picture, 0.5 * (1 - sharpness) / magnification)
    angle, scale = rng.uniform(0, 2 * np.pi), 1 / magnification
    turn = scale * rotation(angle)
    centre = rng.uniform(0.3, 0.7, 2) * picture.shape
    offset = centre - turn @ np.full(2, side / 2)
    return _scale(affine_transform(picture, turn, offset, (side, side), order=1, mode="mirror"))


def photographs(side: int, rng: np.random.Generator, *, magnification: float) -> np.ndarray:
    """Draw part of a photograph that none of our benchmarks scans, turned at random; ``(side, side)``.

    Needs the optional packages of ``pip install "ptychopinn[pretrain]"``, which bring some of them.
    """
    name = PHOTOGRAPHS[rng.integers(len(PHOTOGRAPHS))]
    return _part_of(_photograph(name), side, rng, magnification, sharpness=rng.uniform(0, 1))


def textured(side: int, rng: np.random.Generator, *, size: float, blur: float) -> np.ndarray:
    """Draw shapes of all sizes that cover each other, each with a texture of its own; ``(side, side)``.

    A texture is nothing, a slope, noise with the spectrum ``1/q^b``, or bars.
    """
    rows, cols = np.mgrid[:side, :side] / side - 0.5
    thickness = np.zeros((side, side))
    fractals = [_fractal(side, rng) for _ in range(4)]
    for _ in range(min(round(3 * (side / size) ** 2) + 1, 1500)):
        long = np.clip(size * 0.5 * rng.pareto(1.5) + 1.5, 1.5, side)
        row, col = rng.uniform(0, side, 2)
        if rng.random() < 0.5:
            wide = max(1, long * rng.uniform(0.3, 1))
            inside = ellipse(row, col, long, wide, thickness.shape, rotation=rng.uniform(-3, 3))
        else:
            angles = np.sort(rng.uniform(0, 2 * np.pi, rng.integers(3, 6)))
            inside = polygon(row + long * np.sin(angles), col + long * np.cos(angles), thickness.shape)
        if inside[0].size:
            angle, place = rng.uniform(0, 2 * np.pi), (rows[inside], cols[inside])
            along = place[0] * np.sin(angle) + place[1] * np.cos(angle)
            thickness[inside] = rng.uniform(0, 1) + rng.normal(0, 0.3) * along
            kind, strength = rng.random(), 0.3 * rng.random() ** 2
            if kind < 0.35:
                thickness[inside] += strength * fractals[rng.integers(len(fractals))][inside]
            elif kind < 0.5:
                bars = np.sin(2 * np.pi * along * side / rng.uniform(2.5, 12))
                thickness[inside] += strength * np.sign(bars)
    return smooth(np.clip(thickness, -0.2, 1.2), blur)


def _fractal(side: int, rng: np.random.Generator) -> np.ndarray:
    """Noise of mean zero, deviation one, with the amplitude spectrum ``1/q^b``; ``(side, side)``."""
    q = np.hypot(*np.ix_(np.fft.fftfreq(side), np.fft.rfftfreq(side)))
    q[0, 0] = np.inf
    far = np.fft.rfft2(rng.normal(size=(side, side)))
    noise = np.fft.irfft2(far / q ** rng.uniform(0.3, 1.6), (side, side))
    return noise / noise.std()


def count_for(side: int, size: float, density: float) -> int:
    """Return how many things of a size cover ``density`` of the map, overlaps apart."""
    return max(3, round(density * side**2 / (np.pi * size**2)))


def _cells(side: int, size: float, rng: np.random.Generator) -> np.ndarray:
    """The Voronoi cell of each pixel, ``(side, side)`` int, about one per ``size``²."""
    points = rng.uniform(0, side, (max(4, round((side / size) ** 2)), 2))
    _, nearest = cKDTree(points).query(np.mgrid[:side, :side].reshape(2, -1).T)
    return nearest.reshape(side, side)


def smooth(thickness: np.ndarray, blur: float) -> np.ndarray:
    """Smooth a map with the standard deviation ``blur``; from 0 to 1."""
    return _scale(gaussian_filter(np.asarray(thickness, float), blur, mode="nearest"))


def _scale(thickness: np.ndarray) -> np.ndarray:
    """From 0 to 1; a constant is 0."""
    span = np.ptp(thickness)
    return (thickness - thickness.min()) / (span if span > 0 else 1.0)


@lru_cache(maxsize=len(PHOTOGRAPHS) + len(PICTURES))
def _photograph(name: str) -> np.ndarray:
    """A photograph in grey, ``(H, W)`` float64."""
    if name in ("china.jpg", "flower.jpg"):
        from sklearn.datasets import load_sample_image

        picture = np.asarray(load_sample_image(name))
    elif name in ("ascent", "aero"):
        import pywt.data

        picture = np.asarray(getattr(pywt.data, name)())
    else:
        picture = getattr(data, name)()
        picture = np.asarray(picture[0] if isinstance(picture, tuple) else picture)
    return (color.rgb2gray(picture) * 255 if picture.ndim == 3 else picture).astype(float)


DENSITY = Parameter(0.3, 2.0, log=True)
SIZED = {"size": SIZE, "blur": BLUR}
OBJECT_KINDS: dict[str, Kind] = {
    "lines": Kind(lines, {"density": DENSITY}),
    "polygons": Kind(polygons, SIZED | {"density": DENSITY}),
    "gratings": Kind(gratings, SIZED),
    "stars": Kind(stars, SIZED),
    "cells": Kind(cells, SIZED | {"density": DENSITY}),
    "blobs": Kind(blobs, SIZED | {"density": DENSITY}),
    "grains": Kind(grains, SIZED),
    "clouds": Kind(clouds, {"size": SIZE}),
    "pictures": Kind(pictures, {"magnification": Parameter(0.4, 1.5, log=True)}),
    "photographs": Kind(photographs, {"magnification": Parameter(0.3, 1.5, log=True)}),
    "textured": Kind(textured, {"size": SIZE, "blur": Parameter(0.0, 1.5)}),
}
"""Kind to function ``(side, rng, **parameters)`` → thickness ``(side, side)`` from 0 to 1."""
