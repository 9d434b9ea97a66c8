"""Check untrusted HDF5 datasets before HDF5 reads them: packed chunks, and numbers that are missing.

Some filters trust the lengths in a chunk, and wrong bytes end the process. So the outermost filter of a chunk
must unpack to the chunk's size, by its header (gzip, which has none, is unpacked once more), and the lengths
of its blocks must end where the chunk does. A chunk that no header describes is read by another process.

HDF5 gives zeros, without an error, for chunks that were never written (an acquisition that was killed) and
for parts of a virtual dataset whose sources are missing: chunks are listed, and sources opened.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import h5py
import numpy as np
from h5py._objects import phil

from ptycho.files.npz import expands_too_much
from ptycho.files.reading import FileError, damage_named
from ptycho.readers.patterns import spread

if TYPE_CHECKING:
    from ptycho.readers.hdf5 import Hdf5Archive

with contextlib.suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers its filters with HDF5

GZIP, SHUFFLE, CHECKSUM, SZIP, NBIT, SCALE = range(1, 7)
LZF, BLOSC, LZ4, BITSHUFFLE, ZFP, ZSTD, BLOSC2 = 32000, 32001, 32004, 32008, 32013, 32015, 32026
UNTOLD = (NBIT, SCALE, ZFP, BLOSC2)  # of whose chunks no header says the length
PACKED_BLOCKS = (2, 3)  # of bitshuffle: LZ4, Zstandard
READ_ALL = """
import sys, h5py, numpy
try:
    import hdf5plugin
except ImportError:
    pass
data = h5py.File(sys.argv[1], "r", locking=False)[sys.argv[2]]
for part in data.iter_chunks():
    data[part]
