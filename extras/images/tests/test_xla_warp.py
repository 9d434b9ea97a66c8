"""Projective warp: against TensorFlow's kernel and SciPy, gradients, shapes and errors."""

from functools import partial

import numpy as np
import pytest
import scipy.ndimage
import tensorflow as tf
from helpers.gradients import gradients, slopes

from benchmarks import conformance, oracles
from benchmarks.conformance_cases import FILL_MODES, FLOATS, OPERATORS, WARP_SHAPES, random_transforms
from ptycho_images import projective_warp

RNG = np.random.default_rng(11)
# generic numbers: no sample falls on a whole coordinate, where the derivative jumps
T = np.array(
    [
        [0.913, 0.217, 1.331, -0.117, 1.119, -0.713, 0.011, -0.017],
        [-1.031, 0.119, 9.237, 0.053, 0.811, 0.419, 0, 0],
    ]
)
ZEROS = np.zeros((2, 7, 10, 2))
MODES = ("constant", "nearest", "reflect", "wrap")
graph = partial(tf.function, autograph=False)  # Python's control flow depends on no tensor here


def complex_images(shape=(2, 7, 10, 2)):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


CASES = [(n, d) for n in OPERATORS if "warp" in n for d in FLOATS]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_conformance(name, dtype):
    count = conformance.check(name, dtype, 50, modes=(False,))
    assert count.cases == 50 and count.failed == 0, count
    assert count.kinds["border"] >= 15
    assert min(count.kinds[k] for k in ("flipped", "size 1", "grid-aligned")) >= 5


@pytest.mark.parametrize(
    ("interpolation", "dtype", "shapes"),
    [("bilinear", "float32", (0, 1, 2, 3)), ("nearest", "float32", (1, 3)), ("bilinear", "complex128", (2,))],
)
def test_conformance_when_compiled(interpolation, dtype, shapes):
    """Every fill mode, and images of one row and of one column: every shape compiles anew."""
    count = conformance.check(f"projective_warp {interpolation}", dtype, 50, modes=(True,), shapes=shapes)
    assert count.cases == 50 and count.failed == 0, count
    assert count.kinds["border"] >= 15
    assert min(count.kinds[k] for k in ("flipped", "grid-aligned")) >= 5


@pytest.mark.parametrize("mode", ["constant", "nearest"])
def test_agrees_with_scipy_where_the_definitions_do(mode):
    image, t = RNG.normal(size=(1, 8, 9, 1)), T[1:].copy()
    expected = scipy.ndimage.affine_transform(
        image[0, ..., 0],
        [[t[0, 4], t[0, 3]], [t[0, 1], t[0, 0]]],
        offset=[t[0, 5], t[0, 2]],
        order=1,
        mode={"constant": "grid-constant"}.get(mode, mode),
        cval=0.5,
    )
    warped = projective_warp(image, t, fill_mode=mode, fill_value=0.5)
    np.testing.assert_allclose(warped[0, ..., 0], expected, atol=1e-12)
    loops = oracles.numpy_warp(image, t, "bilinear", mode, 0.5, (8, 9))
    np.testing.assert_allclose(loops[0, ..., 0], expected, atol=1e-12)


