"""Files that are either complete or absent, and the hashes by which they and their arrays are known."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

import numpy as np

TEMPORARY = re.compile(r"\..+\.\d+\.tmp")  # a name, the number of a process


class WriteError(RuntimeError):
    """A file could not be written; the message names it, and what stood there before still stands."""


def write_atomically(target: Path, save: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it; its folder is made.

    ``save`` gets a binary file object. WriteError: the disk is full, or the folder cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_new(temporary) as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # the renaming survives a loss of power
        finally:
            os.close(handle)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise WriteError(f"{target}: cannot be written ({error.strerror or error})") from error
        raise


def write_text(target: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all."""
    write_atomically(target, lambda file: file.write(text.encode()))


def open_new(path: Path) -> IO[bytes]:
    """Open a new file; what stands in its place, a link too, is removed, and never written through."""
    try:
        return path.open("x+b")
    except FileExistsError:
        path.unlink()
        return path.open("x+b")


def remove_temporary(folder: Path, names: Iterable[str]) -> None:
    """Remove what killed calls of :func:`write_atomically` left of the files and in the folders ``names``."""
    for name in names:
        for path in (*folder.glob(f".{name}.*.tmp"), *(folder / name).rglob(".*.tmp")):
            if TEMPORARY.fullmatch(path.name):
                path.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_verified(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays as an NPZ file with their digest, ``sha256``. WriteError: it cannot be written."""
    whole = {**arrays, "sha256": np.asarray(digest(arrays))}
    write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **whole))


def read_verified(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays that :func:`write_verified` has written; an exception of any kind: it is damaged."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if str(arrays.pop("sha256")) != digest(arrays):
        raise ValueError("its checksum is wrong")
    return arrays


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 over names, dtypes, shapes and bytes of arrays, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape};".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def remove_files(folder: Path, pattern: str) -> None:
    """Remove the files of a folder that fit a pattern, and the folder, if nothing else is in it."""
    with contextlib.suppress(OSError):
        for path in folder.glob(pattern):
            path.unlink()
        folder.rmdir()
