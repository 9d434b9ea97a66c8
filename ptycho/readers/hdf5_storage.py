"""Find out whether the numbers of an HDF5 dataset are in other files, in doubtful chunks, or missing.

HDF5 gives zeros, without an error, for chunks that were never written (an acquisition that was killed) and
for the parts of a virtual dataset whose sources are missing. Neither is detected by reading: the chunks that
are in the file are listed, and the sources of virtual datasets are opened.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np

from ptycho.readers.archive import DAMAGE, ArchiveError, describe_error
from ptycho.readers.hdf5_chunks import filters_of

if TYPE_CHECKING:
    from ptycho.readers.hdf5 import Hdf5Archive


def examine(file: Hdf5Archive, dataset: h5py.Dataset, name: str, inner: int = 0) -> np.ndarray:
    """See whether a dataset can be read, and how much of it was written; what is wrong goes to ``file``.

    Args:
        name: what to call it.
        inner: its last axes that belong to one entry: 2 for patterns.

    Returns:
        A few entries that were written, spread over all that were.
    """
    before, total = len(file.problems), math.prod(dataset.shape[: dataset.ndim - inner])
    try:
        missing, some = _examine(file, dataset, inner, name)
    except DAMAGE as error:
        file.complain(f"{name} is damaged ({describe_error(error)})")
        return np.zeros(0, int)
    if missing and len(file.problems) == before:
        if inner and missing == total:
            problem = f"none of its {total} patterns was ever written"
            file.complain(f"{name}: {problem}; was the acquisition stopped?")
        else:
            problem = f"{missing} of {total} {'patterns' if inner else 'numbers'} were never written"
            file.warnings.append(f"{name}: {problem} and read as zeros; was the acquisition stopped?")
    return some


def _examine(
    file: Hdf5Archive, dataset: h5py.Dataset, inner: int, name: str, left: int = 4
) -> tuple[int, np.ndarray]:
    """Return how many entries were not written, and some that were."""
    for problem in _unreadable(dataset):
        file.complain(f"{name} {problem}")
    total = math.prod(dataset.shape[: dataset.ndim - inner])
    some = spread(total)
    if dataset.is_virtual:
        return min(total, _missing_of_sources(file, dataset, inner, name, left)), some
    if dataset.chunks is None:  # contiguous: all or nothing; compact ones have no storage of their own
        layout = dataset.id.get_create_plist().get_layout()
        empty = layout == h5py.h5d.CONTIGUOUS and total and dataset.id.get_storage_size() == 0
        return (total if empty else 0), some
    if dataset.id.get_num_chunks() == _chunks(dataset.shape, dataset.chunks):
        return 0, some
    complete, first = _complete(dataset, inner)
    return total - complete, first if len(first) else some


def check_unpacking(
    file: Hdf5Archive, dataset: h5py.Dataset, box: Sequence[slice] = (), left: int = 4
) -> None:
    """See that HDF5 can unpack a part of a dataset without a crash; ``box``: its first axes.

    Raises:
        ArchiveError: it cannot.
    """
    if not dataset.is_virtual:
        file.chunks.check(dataset, box)
        return
    for source in dataset.virtual_sources() if left else ():
        if "%b" in source.file_name or "%b" in source.dset_name:
            file.chunks.read_elsewhere(dataset)
        elif _touches(source.vspace, box):
            check_unpacking(file, _source(file, dataset, source, dataset.name), (), left - 1)


def _touches(space: h5py.h5s.SpaceID, box: Sequence[slice]) -> bool:
    """Whether a selection may have a part in ``box``."""
    try:
        first, last = space.get_select_bounds()
    except (RuntimeError, ValueError):  # it has no end
        return True
    return all(
        low < part.stop and part.start <= high for low, high, part in zip(first, last, box, strict=False)
    )


def spread(count: int, most: int = 4) -> np.ndarray:
    """Return at most ``most`` indices ``(n,)``, spread over ``count``."""
    return np.unique(np.linspace(0, max(0, count - 1), most).astype(int))


def _unreadable(dataset: h5py.Dataset, largest: int = 2**31) -> Iterator[str]:
    """Yield why HDF5 cannot read a dataset; ``largest``: bytes of a chunk, which is unpacked as a whole."""
    if dataset.external:
        names = ", ".join(str(entry[0]) for entry in dataset.external[:3])
        yield f"keeps its numbers outside HDF5 ({names}); copy the dataset with h5repack"
    for code, _, name in filters_of(dataset):
        if not h5py.h5z.filter_avail(code):
            known = f" ({name})" if name else ""
            yield f"is packed by the HDF5 filter {code}{known}, not installed: pip install hdf5plugin"
    size = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    if size > largest:
        yield f"is in chunks of {size} bytes, more than {largest}; rechunk it with h5repack"


def _chunks(shape: tuple[int, ...], chunk: tuple[int, ...]) -> int:
    return math.prod(-(-size // step) for size, step in zip(shape, chunk, strict=True))


def _complete(dataset: h5py.Dataset, inner: int) -> tuple[int, np.ndarray]:
    """How many entries are whole, and the first of some chunks that hold such."""
    chunk_offsets: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: chunk_offsets.extend([chunk.chunk_offset]))
    outer = dataset.ndim - inner
    lead, steps = dataset.shape[:outer], dataset.chunks[:outer]
    offsets = np.array(chunk_offsets, dtype=np.int64).reshape(len(chunk_offsets), dataset.ndim)[:, :outer]
    starts, counts = np.unique(offsets, axis=0, return_counts=True)
    starts = starts[counts == _chunks(dataset.shape[outer:], dataset.chunks[outer:])]
    extents = np.minimum(steps, np.array(lead) - starts)  # the last chunks reach beyond the dataset
    complete = int(np.prod(extents, axis=1).sum()) if len(starts) else 0
    chosen = starts[spread(len(starts))[: len(starts)]]
    return complete, np.ravel_multi_index(tuple(chosen.T), lead) if len(chosen) else np.zeros(0, int)


def _missing_of_sources(file: Hdf5Archive, dataset: h5py.Dataset, inner: int, name: str, left: int) -> int:
    """Entries of a virtual dataset that nothing fills; sources that are not there are problems."""
    if left == 0:
        file.complain(f"{name}: too many virtual datasets of virtual datasets")
        return 0
    entry = max(1, math.prod(dataset.shape[dataset.ndim - inner :]))
    unfilled, lost = dataset.size, 0
    opened: dict[tuple[str, str], h5py.Dataset] = {}
    for source in dataset.virtual_sources():
        filled = _count_selected(source.vspace)
        unfilled -= unfilled if filled is None else min(unfilled, filled)
        if "%b" in source.file_name or "%b" in source.dset_name:
            file.warnings.append(f"{name}: that {source.file_name} is complete was not checked")
            continue
        which = source.file_name, source.dset_name
        try:
            if which not in opened:
                opened[which] = _source(file, dataset, source, name)
                label = f"{name}, from {source.file_name},"
                lost += _examine(file, opened[which], inner, label, left - 1)[0]
            lost += _short(source, opened[which].shape) // entry
        except ArchiveError as error:
            file.complain(str(error))
    return lost + -(-unfilled // entry)


def _source(file: Hdf5Archive, dataset: h5py.Dataset, source: h5py.VDSmap, name: str) -> h5py.Dataset:
    what, other = f"the virtual dataset {name}", dataset.file
    if source.file_name != ".":
        other = file.open_linked(Path(dataset.file.filename), source.file_name, what)
    target = file.walk(other, source.dset_name)
    if not isinstance(target, h5py.Dataset):
        raise ArchiveError(f"{what} refers to {source.dset_name} in {source.file_name}, which is not there")
    return target


def _count_selected(space: h5py.h5s.SpaceID) -> int | None:
    """How many numbers a selection holds; None: it has no limit, and HDF5 takes what there is."""
    try:
        return int(space.get_select_npoints())
    except RuntimeError:
        return None


def _short(source: h5py.VDSmap, shape: tuple[int, ...]) -> int:
    """How many numbers of a source are not there, because it is shorter than was declared."""
    wanted = _count_selected(source.vspace)
    if wanted is None:
        return 0
    if source.src_space.get_select_type() == h5py.h5s.SEL_ALL:
        return max(0, wanted - math.prod(shape))
    first, last = (np.array(bound, dtype=np.int64) for bound in source.src_space.get_select_bounds())
    if len(first) != len(shape):
        return wanted
    inside = math.prod(np.clip(np.minimum(last + 1, shape) - first, 0, None))
    return round(wanted * (1 - inside / math.prod(last + 1 - first)))
