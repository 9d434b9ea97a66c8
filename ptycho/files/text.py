"""Text that comes from a file, made fit to be shown."""

from __future__ import annotations

import logging


def shown(text: str, longest: int = 200) -> str:
    """Return a text on one line, without control characters, and cut after ``longest`` characters."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


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
