"""A beam of some patterns and of all; and a data set with another beam."""

import numpy as np
import pytest

from ptycho.scan.beam import Beam, join_parts
from ptycho.scan.groups import grouped, overreach

N, J = 16, 9


@pytest.fixture
def beam():
    rng = np.random.default_rng(0)
    probe = (rng.normal(size=(2, N, N)) + 1j * rng.normal(size=(2, N, N))).astype(np.complex64)
    positions = rng.permutation(np.stack([np.arange(J) * 3, np.arange(J) ** 2 % 7], axis=1))
    flux, dark = rng.uniform(0.5, 2, J).astype(np.float32), rng.random((N, N)).astype(np.float32)
    return Beam(probe, positions.astype(np.float32), flux, dark)


def test_parts_are_joined_in_the_order_of_the_scan(beam):
    parts = [np.array([1, 4, 5, 8]), np.array([0, 6]), np.array([2, 3, 7])]
    joined = join_parts([(part, beam.at(part)) for part in parts])
    for key, value in beam.arrays().items():
        np.testing.assert_array_equal(joined.arrays()[key], value)


def test_another_power_is_that_of_all_modes_together(beam):
    scaled = beam.scaled_to(7.0)
    assert scaled.power == pytest.approx(7, rel=1e-5) == np.sum(np.abs(scaled.probe) ** 2)
    ratio = scaled.probe / beam.probe
    np.testing.assert_allclose(ratio, ratio[0, 0, 0], rtol=1e-5)


def test_patterns_under_other_positions_are_grouped_anew(dataset_of):
    """A shifted pattern has other neighbours, and regions that hold them; the lattice stays."""
    positions = np.stack([np.zeros(J), 3.0 * np.arange(J)], axis=1)
    data = dataset_of(positions, [[k, k + 1] for k in range(J - 1)], region_size=20).regrouped(2)
    moved = positions[np.random.default_rng(1).permutation(J)] * [1, 1.5] + [0.25, 0]
    under = data.under(Beam(data.probe, moved.astype(np.float32)))
    expected = grouped(under.positions, data.image, 2, data.tiles)
    np.testing.assert_array_equal(under.groups, expected)
    assert (under.groups != data.groups).any() and under.region_size != data.region_size
    assert overreach(under.positions, under.groups, under.region_size, N) <= 1e-3
    assert under.exact and not data.exact and under.tiling == data.tiling
    np.testing.assert_array_equal(under.amplitudes[:], data.amplitudes[:])


def test_a_network_is_shown_patterns_without_flux_and_background(dataset_of):
    """``√max(f²(A² − b), 0)/c`` by a loop; a pixel that was not measured is −1."""
    rng = np.random.default_rng(5)
    flux, dark = np.array([0.5, 2, 1.25], np.float32), 4 * rng.random((N, N)).astype(np.float32)
    good = rng.random((N, N)) > 0.2
    known = {"flux": flux, "background": dark, "good": good, "counts": True}
    data = dataset_of([[0, 0], [3, 1], [5, 4]], [[0], [1], [2]], **known)
    f, A = data.normalisation, data.amplitudes[:]
    shown, plain = data.normalised(np.array([2, 0])), data.measured(np.array([2, 0]))
    for k, j in enumerate((2, 0)):
        for row, col in np.ndindex(N, N):
            a = A[j, row, col]
            expected = f * np.sqrt(max(a**2 - dark[row, col], 0)) / flux[j] if good[row, col] else -1
            assert shown[k, row, col] == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert plain[k, row, col] == pytest.approx(f * a if good[row, col] else -1, rel=1e-5)
