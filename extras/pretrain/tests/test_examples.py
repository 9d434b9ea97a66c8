"""Training examples of a pretraining against loops and against the project's own measurement."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.pretraining import CLEAN, FORMS, config_of

from ptycho.config import UnrolledModel
from ptycho.networks.pinn import PtychoPINN
from ptycho.networks.unrolled import Unrolled
from ptycho_pretrain.config import MaterialsConfig
from ptycho_pretrain.examples import Examples, draw_dead_pixels, measure_group, shift_modes
from ptycho_pretrain.pretraining import geometry_of_form

PROBES = {"zone_plate": {"reach": [0.2, 0.4]}, "gaussian": None, "vortex": {"reach": [0.2, 0.4]}}
MATERIALS = MaterialsConfig(phase_rad=(0.5, 2.0), absorption=(0.1, 0.8))


def batch_of(name, step=0, **measurement):
    """Form and batch of a pretraining with this form alone, without noise and imperfections but these."""
    config = config_of(name, probes=PROBES, materials=MATERIALS, measurement=replace(CLEAN, **measurement))
    return config.forms[0], Examples(config).batch(step)


def shift_matrix(N, shift):
    """``M[x, y] = 1/N Σ_ν exp(2πi ν (x − y − shift))``: its defining sum."""
    nu = [(k if k < N / 2 else k - N) / N for k in range(N)]
    return np.array(
        [[sum(np.exp(2j * np.pi * v * (x - y - shift)) for v in nu) / N for y in range(N)] for x in range(N)]
    )


def slow_pattern(target, offset, modes, reach):
    """``√Σ_m |F(P_m moved by the fraction · O at the whole pixel)|²``, by sums."""
    N, intensity = modes.shape[-1], 0.0
    whole = [int(np.floor(r + reach + 0.5)) for r in offset]
    rows, cols = (shift_matrix(N, r + reach - w) for r, w in zip(offset, whole, strict=True))
    window = reference.cut(target, whole, N)
    for mode in modes:
        far = reference.far_field(rows @ mode.astype(complex) @ cols.T * window)
        intensity = intensity + np.abs(far) ** 2
    return np.sqrt(intensity)


def modes_of(batch, b):
    probe = batch["probe"][b, 0]
    return probe if probe.ndim == 3 else probe[None]


@pytest.mark.parametrize("name", FORMS)
def test_patterns_are_those_of_a_slow_loop(name):
    form, batch = batch_of(name, step=3)
    assert batch["x"].shape == (2, form.C, form.N, form.N)
    for b in range(2):
        for x, offset in zip(batch["x"][b], batch["offsets"][b].astype(float), strict=True):
            expected = slow_pattern(batch["target"][b], offset, modes_of(batch, b), form.reach)
            np.testing.assert_allclose(x, expected, atol=2e-5 * expected.max())


@pytest.mark.parametrize("name", FORMS)
def test_the_network_s_measurement_of_the_truth_is_the_patterns(name):
    form, batch = batch_of(name, step=1)
    x, offsets, probe, target = (tf.constant(batch[key]) for key in ("x", "offsets", "probe", "target"))
    geometry = geometry_of_form(form)
    generator = Unrolled(settings=UnrolledModel(stages=1, width=4), geometry=geometry, seed=0)
    network = PtychoPINN(generator=generator, geometry=geometry, weights={"mae_weight": 1.0})
    predict = network.predict_amplitudes
    assert reference.relative(predict(target, offsets, probe), x) < 2e-5
    wrong = (target, -offsets, probe), (target, offsets[..., ::-1], probe), (target, offsets + 1, probe)
    assert all(reference.relative(predict(*arguments), x) > 0.005 for arguments in wrong)


def test_a_probe_moves_down_and_to_the_right():
    """Hand-worked: a whole pixel moves every sample; the middle of a smooth probe moves by the fraction."""
    rng = np.random.default_rng(1)
    modes = reference.random_complex(rng, (2, 8, 8)).astype(np.complex64)
    found = shift_modes(modes, np.array([[1.0, 0.0], [0.0, -2.0]]))
    np.testing.assert_allclose(found[0], np.roll(modes, 1, axis=1), atol=1e-5)
    np.testing.assert_allclose(found[1], np.roll(modes, -2, axis=2), atol=1e-5)
    row, col = np.mgrid[:24, :24] - 12
    spot = np.exp(-(row**2 + col**2) / 20).astype(np.complex64)
    intensity = np.abs(shift_modes(spot[None], np.array([[0.4, -0.3]]))[0, 0]) ** 2
    middle = [np.sum(axis * intensity) / intensity.sum() for axis in (row, col)]
    np.testing.assert_allclose(middle, [0.4, -0.3], atol=1e-4)


@pytest.mark.parametrize("name", FORMS)
def test_the_illumination_is_that_of_a_loop(name):
    form, batch = batch_of(name, step=4)
    for b in range(2):
        intensity = np.zeros((form.region_size,) * 2)
        for offset, mode in itertools.product(batch["offsets"][b], modes_of(batch, b)):
            for i, j in np.ndindex(form.N, form.N):
                pairs = zip(offset, (i, j), strict=True)
                row, col = (int(np.floor(r + form.reach + 0.5)) + k for r, k in pairs)
                intensity[row, col] += abs(mode[i, j]) ** 2
        np.testing.assert_allclose(batch["illumination"][b], intensity / intensity.max(), atol=1e-5)
        assert batch["illumination"][b].max() == 1


def test_an_object_is_a_window_of_a_map_turned_or_mirrored():
    materials = MaterialsConfig(bright=1.0, unrelated=0.0)
    config = config_of("single", maps=1, map_side=20, materials=materials)
    examples, orientations = Examples(config), set()
    batches = [examples.batch(step) for step in range(6)]
    whole = np.maximum(examples._map(0), 0.05)
    R = config.forms[0].region_size
    for target in np.concatenate([batch["target"] for batch in batches]):
        found = [
            (turns, mirrored)
            for row, col, turns, mirrored in itertools.product(range(3), range(3), range(4), (False, True))
            for part in [np.rot90(whole[row : row + R, col : col + R], turns)]
            if np.allclose(np.abs(target), part.T if mirrored else part, atol=1e-3)
        ]
        assert len(found) == 1
        orientations.add(found[0])
    assert len(orientations) > 3


ENERGY = np.random.default_rng(2).uniform(0.5, 2, (3, 16, 16))


def test_counts_are_whole_photons_of_the_specified_number():
    x, scale = measure_group(ENERGY, replace(CLEAN, photons=(500.0, 500.0)), np.random.default_rng(0))
    counts = (x / x[x > 0].min()) ** 2
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    assert counts.sum() == pytest.approx(3 * 500, abs=4 * np.sqrt(1500))
    per_photon = x[x > 0].min()  # f; the scale is s·f, s² photons for one of the energy
    assert scale / per_photon == pytest.approx(np.sqrt(500 / ENERGY.sum(axis=(1, 2)).mean()), rel=1e-6)


def test_dead_pixels_are_minus_one_in_every_pattern_of_a_group():
    _, batch = batch_of("group", step=1, bad_share=1.0, bad_pixels=(0.2, 0.2))
    _, whole = batch_of("group", step=1)
    for x, sound in zip(batch["x"], whole["x"], strict=True):
        dead = x == -1
        assert dead.any() and np.all(dead == dead[0]) and x[~dead].min() >= 0
        np.testing.assert_allclose(x[~dead], sound[~dead], rtol=1e-4, atol=1e-5)
    shares = [draw_dead_pixels(64, 0.2, np.random.default_rng(seed)).mean() for seed in range(100)]
    assert 0.02 < min(shares) < 0.06 and 0.12 < max(shares) < 0.16


def test_a_wrong_probe_changes_what_is_specified_and_not_what_is_measured():
    _, right = batch_of("modes", step=2)
    _, wrong = batch_of("modes", step=2, probe_error_share=1.0, probe_error_rad=(0.3, 0.3))
    np.testing.assert_array_equal(wrong["x"], right["x"])
    np.testing.assert_array_equal(wrong["illumination"], right["illumination"])
    power = [np.sum(np.abs(batch["probe"]) ** 2, axis=(1, 2, 3, 4)) for batch in (right, wrong)]
    np.testing.assert_allclose(*power, rtol=1e-4)
    assert 0.05 < reference.relative(wrong["probe"], right["probe"]) < 0.6


def test_wrong_positions_change_what_is_specified_and_not_what_is_measured():
    found = []
    for step in range(30):
        form, right = batch_of("group", step)
        _, wrong = batch_of("group", step, position_error_share=1.0, position_error_px=(0.4, 0.4))
        np.testing.assert_array_equal(wrong["x"], right["x"])
        np.testing.assert_array_equal(wrong["probe"], right["probe"])
        np.testing.assert_array_equal(wrong["illumination"], right["illumination"])
        inside = np.abs(wrong["offsets"]) < form.reach  # the others are kept within reach
        found.append((wrong["offsets"] - right["offsets"])[inside])
    assert np.std(np.concatenate(found)) == pytest.approx(0.4, rel=0.12)


def test_a_step_has_the_same_batch_whatever_came_before():
    config = config_of(measurement=replace(CLEAN, start_share=0.5, bad_share=0.5, photons=(1e3, 1e6)))
    examples = Examples(config)
    np.random.seed(1)  # noqa: NPY002  what the global generator would give
    there = [examples.batch(step) for step in range(6)]
    np.random.seed(2)  # noqa: NPY002
    back = Examples(config)
    for step in (5, 1, 3, 1):
        np.testing.assert_equal(back.batch(step), there[step])
        form = back.form_of(step)
        assert there[step]["x"].shape == (form.batch, form.C, form.N, form.N)
    assert len({examples.form_of(step) for step in range(20)}) == 3
    one, other = (examples.draw_batch(config.forms[1], np.random.default_rng(k))["x"] for k in (0, 1))
    assert not np.array_equal(one, other)
