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
    """Context of a run."""

    scratch: Path  # a folder for patterns in a nameless file
    timed: Callable[[str], AbstractContextManager] = lambda what: nullcontext()  # notes how long it takes
    bar: bool | None = None  # as for :class:`~ptycho.progress.Progress`
    executor: Executor = serial  # of the blocks of a large scan
    cache: Cache = field(default_factory=NoCache)  # of their fits
    on_event: OnEvent = ignore  # is called with what happens
    words: Callable[[str], str] = str  # puts the names that the caller knows for keys into a text
