"""Text that comes from a file, made fit to be shown."""

from __future__ import annotations

LONGEST = 200  # letters


def shown(text: str, longest: int = LONGEST) -> str:
    """On one line, without letters that steer a terminal, and cut after ``longest`` of them."""
    line = "".join(letter if letter.isprintable() else "·" for letter in " ".join(text.split()))
    return line if len(line) <= longest else line[:longest] + "…"
