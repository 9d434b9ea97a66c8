"""A folder that one process at a time may fill."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ptycho.config import ConfigError

log = logging.getLogger(__name__)

LOCK = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


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
