"""Cases that others test, worked by hand; what differs on purpose from the originals stands beside its case.

Of TensorFlow's CropAndResize (kernel and gradient), of tensorflow_addons' transform, rotate and translate,
and of the published program's warp and translation.
"""

import numpy as np
import pytest
import tensorflow as tf

from ptycho.xla import crop_and_resize, projective_warp, translate

WHOLE, FLIPPED = (0, 0, 1, 1), (1, 1, 0, 0)
FOUR, NINE = np.arange(1.0, 5).reshape(2, 2), np.arange(1.0, 10).reshape(3, 3)
CROPS = {
    "one pixel is the mean": (FOUR, WHOLE, (1, 1), "bilinear", [[2.5]]),
    "one pixel, nearest": (FOUR, WHOLE, (1, 1), "nearest", [[4]]),  # ½ away from zero
    "one row": (FOUR, (0, 0, 1, 1), (1, 3), "bilinear", [[2, 2.5, 3]]),
    "larger": (FOUR, WHOLE, (3, 3), "bilinear", [[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]]),
    "larger, nearest": (FOUR, WHOLE, (3, 3), "nearest", [[1, 2, 2], [3, 4, 4], [3, 4, 4]]),
    "one pixel, flipped": (FOUR, FLIPPED, (1, 1), "bilinear", [[2.5]]),
    "one pixel, flipped, nearest": (FOUR, FLIPPED, (1, 1), "nearest", [[4]]),
    "larger, flipped, nearest": (FOUR, FLIPPED, (3, 3), "nearest", [[4, 4, 3], [4, 4, 3], [2, 2, 1]]),
    "larger, flipped": (FOUR, FLIPPED, (3, 3), "bilinear", [[4, 3.5, 3], [3, 2.5, 2], [2, 1.5, 1]]),
    "smaller": (NINE, WHOLE, (2, 2), "bilinear", [[1, 3], [7, 9]]),
    "smaller, flipped": (NINE, FLIPPED, (2, 2), "bilinear", [[9, 7], [3, 1]]),
    "smaller, nearest": (NINE, WHOLE, (2, 2), "nearest", [[1, 3], [7, 9]]),
    "smaller, flipped, nearest": (NINE, FLIPPED, (2, 2), "nearest", [[9, 7], [3, 1]]),
    "a quarter, nearest": (NINE, (0, 0, 0.5, 0.5), (2, 2), "nearest", [[1, 2], [4, 5]]),
    "a quarter, flipped": (NINE, (0.5, 0.5, 0, 0), (2, 2), "bilinear", [[5, 4], [2, 1]]),
    "a quarter, flipped, nearest": (NINE, (0.5, 0.5, 0, 0), (2, 2), "nearest", [[5, 4], [2, 1]]),
    "a quarter": (NINE, (0, 0, 0.5, 0.5), (2, 2), "bilinear", [[1, 2], [4, 5]]),
    "flipped in rows only": (NINE, (1, 0, 0, 1), (2, 2), "bilinear", [[7, 9], [1, 3]]),
    "a box without area": (NINE, (0.5, 0.5, 0.5, 0.5), (2, 2), "bilinear", [[5, 5], [5, 5]]),
    "half outside": (FOUR, (-1, -1, 1, 1), (3, 3), "bilinear", [[-1, -1, -1], [-1, 1, 2], [-1, 3, 4]]),
    "all outside": (FOUR, (1.5, 1.5, 2, 2), (2, 2), "nearest", [[-1, -1], [-1, -1]]),
}


def compiled(function):
    return tf.function(function, jit_compile=True, autograph=False)


@pytest.mark.parametrize("name", CROPS)
def test_crops(name):
    image, box, size, method, expected = CROPS[name]

    crop = crop_and_resize(np.float32(image[None, ..., None]), [box], [0], size, method, -1.0)
    np.testing.assert_allclose(crop[0, ..., 0], expected, atol=1e-6)


@pytest.mark.parametrize(
    "dtype", ["uint8", "uint16", "int8", "int16", "int32", "int64", "float32", "float64"]
)
def test_crops_of_every_dtype_are_float32(dtype):
    for method, pixel in (("bilinear", 2.5), ("nearest", 4)):
        crop = crop_and_resize(FOUR[None, ..., None].astype(dtype), [WHOLE], [0], (1, 1), method)
        assert crop.dtype == tf.float32 and crop.numpy().item() == pixel


