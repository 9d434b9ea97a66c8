"""A mask of bad detector pixels from a file of its own: NPY, NPZ, TIFF, or HDF5 with one image in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tifffile

from ptycho.config import ConfigError
from ptycho.files.npz import NpzError, read_all
from ptycho.files.text import shown

TOO_LARGE = 2**28  # pixels


def read_mask(path: str | Path, shape: tuple[int, int]) -> np.ndarray:
    """Bad pixels ``shape`` bool: where the file's only image is true or not zero.

    Raises:
        ConfigError: it cannot be read, holds no single image, or one of another shape.
    """
    try:
        if Path(path).exists() and not Path(path).is_file():  # a pipe or a device would never end
            raise ConfigError(f"data.mask_file={path}: is no file")
        image = _image(Path(path), shape)
    except ConfigError:
        raise
    except Exception as error:  # whatever a damaged file leads to
        raise ConfigError(f"data.mask_file={path}: cannot be read ({shown(str(error))})") from error
    if image.shape != shape or image.dtype.kind not in "biuf":
        raise ConfigError(
            f"data.mask_file={path}: holds {image.shape} of {image.dtype}; must be an image of {shape}, "
            "true or not zero where a pixel is bad"
        )
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise ConfigError(f"data.mask_file={path}: holds NaN; must be true or not zero where a pixel is bad")
    return image != 0


def _image(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """The one image in a file."""
    with path.open("rb") as file:
        magic = file.read(8)
    if magic.startswith(b"\x93NUMPY"):
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    if magic.startswith(b"PK"):
        return _only(path, _npz(path), shape)
    if magic.startswith(b"\x89HDF"):
        with h5py.File(path, "r") as file:
            found: dict[str, h5py.Dataset] = {}
            file.visititems(lambda name, item: found.update({name: item} if _is_image(item) else {}))
            return np.asarray(_only(path, found, shape)[()])
    if magic[:2] in (b"II", b"MM"):
        return np.asarray(tifffile.imread(path))
    raise ConfigError(f"data.mask_file={path}: is no NPY, NPZ, HDF5 or TIFF file")


def _npz(path: Path) -> dict[str, np.ndarray]:
    try:
        return {key: array for key, array in read_all(path, "biuf").items() if array.ndim == 2}
    except (NpzError, KeyError) as error:
        raise ConfigError(f"data.mask_file={path}: {error}") from error


def _is_image(item: object) -> bool:
    return isinstance(item, h5py.Dataset) and item.ndim == 2 and item.size < TOO_LARGE


def _only(path: Path, images: dict[str, Any], shape: tuple[int, int]) -> Any:
    """The image of this shape, or the only one."""
    fitting = {key: image for key, image in images.items() if image.shape == shape} or images
    if len(fitting) != 1:
        held = ", ".join(fitting) or "none"
        raise ConfigError(f"data.mask_file={path}: holds {len(fitting)} images ({held}); must hold one")
    return next(iter(fitting.values()))
