"""What was settled about a scan, in a line for the log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was settled: ``what`` it is, its ``value``, and ``why``."""

    what: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.value} ({self.why})"
