"""Sources of a live scan: a file, a folder or a socket, recognised by the path or address to watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho_live.arrivals import Source

SOCKET = "zmq://"


@dataclass(frozen=True)
class SourceOptions:
    """Settings that a source needs.

    Attributes:
        config: the section ``data``: values that the source lacks.
        scratch: a folder for small files of its own.
        has: whether the frame of an index is kept already.
        bind: of a socket: wait for the sender; otherwise connect to it.
        keys: of a socket: file with the keys of CurveZMQ; None: messages are not encrypted.
        largest: bytes of the largest message that is accepted.
    """

    config: DataConfig
    scratch: Path
    has: Callable[[int], bool]
    bind: bool = True
    keys: Path | None = None
    largest: int = 2**28


def open_source(watch: str, options: SourceOptions) -> Source:
    """Return the source that ``watch`` names, which need not be there yet.

    Raises:
        ConfigError: it can be none.
    """
    if watch.startswith(SOCKET):
        from ptycho_live.sources.socket import SocketSource

        return SocketSource(watch, options)
    if "://" in watch:
        raise ConfigError(f"watch={watch}: must be a file, a folder, or {SOCKET}host:port")
    path = Path(watch)
    if path.is_dir() or watch.endswith("/"):
        from ptycho_live.sources.growing_folder import GrowingFolder

        return GrowingFolder(path, options)
    from ptycho_live.sources.growing_hdf5 import GrowingHdf5

    return GrowingHdf5(path, options)
