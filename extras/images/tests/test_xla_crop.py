"""Crop and resize: against TensorFlow's kernel, gradients, errors, and inside Keras."""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from helpers.gradients import gradients, slopes

from benchmarks import conformance, oracles
from benchmarks.conformance_cases import CROP_DTYPES
from ptycho_images import crop_and_resize
from ptycho_images.crop_matrix import LEAST_STEP

ROOT = Path(__file__).resolve().parents[3]
PATHS = ("exact", "matrix")
RNG = np.random.default_rng(5)
INVALID = tf.errors.InvalidArgumentError
IMAGE = RNG.normal(size=(3, 9, 12, 2)).astype(np.float32)
# generic: no sample on a whole coordinate, where TensorFlow's derivative jumps
BOXES = np.array([[0.07, 0.11, 0.83, 0.95], [0.91, 0.13, 0.17, 1.21], [-0.2, 0.3, 0.6, 0.04]], np.float32)
WHICH = np.array([2, 0, 2], np.int32)
SIZE = (6, 5)


graph = partial(tf.function, autograph=False)  # Python's control flow depends on no tensor here
jit = partial(graph, jit_compile=True)


CONFORMANCE = [("crop_and_resize bilinear", dtype) for dtype in CROP_DTYPES]
CONFORMANCE += [("crop_and_resize nearest", dtype) for dtype in ("float32", "complex128")]


@pytest.mark.parametrize(("name", "dtype"), CONFORMANCE)
def test_conformance(name, dtype):
    count = conformance.check(name, dtype, 50, modes=(False,))
    assert count.cases == 50 and count.failed == 0, count
    assert count.identical_eagerly == 50 or dtype == "complex128"  # bit for bit
    assert count.kinds["border"] >= 15
    assert min(count.kinds[k] for k in ("flipped", "size 1", "grid-aligned")) >= 5


@pytest.mark.parametrize(
    ("name", "dtype", "shapes"),
    [
        ("crop_and_resize bilinear", "float32", (1, 2, 5)),
        ("crop_and_resize nearest", "float32", (2, 5)),
        ("crop_and_resize bilinear", "complex64", (5,)),
    ],
)
def test_conformance_when_compiled(name, dtype, shapes):
    """A crop of one pixel, an image of one row, and one that is neither: every shape compiles anew."""
    count = conformance.check(name, dtype, 50, modes=(True,), shapes=shapes)
    assert count.cases == 50 and count.failed == 0, count
    assert count.kinds["border"] >= 15
    assert min(count.kinds[kind] for kind in ("flipped", "grid-aligned")) >= 5


@pytest.mark.parametrize("path", PATHS)
def test_border_pixels_do_not_flip_to_the_fill_value_when_compiled(path):
    edges = RNG.integers(0, 9, (400, 4)).astype(np.float32) / 8  # on the eighths, where one ulp decides
    which = RNG.integers(0, 3, 400).astype(np.int32)
    compiled = jit(lambda i, b, w: crop_and_resize(i, b, w, (11, 7), "bilinear", 99.0, path=path))
    expected = tf.image.crop_and_resize(IMAGE, edges, which, (11, 7), "bilinear", 99.0).numpy()
    result = compiled(IMAGE, edges, which).numpy()
    np.testing.assert_array_equal(result == 99.0, expected == 99.0)
    assert np.abs(result - expected).max() <= 4 * np.spacing(np.abs(IMAGE).max())


