"""The caustic: Gaussian beams have a closed form; others are propagated plane by plane in the tests."""

from functools import partial

import numpy as np
import pytest

from ptycho.evaluation.caustic import caustic, draw_caustic, waist_text

WAVELENGTH, PIXEL = 1.5e-10, (20e-9, 25e-9)


def gaussian(N, waists, places):
    """Elliptic Gaussian beam in the sample plane: waist radii and their distances, of rows and of columns.

    ``exp(ik x²/2q)`` with ``q = −place − i z_R``, of waves exp(+ikz).
    """
    fields = []
    for w, place, pitch in zip(waists, places, PIXEL, strict=True):
        q = -place - 1j * np.pi * w**2 / WAVELENGTH
        fields.append(np.exp(1j * np.pi * ((np.arange(N) - N // 2) * pitch) ** 2 / (WAVELENGTH * q)))
    return np.outer(*fields)


def radius(z, w, place):
    """``w √(1 + ((z − z₀)/z_R)²)``."""
    return w * np.sqrt(1 + ((z - place) * WAVELENGTH / (np.pi * w**2)) ** 2)


@pytest.mark.parametrize("N, w, place", [(128, 2e-7, -3e-4), (64, 1.5e-7, 0.0), (256, 4e-7, 2.5e-3)])
def test_a_gaussian_beam_has_its_waist_and_rayleigh_range(N, w, place):
    found = caustic(gaussian(N, (w, w), (place, place)), WAVELENGTH, PIXEL)
    facts, range_m = found.facts, np.pi * w**2 / WAVELENGTH
    assert facts["distance_m"] == pytest.approx(place, abs=2e-3 * range_m)
    assert facts["fwhm_m"] == pytest.approx(w * np.sqrt(2 * np.log(2)), rel=1e-3)
    assert facts["fwhm_at_sample_m"] == pytest.approx(radius(0, w, place) * np.sqrt(2 * np.log(2)), rel=3e-3)
    z = found.distance_m
    assert z[0] == -z[-1] and z[-1] > abs(place) + range_m
    near = np.abs(z - place) < 2 * range_m
    expected = radius(z, w, place) * np.sqrt(2 * np.log(2))
    np.testing.assert_allclose(found.fwhm_m[near], expected[near], rtol=5e-3)
    sine = 0.5 * WAVELENGTH / np.pi / w * np.sqrt(2 * np.log(10))  # exp(−2 (NA/θ)²) = 1/10, θ = λ/(π w)
    assert facts["depth_of_field_m"] == pytest.approx(WAVELENGTH / sine**2 / 1, rel=0.15)


def test_a_structured_probe_is_propagated_by_the_exact_angular_spectrum():
    """Every plane of an odd, complex probe with a vortex, by sums over plane waves of 60° to the beam."""
    N, pixel, wavelength = 15, (0.8, 1.1), 1.0
    row, col = np.mgrid[:N, :N] - N // 2
    probe = (row * pixel[0] + 1j * col * pixel[1] - 0.4) * np.exp(-(row**2 + 0.6 * col**2) / 6 + 0.5j * col)
    found = caustic(probe, wavelength, pixel, planes=5)
    waves = []
    for z in found.distance_m:
        field = np.zeros((N, N), complex)
        for u in np.fft.fftfreq(N, pixel[0]):
            for v in np.fft.fftfreq(N, pixel[1]):
                if (s := 1 / wavelength**2 - u**2 - v**2) > 0:
                    plane = np.exp(2j * np.pi * (u * row * pixel[0] + v * col * pixel[1]))
                    field += np.vdot(plane, probe) / N**2 * np.exp(2j * np.pi * z * np.sqrt(s)) * plane
        waves.append(np.abs(field) ** 2)
    waves = np.array(waves)
    area = waves.sum(axis=(1, 2)) ** 2 / np.square(waves).sum(axis=(1, 2)) * np.prod(pixel)
    np.testing.assert_allclose(found.fwhm_m, np.sqrt(2 * np.log(2) * area / np.pi), rtol=1e-6)
    close = partial(np.allclose, rtol=1e-5, atol=1e-7 * waves.max())
    assert any(close(found.row_cut, waves[:, :, k]) for k in range(N))
    assert any(close(found.col_cut, waves[:, k]) for k in range(N))


def test_a_beam_without_a_waist_in_reach_says_so():
    """A plane wave has the same width in every plane."""
    found = caustic(np.ones((64, 64)), WAVELENGTH, PIXEL)
    assert found.facts["distance_m"] is None and waist_text(found.facts) == "not in reach"
    draw_caustic(found, "a")
