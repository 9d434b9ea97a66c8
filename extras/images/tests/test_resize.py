"""Resize: every method against TensorFlow's kernels, gradients, dtypes, and refused arguments."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.gradients import gradients

from ptycho_images import resize
from ptycho_images.resize import METHODS, resize_weights

CASES = sorted(METHODS)
DIFFERENT = [case for case in CASES if case[0] not in ("nearest", "area") or not case[1]]
SIZES = [(13, 20), (4, 3), (5, 20), (7, 11), (1, 22), (21, 1), (14, 22)]  # up, down, mixed, same, twice
RNG = np.random.default_rng(5)
IMAGES = RNG.normal(size=(2, 7, 11, 3)).astype(np.float32)


def compiled(function):
    return tf.function(function, jit_compile=True, autograph=False)


@pytest.mark.parametrize(("method", "antialias"), CASES)
@pytest.mark.parametrize("size", SIZES)
def test_eager_equals_tensorflow(method, antialias, size):
    expected = tf.image.resize(IMAGES, size, method, antialias=antialias)
    resized = resize(IMAGES, size, method, antialias=antialias)
    assert resized.dtype == expected.dtype
    np.testing.assert_allclose(resized, expected, rtol=0, atol=2e-6 * np.abs(IMAGES).max())


@pytest.mark.parametrize(("method", "antialias"), CASES)
@pytest.mark.parametrize(
    ("pixels", "samples"), [(255, 256), (1023, 512), (512, 1111), (12, 10), (10, 15), (900, 7), (1, 9)]
)
def test_weights_are_those_of_tensorflow_on_long_axes(method, antialias, pixels, samples):
    """Impulses give the weights; one rounding decides if radius and sample point nearly coincide."""
    impulses = np.eye(pixels, dtype=np.float32).reshape(1, pixels, 1, pixels)
    expected = tf.image.resize(impulses, (samples, 1), method, antialias=antialias)[0, :, 0]
    np.testing.assert_allclose(resize_weights(pixels, samples, method, antialias), expected, atol=8e-7)


@pytest.mark.parametrize(("method", "antialias"), [("nearest", False), ("area", False), ("lanczos5", True)])
def test_compiled_equals_eager_with_gradients(method, antialias):
    def value_and_gradient(images, size, upstream):
        return gradients(lambda x: resize(x, size, method, antialias=antialias), images, upstream=upstream)

    size = (70, 4)  # by taps and, for wide kernels and their adjoints, by products
    arguments = tf.constant(IMAGES), size, tf.constant(RNG.normal(size=(2, *size, 3)), tf.float32)
    fast, slow = compiled(value_and_gradient)(*arguments), value_and_gradient(*arguments)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * np.abs(other).max())


@pytest.mark.parametrize(("method", "antialias"), DIFFERENT)
@pytest.mark.parametrize("size", [(9, 23), (3, 4), (80, 5)])
def test_the_gradient_is_the_adjoint(method, antialias, size):
    """⟨Ax, y⟩ = ⟨x, A*y⟩ for complex x and y in double precision."""
    x = tf.constant(IMAGES[..., :1] + 1j * IMAGES[..., 1:2], tf.complex128)
    y = tf.constant(RNG.normal(size=(2, *size, 1)) + 1j * RNG.normal(size=(2, *size, 1)))
    resized, adjoint = gradients(lambda x: resize(x, size, method, antialias=antialias), x, upstream=y)
    assert resized.dtype == adjoint.dtype == tf.complex128
    np.testing.assert_allclose(np.vdot(y, resized), np.vdot(adjoint, x), rtol=1e-12)


def test_nan_stays_where_it_is_read():
    """TensorFlow's compiled bilinear resize spreads one NaN over its whole channel; its kernel does not."""
    images = IMAGES.copy()
    images[0, 3, 5, 0] = np.nan
    expected = np.isnan(tf.image.resize(images, (5, 5)))
    np.testing.assert_array_equal(np.isnan(compiled(lambda x: resize(x, (5, 5)))(images)), expected)


@pytest.mark.parametrize(("pixels", "size"), [((2, 9), (23, 47)), ((16, 16), (48, 48)), ((24, 24), (5, 40))])
def test_compiled_where_tensorflows_own_compiled_bilinear_is_wrong(pixels, size):
    """Here ``tf.image.resize`` with ``jit_compile=True`` is wrong by more than 1 in TensorFlow 2.21."""
    images = RNG.normal(size=(1, *pixels, 2)).astype(np.float32)
    resized = compiled(lambda x: resize(x, size))(images)
    np.testing.assert_allclose(resized, tf.image.resize(images, size), atol=5e-6)


@pytest.mark.parametrize(
    ("images", "size", "method", "message"),
    [
        (IMAGES[0, 0], (3, 3), "area", r"images has shape \(11, 3\); allowed: \(B, H, W, C\)"),
        (IMAGES[:, :0], (3, 3), "area", "height and width must be positive"),
        (IMAGES > 0, (3, 3), "area", "images has dtype bool; allowed: uint8"),
        (IMAGES, (0, 3), "area", r"size is \[0, 3\]; allowed: two positive integers"),
        (IMAGES, (3, 3), "cubic", "method is 'cubic'; allowed: area, bicubic, bilinear, gaussian"),
    ],
)
def test_what_is_refused(images, size, method, message):
    with pytest.raises(ValueError, match=message):
        resize(images, size, method)
