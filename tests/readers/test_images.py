"""Untrusted images: an image that declares far more than its file has bytes is not unpacked."""

import numpy as np
import pytest
import tifffile

from ptycho.config import ConfigError
from ptycho.readers.mask_file import read_mask
from ptycho.readers.tiff import read_image

SIDE = 20_000


@pytest.fixture
def bomb(tmp_path):
    """An image of 400 million pixels, 3.2 GB, in a file of some kB: each strip has the bytes of the first."""
    path = tmp_path / "bomb.tif"
    with tifffile.TiffWriter(path) as file:
        rows = (np.zeros((100, SIDE)) for _ in range(1))
        file.write(rows, shape=(100, SIDE), dtype="f8", compression="zlib", rowsperstrip=100)
    content = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        tag = file.pages[0].tags["ImageLength"]
        offset, small = tag.valueoffset, tag.value
    content[offset : offset + 2] = (SIDE).to_bytes(2, "little")
    assert small == 100
    path.write_bytes(content)
    return path


def test_an_image_that_declares_more_than_it_holds_is_refused(bomb):
    with pytest.raises(ConfigError, match=rf"declares \({SIDE}, {SIDE}\) of float64: .* to 3200000000"):
        read_image(bomb)
    with pytest.raises(ConfigError, match=r"^data\.mask_file=|-fold is refused"):
        read_mask(bomb, (SIDE, SIDE))


def test_several_images_are_no_image(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((2, 5, 7), np.uint8))
    with pytest.raises(ConfigError, match="holds 2 images; must be one"):
        read_image(tmp_path / "a.tif")


def test_an_image_is_read(tmp_path):
    image = np.random.default_rng(0).integers(0, 2, (5, 7), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", image)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), image)
    np.testing.assert_array_equal(read_mask(tmp_path / "a.tif", (5, 7)), image != 0)
