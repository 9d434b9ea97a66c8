"""Settings of Keras by a user or a notebook: the numbers of a network do not depend on them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ptycho.config import TrainConfig
from ptycho.networks.layers import get_weights
from ptycho.training.fitting import FitSettings, batch_of, build_optimizer, make_train_step


def one_step(build_network):
    """Return the weights after one training step from the same start, for the network and the baseline."""
    found = []
    for name in ("unrolled", "baseline"):
        model, data = build_network(name)
        rates = {"batch_size": 2, "learning_rate": 1e-3, "seed": 0, "compile_xla": False}
        settings = FitSettings(adam=TrainConfig(), epochs=1, **rates)
        step = make_train_step(model, build_optimizer(model, settings, 4), compile_xla=False)
        batch = batch_of(data, np.arange(2), truth=name == "baseline")
        step(batch, tf.constant(data.model_probe), tf.constant(data.normalisation, tf.float32))
        found += get_weights(model).values()
    return found


@pytest.mark.usefixtures("eagerly")
def test_a_policy_of_a_notebook_changes_nothing(build_network):
    before, usual = (keras.config.dtype_policy(), keras.config.floatx()), one_step(build_network)
    for policy, floatx in (("mixed_float16", "float32"), ("float64", "float64")):
        try:
            keras.config.set_floatx(floatx)
            keras.config.set_dtype_policy(policy)
            other = one_step(build_network)
            assert keras.config.dtype_policy().name == policy  # it is the user's, and stays
        finally:
            keras.config.set_floatx(before[1])
            keras.config.set_dtype_policy(before[0])
        for one, two in zip(usual, other, strict=True):
            assert two.dtype == np.float32
            np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-8)
