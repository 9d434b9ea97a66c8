"""Where a scan is reconstructed: folder, clock, progress bar, executor and cache."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ptycho.progress import OnEvent, ignore
from ptycho.reconstruction.blocks import Cache, Executor, NoCache, serial


@dataclass(frozen=True)
class RunContext:
    """Context of a run.

    Attributes:
        scratch: a folder for patterns in a nameless file.
        timed: a context that notes how long what it is named after takes.
        bar: as for :class:`~ptycho.progress.Progress`.
        executor: executor of the blocks of a large scan.
        cache: cache of their fits.
        on_event: is called with what happens.
        words: what puts the names that the caller knows for keys of the configuration in a text.
    """

    scratch: Path
    timed: Callable[[str], AbstractContextManager] = lambda what: nullcontext()
    bar: bool | None = None
    executor: Executor = serial
    cache: Cache = field(default_factory=NoCache)
    on_event: OnEvent = ignore
    words: Callable[[str], str] = str
