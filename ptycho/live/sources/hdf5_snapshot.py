"""A growing HDF5 file at one moment, as a small file that the ordinary readers understand.

Everything but the frames is copied; what has a row for every frame is cut to the rows that are asked for, and
of the frames no more than a few are there, the others being zero. So whatever a reader knows of a format
(where the positions are, their sign, their unit) holds for a file that is being written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ptycho.exports.hdf5_writing import write_hdf5
from ptycho.readers.hdf5_chunks import Chunks

LARGEST = 2**26  # bytes of an array that is copied
SHOWN = 4  # frames that are there


def growing(file: h5py.File, frames: h5py.Dataset) -> list[str]:
    """Paths of the arrays with a row for every frame: they grow, or are as long as the scan will be."""
    longest = frames.maxshape[0]
    found: list[str] = []

    def visit(name: str, node: object) -> None:
        if isinstance(node, h5py.Dataset) and node.ndim in (1, 2) and node.dtype.kind in "fiu":
            grows = node.maxshape[0] is None
            if grows and file.swmr_mode:
                node.id.refresh()
            grows = grows and len(node) > 0
            if grows or (longest is not None and len(node) == longest > 1):
                found.append(name)

    file.visititems(visit)
    return found


def find_frames(file: h5py.File, key: str | None) -> h5py.Dataset | None:
    """The frames ``(J, H, W)``: at the user's key, or the largest array that grows; None: none yet."""
    if key is not None:
        found = file.get(key)
        return found if isinstance(found, h5py.Dataset) and found.ndim == 3 else None
    candidates: list[h5py.Dataset] = []

    def visit(name: str, node: object) -> None:
        if (
            isinstance(node, h5py.Dataset)
            and node.ndim == 3
            and node.dtype.kind in "fiu"
            and min(node.shape[1:]) >= 8
        ):
            candidates.append(node)

    file.visititems(visit)
    rank = [(one.maxshape[0] is None, one.shape[1] * one.shape[2], one.shape[0]) for one in candidates]
    return candidates[rank.index(max(rank))] if candidates else None


def snapshot(
    file: h5py.File, frames: h5py.Dataset, per_frame: Collection[str], rows: np.ndarray, target: Path
) -> None:
    """Write some rows of a file, and all that has no rows, to ``target``."""
    chunks = Chunks()

    def fill(out: h5py.File) -> None:
        out.attrs.update(dict(file.attrs))

        def visit(name: str, link: Any) -> None:
            if isinstance(link, h5py.SoftLink):
                out[name] = h5py.SoftLink(link.path)
            elif isinstance(link, h5py.HardLink):
                with contextlib.suppress(KeyError, OSError, RuntimeError):
                    _copy(file[name], out, name)

        def _copy(node: Any, out: h5py.File, name: str) -> None:
            if isinstance(node, h5py.Group):
                made: Any = out.require_group(name)
            elif node == frames:
                made = out.create_dataset(
                    name, (len(rows), *node.shape[1:]), node.dtype, chunks=(1, *node.shape[1:])
                )
                some = rows[rows < len(node)][:SHOWN]
                for row in some:
                    chunks.check(node, [slice(int(row), int(row) + 1)])
                made[: len(some)] = np.stack([node[int(row)] for row in some])
            elif name in per_frame:
                made = out.create_dataset(name, data=node[: int(rows.max()) + 1][rows])
            elif node.size * node.dtype.itemsize <= LARGEST:
                file.copy(node, out, name, without_attrs=True)
                made = out[name]
            else:
                return
            made.attrs.update(dict(node.attrs))

        file.visititems_links(visit)

    write_hdf5(target, fill)
