"""Whole-pixel windows in compiled steps, against loops; each is the other's adjoint and gradient."""

import numpy as np
import pytest
import tensorflow as tf

from ptycho.physics import SEPARABLE, WHOLE
from ptycho.xla import add_windows, cut_windows

B, C, SIDE, SHAPE = 2, 5, 6, (17, 14)


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(4)

    def waves(*shape):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)

    starts = rng.integers(0, [SHAPE[0] - SIDE + 1, SHAPE[1] - SIDE + 1], (B, C, 2)).astype(np.int32)
    starts[0, 0], starts[0, 1] = (0, 0), (SHAPE[0] - SIDE, SHAPE[1] - SIDE)  # both corners
    return waves(B, *SHAPE), waves(B, C, SIDE, SIDE), starts


def compiled(function, *values):
    return tf.function(function, jit_compile=True, autograph=False)(*map(tf.constant, values))


def test_cutting_by_loops(case):
    images, _, starts = case
    found = compiled(lambda i, s: cut_windows(i, s, SIDE), images, starts).numpy()
    for b in range(B):
        for c, (row, col) in enumerate(starts[b]):
            np.testing.assert_array_equal(found[b, c], images[b, row : row + SIDE, col : col + SIDE])


def test_adding_by_loops(case):
    _, windows, starts = case
    expected = np.zeros((B, *SHAPE), np.complex64)
    for b in range(B):
        for c, (row, col) in enumerate(starts[b]):
            expected[b, row : row + SIDE, col : col + SIDE] += windows[b, c]
    found = compiled(lambda w, s: add_windows(w, s, SHAPE), windows, starts).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("which", ["cut", "add"])
def test_gradients_are_those_of_matrix_products(case, which):
    images, windows, starts = case
    positions = starts.astype(np.float32)
    given, other = (images, windows) if which == "cut" else (windows, images)

    def gradient(mover):
        def run(x, weight, places):
            with tf.GradientTape() as tape:
                tape.watch(x)
                moved = mover.extract(x, places, SIDE) if which == "cut" else mover.place(x, places, SHAPE)
                value = tf.reduce_sum(tf.abs(moved * weight))
            return tape.gradient(value, x)

        return compiled(run, given, other, positions).numpy()

    np.testing.assert_allclose(gradient(WHOLE), gradient(SEPARABLE), atol=1e-5)


def test_adjoint(case):
    images, windows, starts = case
    cut = compiled(lambda i, s: cut_windows(i, s, SIDE), images, starts).numpy()
    added = compiled(lambda w, s: add_windows(w, s, SHAPE), windows, starts).numpy()
    np.testing.assert_allclose(np.vdot(cut, windows), np.vdot(images, added), rtol=1e-5)
