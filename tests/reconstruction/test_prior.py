"""Regularisers of objects: by loops over pixels, by finite differences, and the bound of their curvature."""

import numpy as np
import pytest
from helpers.reference import random_complex

from ptycho.reconstruction.prior import Prior, kind_of

KINDS = ("quadratic", "edge_preserving", "second_order")
H, W = 7, 10


def slowly(kind, image):
    total, (rows, columns) = 0.0, image.shape
    for i, j in np.ndindex(image.shape):
        square, inside = 0.0, (i + 1 < rows, j + 1 < columns)
        if kind == "second_order":
            if i > 0 and inside[0]:
                square += abs(image[i - 1, j] - 2 * image[i, j] + image[i + 1, j]) ** 2
            if j > 0 and inside[1]:
                square += abs(image[i, j - 1] - 2 * image[i, j] + image[i, j + 1]) ** 2
            if all(inside):
                mixed = image[i + 1, j + 1] - image[i + 1, j] - image[i, j + 1] + image[i, j]
                square += 2 * abs(mixed) ** 2
            total += np.sqrt(square + 0.02**2) - 0.02
            continue
        if inside[0]:
            square += abs(image[i + 1, j] - image[i, j]) ** 2
        if inside[1]:
            square += abs(image[i, j + 1] - image[i, j]) ** 2
        total += square if kind == "quadratic" else np.sqrt(square + 0.05**2) - 0.05
    return total


def image_of(rng, size=0.3):
    return (size * random_complex(rng, (H, W))).astype(np.complex64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0.01, 0.3])
def test_value_by_a_loop_and_gradient_by_finite_differences(kind, size):
    """Finite differences of the loop, in double precision, at every pixel, real and imaginary."""
    image = image_of(np.random.default_rng(1), size)
    value, gradient = Prior(kind, 3.0)(image)
    assert value == pytest.approx(3 * slowly(kind, image.astype(complex)), rel=1e-4)
    assert gradient.shape == image.shape and gradient.dtype == np.complex64
    for place in np.ndindex(image.shape):
        for unit in (1, 1j):
            step = np.zeros(image.shape, complex)
            step[place] = 1e-6 * unit
            slope = 3 * (slowly(kind, image + step) - slowly(kind, image - step)) / 2e-6
            found = gradient[place].real if unit == 1 else gradient[place].imag
            assert found == pytest.approx(slope, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_curvature_bounds_the_second_derivative_of_a_pixel(kind):
    """The derivative along one pixel, from the gradient; a constant reaches the bound to a factor of two."""
    prior, bound, rng = Prior(kind, 2.0), 2 * kind_of(kind).curvature, np.random.default_rng(3)
    largest = 0.0
    for image in (np.full((H, W), 1 + 1j), image_of(rng, 0.01), image_of(rng, 1.0)):
        for place in [(0, 0), (3, 4), (H - 1, W - 1), (2, 0)]:
            step = np.zeros((H, W), np.complex64)
            step[place] = 1e-3
            up, down = (prior((image + sign * step).astype(np.complex64))[1][place].real for sign in (1, -1))
            largest = max(largest, (up - down) / 2e-3)
    assert bound / 2 < largest <= 1.05 * bound


@pytest.mark.parametrize("kind, order", [("quadratic", 1), ("second_order", 2)])
def test_stiffness_is_the_curvature_along_a_wave(kind, order):
    """By hand: along ε cos(2π(3 i/24 + 5 j/32)) the term has the curvature c s^p/2 per pixel at a constant.

    For second order, c = 1/δ there. The image is not periodic, so the rims may differ.
    """
    i, j = np.mgrid[:24, :32]
    wave = np.cos(2 * np.pi * (3 * i / 24 + 5 * j / 32)).astype(np.complex64)
    prior, h = Prior(kind, 7.0), 1e-4
    s = 4 * np.sin(np.pi * 3 / 24) ** 2 + 4 * np.sin(np.pi * 5 / 32) ** 2
    weight = 2.0 if kind == "quadratic" else 1 / 0.02
    assert prior.stiffness(np.ones_like(wave))[3, 5] == pytest.approx(7 * weight * s**order, rel=1e-5)
    slope = np.vdot(prior(1 + h * wave)[1], wave).real / h
    assert slope == pytest.approx(7 * weight * s**order * np.sum(wave.real**2), rel=0.15)


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@pytest.mark.parametrize("depth", [0.0, 5.0])
def test_curvature_is_symmetric_and_above_the_hessian(kind, depth):
    """At the object itself it gives the gradient; along any direction no less than second differences do."""
    rng, prior = np.random.default_rng(4), Prior(kind, 2.0, depth)
    image, a, b = (np.stack([image_of(rng), image_of(rng)]) for _ in range(3))
    curvature, gradient = prior.curvature(image), prior(image)[1]
    np.testing.assert_allclose(curvature(image), gradient, rtol=1e-4, atol=1e-4)
    assert np.vdot(a, curvature(b)).real == pytest.approx(np.vdot(curvature(a), b).real, rel=1e-4, abs=1e-3)
    step = np.float32(1e-3)
    up, down = (np.vdot(a, prior(image + sign * step * a)[1]).real for sign in (1, -1))
    assert np.vdot(a, curvature(a)).real >= (up - down) / (2 * step) - 1e-2
