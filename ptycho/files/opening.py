"""Open a file of anyone, or say in a line why that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import IO


class FileError(ValueError):
    """What keeps a file from being read, in one line that does not name it."""


def open_file(path: str | Path) -> IO[bytes]:
    """Open a file to be read; FileError: it is not there, not readable, or a pipe or device without end."""
    if "\0" in str(path):
        raise FileError("no such file")
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise FileError("is no file")
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise FileError("no such file") from error
    except OSError as error:
        raise FileError(f"cannot be read ({error.strerror or error})") from error
