"""NPZ files whose large arrays are written block by block."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy


class Blocks(NamedTuple):
    """An array in blocks that follow each other along its first axis."""

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Iterable[np.ndarray]


def write_npz(file: IO[bytes], arrays: Mapping[str, np.ndarray | Blocks]) -> None:
    """Write ``arrays (…)`` by key as an NPZ, not compressed; memory holds one block at a time."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            whole = array if isinstance(array, Blocks) else Blocks(array.shape, array.dtype, [array])
            descr = npy.dtype_to_descr(whole.dtype)
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                header = {"descr": descr, "fortran_order": False, "shape": whole.shape}
                npy.write_array_header_1_0(member, header)
                for block in whole.blocks:
                    member.write(np.ascontiguousarray(block, whole.dtype).tobytes())
