"""The networks: their layers, sizes, losses, gradients and weights, and the inputs of each model."""

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference

from ptycho.config import FourierModel, UNetModel, UnrolledModel
from ptycho.networks.fno import SpectralConvolution
from ptycho.networks.layers import Geometry, get_weights, set_weights
from ptycho.networks.unrolled import ResidualCNN
from ptycho.training.competitors import COMPETITORS
from ptycho.training.fitting import batch_of

ALL = ("unrolled", "unet", "unet_big", "fno", "baseline")
GROUPS = np.array([0, 5, 11])


@pytest.fixture(scope="module")
def built(build_network):
    weights = {"mae_weight": 1.0, "nll_weight": 1e-3, "realspace_weight": 0.1}
    return {name: build_network(name, **weights) for name in ALL}


@pytest.mark.parametrize("coarsening", [1, 2, 3])
def test_residual_cnn_keeps_every_pixel_in_its_place(coarsening):
    """With kernels that copy channels, the output is the first two features on every grid."""
    features = tf.random.stateless_uniform((2, 13, 11, 5), seed=(1, 2))
    cells = coarsening**2
    cnn = ResidualCNN(width=5 * cells, blocks=0, coarsening=coarsening, seed=0)
    cnn.build(features.shape)
    head, tail = np.zeros(cnn.head.kernel.shape), np.zeros(cnn.tail.kernel.shape)
    head[1, 1] = np.eye(5 * cells)
    for cell in range(cells):
        tail[1, 1, 5 * cell, 2 * cell] = tail[1, 1, 5 * cell + 1, 2 * cell + 1] = 1
    cnn.head.kernel.assign(head)
    cnn.tail.kernel.assign(tail)
    np.testing.assert_allclose(cnn(features)[0], features[..., :2], rtol=1e-6)


def test_a_spectral_convolution_is_that_of_fast_transforms():
    rng, m = np.random.default_rng(0), 3
    layer = SpectralConvolution(width=4, modes=m, seed=0)
    inputs = rng.normal(size=(2, 11, 14, 4)).astype(np.float32)
    found = layer(tf.constant(inputs)).numpy()
    weights = layer.real.numpy() + 1j * layer.imaginary.numpy()
    far, kept = np.fft.rfft2(inputs, axes=(1, 2)), np.zeros((2, 11, 8, 4), complex)
    for row in range(-m, m):
        for col in range(m):
            kept[:, row, col] = far[:, row, col] @ weights[row + m, col]
    expected = np.fft.irfft2(kept, s=(11, 14), axes=(1, 2))
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "model", [UnrolledModel(stages=2, width=8), UNetModel(filters_scale=1), FourierModel(8, 6, 2), "baseline"]
)
def test_weights_fit_every_size_but_those_that_are_stated(small_config, model):
    name = "baseline" if model == "baseline" else "pinn"
    config = small_config() if model == "baseline" else small_config(model=model)
    sizes = {"N": 32, "region_size": 36, "group_size": 4, "support": 22}
    others = {"N": {"N": 64, "region_size": 68}, "group_size": {"group_size": 1}}
    others |= {"region_size": {"region_size": 45}, "support": {"support": 30}}
    weights = get_weights(COMPETITORS[name].build(config, Geometry(**sizes)))
    for size in others.keys() - set(config.fixed_sizes(name)):
        other = COMPETITORS[name].build(config, Geometry(**(sizes | others[size])))
        set_weights(other, weights)  # names and shapes agree, or it is refused


def test_losses_are_the_weighted_parts(built):
    model, data = built["unrolled"]
    batch, probe = batch_of(data, GROUPS), tf.constant(data.model_probe)
    x, offsets = batch["x"], batch["offsets"]
    losses = model.losses_of(batch, probe, tf.constant(data.normalisation, tf.float32))
    predicted = model.predict_amplitudes(model(x, offsets, probe), offsets, probe).numpy().astype(float)
    counts = (np.asarray(x, float) / data.normalisation) ** 2
    deviance = reference.poisson_deviance((predicted / data.normalisation) ** 2 + 1e-6, counts)
    variation = np.mean([reference.total_variation(o) for o in model(x, offsets, probe).numpy()])
    assert set(losses) == {"loss", "mae", "nll", "tv"}
    assert float(losses["mae"]) == pytest.approx(np.mean(np.abs(predicted - x)), rel=1e-4)
    assert float(losses["nll"]) == pytest.approx(deviance, rel=1e-3)
    assert float(losses["tv"]) == pytest.approx(variation, rel=1e-4)
    total = losses["mae"] + 1e-3 * losses["nll"] + 0.1 * losses["tv"]
    assert float(losses["loss"]) == pytest.approx(float(total), rel=1e-6)


def test_baseline_losses_by_numpy(built):
    model, data = built["baseline"]
    batch, probe = batch_of(data, GROUPS, truth=True), tf.constant(data.model_probe)
    losses = model.losses_of(batch, probe, tf.constant(data.normalisation, tf.float32))
    patches, target = model(batch["x"], batch["offsets"], probe).numpy(), batch["target"].numpy()[:, 0]
    weight = np.abs(data.probe[0]) ** 2 / np.mean(np.abs(data.probe) ** 2)
    amplitude, phase = (part.numpy()[:, 0] for part in model._amplitude_and_phase(batch["x"]))
    np.testing.assert_allclose(patches, amplitude * np.exp(1j * phase), atol=1e-5)
    expected = {
        "amplitude_mae": np.mean(weight * np.abs(amplitude - np.abs(target))),
        "phase_mae": np.mean(weight * np.abs(phase - np.angle(target))),
    }
    for name, value in expected.items():
        assert float(losses[name]) == pytest.approx(value, rel=1e-4)
    assert float(losses["loss"]) == pytest.approx(sum(expected.values()), rel=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_finite_for_all_dark_frames(built, name):
    model, data = built[name]
    batch = batch_of(data, GROUPS, truth=name == "baseline")
    dark_group = np.ones((3, 1, 1, 1), np.float32)
    dark_group[1] = 0
    dark_frame = np.ones((3, data.group_size, 1, 1), np.float32)
    dark_frame[2, 0] = 0
    batch["x"] = batch["x"] * dark_group * dark_frame
    with tf.GradientTape() as tape:
        scale = tf.constant(data.normalisation, tf.float32)
        losses = model.losses_of(batch, tf.constant(data.model_probe), scale)
    gradients = tape.gradient(losses["loss"], model.trainable_variables)
    assert np.isfinite(losses["loss"])
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert gradient is not None and np.isfinite(gradient).all(), variable.path
    assert sum(float(tf.reduce_sum(tf.abs(g))) for g in gradients) > 0