"""


class Chunks:
    """The chunks of an open file's datasets, and of the files that they refer to; each is checked once."""

    def __init__(self) -> None:
        self._sound = set[tuple[str, int, int]]()
        self._read = dict[tuple[str, str], bool]()

    def check(self, dataset: h5py.Dataset, box: Sequence[slice] = ()) -> None:
        """Raise FileError if a part of a dataset cannot be unpacked: ``box`` of its first axes."""
        if dataset.is_virtual or dataset.chunks is None or not dataset.size:
            return
        filters = [(code, values) for code, values, _ in filters_of(dataset)]
        if any(code in UNTOLD for code, _ in filters):
            self.read_elsewhere(dataset)
            return
        size = math.prod(dataset.chunks) * dataset.dtype.itemsize
        whole = [slice(0, length) for length in dataset.shape[len(box) :]]
        axes = [
            range(part.start // step * step, part.stop, step)
            for part, step in zip([*box, *whole], dataset.chunks, strict=True)
        ]
        for corner in itertools.product(*axes):
            info = dataset.id.get_chunk_info_by_coord(corner)
            place = dataset.file.filename, info.byte_offset, info.size
            if info.byte_offset is None or place in self._sound:
                continue
            if bomb := expands_too_much(info.size, size):
                raise FileError(f"has a chunk of {bomb}; rechunk it with h5repack")
            used = [entry for k, entry in enumerate(filters) if not info.filter_mask >> k & 1]
            content = read_packed(dataset, corner) if used else b""
            if problem := wrong_with(content, size, used) if used else _of_length(info.size, size):
                raise FileError(f"is damaged in the chunk at {corner}: {problem}")
            self._sound.add(place)

    def read_elsewhere(self, dataset: h5py.Dataset) -> None:
        """Read all of it in a process of its own, once; that may crash."""
        which = dataset.file.filename, dataset.name
        if which not in self._read:
            done = subprocess.run([sys.executable, "-c", READ_ALL, *which], capture_output=True)
            self._read[which] = done.returncode >= 0  # errors come again where they are named
        if not self._read[which]:
            raise FileError("is damaged: HDF5 crashes on it")


def read_packed(dataset: h5py.Dataset, corner: tuple[int, ...]) -> bytes:
    """Return the bytes of the chunk at a corner, as packed, under h5py's lock.

    h5py 3.14 does not take it there, and two threads in HDF5 crash.
    """
    with phil:
        return bytes(dataset.id.read_direct_chunk(corner)[1])


def filters_of(dataset: h5py.Dataset) -> list[tuple[int, tuple[int, ...], str]]:
    """Return codes, parameters and names of the filters, in the order in which they pack."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    return [(code, tuple(values), name.decode("ascii", "replace")) for code, _, values, name in filters]


def wrong_with(content: bytes, size: int, filters: Sequence[tuple[int, tuple[int, ...]]]) -> str:
    """Return what is wrong with a packed chunk that must be ``size`` bytes; nothing if it can be unpacked."""
    left = list(filters)
    while left and left[-1][0] == CHECKSUM:
        content = content[:-4]
        left.pop()
    size += 4 * sum(code == CHECKSUM for code, _ in left)
    while left and left[-1][0] == SHUFFLE:
        left.pop()
    if not left:
        return _of_length(len(content), size)
    (code, values), inner = left[-1], left[:-1]
    if code == BITSHUFFLE:
        element, packed = (*values, 0, 0, 0, 0, 0)[2], (*values, 0, 0, 0, 0, 0)[4]
        if element < 1 or size % element:
            return f"its elements of {element} bytes do not fill it"
        blocks = packed in PACKED_BLOCKS
        return wrong_with_blocks(content, size, element) if blocks else _of_length(len(content), size)
    if code not in UNPACKED or any(other not in (SHUFFLE, CHECKSUM) for other, _ in inner):
        codes = ", ".join(str(other) for other, _ in filters)
        return f"it is packed by filters ({codes}) that cannot be checked; repack it: h5repack -f GZIP=4"
    try:
        length = UNPACKED[code](content, size, values)
    except zlib.error as error:
        return str(error)
    return "" if length == size else f"it says that it unpacks to {length} bytes, not {size}"


def _of_length(length: int, size: int) -> str:
    return "" if length == size else f"it has {length} bytes, not {size}"


def _zstd(content: bytes, size: int, values: tuple[int, ...]) -> int:
    """RFC 8878, 3.1.1.1: a descriptor tells where the content's size is."""
    if content[:4] != b"\x28\xb5\x2f\xfd" or len(content) < 5:
        return -1
    flag, single = content[4] >> 6, content[4] >> 5 & 1
    start = 5 + (1 - single) + (0, 1, 2, 4)[content[4] & 3]
    length = (single, 2, 4, 8)[flag]
    return int.from_bytes(content[start : start + length], "little") + 256 * (flag == 1)


def _lz4(content: bytes, size: int, values: tuple[int, ...]) -> int:
    block = int.from_bytes(content[8:12], "big")
    whole = block > 0 and _walk(content, 12, -(-size // block)) == len(content)
    return int.from_bytes(content[:8], "big") if whole else -1


def _blosc(content: bytes, size: int, values: tuple[int, ...]) -> int:
    whole = len(content) >= 16 and int.from_bytes(content[12:16], "little") == len(content)
    return int.from_bytes(content[4:8], "little") if whole else -1


UNPACKED: dict[int, Callable[[bytes, int, tuple[int, ...]], int]] = {  # bytes, by the header; -1: it is none
    GZIP: lambda content, size, values: len(zlib.decompressobj().decompress(content, size + 1)),
    SZIP: lambda content, size, values: int.from_bytes(content[:4], "little"),
    LZF: lambda content, size, values: values[2] if len(values) > 2 else -1,
    LZ4: _lz4,
    BLOSC: _blosc,
    ZSTD: _zstd,
}


def wrong_with_blocks(content: bytes, size: int, element: int) -> str:
    """Return what is wrong with bitshuffled blocks, packed by LZ4 or Zstandard, that must be ``size`` bytes.

    Behind the whole size (8 bytes) and a block's (4): blocks of a length (4) and so many bytes; what does
    not fill eight elements follows as it is. https://github.com/kiyo-masui/bitshuffle, bshuf_h5filter.c
    """
    whole, block = int.from_bytes(content[:8], "big"), int.from_bytes(content[8:12], "big")
    if len(content) < 12 or whole != size:
        return f"it says that it unpacks to {whole} bytes, not {size}, or is cut short"
    if block == 0 or block % (8 * element):
        return f"its blocks have {block} bytes, which is no multiple of 8 elements of {element}"
    rest = size % (8 * element)
    end = _walk(content, 12, -(-(size - rest) // block))
    return "" if end is not None and end + rest == len(content) else "its blocks do not fit it"


def _walk(content: bytes, start: int, blocks: int) -> int | None:
    """Where blocks end that each begin with their length; None: beyond the content."""
    for _ in range(blocks):
        if start + 4 > len(content):
            return None
        start += 4 + int.from_bytes(content[start : start + 4], "big")
    return start if start <= len(content) else None


def examine(file: Hdf5Archive, dataset: h5py.Dataset, name: str, inner: int = 0) -> np.ndarray:
    """Check that a dataset can be read, and warn if not all was written; return a few entries that were.

    ``name``: what to call it. ``inner``: its last axes that belong to one entry, 2 for patterns.
    """
    total = math.prod(dataset.shape[: dataset.ndim - inner])
    with damage_named(f"{name} is damaged"):
        missing, some = _examine(file, dataset, inner, name)
    stopped = "was the acquisition stopped?"
    if missing and inner and missing == total:
        raise FileError(f"{name}: none of its {total} patterns was ever written; {stopped}")
    if missing:
        problem = f"{missing} of {total} {'patterns' if inner else 'numbers'} were never written"
        file.warnings.append(f"{name}: {problem} and read as zeros; {stopped}")
    return some


def _examine(
    file: Hdf5Archive, dataset: h5py.Dataset, inner: int, name: str, left: int = 4
) -> tuple[int, np.ndarray]:
    """Return how many entries were not written, and some that were."""
    if problem := _unreadable(dataset):
        raise FileError(f"{name} {problem}")
    total = math.prod(dataset.shape[: dataset.ndim - inner])
    some, missing = spread(total), 0
    if dataset.is_virtual:
        missing = min(total, _missing_of_sources(file, dataset, inner, name, left))
    elif dataset.chunks is None:  # contiguous: all or nothing; compact ones have no storage of their own
        contiguous = dataset.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
        missing = total if contiguous and dataset.id.get_storage_size() == 0 else 0
    elif dataset.id.get_num_chunks() < _chunks(dataset.shape, dataset.chunks):
        complete, first = _complete(dataset, inner)
        missing, some = total - complete, first if len(first) else some
    return missing, some


def check_unpacking(
    file: Hdf5Archive, dataset: h5py.Dataset, box: Sequence[slice] = (), left: int = 4
) -> None:
    """Raise FileError if HDF5 would crash on a part of a dataset: ``box`` of its first axes."""
    if not dataset.is_virtual:
        file.chunks.check(dataset, box)
        return
    for source in dataset.virtual_sources() if left else ():
        if "%b" in source.file_name or "%b" in source.dset_name:
            file.chunks.read_elsewhere(dataset)
        elif _touches(source.vspace, box):
            check_unpacking(file, _source(file, dataset, source, dataset.name), (), left - 1)


def _touches(space: h5py.h5s.SpaceID, box: Sequence[slice]) -> bool:
    try:
        first, last = space.get_select_bounds()
    except (RuntimeError, ValueError):  # it has no end
        return True
    return all(
        low < part.stop and part.start <= high for low, high, part in zip(first, last, box, strict=False)
    )


def _unreadable(dataset: h5py.Dataset, largest: int = 2**31) -> str:
    """Return why HDF5 cannot read a dataset; ``largest``: bytes of a chunk, which is unpacked as a whole."""
    if dataset.external:
        names = ", ".join(str(entry[0]) for entry in dataset.external[:3])
        return f"keeps its numbers outside HDF5 ({names}); copy the dataset with h5repack"
    for code, _, name in filters_of(dataset):
        if not h5py.h5z.filter_avail(code):
            known = f" ({name})" if name else ""
            return f"is packed by the HDF5 filter {code}{known}, not installed: pip install hdf5plugin"
    size = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    too_large = f"is in chunks of {size} bytes, more than {largest}; rechunk it with h5repack"
    return too_large if size > largest else ""


def _chunks(shape: tuple[int, ...], chunk: tuple[int, ...]) -> int:
    return math.prod(-(-size // step) for size, step in zip(shape, chunk, strict=True))


def _complete(dataset: h5py.Dataset, inner: int) -> tuple[int, np.ndarray]:
    """How many entries, which may be any number, are whole; the first of some chunks that hold such."""
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
    """Entries of a virtual dataset that nothing fills; FileError: a source is not there."""
    if left == 0:
        raise FileError(f"{name}: too many virtual datasets of virtual datasets")
    entry = max(1, math.prod(dataset.shape[dataset.ndim - inner :]))
    unfilled, lost = dataset.size, 0
    opened: dict[tuple[str, str], h5py.Dataset] = {}
    for source in dataset.virtual_sources():
        try:
            filled = int(source.vspace.get_select_npoints())
        except RuntimeError:  # it has no limit, and HDF5 takes what there is
            filled = unfilled = 0
        unfilled -= min(unfilled, filled)
        if "%b" in source.file_name or "%b" in source.dset_name:
            file.warnings.append(f"{name}: that {source.file_name} is complete was not checked")
            continue
        which = source.file_name, source.dset_name
        if which not in opened:
            opened[which] = _source(file, dataset, source, name)
            label = f"{name}, from {source.file_name},"
            lost += _examine(file, opened[which], inner, label, left - 1)[0]
        lost += _short(filled, source.src_space, opened[which].shape) // entry
    return lost + -(-unfilled // entry)


def _source(file: Hdf5Archive, dataset: h5py.Dataset, source: h5py.VDSmap, name: str) -> h5py.Dataset:
    what, other = f"the virtual dataset {name}", dataset.file
    if source.file_name != ".":
        other = file.open_linked(Path(dataset.file.filename), source.file_name, what)
    target = file.walk(other, source.dset_name)
    if not isinstance(target, h5py.Dataset):
        raise FileError(f"{what} refers to {source.dset_name} in {source.file_name}, which is not there")
    return target


def _short(wanted: int, space: h5py.h5s.SpaceID, shape: tuple[int, ...]) -> int:
    """How many of the numbers that are wanted from a source are not there, because it is too short."""
    if wanted == 0 or space.get_select_type() == h5py.h5s.SEL_ALL:
        return max(0, wanted - math.prod(shape))
    first, last = (np.array(bound, dtype=np.int64) for bound in space.get_select_bounds())
    if len(first) != len(shape):
        return wanted
    inside = math.prod(np.clip(np.minimum(last + 1, shape) - first, 0, None))
    return round(wanted * (1 - inside / math.prod(last + 1 - first)))
