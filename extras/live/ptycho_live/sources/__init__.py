"""Sources of a live scan: a file, a folder or a socket, recognised by the path or address to watch."""

from __future__ import annotations

from pathlib import Path

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho_live.arrivals import Has, Source
from ptycho_live.sources.growing_folder import GrowingFolder
from ptycho_live.sources.growing_hdf5 import GrowingHdf5
from ptycho_live.sources.socket import SocketSource

SOCKET = "zmq://"


def open_source(
    watch: str,
    config: DataConfig,  # values that the source lacks
    has: Has,
    bind: bool = True,  # this and the rest: of a SocketSource
    keys: str | None = None,
    largest: int = 2**28,
) -> Source:
    """Return the source that ``watch`` names, which need not be there yet; ConfigError: it can be none."""
    if watch.startswith(SOCKET):
        return SocketSource(watch, bind, keys, largest)
    if "://" in watch:
        raise ConfigError(f"watch={watch}: must be a file, a folder, or {SOCKET}host:port")
    path = Path(watch)
    folder = path.is_dir() or watch.endswith("/")
    return GrowingFolder(path, config, has) if folder else GrowingHdf5(path, config, has)
