"""Text that comes from a file, made fit to be shown."""

from __future__ import annotations

import logging

LONGEST = 200  # letters


def shown(text: str, longest: int = LONGEST) -> str:
    """On one line, without letters that steer a terminal, and cut after ``longest`` of them."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"


def printable(text: str) -> str:
    """As it is, without letters that steer a terminal; names of files may hold any."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "·" for letter in text)


class PlainFormatter(logging.Formatter):
    """Lines of a log that are :func:`printable`."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
