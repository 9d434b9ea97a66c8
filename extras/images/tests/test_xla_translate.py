"""Translation: direction, fill, dtypes, gradients, precision, and the Keras layer."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.gradients import gradients, slopes

from benchmarks import conformance, oracles
from benchmarks.conformance_cases import FLOATS
from ptycho_images import Translation, translate
from ptycho_images.layers import threefry2x32

PATHS = ("taps", "matrix")
graph = partial(tf.function, autograph=False)  # Python's control flow depends on no tensor here
RNG = np.random.default_rng(3)
SHIFTS = np.array([[1.25, -2.5], [-0.75, 3.0], [0.0, 0.5]])


def complex_images(shape=(3, 7, 10)):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


@pytest.mark.parametrize("path", PATHS)
def test_positive_shift_moves_down_and_right(path):
    image = np.zeros((1, 5, 6))
    image[0, 1, 2] = 1.0
    moved = translate(image, [[2.0, 1.0]], path=path).numpy()
    assert moved[0, 3, 3] == 1.0 and moved.sum() == 1.0
    half = translate(image, [[0.0, 0.5]], path=path).numpy()
    np.testing.assert_array_equal(half[0, 1], [0, 0, 0.5, 0.5, 0, 0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_conformance(dtype):
    count = conformance.check("translate", dtype, 50, modes=(False,))
    assert count.cases == 50 and count.failed == 0, count


@pytest.mark.parametrize(("dtype", "shapes"), [("float32", (2, 3)), ("complex128", (5,))])
def test_conformance_when_compiled(dtype, shapes):
    """Images of one row, of one column, and of neither: every shape compiles anew."""
    count = conformance.check("translate", dtype, 50, modes=(True,), shapes=shapes)
    assert count.cases == 50 and count.failed == 0, count


@pytest.mark.parametrize("path", PATHS)
def test_gradient_to_images_is_the_adjoint(path):
    x, y = complex_images(), complex_images()
    moved, adjoint = gradients(lambda x: translate(x, SHIFTS, path=path), x, upstream=tf.constant(y))
    np.testing.assert_allclose(np.vdot(y, moved), np.vdot(adjoint, x), rtol=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("fill", [0.0, 1.5])
def test_gradient_to_shifts_by_finite_differences(path, fill):
    x, y = complex_images(), complex_images()
    shifts = SHIFTS + 0.1

    def loss(s):
        return tf.reduce_sum(tf.math.real(tf.math.conj(y) * translate(x, s, fill, path=path)))

    np.testing.assert_allclose(gradients(loss, shifts)[1], slopes(loss, shifts, 1e-5), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("path", PATHS)
def test_gradient_at_a_whole_shift_is_the_central_difference(path):
    x = RNG.normal(size=(1, 5, 6))
    _, found = gradients(lambda s: translate(x, s, path=path)[0, 3, 2], np.array([[1.0, 0.0]]))
    expected = -0.5 * np.array([x[0, 3, 2] - x[0, 1, 2], x[0, 2, 3] - x[0, 2, 1]])
    np.testing.assert_allclose(found[0], expected, rtol=1e-14)


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("path", PATHS)
def test_sizes_unknown_while_tracing(path, jit):
    unknown = [tf.TensorSpec((None, None, None, 2)), tf.TensorSpec((None, 2))]
    function = graph(lambda i, s: translate(i, s, 0.5, path=path), unknown, jit_compile=jit)
    for shape in ((3, 7, 10, 2), (3, 4, 1, 2)):
        images, shifts = RNG.normal(size=shape).astype(np.float32), SHIFTS.astype(np.float32)
        t = oracles.shift_transforms(shifts)
        expected = oracles.tensorflow_warp(images, t, "bilinear", "constant", 0.5, shape[1:3])
        np.testing.assert_allclose(function(images, shifts), expected, rtol=0, atol=1e-6)


def test_eager_and_compiled_agree_in_value_and_gradient():
    images = tf.constant(complex_images((3, 7, 10, 2)).astype(np.complex64))
    shifts = tf.constant(SHIFTS, tf.float32)
    weights = tf.reshape(tf.linspace(0.5, 1.5, tf.size(images)), tf.shape(images))  # all different

    def function(i, s, path):
        upstream = tf.complex(weights, 1 - weights)
        return gradients(lambda a, b: translate(a, b, 0.5, path=path), i, s, upstream=upstream)

    for path in PATHS:
        eager = function(images, shifts, path)
        compiled = graph(function, jit_compile=True)(images, shifts, path)
        for a, b in zip(eager, compiled, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * np.abs(a).max())


def test_a_single_shift_never_broadcasts():
    with pytest.raises(ValueError, match="shifts has 1 rows for 3 images"):
        translate(tf.zeros((3, 4, 5)), tf.zeros((1, 2)))
    unknown = [tf.TensorSpec((None, 4, 5)), tf.TensorSpec((None, 2))]
    # operations of a graph run side by side: the assertion, the reshape or the gather fails first
    refused = r"shifts needs one row|Input to reshape|should be equal to indices"
    for path in PATHS:
        function = graph(lambda i, s, path=path: translate(i, s, path=path), input_signature=unknown)
        compiled = graph(function.python_function, input_signature=unknown, jit_compile=True)
        for call in (function, compiled):
            with pytest.raises(tf.errors.InvalidArgumentError, match=refused):
                call(tf.zeros((3, 4, 5)), tf.zeros((1, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((tf.zeros((3, 4)), tf.zeros((3, 2))), r"images has shape \(3, 4\); allowed"),
        ((tf.zeros((3, 4, 5)), tf.zeros((3, 3))), r"shifts has shape \(3, 3\); allowed: \(B, 2\)"),
        ((tf.zeros((3, 4, 5), tf.int32), tf.zeros((3, 2))), "images has dtype int32; allowed: float16"),
        ((tf.zeros((3, 4, 5)), tf.zeros((3, 2), tf.complex64)), "shifts has dtype complex64"),
        ((tf.zeros((3, 4, 5)), tf.zeros((3, 2)), 1j), "fill_value is 1j for float32 images"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        translate(*arguments)
    with pytest.raises(ValueError, match="path is 'gather'; allowed: auto, taps, matrix"):
        translate(tf.zeros((3, 4, 5)), tf.zeros((3, 2)), path="gather")


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [  # the published test vectors of the generator
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_threefry_gives_the_published_words(key, counter, words):
    key, counter = (tuple(tf.constant(w, tf.uint32) for w in pair) for pair in (key, counter))
    for jit in (False, True):
        result = graph(threefry2x32, jit_compile=jit)(key, counter)
        assert tuple(int(w) for w in result) == words


class TestLayer:
    images = RNG.normal(size=(4, 6, 7, 1)).astype(np.float32)
    shifts = np.zeros((4, 2), np.float32)

    def test_jitter_acts_in_training_only(self):
        layer = Translation(jitter=0.5, seed=7)
        np.testing.assert_array_equal(layer([self.images, self.shifts]), self.images)
        first, second = (layer([self.images, self.shifts], training=True).numpy() for _ in range(2))
        assert (first != self.images).any() and (first != second).any()
        again = Translation(jitter=0.5, seed=7)([self.images, self.shifts], training=True)
        np.testing.assert_array_equal(first, again)

    def test_positions_are_not_autocast(self):
        layer = Translation(dtype="mixed_bfloat16")
        far = np.full((4, 2), 257.25, np.float32)  # 257.25 is 257 in bfloat16
        wide = np.zeros((4, 1, 300, 1), np.float32)
        wide[:, :, 10] = 1
        assert layer([wide, far * [0, 1]])[0, 0, 267, 0] == 0.75

    def test_round_trip_through_a_file(self, tmp_path):
        images, shifts = keras.Input((6, 7, 1)), keras.Input((2,))
        layer = Translation(jitter=0.5, seed=7, fill_value=1.0)
        model = keras.Model([images, shifts], layer([images, shifts]))
        model([self.images, self.shifts], training=True)
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        inputs = [self.images, self.shifts]
        np.testing.assert_array_equal(again(inputs, training=True), model(inputs, training=True))


def test_a_loss_does_not_multiply_the_reads_of_its_gradient():
    """Without a barrier XLA fuses everything into each read."""

    def gradient(images, shifts):
        return gradients(lambda i: tf.reduce_sum(translate(i, shifts) ** 2), images)[1]

    step = tf.function(gradient, jit_compile=True, autograph=False)
    given = tf.ones((2, 9, 8, 1)), tf.constant(SHIFTS[:2], tf.float32)
    program = step.experimental_get_compiler_ir(*given)(stage="optimized_hlo")
    assert max(computation.count(" gather(") for computation in program.split("\n\n")) == 4
    assert program.count(" conditional(") == 1
