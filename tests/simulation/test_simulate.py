"""Simulated scans: counting statistics, photon scale, and independence of their parts."""

import random

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference

from ptycho.config import IdealDiskProbe, ZonePlateProbe
from ptycho.scan.beam import Beam
from ptycho.scan.probe import make_probe
from ptycho.simulation.simulate import ROLES, noise_free_amplitudes, simulate

ARRAYS = ("amplitudes", "positions", "image", "groups", "probe", "objects")


def energies(data):
    """``Σ|P·O|²`` of every pattern from its exit wave (whole-pixel positions)."""
    N = data.N
    corners = data.positions.astype(int)
    patches = [data.objects[i, r : r + N, c : c + N] for i, (r, c) in zip(data.image, corners, strict=True)]
    return np.sum(np.abs(data.probe[0] * np.array(patches, complex)) ** 2, axis=(1, 2))


def assert_same(a, b):
    for key in ARRAYS:
        np.testing.assert_array_equal(getattr(a, key), getattr(b, key), err_msg=key)


def test_counts_are_poisson_about_the_reference(datasets):
    train = datasets["train"]
    patterns = range(0, len(train.positions), 5)
    beams = ((train.objects[train.image[k]], train.positions[k : k + 1], train.probe[0]) for k in patterns)
    amplitudes = [reference.exact_diffraction(*beam)[0] for beam in beams]
    expected = train.photon_scale**2 * np.square(amplitudes)
    counts = np.round(train.amplitudes[np.array(patterns)].astype(float) ** 2)
    bright = expected > 20
    deviate = (counts[bright] - expected[bright]) / np.sqrt(expected[bright])
    assert bright.sum() > 1000
    assert abs(deviate.mean()) < 0.1
    assert deviate.std() == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize("nphotons", [1e4, 1e9])
def test_mean_energy_of_the_training_scan_is_nphotons(small_config, nphotons):
    train = simulate(small_config(nphotons=nphotons, probe=ZonePlateProbe()))[0]["train"]
    assert train.photon_scale**2 * energies(train).mean() == pytest.approx(nphotons, rel=1e-5)
    counted = np.sum(np.asarray(train.amplitudes, float) ** 2, axis=(1, 2))
    noise = np.sqrt(nphotons / len(counted))
    assert abs(counted.mean() - nphotons) < 5 * noise + 1e-5 * nphotons


def test_another_probe_for_the_test_scan_alone(small_config, datasets):
    """The photon scale is that of the training; the training scan does not depend on the other probe."""
    changed = simulate(small_config(test_probe=IdealDiskProbe(diameter_px64=30.0)))[0]
    for role in ("train", "val"):
        assert_same(changed[role], datasets[role])
    np.testing.assert_array_equal(changed["test"].objects, datasets["test"].objects)
    assert changed["test"].photon_scale == datasets["test"].photon_scale
    intensity = [np.sum(np.abs(changed[role].probe) ** 2) for role in ("train", "test")]
    assert intensity[1] > 1.5 * intensity[0]
    assert energies(changed["test"]).mean() > 1.5 * energies(changed["train"]).mean()


@pytest.mark.parametrize("changes", [{"max_groups_train": 5}, {"nphotons": 1e4}])
def test_the_test_object_does_not_depend_on_training(datasets, small_config, changes):
    changed = simulate(small_config(**changes))[0]
    for role in ("val", "test"):
        np.testing.assert_array_equal(changed[role].objects, datasets[role].objects)
        np.testing.assert_array_equal(changed[role].groups, datasets[role].groups)
    np.testing.assert_array_equal(changed["train"].objects[0], datasets["train"].objects[0])


def test_same_seed_same_data_and_the_global_generators_stay_untouched(datasets, small_config):
    numpy_state, python_state = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    tf.random.set_seed(3)
    first = tf.random.uniform(()).numpy()
    tf.random.set_seed(3)
    again = simulate(small_config())[0]
    assert tf.random.uniform(()).numpy() == first
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert random.getstate() == python_state
    for role in ROLES:
        assert_same(again[role], datasets[role])


@pytest.mark.parametrize("probe", [IdealDiskProbe(), ZonePlateProbe()], ids=lambda p: p.kind)
def test_noise_free_amplitudes_by_the_references(probe):
    rng = np.random.default_rng(4)
    truth = reference.random_complex(rng, (51, 51)).astype(np.complex64)
    modes = make_probe(probe, 32)
    positions = np.array([[0, 0], [19, 19], [3, 18], [0.5, 18.75], [18.999, 0.001]], np.float32)
    found = noise_free_amplitudes(truth, Beam(modes, positions))
    expected = reference.exact_diffraction(truth, positions, modes)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-5 * expected.max())
