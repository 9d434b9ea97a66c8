"""An estimate is an object and the beam of a data set in normalised units; round trip to that beam."""

import numpy as np
import pytest

from ptycho.reconstruction.estimate import Estimate

N = 15


@pytest.fixture
def data(dataset_of):
    """Two modes, a flux that varies and a background without any symmetry; of odd side."""
    rng = np.random.default_rng(2)
    return dataset_of(
        [[0, 0], [3.5, 1], [5, 4]],
        [[0], [1], [2]],
        N=N,
        probe=rng.normal(size=(2, N, N)) + 1j * rng.normal(size=(2, N, N)),
        flux=np.array([0.8, 1.3, 1.1], np.float32),
        background=rng.random((N, N)).astype(np.float32),
    )


@pytest.mark.parametrize("factor", [1, 2.5], ids=["its own units", "those of another dataset"])
def test_an_estimate_in_some_units_and_its_beam(data, factor):
    s, f = data.photon_scale, factor * data.normalisation
    object_ = np.full((64, 64), 1 - 1j, np.complex64)
    estimate = Estimate.of(data, object_, normalisation=None if factor == 1 else f)
    np.testing.assert_allclose(estimate.modes, s * f * data.probe, rtol=1e-5)
    np.testing.assert_allclose(
        np.roll(estimate.background, [N // 2, N // 2], (0, 1)) / f**2, data.beam.background, rtol=1e-5
    )
    beam = estimate.beam(s, f)
    for key, value in data.beam.arrays().items():
        np.testing.assert_allclose(beam.arrays()[key], value, rtol=1e-5, err_msg=key)
