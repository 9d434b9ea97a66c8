"""Where a growing scan comes from: a file or a folder; recognised by what is watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.live.arrivals import Source


@dataclass(frozen=True)
class SourceOptions:
    """What a source needs to know.

    Attributes:
        config: the section ``data``: what the source does not say.
        scratch: a folder for small files of its own.
        has: whether the frame of an index is kept already.
    """

    config: DataConfig
    scratch: Path
    has: Callable[[int], bool]


def open_source(watch: str, options: SourceOptions) -> Source:
    """Return the source that ``watch`` names, which need not be there yet.

    Raises:
        ConfigError: it can be none.
    """
    if "://" in watch:
        raise ConfigError(
            f"watch={watch}: must be a file or a folder; write what a stream brings into one (docs/live.md)"
        )
    path = Path(watch)
    if path.is_dir() or watch.endswith("/"):
        from ptycho.live.sources.growing_folder import GrowingFolder

        return GrowingFolder(path, options)
    from ptycho.live.sources.growing_hdf5 import GrowingHdf5

    return GrowingHdf5(path, options)