@pytest.mark.parametrize(
    ("method", "path", "compiled"),
    [
        ("bilinear", "exact", True),
        ("bilinear", "matrix", True),
        ("nearest", "exact", False),
        ("nearest", "matrix", False),
    ],
)
def test_gradients_are_those_of_tensorflow(method, path, compiled):
    upstream = RNG.normal(size=(3, *SIZE, 2)).astype(np.float32)

    def theirs(image, boxes):
        return tf.image.crop_and_resize(image, boxes, WHICH, SIZE, method, -3.0)

    def ours(image, boxes):
        return crop_and_resize(image, boxes, WHICH, SIZE, method, -3.0, path=path)

    _, *expected = gradients(theirs, IMAGE, BOXES, upstream=upstream)
    run = jit(partial(gradients, ours)) if compiled else partial(gradients, ours)
    _, *found = run(IMAGE, BOXES, upstream=upstream)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def brute_force_image_gradient(shape, boxes, which, upstream, method):
    """Return every sample of ``upstream (n, h, w, C)`` to the pixels that it reads, in float64."""
    result = np.zeros(shape)
    for box, n, g in zip(boxes, which, upstream, strict=True):
        weights = []
        for lo, hi, size, count in zip(box[:2], box[2:], shape[1:3], g.shape[:2], strict=True):
            points = oracles.crop_points(lo, hi, size, count).astype(np.float64)[:, None]
            distance = np.abs(points - np.arange(size))
            near = np.floor(points + 0.5) == np.arange(size)
            inside = (points >= 0) & (points <= size - 1)
            weights.append(inside * (np.maximum(0, 1 - distance) if method == "bilinear" else near))
        result[n] += np.einsum("im,jn,ijc->mnc", *weights, g)
    return result


def boxes_of_step(step, size, count):
    """Return upright and flipped boxes with rows ``step`` pixels apart, some across the border."""
    low = np.array([0.0, 0.037, 0.21, -0.11, 0.5])
    high = low + step * (count - 1) / (size - 1)
    rows = np.concatenate([np.stack([low, high], 1), np.stack([high, low], 1)])
    return np.insert(rows, [1, 2], [0.1, 0.9], axis=1)


SPACED = (10, 41, 5)  # boxes, and the size of their crops


@cache
def gradient_to_the_image(method, mode):
    """``(image, boxes, upstream) → gradient``: traced and compiled once for all boxes."""
    which = np.arange(SPACED[0], dtype=np.int32) % 3

    def gradient(image, boxes, upstream):
        crop = partial(crop_and_resize, method=method, path="matrix")
        return gradients(lambda x: crop(x, boxes, which, SPACED[1:]), image, upstream=upstream)[1]

    return jit(gradient) if mode == "compiled" else gradient


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("step", [0.1, LEAST_STEP * 1.0001, 1.0, 1.7])
def test_gradient_to_the_image_at_every_spacing_of_the_samples(step, method, mode):
    size, count = 53, SPACED[1]
    boxes = boxes_of_step(step, size, count).astype(np.float32)
    which = np.arange(len(boxes), dtype=np.int32) % 3
    image, upstream = np.zeros((3, size, 7, 2), np.float32), RNG.normal(size=(*SPACED, 2))
    arrays = (tf.constant(a, tf.float32) for a in (image, boxes, upstream))
    got = gradient_to_the_image(method, mode)(*arrays)
    want = brute_force_image_gradient(image.shape, boxes, which, upstream.astype(np.float32), method)
    np.testing.assert_allclose(got, want, atol=4e-6 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("path", PATHS)
def test_gradient_at_whole_coordinates_is_zero_to_the_boxes(path):
    boxes = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
    crop = lambda i, b: crop_and_resize(i, b, [0], IMAGE.shape[1:3], path=path)  # noqa: E731
    _, by_image, by_boxes = gradients(crop, IMAGE, boxes, upstream=tf.ones((1, *IMAGE.shape[1:])))
    np.testing.assert_array_equal(by_image[0], 1.0)
    np.testing.assert_array_equal(by_boxes, 0.0)


METHOD_PATHS = [("bilinear", "exact"), ("bilinear", "matrix"), ("nearest", "exact"), ("nearest", "matrix")]


@pytest.mark.parametrize(("method", "path"), METHOD_PATHS)
def test_adjoint_of_complex_images(method, path):
    x = tf.constant(RNG.normal(size=IMAGE.shape) + 1j * RNG.normal(size=IMAGE.shape))
    y = RNG.normal(size=(3, *SIZE, 2)) + 1j * RNG.normal(size=(3, *SIZE, 2))
    crop = partial(crop_and_resize, method=method, path=path)
    crops, adjoint = gradients(lambda x: crop(x, BOXES, WHICH, SIZE), x, upstream=tf.constant(y))
    np.testing.assert_allclose(np.vdot(y, crops), np.vdot(adjoint, x), rtol=1e-12)


@pytest.mark.parametrize(("method", "path"), [m for m in METHOD_PATHS if m[0] != "nearest"])
def test_gradient_to_boxes_by_finite_differences(method, path):
    image = tf.constant(RNG.normal(size=(1, 9, 12, 1)) + 0j)  # computed in float64 from float32 boxes
    box, step = np.array([[0.11, 0.13, 0.79, 0.91]], np.float32), np.float32(2**-11)

    def total(boxes):
        return tf.reduce_sum(tf.math.real(crop_and_resize(image, boxes, [0], (3, 4), method, path=path)) ** 2)

    _, gradient = gradients(total, box)
    np.testing.assert_allclose(gradient, slopes(total, box, step), rtol=0, atol=5e-4 * np.abs(gradient).max())


@pytest.mark.parametrize("path", PATHS)
def test_what_cannot_be_checked_when_compiled_is_marked(path):
    crop = jit(lambda i, b, w: crop_and_resize(i, b, w, SIZE, extrapolation_value=7.0, path=path))
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [np.nan, 0, 1, 1], [0, 0, 3e38, 1]], np.float32)
    crops = crop(IMAGE, boxes, np.array([0, 3, 0, -1], np.int32)).numpy()
    assert np.isfinite(crops[0]).all()
    assert np.isnan(crops[[1, 3]]).all()  # no such image
    assert (crops[2] == 7.0).all()  # a box that is not finite lies nowhere


