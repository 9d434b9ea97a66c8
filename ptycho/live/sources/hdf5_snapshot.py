"""A growing HDF5 file at one moment, as a small file that the ordinary readers interpret.

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


def datasets(file: h5py.File, dimensions: tuple[int, ...]) -> dict[str, h5py.Dataset]:
    """Return the arrays of numbers with so many dimensions, by their paths."""
    found: dict[str, h5py.Dataset] = {}

    def visit(name: str, node: object) -> None:
        if isinstance(node, h5py.Dataset) and node.ndim in dimensions and node.dtype.kind in "fiu":
            if file.swmr_mode and node.maxshape[0] is None:
                node.id.refresh()
            found[name] = node

    file.visititems(visit)
    return found


def growing(file: h5py.File, frames: h5py.Dataset) -> list[str]:
    """Return the paths of arrays with a row a frame: they grow, or are as long as the scan will be."""
    longest = frames.maxshape[0]
    return [
        name
        for name, rows in datasets(file, (1, 2)).items()
        if (rows.maxshape[0] is None and len(rows)) or (longest is not None and len(rows) == longest > 1)
    ]


def find_frames(file: h5py.File, key: str | None) -> h5py.Dataset | None:
    """Return the frames ``(J, H, W)``: at the user's key, or the largest array that grows; None: none yet."""
    if key is not None:
        found = file.get(key)
        return found if isinstance(found, h5py.Dataset) and found.ndim == 3 else None
    candidates = [one for one in datasets(file, (3,)).values() if min(one.shape[1:]) >= 8]
    rank = [(one.maxshape[0] is None, one.shape[1] * one.shape[2], one.shape[0]) for one in candidates]
    return candidates[rank.index(max(rank))] if candidates else None


def snapshot(
    file: h5py.File,
    frames: h5py.Dataset,
    per_frame: Collection[str],
    rows: np.ndarray,
    target: Path,
    shown: int = 4,
    largest: int = 2**26,
) -> None:
    """Write some rows of a file, and all that has no rows, to ``target``.

    Args:
        shown: frames that are there.
        largest: bytes of an array that is copied.
    """

    def copy(node: Any, out: h5py.File, name: str) -> None:
        if isinstance(node, h5py.Group):
            made: Any = out.require_group(name)
        elif node == frames:
            made = out.create_dataset(
                name, (len(rows), *node.shape[1:]), node.dtype, chunks=(1, *node.shape[1:])
            )
            for place, row in enumerate(rows[rows < len(node)][:shown].tolist()):
                Chunks().check(node, [slice(row, row + 1)])
                made[place] = node[row]
        elif name in per_frame:
            made = out.create_dataset(name, data=node[: int(rows.max()) + 1][rows])
        elif node.size * node.dtype.itemsize <= largest:
            file.copy(node, out, name, without_attrs=True)
            made = out[name]
        else:
            return
        made.attrs.update(dict(node.attrs))

    def fill(out: h5py.File) -> None:
        def visit(name: str, link: Any) -> None:
            if isinstance(link, h5py.SoftLink):
                out[name] = h5py.SoftLink(link.path)
            elif isinstance(link, h5py.HardLink):
                with contextlib.suppress(KeyError, OSError, RuntimeError):
                    copy(file[name], out, name)

        out.attrs.update(dict(file.attrs))
        file.visititems_links(visit)

    write_hdf5(target, fill)
