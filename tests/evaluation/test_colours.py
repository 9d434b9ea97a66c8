"""Colours of waves and phases, against the published forward transform and phases that are known."""

import numpy as np

from ptycho.evaluation.display import hue, residues, show_phase

# sRGB → Oklab as published (Ottosson 2020), the other way than the code goes
RGB_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
ROOTS_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
ROWS, COLS = np.mgrid[:60, :80]


def oklab(rgb):
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.cbrt(linear @ RGB_TO_CONES.T) @ ROOTS_TO_LAB.T


def test_the_phase_is_the_hue_and_the_amplitude_the_lightness():
    angles = np.linspace(-3.1, 3.1, 97)
    lightness, a, b = np.moveaxis(oklab(hue(np.exp(1j * angles)[None]))[0], -1, 0)
    np.testing.assert_allclose(lightness, 0.75, atol=1e-4)
    np.testing.assert_allclose(np.hypot(a, b), 0.12, atol=1e-4)
    np.testing.assert_allclose(np.arctan2(b, a), angles, atol=2e-3)
    shares = np.array([[0.0, 0.25, 0.5, 1.0]])
    np.testing.assert_allclose(oklab(hue(-2 * shares))[0, :, 0], 0.75 * shares[0], atol=1e-4)
    assert not hue(np.zeros((2, 3), complex)).any()


def test_a_wide_phase_is_unwrapped_where_it_is_known():
    """A hill of 15 rad; what lies outside stays unknown, and the mean, which is arbitrary, is zero."""
    hill = 15 * np.exp(-((ROWS - 30) ** 2 + (COLS - 40) ** 2) / 400)
    inside = np.hypot(ROWS - 30, COLS - 40) < 28
    shown = show_phase(np.where(inside, np.angle(np.exp(1j * hill)), np.nan))
    assert (shown.unit, shown.colours) == ("rad, unwrapped", "viridis")
    np.testing.assert_array_equal(np.isfinite(shown.values), inside)
    np.testing.assert_allclose(shown.values[inside], (hill - hill[inside].mean())[inside], atol=1e-6)
    noise = np.random.default_rng(1).uniform(-3, 3, ROWS.shape)
    assert show_phase(noise).unit == "rad, wrapped"


def test_residues_are_the_zeros_of_a_wave():
    """(z − a)(z − b)* with z = column + i row: a vortex at a, an opposite one at b; a ramp of .6 rad/px."""
    z = COLS + 1j * ROWS
    wave = (z - (20.5 + 31.5j)) * np.conj(z - (60.5 + 10.5j)) * np.exp(1j * (0.5 * ROWS + 0.3 * COLS))
    np.testing.assert_array_equal(residues(np.angle(wave)), [[10.5, 60.5, 1], [31.5, 20.5, -1]])
    known = np.where(np.hypot(ROWS - 31.5, COLS - 20.5) > 1, np.angle(wave), np.nan)
    np.testing.assert_array_equal(residues(known), [[10.5, 60.5, 1]])
    assert not len(residues(np.angle(np.exp(20j * np.exp(-((ROWS - 30) ** 2 + (COLS - 40) ** 2) / 400)))))
    assert residues(np.zeros((1, 5))).shape == (0, 3)
