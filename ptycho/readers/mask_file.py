"""A mask of bad detector pixels from a file of its own: NPY, NPZ, TIFF, or HDF5 with one image in it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.text import shown
from ptycho.readers.archive import Archive
from ptycho.readers.places import find_container
from ptycho.readers.tiff import read_image


def read_mask(path: str | Path, shape: tuple[int, int]) -> np.ndarray:
    """Read bad pixels, ``shape`` ``(H, W)`` bool: where the file's only image is true or not zero.

    ConfigError: it cannot be read, holds no single image, or one of another shape.
    """
    try:
        image = _image(Path(path), shape)
    except Exception as error:  # whatever a damaged file leads to
        reason = str(error) if isinstance(error, ConfigError) else f"cannot be read ({shown(str(error))})"
        raise ConfigError(f"data.mask_file={path}: {reason.removeprefix(f'{path}: ')}") from error
    if image.shape != shape or image.dtype.kind not in "biuf":
        raise ConfigError(
            f"data.mask_file={path}: holds {image.shape} of {image.dtype}; must be an image of {shape}, "
            "true or not zero where a pixel is bad"
        )
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise ConfigError(f"data.mask_file={path}: holds NaN; must be true or not zero where a pixel is bad")
    return image != 0


def _image(path: Path, shape: tuple[int, int]) -> np.ndarray:
    if path.exists() and not path.is_file():  # a pipe or a device would never end
        raise ConfigError("is no file")
    kind = find_container(path)
    if kind is not None:
        with kind(path) as file:
            return _only(file, shape)
    with path.open("rb") as stream:
        magic = stream.read(8)
    if magic.startswith(b"\x93NUMPY"):
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if magic[:2] in (b"II", b"MM"):
        return read_image(path)
    raise ConfigError("is no NPY, NPZ, HDF5 or TIFF file")


def _only(
    file: Archive, shape: tuple[int, int], most_pixels: int = 2**28, most_arrays: int = 10_000
) -> np.ndarray:
    """Return the image of this shape, or the only one."""
    shapes = {key: entry.shape for key in file.names(most_arrays) if (entry := file.entry(key)) is not None}
    images = [
        key for key, held in shapes.items() if held and len(held) == 2 and math.prod(held) < most_pixels
    ]
    fitting = [key for key in images if shapes[key] == shape] or images
    if len(fitting) != 1:
        raise ConfigError(f"holds {len(fitting)} images ({', '.join(fitting) or 'none'}); must hold one")
    image = file.read(fitting[0], "biuf", needed=True)
    file.refuse()
    assert image is not None  # else there was a problem
    return image
