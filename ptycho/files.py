"""Files that are either complete or absent, and a folder that one process at a time may fill."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ptycho.config import ConfigError

log = logging.getLogger(__name__)

LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class WriteError(RuntimeError):
    """A file could not be written; the message names it, and what stood there before still stands."""


def write_atomically(target: Path, save: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name, flush it to the disk, and rename it.

    Args:
        target: where the file appears when it is complete; its folder is made if need be.
        save: gets a binary file object.

    Raises:
        WriteError: the disk is full, or the folder cannot be written.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            save(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise WriteError(f"{target}: cannot be written ({error.strerror or error})") from error
        raise


def _sync_folder(folder: Path) -> None:
    """Make a renaming in ``folder`` survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_temporary(folder: Path, names: Iterable[str]) -> None:
    """Remove what killed calls of :func:`write_atomically` left of the files and in the folders ``names``."""
    for name in names:
        for path in (*folder.glob(f".{name}.*.tmp"), *(folder / name).rglob(".*.tmp")):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder``, which is made if need be, against other processes; the kernel ends the hold with us.

    Raises:
        ConfigError: another process holds it (the message has its number), or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _open_locked(folder)
    except OSError as error:
        raise unusable(folder, error.strerror or str(error)) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            (folder / LOCK).unlink()
        file.close()


def _open_locked(folder: Path) -> IO[str]:
    """The open lock file, which holds the number of this process."""
    path = folder / LOCK
    while True:
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read().strip() or "unknown"
            file.close()
            raise ConfigError(
                f"{folder}: process {pid} is writing a run into this folder; wait until it ends, or stop it"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            log.warning("%s: its file system has no locks; do not start a second run in it", folder)
        if _is_current(file, path):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            return file
        file.close()  # its holder removed it while we opened it


def _is_current(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def unusable(path: Path, reason: str) -> ConfigError:
    """What to say about an output folder that cannot be written."""
    return ConfigError(f"output_dir={path}: cannot be written ({reason}); choose another folder")
