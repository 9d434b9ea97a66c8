"""Small cases after the tests of TensorFlow's CropAndResize and tensorflow_addons' transform, worked by hand.

What differs on purpose from the originals stands beside its case.
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
    "larger, flipped": (FOUR, FLIPPED, (3, 3), "bilinear", [[4, 3.5, 3], [3, 2.5, 2], [2, 1.5, 1]]),
    "smaller": (NINE, WHOLE, (2, 2), "bilinear", [[1, 3], [7, 9]]),
    "smaller, flipped": (NINE, FLIPPED, (2, 2), "bilinear", [[9, 7], [3, 1]]),
    "a quarter": (NINE, (0, 0, 0.5, 0.5), (2, 2), "bilinear", [[1, 2], [4, 5]]),
    "flipped in rows only": (NINE, (1, 0, 0, 1), (2, 2), "bilinear", [[7, 9], [1, 3]]),
    "a box without area": (NINE, (0.5, 0.5, 0.5, 0.5), (2, 2), "bilinear", [[5, 5], [5, 5]]),
    "half outside": (FOUR, (-1, -1, 1, 1), (3, 3), "bilinear", [[-1, -1, -1], [-1, 1, 2], [-1, 3, 4]]),
    "all outside": (FOUR, (1.5, 1.5, 2, 2), (2, 2), "nearest", [[-1, -1], [-1, -1]]),
}


def compiled(function):
    return tf.function(function, jit_compile=True, autograph=False)


@pytest.mark.parametrize("name", CROPS)
def test_crops_eagerly_and_compiled(name):
    image, box, size, method, expected = CROPS[name]

    def crop(image, boxes):
        return crop_and_resize(image, boxes, [0], size, method, -1.0)[0, ..., 0]

    arguments = tf.constant(image[None, ..., None], tf.float32), tf.constant([box], tf.float32)
    np.testing.assert_allclose(crop(*arguments), expected, atol=1e-6)
    np.testing.assert_allclose(compiled(crop)(*arguments), expected, atol=1e-6)


BOARD = np.indices((4, 4)).sum(0) % 2 == 0  # a chessboard, 1 at the corners
GRID = np.arange(36).reshape(6, 6)
WARPS = {
    "the identity": (BOARD, [1, 0, 0, 0, 1, 0, 0, 0], BOARD),
    "one to the left and up": (BOARD, [1, 0, 1, 0, 1, 1, 0, 0], np.pad(BOARD[1:, 1:], ((0, 1), (0, 1)))),
    "a quarter turn": (GRID, [0, -1, 5, 1, 0, 0, 0, 0], np.rot90(GRID)),  # reads column 5 − y, row x
    "a horizon at the second column": (BOARD, [1, 0, 0, 0, 1, 0, -1, 0], BOARD * (np.arange(4) == 0)),
}


@pytest.mark.parametrize("name", WARPS)
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float32", "float64"])
def test_warps(name, interpolation, dtype):
    image, transform, expected = WARPS[name]
    images = tf.constant(image[None, ..., None].astype(dtype))
    warped = projective_warp(images, np.float32([transform]), interpolation)
    assert warped.dtype == dtype
    np.testing.assert_array_equal(warped[0, ..., 0], expected)


@pytest.mark.parametrize("name", WARPS)
def test_warps_compiled(name):
    image, transform, expected = WARPS[name]
    images = tf.constant(image[None, ..., None], tf.float32)
    warped = compiled(lambda i: projective_warp(i, np.float32([transform])))(images)
    np.testing.assert_array_equal(warped[0, ..., 0], expected)


def test_addons_translate_takes_column_and_row_ours_row_and_column():
    images = tf.constant(NINE[None], tf.float32)
    moved = translate(images, [[1.0, 0.0]], fill_value=-1.0)
    np.testing.assert_array_equal(moved[0], [[-1, -1, -1], [1, 2, 3], [4, 5, 6]])


def test_an_image_of_unknown_rank_is_refused():
    """TensorFlow's operators wait until they run; here the rank is part of the program."""
    spec = [tf.TensorSpec(None, tf.float32)]
    with pytest.raises(ValueError, match="images has shape <unknown>; allowed"):
        tf.function(lambda i: translate(i, [[0.0, 0.0]]), spec)(tf.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="image has shape <unknown>; allowed"):
        tf.function(lambda i: crop_and_resize(i, [WHOLE], [0], (2, 2)), spec)(tf.ones((1, 2, 2, 1)))


def test_box_indices_of_64_bits_are_refused():
    """As in TensorFlow; they are not cast silently."""
    with pytest.raises((ValueError, TypeError)):
        crop_and_resize(NINE[None, ..., None], [WHOLE], tf.constant([0], tf.int64), (2, 2))