def test_one_transform_serves_all_images_and_other_counts_are_refused():
    images = complex_images((3, 7, 10, 1))
    expected = projective_warp(images, np.repeat(T[:1], 3, axis=0))
    np.testing.assert_array_equal(projective_warp(images, T[:1]), expected)
    with pytest.raises(ValueError, match="transforms has 2 rows for 3 images; allowed: 1 or one for each"):
        projective_warp(images, T)
    unknown = [tf.TensorSpec((None, 7, 10, 1), tf.complex128), tf.TensorSpec((None, 8), tf.float64)]
    function = graph(lambda i, t: projective_warp(i, t), input_signature=unknown)
    for images_given, transforms_given in ((images, T), (images[:1], T)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes|Input to reshape"):
            function(tf.constant(images_given), tf.constant(transforms_given))


@pytest.mark.parametrize("interpolation", ["bilinear", "nearest"])
@pytest.mark.parametrize("mode", MODES)
def test_gradient_to_images_is_the_adjoint(interpolation, mode):
    x, y = tf.constant(complex_images()), complex_images((2, 6, 5, 2))
    warp = partial(projective_warp, interpolation=interpolation, fill_mode=mode, output_shape=(6, 5))
    warped, adjoint = gradients(lambda x: warp(x, T), x, upstream=tf.constant(y))
    np.testing.assert_allclose(np.vdot(y, warped), np.vdot(adjoint, x), rtol=1e-12)


@pytest.mark.parametrize(("mode", "matrix"), [*((mode, False) for mode in MODES), ("reflect", True)])
def test_gradient_to_transforms_by_finite_differences(mode, matrix):
    x, y = complex_images(), complex_images()
    t = np.concatenate([T, np.ones((2, 1))], axis=1).reshape(2, 3, 3) if matrix else T

    @graph
    def loss(t):
        warped = projective_warp(x, t, fill_mode=mode, fill_value=0.5)
        return tf.reduce_sum(tf.math.real(tf.math.conj(y) * warped))

    _, gradient = gradients(loss, t)
    tolerance = 1e-5 * np.abs(gradient).max()
    np.testing.assert_allclose(gradient, slopes(loss, t, 1e-7), rtol=1e-5, atol=tolerance)


def test_eager_and_compiled_agree_in_value_and_gradients():
    images, t = tf.constant(complex_images().astype(np.complex64)), tf.constant(T, tf.float32)

    def function(i, t):
        return gradients(partial(projective_warp, fill_mode="reflect"), i, t, upstream=i + 1)

    compiled = graph(function, jit_compile=True)
    for a, b in zip(function(images, t), compiled(images, t), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(a).max())


def integer_images(dtype, shape):
    """Return values up to 2⁴⁰; every fourth image has one value, with blends close to the next integer."""
    low, high = (0, 256) if dtype == "uint8" else (-(2**20), 2**20) if dtype == "int32" else (-(2**40), 2**40)
    images = RNG.integers(low, high, shape).astype(dtype)
    images[::4] = images[::4, :1, :1]
    return images


EAGER = [(d, i, False, range(4)) for d in ("uint8", "int32", "int64") for i in ("bilinear", "nearest")]
COMPILED = [("uint8", "bilinear", True, (0, 3)), ("int64", "bilinear", True, (2,))]
COMPILED += [("int64", "nearest", True, (1,))]


@pytest.mark.parametrize(("dtype", "interpolation", "compiled", "shapes"), [*EAGER, *COMPILED])
def test_integer_images_are_those_of_tensorflows_kernel(dtype, interpolation, compiled, shapes):
    for (shape, size), mode in ((WARP_SHAPES[k], FILL_MODES[k]) for k in shapes):
        t = random_transforms(RNG, 400, *shape[:2])
        images = integer_images(dtype, (400, *shape))
        function = partial(
            projective_warp, interpolation=interpolation, fill_mode=mode, fill_value=7.9, output_shape=size
        )
        function = graph(function, jit_compile=True) if compiled else function
        expected = oracles.tensorflow_warp(images, t, interpolation, mode, 7.9, size)
        warped = function(images, t)
        assert warped.dtype == dtype
        np.testing.assert_array_equal(warped, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((7, 10, 2))}, r"images has shape \(7, 10, 2\); allowed: \(B, H, W, C\)"),
        ({"images": ZEROS > 0}, "images has dtype bool; allowed: uint8, uint16"),
        ({"images": ZEROS.astype("u1"), "fill_value": -1}, "fill_value is -1 for uint8 images"),
        ({"transforms": T[:, :6]}, r"transforms has shape \(2, 6\); allowed: \(n, 8\) or \(n, 3, 3\)"),
        ({"transforms": T.astype(int)}, "transforms has dtype int64; allowed: a real floating dtype"),
        ({"fill_mode": "mirror"}, "fill_mode is 'mirror'; allowed: constant, nearest, reflect, wrap"),
        ({"fill_value": 1j}, "fill_value is 1j for float64 images"),
        ({"output_shape": (4, 0)}, r"output_shape is \[4, 0\]; allowed: two positive integers"),
        ({"output_shape": (None, 4)}, r"output_shape is \(None, 4\); allowed: two positive integers"),
    ],
)
def test_errors_name_the_argument(change, message):
    with pytest.raises(ValueError, match=message):
        projective_warp(**{"images": ZEROS, "transforms": T} | change)
