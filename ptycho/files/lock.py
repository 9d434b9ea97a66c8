"""A folder that one process at a time may fill."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ptycho.config import ConfigError

log = logging.getLogger(__name__)

LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class BusyError(ConfigError):
    """Another process holds the folder."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold ``folder``, which is made if need be, against other processes; the kernel ends the hold with us.

    BusyError: another process holds it (the message has its number). ConfigError: it cannot be written.
    """
    path = folder / LOCK
    lock = FileLock(path, timeout=0.1, fallback_to_soft=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():  # it would be written through
            path.unlink()
        try:
            lock.acquire()
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            log.warning("%s: its file system has no locks; do not start a second run in it", folder)
        path.write_text(f"{os.getpid()}\n")
    except Timeout:
        raise _busy(folder, _holder(path)) from None
    except OSError as error:
        raise unusable(folder, error.strerror or str(error)) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        lock.release()


def is_locked(folder: Path) -> bool:
    """Return whether a process holds ``folder``; nothing is written to find out."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or a file system without locks
        return False
    return False


def check_unlocked(folder: Path) -> None:
    """Raise ConfigError if another process holds ``folder``."""
    if is_locked(folder) and (pid := _holder(folder / LOCK)) != str(os.getpid()):
        raise _busy(folder, pid)


def _holder(lock: Path) -> str:
    with contextlib.suppress(OSError):
        return lock.read_text(errors="replace").strip()
    return ""


def _busy(folder: Path, pid: str) -> BusyError:
    process = f"process {pid or 'unknown'} is writing a run into this folder"
    return BusyError(f"{folder}: {process}; wait until it ends, or stop it")


def unusable(path: Path, reason: str) -> ConfigError:
    """Return the error of an output folder that cannot be written."""
    return ConfigError(f"output_dir={path}: cannot be written ({reason}); choose another folder")
