"""Untrusted NPZ files: their members are checked before they are read, read on demand, and never unpickled.

An NPZ is a ZIP archive whose members ``<key>.npy`` hold a short header (dtype, shape, order) and the bytes
of one array. Everything that a member declares is compared with what the archive holds before memory is
allocated for it; every read verifies ZIP's checksums.
"""

from __future__ import annotations

import math
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from ptycho.files.reading import FileError, damage_named, open_file, shown

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def name_kinds(kinds: str) -> str:
    """Return the names of some of NumPy's kinds of dtypes."""
    numbers = "complex or real numbers" if "c" in kinds else "real numbers" if "f" in kinds else "integers"
    return {"U": "text", "b": "true and false"}.get(kinds) or numbers + " or true and false" * ("b" in kinds)


@dataclass(frozen=True)
class Header:
    """Declaration of a member, checked against the archive; ``start`` bytes precede the array."""

    key: str
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    start: int
    info: zipfile.ZipInfo


def expands_too_much(packed: int, size: int, small: int = 2**26, fold: int = 200) -> str:
    """Return why bytes are refused that expand more than ``fold``, beyond ``small`` bytes; or nothing."""
    refused = size > small and size > fold * packed
    return f"{packed} bytes that expand to {size}; more than {fold}-fold is refused" if refused else ""


class NpzFile:
    """An open NPZ file, or FileError: it is missing, not a file, or not an NPZ archive; a context manager."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = open_file(self.path)
        try:
            self._zip = zipfile.ZipFile(self._file)
        except Exception as error:  # a damaged archive raises whatever its bytes lead to
            self._file.close()
            raise FileError("not a readable .npz (it is cut short or damaged, or no ZIP archive)") from error
        names = [info.filename for info in self._zip.infolist()]
        self.keys = [name.removesuffix(".npy") for name in names if name.endswith(".npy")]
        self.repeated = [key for key, count in Counter(self.keys).items() if count > 1]

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive and its file."""
        self._zip.close()
        self._file.close()

    def header(self, key: str, kinds: str) -> Header:
        """Return what the member ``key`` declares; its dtype must be one of ``kinds`` (NumPy's letters).

        FileError: it is not an array of such numbers, or declares another size than the archive holds.
        """
        info = self._zip.getinfo(f"{key}.npy")
        with damage_named(f"{key} is damaged"), self._zip.open(info) as member:
            version = npy.read_magic(member)
            if version not in HEADERS:
                raise FileError(f"{key} has the unknown format {version}")
            shape, fortran, dtype = HEADERS[version](member)
            start = member.tell()
        if dtype.hasobject:
            raise FileError(f"{key} {shape} holds Python objects; only numbers are read")
        if dtype.kind not in kinds:
            raise FileError(f"{key} {shape} has dtype {shown(str(dtype))}; must be {name_kinds(kinds)}")
        size, held = math.prod(shape) * dtype.itemsize, info.file_size - start
        if min(shape, default=0) < 0 or size != held:
            raise FileError(f"{key} declares {shape} of {dtype}, {size} bytes, but holds {held} bytes")
        if bomb := expands_too_much(info.compress_size, info.file_size):
            raise FileError(f"{key} {shape}: {bomb}")
        return Header(key, tuple(shape), dtype, fortran, start, info)

    def read(self, header: Header, most: int = 2**32) -> np.ndarray:
        """Read the whole array ``(…)`` in native byte order and C order; FileError: too large, or damaged."""
        size = header.info.file_size
        if size > most:
            raise FileError(f"{header.key} {header.shape} takes {size} bytes; at most {most} are read")
        with damage_named(f"{header.key} is damaged"), self._zip.open(header.info) as member:
            array = npy.read_array(member, allow_pickle=False)
            member.read()  # to the end, where the checksum is
        return array.astype(header.dtype.newbyteorder("="), order="C", copy=False)

    def rows(self, header: Header, block_bytes: int = 2**24) -> Iterator[np.ndarray]:
        """Yield blocks ``(j, …)`` of whole rows (first axis), in native byte order, one in memory."""
        if header.fortran and len(header.shape) > 1:
            raise FileError(
                f"{header.key} {header.shape} is in Fortran order, which cannot be read by rows; "
                "save np.ascontiguousarray of it"
            )
        row = math.prod(header.shape[1:]) * header.dtype.itemsize
        step = max(1, block_bytes // max(1, row))
        with damage_named(f"{header.key} is damaged"), self._zip.open(header.info) as member:
            member.read(header.start)
            for first in range(0, header.shape[0], step):
                count = min(step, header.shape[0] - first)
                block = np.frombuffer(member.read(count * row), header.dtype)
                block = block.reshape(count, *header.shape[1:])
                yield block.astype(header.dtype.newbyteorder("="), copy=False)

    def position(self, header: Header) -> int:
        """Return where the array's first byte lies in the file, for a member that is not compressed."""
        with damage_named(f"{header.key} is damaged"):
            self._file.seek(header.info.header_offset)
            local = self._file.read(30)  # of a local file header; name and extra field follow
            lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
            return header.info.header_offset + 30 + lengths + header.start


def read_all(
    path: str | Path, kinds: Mapping[str, str] | str, optional: Mapping[str, str] | None = None
) -> dict[str, np.ndarray]:
    """Read the arrays ``(…)`` of an NPZ by key: those that ``kinds`` lists, or all if it is the kind of all.

    ``optional``: kinds of further ones that may be missing. FileError: one line with every problem.
    """
    with NpzFile(path) as archive:
        wanted = dict.fromkeys(archive.keys, kinds) if isinstance(kinds, str) else dict(kinds)
        wanted |= {key: kind for key, kind in (optional or {}).items() if key in archive.keys}
        problems = [f"{key} is there more than once" for key in archive.repeated if key in wanted]
        problems += [f"lacks {key}" for key in wanted if key not in archive.keys]
        arrays = {}
        for key in wanted if not problems else ():
            try:
                arrays[key] = archive.read(archive.header(key, wanted[key]))
            except FileError as error:
                problems.append(str(error))
    if problems:
        raise FileError("; ".join(problems))
    return arrays


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
