"""Check the chunks of HDF5 datasets before HDF5 unpacks them.

HDF5 assumes that the output of its filters is as long as a chunk, and some filters trust the lengths in a
chunk: wrong bytes lead beyond the memory, and end the process. So the outermost filter of a chunk must unpack
to the chunk's size, by its header (gzip, which has none, is unpacked once more), and the lengths of its
blocks must end where the chunk does. A chunk that no header describes is read by another process first.

========================= ====================================================================================
HDF5's own                gzip (1), shuffle (2), Fletcher's checksum (3), szip (4), nbit (5), scaleoffset (6)
with h5py, hdf5plugin     LZF (32000), Blosc (32001), LZ4 (32004), bitshuffle (32008), ZFP (32013),
                          Zstandard (32015), Blosc2 (32026)
========================= ====================================================================================
"""

from __future__ import annotations

import contextlib
import itertools
import math
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence

import h5py

from ptycho.files.npz import expands_too_much
from ptycho.readers.archive import ArchiveError

with contextlib.suppress(ImportError):
    import hdf5plugin  # noqa: F401 - registers its filters with HDF5

GZIP, SHUFFLE, CHECKSUM, SZIP, NBIT, SCALE = range(1, 7)
LZF, BLOSC, LZ4, BITSHUFFLE, ZFP, ZSTD, BLOSC2 = 32000, 32001, 32004, 32008, 32013, 32015, 32026
UNTOLD = (NBIT, SCALE, ZFP, BLOSC2)
PACKED_BLOCKS = (2, 3)  # of bitshuffle: LZ4, Zstandard
READ_ALL = """
import sys, h5py, numpy
try:
    import hdf5plugin
except ImportError:
    pass
data = h5py.File(sys.argv[1], "r", locking="best-effort")[sys.argv[2]]
for part in data.iter_chunks():
    data[part]
"""


class Chunks:
    """The chunks of an open file's datasets, and of the files that they refer to; each is checked once."""

    def __init__(self) -> None:
        self._sound = set[tuple[str, int, int]]()
        self._read = dict[tuple[str, str], bool]()

    def check(self, dataset: h5py.Dataset, box: Sequence[slice] = ()) -> None:
        """See that a part of a dataset can be unpacked.

        Args:
            box: its first axes; the others are taken whole.

        Raises:
            ArchiveError: it cannot.
        """
        if dataset.is_virtual or dataset.chunks is None or not dataset.size:
            return
        filters = [(code, values) for code, values, _ in filters_of(dataset)]
        if any(code in UNTOLD for code, _ in filters):
            self.read_elsewhere(dataset)
            return
        size = math.prod(dataset.chunks) * dataset.dtype.itemsize
        for corner in _corners(dataset, box):
            info = dataset.id.get_chunk_info_by_coord(corner)
            place = dataset.file.filename, info.byte_offset, info.size
            if info.byte_offset is None or place in self._sound:
                continue
            if bomb := expands_too_much(info.size, size):
                raise ArchiveError(f"has a chunk of {bomb}; rechunk it with h5repack")
            used = [entry for k, entry in enumerate(filters) if not info.filter_mask >> k & 1]
            content = dataset.id.read_direct_chunk(corner)[1] if used else b""
            problem = wrong_with(content, size, used) if used else _of_length(info.size, size)
            if problem:
                raise ArchiveError(f"is damaged in the chunk at {corner}: {problem}")
            self._sound.add(place)

    def read_elsewhere(self, dataset: h5py.Dataset) -> None:
        """Read all of it in a process of its own, once; that may crash."""
        which = dataset.file.filename, dataset.name
        if which not in self._read:
            done = subprocess.run([sys.executable, "-c", READ_ALL, *which], capture_output=True)
            self._read[which] = done.returncode >= 0  # errors come again where they are named
        if not self._read[which]:
            raise ArchiveError("is damaged: HDF5 crashes on it")


def filters_of(dataset: h5py.Dataset) -> list[tuple[int, tuple[int, ...], str]]:
    """Return codes, parameters and names of the filters, in the order in which they pack."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k) for k in range(plist.get_nfilters())]
    return [(code, tuple(values), name.decode("ascii", "replace")) for code, _, values, name in filters]


def _corners(dataset: h5py.Dataset, box: Sequence[slice]) -> itertools.product[tuple[int, ...]]:
    """The first entry of every chunk that a part of a dataset lies in."""
    whole = [slice(0, length) for length in dataset.shape[len(box) :]]
    axes = [
        range(part.start // step * step, part.stop, step)
        for part, step in zip([*box, *whole], dataset.chunks, strict=True)
    ]
    return itertools.product(*axes)


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
    if length != size:
        return f"it says that it unpacks to {length} bytes, not {size}"
    return _wrong_with_lz4(content, size) if code == LZ4 else ""


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


def _blosc(content: bytes, size: int, values: tuple[int, ...]) -> int:
    whole = len(content) >= 16 and int.from_bytes(content[12:16], "little") == len(content)
    return int.from_bytes(content[4:8], "little") if whole else -1


UNPACKED: dict[int, Callable[[bytes, int, tuple[int, ...]], int]] = {  # bytes, by the header; -1: it is none
    GZIP: lambda content, size, values: len(zlib.decompressobj().decompress(content, size + 1)),
    SZIP: lambda content, size, values: int.from_bytes(content[:4], "little"),
    LZF: lambda content, size, values: values[2] if len(values) > 2 else -1,
    LZ4: lambda content, size, values: int.from_bytes(content[:8], "big"),
    BLOSC: _blosc,
    ZSTD: _zstd,
}


def _wrong_with_lz4(content: bytes, size: int) -> str:
    block = int.from_bytes(content[8:12], "big")
    end = _walk(content, 12, -(-size // block)) if block else None
    return "" if end == len(content) else "its blocks do not end where it does"


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