@pytest.mark.parametrize(
    ("change", "message", "error"),
    [
        ({"image": IMAGE[0]}, r"image has shape \(9, 12, 2\)", INVALID),
        ({"image": IMAGE > 0}, "image has dtype bool; allowed: uint8", INVALID),
        ({"boxes": BOXES * np.inf}, "boxes row 0 is .* must be finite", INVALID),
        ({"boxes": tf.cast(BOXES, tf.float64)}, "boxes has dtype float64; allowed: float32", ValueError),
        ({"box_indices": WHICH[:2]}, r"box_indices has shape \(2,\) for 3 boxes", INVALID),
        ({"box_indices": [0, 1, 3]}, "box_indices contains 3; allowed: 0 to 2", tf.errors.OutOfRangeError),
        (
            {"box_indices": tf.constant([0], tf.int64)},
            "box_indices has dtype int64; allowed: int32",
            ValueError,
        ),
        ({"crop_size": (0, 4)}, r"crop_size is \[0, 4\]; allowed", INVALID),
        ({"method": "area"}, "method is 'area'; allowed: bilinear", INVALID),
    ],
)
def test_errors_name_the_argument_and_have_the_class_of_tensorflow(change, message, error):
    arguments = {"image": IMAGE, "boxes": BOXES, "box_indices": WHICH, "crop_size": SIZE}
    with pytest.raises(error, match=message):
        crop_and_resize(**arguments | change)
    if set(change) <= {"image", "boxes", "box_indices", "crop_size", "method"}:
        with pytest.raises(error):
            tf.image.crop_and_resize(**arguments | change)


def test_the_example_of_the_documentation_compiles_with_ours_and_not_with_tensorflows():
    blocks = (ROOT / "docs" / "xla.md").read_text().split("```python\n")[1:]
    example = next(b for b in (block.split("```")[0] for block in blocks) if "keras" in b)
    names: dict = {}
    exec(example, names)
    assert names["model"].jit_compile
    assert np.isfinite(names["model"].history.history["loss"]).all()
    with pytest.raises(INVALID, match="CropAndResize"):
        exec(example.replace("return crop_and_resize", "return tf.image.crop_and_resize"), {})
