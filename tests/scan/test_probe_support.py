"""The support of a probe: projections by loops, and the pupil of an optic in the noise."""

import numpy as np
import pytest
from helpers.reference import random_complex

from ptycho.scan.probe import ProbeSupport, pupil_of

N = 15


def far_field_by_loops(wave):
    """``Σ_x P(x) exp(−2πi k·x/N)``, zero frequency at sample 0."""
    axis = np.arange(len(wave))
    kernel = np.exp(-2j * np.pi * np.outer(axis, axis) / len(wave))
    return kernel @ wave @ kernel.T


@pytest.mark.parametrize("far", [False, True])
def test_a_support_is_an_orthogonal_projection(far):
    rng = np.random.default_rng(0)
    region = rng.random((N, N)) > 0.6
    support = ProbeSupport(region, far)
    modes, others = (random_complex(rng, (2, N, N)).astype(np.complex64) for _ in range(2))
    found = support.project(modes)
    assert found.dtype == np.complex64 and np.abs(found - modes).max() > 0.1
    np.testing.assert_allclose(support.project(found), found, atol=1e-5)
    assert np.vdot(others, found) == pytest.approx(np.vdot(support.project(others), modes), rel=1e-4)
    for mode, kept in zip(modes, found, strict=True):
        wave, whole = (far_field_by_loops(one) if far else one for one in (kept, mode))
        np.testing.assert_allclose(wave, np.where(region, whole, 0), atol=1e-4 * np.abs(whole).max())


def test_the_pupil_of_an_annulus_in_noise():
    """The region holds the annulus of both modes and a margin of two pixels, and no noise."""
    rng, side = np.random.default_rng(1), 64
    radius = np.hypot(*np.meshgrid(*2 * [np.fft.fftfreq(side, 1 / side)], indexing="ij"))
    annulus = (radius > 8) & (radius < 14)
    far = np.stack([annulus * np.exp(0.1j * radius**2), 0.5 * annulus * (radius > 10)])
    noise = 0.02 * random_complex(rng, far.shape)
    found = pupil_of(np.fft.ifft2(far + noise).astype(np.complex64))
    assert found.far_field and found.region[annulus].all()
    assert not found.region[(radius > 20)].any() and not found.region[0, 0]


def test_a_pupil_over_the_edge_of_the_far_field_goes_on_at_the_other_edge():
    far = np.zeros((32, 32))
    far[14:20, 0:2] = 1  # rows 16 and above are negative frequencies
    region = pupil_of(np.fft.ifft2(np.roll(far, 16, axis=0))[None]).region
    assert region[0, 0] and region[31, 0] and region[0, 31] and not region[16, 16]
