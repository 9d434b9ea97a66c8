"""Test cases of transform, rotate and translate of tensorflow_addons, and of the published program."""

import numpy as np
import pytest
import tensorflow as tf

from ptycho_images import projective_warp

BOARD = np.indices((4, 4)).sum(0) % 2 == 0  # a chessboard with 1 at the corners
HOOK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
HOOK_TURNED = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]])
GRID = np.arange(36).reshape(6, 6)
WARPS = {
    "the identity": (BOARD, [1, 0, 0, 0, 1, 0, 0, 0], BOARD),
    "one to the left and up": (BOARD, [1, 0, 1, 0, 1, 1, 0, 0], np.pad(BOARD[1:, 1:], ((0, 1), (0, 1)))),
    "a quarter turn": (GRID, [0, -1, 5, 1, 0, 0, 0, 0], np.rot90(GRID)),  # reads column 5 − y, row x
    "a quarter turn, then one to the right": (HOOK, [0, -1, 3, 1, 0, -1, 0, 0], HOOK_TURNED),
    "one pixel everywhere": (np.arange(1, 5).reshape(2, 2), [1] * 8, np.full((2, 2), 4)),  # (1, 1)
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
