"""HDF5 files that appear whole or not at all, and patterns in them, written block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import h5py
import numpy as np

from ptycho.files.atomic import write_atomically
from ptycho.simulation.truth import GROUP, Truth

CHUNK_BYTES = 2**18  # of patterns that are packed together
VERSIONS = ("v108", "latest")  # HDF5 1.8 (2008) reads it; attributes may be larger than 64 KiB


def write_hdf5(path: Path, fill: Callable[[h5py.File], None]) -> None:
    """Write an HDF5 file under a temporary name and rename it.

    Raises:
        WriteError: the disk is full, or the folder cannot be written.
    """

    def save(file: IO[bytes]) -> None:
        with h5py.File(file.name, "w", libver=VERSIONS) as hdf5:  # the same file, by its temporary name
            fill(hdf5)

    write_atomically(path, save)


def write_patterns(
    group: h5py.Group, name: str, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> h5py.Dataset:
    """Patterns ``shape = (J, N, N)`` in chunks of whole ones, compressed and with checksums.

    Args:
        blocks: of ``dtype``, ``(n, N, N)`` each.
    """
    frame = int(np.prod(shape[1:])) * dtype.itemsize
    chunk = min(shape[0], max(1, CHUNK_BYTES // frame))
    dataset = group.create_dataset(
        name,
        shape,
        dtype,
        chunks=(chunk, *shape[1:]),
        compression="gzip",
        compression_opts=1,
        shuffle=True,
        fletcher32=True,
    )
    done = 0
    for block in blocks:
        dataset[done : done + len(block)] = block
        done += len(block)
    return dataset


def write_truth(file: h5py.File, truth: Truth | None, object_: h5py.Dataset | None) -> None:
    """Add the truth of a simulated scan, if there is one, in a group of its own; its object is the file's."""
    if truth is None:
        return
    group = file.create_group(GROUP)
    for key, array in truth.arrays().items():
        group[key] = array
    if object_ is not None:
        group["object"] = object_
