"""Settings of Keras that a user or a notebook has made: no number of a network depends on them."""

import contextlib
import io

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptycho.config import TrainConfig
from ptycho.networks.weights import get_weights
from ptycho.scan.batches import batch_of
from ptycho.training.fitting import FitSettings, build_optimizer, make_train_step

PROGRAM = """
import keras, numpy as np
from ptycho.networks.denoiser import Denoiser
from ptycho.networks.layers import Decoder, Encoder
images = np.random.default_rng(0).normal(size=(1, 16, 16, 4)).astype(np.float32)
inner = Encoder([3, 5], 1)(images)
found = [inner, Decoder([5, 3], 2, 7)(inner), Denoiser(seed=2)([images, images[..., :1]])]
print(keras.config.image_data_format(), keras.config.floatx())
print([[str(each.dtype), *each.shape, float(np.sum(np.abs(each)))] for each in found])
"""


def told():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(PROGRAM, {})
    return out.getvalue().splitlines()


def test_formats_of_images_and_numbers_change_nothing():
    """As a user's ``keras.json`` sets them."""
    usual, numbers = told()
    assert usual == "channels_last float32" and "float64" not in numbers
    try:
        keras.config.set_image_data_format("channels_first")
        keras.config.set_floatx("float64")
        assert told() == ["channels_first float64", numbers]
    finally:
        keras.config.set_image_data_format("channels_last")
        keras.config.set_floatx("float32")


def one_step(build_network):
    """Weights after a step of training from the same start, for the network and the baseline."""
    found = []
    for name in ("unrolled", "baseline"):
        model, data = build_network(name)
        settings = FitSettings(
            adam=TrainConfig(), epochs=1, batch_size=2, learning_rate=1e-3, seed=0, compile_xla=False
        )
        step = make_train_step(model, build_optimizer(model, settings, 4), compile_xla=False)
        batch = batch_of(data, np.arange(2), truth=name == "baseline")
        step(batch, tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32))
        found += get_weights(model).values()
    return found


@pytest.fixture
def usual(build_network, eagerly):
    return one_step(build_network)


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_a_policy_of_a_notebook_changes_nothing(policy, build_network, usual):
    before = (keras.config.dtype_policy(), keras.config.floatx())
    try:
        keras.config.set_floatx("float64" if policy == "float64" else "float32")
        keras.config.set_dtype_policy(policy)
        other = one_step(build_network)
        assert keras.config.dtype_policy().name == policy  # it is the user's, and stays
    finally:
        keras.config.set_floatx(before[1])
        keras.config.set_dtype_policy(before[0])
    for one, two in zip(usual, other, strict=True):
        assert two.dtype == np.float32
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-8)