def test_two_halves_of_a_large_image():
    """Columns 0 to 998; both crops begin and end at whole pixels."""
    image = np.broadcast_to(np.arange(999, dtype=np.float32)[:, None], (1, 999, 999, 1))
    halves = crop_and_resize(image, [(0, 0, 0.5, 0.5), (0.5, 0.5, 1, 1)], [0, 0], (500, 500))
    expected = np.broadcast_to(np.arange(500) + np.array([[[0]], [[499]]]), (2, 500, 500))
    np.testing.assert_array_equal(halves[..., 0], expected)


@pytest.mark.parametrize("path", ["exact", "matrix"])
@pytest.mark.parametrize("size", [(1, 3), (2, 2)])
@pytest.mark.parametrize("width", [1, 2])
def test_gradients_of_boxes_that_reach_outside(width, size, path):
    """By differences of 10⁻³, in images of one and two columns; samples keep away from whole pixels."""
    rng = np.random.default_rng([width, *size])
    image = np.arange(16.0 * width).reshape(2, 4, width, 2).astype(np.float32)
    edges = rng.choice([-0.41, -0.17, 0.13, 0.23, 0.57, 0.79, 1.19, 1.37], (2, 4), replace=False)
    boxes = tf.constant(edges, tf.float32)

    def crop(image, boxes):
        return crop_and_resize(image, boxes, [0, 1], size, path=path)

    weights = rng.standard_normal((2, *size, 2)).astype(np.float32)
    with tf.GradientTape() as tape:
        tape.watch(boxes)
        value = tf.reduce_sum(weights * crop(image, boxes))
    gradient = tape.gradient(value, boxes).numpy()
    for index in np.ndindex(2, 4):
        step = np.zeros((2, 4), np.float32)
        step[index] = 1e-3
        change = np.float64(crop(image, boxes + step)) - np.float64(crop(image, boxes - step))
        np.testing.assert_allclose(gradient[index], np.sum(weights * change) / 2e-3, rtol=2e-3, atol=2e-2)


BOARD = np.indices((4, 4)).sum(0) % 2 == 0  # a chessboard, 1 at the corners
HOOK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
HOOK_TURNED = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]])
GRID = np.arange(36).reshape(6, 6)
WARPS = {
    "the identity": (BOARD, [1, 0, 0, 0, 1, 0, 0, 0], BOARD),
    "one to the left and up": (BOARD, [1, 0, 1, 0, 1, 1, 0, 0], np.pad(BOARD[1:, 1:], ((0, 1), (0, 1)))),
    "a quarter turn": (GRID, [0, -1, 5, 1, 0, 0, 0, 0], np.rot90(GRID)),  # reads column 5 − y, row x
    "a quarter turn, then one to the right": (HOOK, [0, -1, 3, 1, 0, -1, 0, 0], HOOK_TURNED),
    "one pixel everywhere": (FOUR, [1] * 8, np.full((2, 2), 4)),  # (x + y + 1) / (x + y + 1)
    "a horizon at the second column": (BOARD, [1, 0, 0, 0, 1, 0, -1, 0], BOARD * (np.arange(4) == 0)),
}


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_warps(name, interpolation, dtype):
    image, transform, expected = WARPS[name]
    images = tf.constant(image[None, ..., None].astype(dtype))
    warped = projective_warp(images, np.float32([transform]), interpolation)
    assert warped.dtype == dtype
    np.testing.assert_array_equal(warped[0, ..., 0], expected)


@pytest.mark.parametrize("name", ["a quarter turn", "a horizon at the second column"])
def test_warps_compiled(name):
    image, transform, expected = WARPS[name]
    images = tf.constant(image[None, ..., None], tf.float32)
    warped = compiled(lambda i: projective_warp(i, np.float32([transform])))(images)
    np.testing.assert_array_equal(warped[0, ..., 0], expected)


