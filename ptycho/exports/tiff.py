"""Amplitude and phase of an object as TIFF of 32-bit numbers, beside a file that holds the scan.

ImageJ, Fiji, silx and every image library open them; ImageJ finds the size of the pixels, too. The phase is
that of the complex object in rad, wrapped to (−π, π].
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np

from ptycho.exports.exported_scan import ExportedScan, Pair
from ptycho.files.atomic import write_atomically

CHANNELS = "amplitude", "phase"


def beside(path: Path) -> dict[str, Path]:
    """Return where the images go: beside ``scan.cxi`` to ``scan.cxi.amplitude.tif`` and ``….phase.tif``."""
    return {channel: path.with_name(f"{path.name}.{channel}.tif") for channel in CHANNELS}


def write(path: Path, scan: ExportedScan) -> None:
    """Write the images of an object beside ``path``; of a scan without an object none."""
    if scan.object is None:
        return
    targets = beside(path)
    _write_image(targets["amplitude"], np.abs(scan.object), scan.pixel_m)
    _write_image(targets["phase"], np.angle(scan.object), scan.pixel_m)


def _write_image(
    path: Path, values: np.ndarray, pixel_m: Pair | None, most_bytes: int = 2**32 - 2**20
) -> None:
    """Write ``values (h, w)`` as float32; (row, col) pitch as pixels per µm along x and y, as ImageJ does.

    ``most_bytes``: of an image in ImageJ's layout; a larger one is a plain BigTIFF.
    """
    import tifffile

    values = values.astype(np.float32)
    scale = None if pixel_m is None else (1e-6 / pixel_m[1], 1e-6 / pixel_m[0])
    metadata = {"axes": "YX"} | ({} if pixel_m is None else {"unit": "um"})
    imagej = values.nbytes < most_bytes

    def save(file: IO[bytes]) -> None:
        tifffile.imwrite(file, values, imagej=imagej, resolution=scale, metadata=metadata)

    write_atomically(path, save)
