"""A network for many scans: its loss, a specified start, the misfit as its input."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.gradients import gradients, slope_along
from helpers.pretraining import CLEAN, FORMS, batch_of

from ptycho.config import UnrolledModel
from ptycho.networks.layers import get_weights
from ptycho.networks.unrolled import Unrolled
from ptycho_pretrain.pretraining import amplitude_error, geometry_of_form, object_error


def network_of(geometry, seed=0, trained=False, **settings):
    """Return a network: untrained, the bare iteration; ``trained``: with random last convolutions."""
    model = UnrolledModel(**({"stages": 2, "width": 8, "misfit": True} | settings))
    network = Unrolled(settings=model, geometry=geometry, seed=seed, name="generator")
    network.build((2, geometry.group_size, geometry.N, geometry.N))
    if trained:
        rng = np.random.default_rng(seed)
        for cnn in network.cnns:
            cnn.tail.kernel.assign(0.03 * rng.normal(size=cnn.tail.kernel.shape))
    return network


def random_objects(*shape, seed=1):
    """Two objects, and an illumination whose maximum is one."""
    rng = np.random.default_rng(seed)
    found, target = (reference.random_complex(rng, shape).astype(np.complex64) for _ in range(2))
    illumination = rng.uniform(0, 1, shape).astype(np.float32)
    illumination[:, 0, 0] = 1
    return found, target, illumination


def test_object_error_against_a_loop():
    found, target, illumination = random_objects(2, 5, 6)
    computed = object_error(found, target, illumination).numpy()
    for b in range(2):
        pixels = [
            (*values, values[2] / (values[2] + 0.1))
            for values in zip(*(a[b].flat for a in (found, target, illumination)), strict=True)
        ]
        total = sum(w for *_, w in pixels)
        turn = np.exp(-1j * np.angle(sum(w * o * np.conj(t) for o, t, _, w in pixels)))
        mean = sum(w * t for _, t, _, w in pixels) / total
        wrong = sum(w * abs(o * turn - t) for o, t, _, w in pixels)
        expected = wrong / (sum(w * abs(t - mean) for _, t, _, w in pixels) + 0.003 * total)
        assert computed[b] == pytest.approx(expected, rel=1e-4)


def test_amplitude_error_against_a_loop():
    found, target, illumination = random_objects(2, 5, 6)
    illumination[:, 0, 1] = 5e-4
    computed = amplitude_error(*map(tf.constant, (found, target)), illumination).numpy()
    for b in range(2):
        pixels = [
            (abs(o), abs(t), dose / (dose + 0.1))
            for o, t, dose in zip(*(a[b].flat for a in (found, target, illumination)), strict=True)
            if dose > 1e-3
        ]
        total = sum(w for *_, w in pixels)
        mean = sum(w * t for _, t, w in pixels) / total
        wrong = sum(w * abs(o - t) for o, t, w in pixels)
        expected = wrong / (sum(w * abs(t - mean) for _, t, w in pixels) + 0.03 * total)
        assert computed[b] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", ["found", "target", "both", "equal"])
def test_the_gradient_of_object_error_is_finite_at_zero(name):
    found, target, illumination = random_objects(3, 7, 7)
    found = 0 * found if name in ("found", "both") else found
    target = 0 * target if name in ("target", "both") else target
    start = target if name == "equal" else found
    error, gradient = gradients(lambda x: object_error(x, target, illumination), start)
    assert np.isfinite(error).all() and np.isfinite(gradient).all()


def test_the_gradient_of_object_error_is_that_of_finite_differences():
    found, target, illumination = random_objects(3, 3, 3)
    way = reference.random_complex(np.random.default_rng(3), found.shape).astype(np.complex64)

    def total(x):
        return tf.reduce_sum(object_error(x, target, illumination))

    slope = slope_along(total, found, way, np.float32(1e-3))
    assert np.vdot(gradients(total, found)[1], way).real == pytest.approx(slope, rel=0.01)


@pytest.mark.parametrize("name", FORMS)
def test_a_probe_for_each_group_is_as_one_for_all_group_by_group(name):
    form, batch = batch_of(name)
    network = network_of(geometry_of_form(form), trained=True)
    together = network(batch["x"], batch["offsets"], batch["probe"]).numpy()
    assert reference.relative(batch["probe"][0], batch["probe"][1]) > 0.1
    for b in range(2):
        x, offsets = batch["x"][b : b + 1], batch["offsets"][b : b + 1]
        alone = network(x, offsets, batch["probe"][b, 0]).numpy()
        np.testing.assert_allclose(alone[0], together[b], atol=1e-4 * np.abs(together).max())


@pytest.mark.parametrize("name", FORMS)
def test_the_truth_stays_where_it_is(name, within):
    """There is no noise; without a start, the same two stages are far from the truth."""
    form, batch = batch_of(name)
    network = network_of(geometry_of_form(form))
    arguments = batch["x"], batch["offsets"], batch["probe"]
    illuminated = batch["illumination"] > 0.05
    target = batch["target"][illuminated]
    started = network(*arguments, batch["target"])
    within("from the truth", reference.relative(started[illuminated], target), below=2e-3)
    within("from nothing", reference.relative(network(*arguments)[illuminated], target), above=0.03)


def slow_misfit(batch, b, reach):
    """¼ log √(Σ |change|² / Σ x² + 10⁻⁸) of the constant of an example without modes, in double precision."""
    x, probe = batch["x"][b].numpy().astype(float), batch["probe"][b, 0, 0].numpy().astype(complex)
    seen = np.maximum(x, 0)
    level = np.sqrt(np.sum(seen**2) / len(x) / np.sum(np.abs(probe) ** 2))
    left = 0.0
    for pattern, offset in zip(x, batch["offsets"][b].numpy().astype(float), strict=True):
        far = reference.far_field(reference.moved(probe, offset - np.floor(offset + 0.5)) * level)
        wanted = np.where(pattern < 0, np.abs(far), pattern * np.abs(far) / np.sqrt(np.abs(far) ** 2 + 1e-6))
        left += np.sum((wanted - np.abs(far)) ** 2)  # unitary: as of the waves
    return np.log(np.sqrt(left / np.sum(seen**2) + 1e-8)) / 4


@pytest.mark.parametrize("bad", [0.0, 1.0])
@pytest.mark.parametrize("name", ["group", "single"])
def test_the_cnns_receive_the_misfit(name, bad, monkeypatch):
    form, batch = batch_of(name, measurement=replace(CLEAN, bad_share=bad, bad_pixels=(0.2, 0.2)))
    network = network_of(geometry_of_form(form), stages=1)
    shown = []

    def call(features, _):
        shown.append(features)
        return features[..., :2], features

    monkeypatch.setattr(network.cnns[0], "call", call)
    network(batch["x"], batch["offsets"], batch["probe"])
    (features,) = shown
    assert features.shape == (2, form.region_size, form.region_size, 6)
    for b in range(2):
        expected = slow_misfit(batch, b, form.reach)
        np.testing.assert_allclose(features[b, ..., 5], expected, atol=2e-4)
        assert np.ptp(features[b, ..., 0]) > 0.01


def test_a_stage_is_given_the_hidden_channels_of_the_one_before():
    form, batch = batch_of("group")
    inputs = [batch[key] for key in ("x", "offsets", "probe")]
    network = network_of(geometry_of_form(form), stages=2, memory=True)
    first, second = network.cnns
    assert first.recall is None and second.recall.kernel.shape == (1, 1, 8, 8)
    rng = np.random.default_rng(0)
    second.tail.kernel.assign(rng.normal(0, 0.1, second.tail.kernel.shape))
    forgetful = network(*inputs).numpy()
    kept, plain = get_weights(network), network_of(geometry_of_form(form), stages=2)
    for variable in plain.variables:
        variable.assign(kept[variable.path.replace(plain.name, network.name, 1)])
    np.testing.assert_allclose(plain(*inputs), forgetful, atol=1e-6)
    second.recall.kernel.assign(rng.normal(0, 0.5, second.recall.kernel.shape))
    recalling = network(*inputs).numpy()
    assert np.abs(recalling - forgetful).max() > 1e-4
    first.head.bias.assign(first.head.bias + 1.0)  # its tail is zero: nothing but what is handed on
    assert np.abs(network(*inputs).numpy() - recalling).max() > 1e-4
