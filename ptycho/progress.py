"""Progress of a long loop: a bar on a terminal, plain lines in a log; and how these lines are shown."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

log = logging.getLogger(__name__)

Advance = Callable[[int], object]  # called with the number of patterns that were just used


def silent(patterns: int) -> None:
    """Show nothing: an :data:`Advance` where no progress is wanted."""


@dataclass(frozen=True)
class Event:
    """Event in a reconstruction, for an observer.

    Attributes:
        kind: ``phase``, which has ended; ``step`` of the solver on the whole scan; ``decision``; ``scores``;
            ``epoch`` of a training.
        name: of the phase or decision, or the method.
        values: of a phase ``seconds``; of a step ``step``, ``objective`` (−log p and prior, up to a
            constant) and at some steps ``deviance_holdout``, per pixel of the held-out patterns;
            of a decision ``value`` and ``why``; of scores those of ``metrics.json``; of an epoch its row of
            ``history.csv``.
        time: seconds since the epoch.
    """

    kind: str
    name: str
    values: Mapping[str, Any]
    time: float = field(default_factory=time.time)


OnEvent = Callable[[Event], object]


def ignore(event: Event) -> None:
    """Ignore an event: the default :data:`OnEvent`."""


def phases_for(on_event: OnEvent) -> Callable[[str], AbstractContextManager]:
    """Return contexts of phases, each of which is an event when it ends."""

    @contextmanager
    def phase(name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        on_event(Event("phase", name, {"seconds": time.monotonic() - began}))

    return phase


@contextmanager
def heartbeat(what: str, every_s: float = 60.0) -> Iterator[None]:
    """Log a line when a block begins, and one a minute until it ends."""
    began, ended = time.monotonic(), threading.Event()

    def beat() -> None:
        while not ended.wait(every_s):
            log.info("%s: %.0f s so far", what, time.monotonic() - began)

    log.info("%s …", what)
    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Progress:
    """Progress bar: diffraction patterns that are done, the rate per second, and the time left.

    In a log a line after ten seconds, the next ones after twice as long each: a loop has few of them, and one
    that takes less has none.

    Args:
        title: what is being done.
        total: patterns in all; one that is seen ten times counts ten times. Where there are more after all
            (a line search looks twice), it grows.
        done: patterns that were done before, by another process.
        delay: seconds until there is a bar; a loop that takes less shows none.
        bar: whether there is one; None: on a terminal.
        unit: what is counted, if not patterns.
        per: so many of what is counted are one ``unit``: of a solver that steps through all patterns, these.
        at_most: the loop may end before; what is shown as left is the most that it can take.
        line_s: seconds until the first line of a log; each later one takes twice as long, a minute at most.
    """

    def __init__(
        self,
        title: str,
        total: int,
        done: int = 0,
        delay: float = 2.0,
        bar: bool | None = None,
        unit: str = "pattern",
        per: int = 1,
        at_most: bool = False,
        line_s: float = 10.0,
    ) -> None:
        self._title, self._done, self._unit = title, done, unit
        self._per, self._limit = max(per, 1), "at most " if at_most else ""
        self._first: int | None = None  # done when the clock started
        self._bar = (
            tqdm(total=total, initial=done, desc=title, unit=unit, unit_scale=1 / self._per, delay=delay)
            if (sys.stderr.isatty() if bar is None else bar)
            else None
        )
        self._planned = total
        self._interval = line_s
        self._start = self._last_line = time.monotonic()

    def advance(self, patterns: int, where: str = "") -> None:
        """Count so many more as done; ``where`` says more precisely how far the loop is."""
        self._done += patterns
        if self._first is None:  # the first step compiles; its time does not show the speed
            self._first, self._start = self._done, time.monotonic()
            self._last_line = self._start
        if self._bar is not None:
            self._bar.set_postfix_str(where, refresh=False)
            self._bar.update(patterns)
        elif self._done > self._first and time.monotonic() - self._last_line >= self._interval:
            self._last_line = time.monotonic()
            self._interval = min(2 * self._interval, 60.0)
            done, planned = self._done // self._per, self._planned // self._per
            limit = f" of {self._limit}{planned}" if done <= planned else ""
            reached = where or f"{done}{limit} {self._unit}s"
            log.info("%s: %s, %s", self._title, reached, self._speed(self._first))

    def _speed(self, first: int) -> str:
        rate = (self._done - first) / max(time.monotonic() - self._start, 1e-9)
        left = self._planned - self._done
        ahead = f", {self._limit}{left / rate:.0f} s left" if left >= 0 else ""
        speed = rate / self._per
        return (
            f"{speed:.0f} {self._unit}s/s{ahead}" if speed >= 100 else f"{speed:.3g} {self._unit}s/s{ahead}"
        )

    def close(self) -> None:
        """Release the terminal; safe to call twice."""
        if self._bar is not None:
            self._bar.close()


def printable(text: str) -> str:
    """Return a text without the control characters of a terminal; names of files may contain any."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "·" for letter in text)


class PlainFormatter(logging.Formatter):
    """Lines of a log that are :func:`printable`."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class EachWarningOnce(logging.Filter):
    """Filter that passes a warning the first time; in a batch, once for each run (:func:`next_run`)."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        before = len(self.passed)
        self.passed.add(record.getMessage())
        return len(self.passed) > before


def next_run() -> None:
    """Let the handlers of the process pass warnings again."""
    for handler in logging.getLogger().handlers:
        for one in handler.filters:
            if isinstance(one, EachWarningOnce):
                one.passed.clear()