def turn(size, angle):
    """A rotation about the middle of ``size``² pixels, as tensorflow_addons writes it, ``(1, 8)`` float32."""
    c, s, middle = np.cos(angle), np.sin(angle), (size - 1) / 2
    return np.float32([[c, -s, middle - (c - s) * middle, s, c, middle - (s + c) * middle, 0, 0]])


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_a_ring_turned_by_an_eighth(dtype):
    """Bilinear, in closed form: √2 from the middle of a side lies 2 − √2 of a pixel on the ring."""
    ring = np.pad([[1, 1, 1], [1, 0, 1], [1, 1, 1]], 1)
    b = 2 - 2**0.5
    a, c = b**2, 1 - b**2 / 4
    expected = np.array([[0, 0, a, 0, 0], [0, b, c, b, 0], [a, c, 0, c, a], [0, b, c, b, 0], [0, 0, a, 0, 0]])
    scale = 255 if dtype == "uint8" else 1
    images = tf.constant((scale * ring)[None, ..., None].astype(dtype))
    turned = projective_warp(images, turn(5, np.pi / 4))[0, ..., 0]
    np.testing.assert_allclose(turned, np.trunc(255 * expected) if dtype == "uint8" else expected, atol=1e-5)


TURNED = {
    (
        6,
        np.pi / 4,
    ): "0 3 4 11 17 0 2 3 9 16 23 23 1 8 15 21 22 29 6 13 20 21 27 34 12 18 19 26 33 33 0 18 24 31 32 0",
    (5, np.pi / 4): "0 3 8 9 0 1 7 8 13 19 6 6 12 18 18 5 11 16 17 23 0 15 16 21 0",
    (5, 1.0): "0 3 9 14 0 2 7 8 13 19 1 6 12 18 23 5 11 16 17 22 0 10 15 21 0",
    (5, -np.pi / 2): "20 15 10 5 0 21 16 11 6 1 22 17 12 7 2 23 18 13 8 3 24 19 14 9 4",
}


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize(("size", "angle"), TURNED)
def test_turned_grids(size, angle, dtype):
    images = tf.constant(np.arange(size**2).reshape(1, size, size, 1).astype(dtype))
    turned = projective_warp(images, turn(size, angle), "nearest")[0, ..., 0]
    away = np.flatnonzero(np.ravel(turned) != np.float64(TURNED[size, angle].split()))
    # Midway between two pixels: points of float64 images are float64 here, float32 in TensorFlow.
    assert away.tolist() == ([10, 15, 20, 25] if (size, dtype) == (6, "float64") else [])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_the_published_programs_whole_shifts(dtype):
    """One image forth and one back by (5, 5), by 3 × 3 matrices and by shifts, both float32 for any image.

    There one shift for several images is taken for all; here it is refused (test_xla_translate.py).
    """
    y, x = np.indices((13, 16)) / 16
    image = (np.sin(5 * x) * np.cos(5 * y) * (1 + 0.5j if "complex" in dtype else 1)).astype(dtype)
    images, by = tf.constant(np.stack([image, image])), [5, -5]
    matrices = np.float32([[[1, 0, s], [0, 1, s], [0, 0, 1]] for s in by])
    fills = {"constant": np.pad(image, 5), "nearest": np.pad(image, 5, "edge")}
    expected = {f: np.stack([p[5 + s : 18 + s, 5 + s : 21 + s] for s in by]) for f, p in fills.items()}
    cases = [(f, interpolation) for f in fills for interpolation in ("nearest", "bilinear")]

    results = [projective_warp(images[..., None], matrices, p, f)[..., 0] for f, p in cases]
    results.append(translate(images, -np.float32([[s, s] for s in by])))
    for (fill, _), result in zip([*cases, ("constant", "")], results, strict=True):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected[fill])


def test_an_image_of_unknown_rank_is_refused():
    """TensorFlow's operators wait until they run; here the rank is part of the program."""
    spec = [tf.TensorSpec(None, tf.float32)]
    with pytest.raises(ValueError, match="images has shape <unknown>; allowed"):
        tf.function(lambda i: translate(i, [[0.0, 0.0]]), spec)(tf.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="image has shape <unknown>; allowed"):
        tf.function(lambda i: crop_and_resize(i, [WHOLE], [0], (2, 2)), spec)(tf.ones((1, 2, 2, 1)))
