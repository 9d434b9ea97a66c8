"""Decisions about a scan, each a line for the log and an entry of the results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Finding:
    """One decision: ``what`` it is about, its ``value``, and ``why``.

    Attributes:
        flags: names in :data:`ptycho.evaluation.trust.FLAGS` that the results get.
        warns: something looks wrong; ``what`` then is the whole text.
        refutable: a fit that explains the held-out patterns refutes it.
    """

    what: str
    value: str = ""
    why: str = ""
    flags: tuple[str, ...] = ()
    warns: bool = False
    refutable: bool = False

    @classmethod
    def warning(cls, text: str, *flags: str, refutable: bool = False) -> Finding:
        """Return a decision that is a warning, with the flags that it raises."""
        return cls(text, flags=flags, warns=True, refutable=refutable)

    def in_words(self, words: Callable[[str], str]) -> Finding:
        """Return the same with each text as ``words`` gives it."""
        return replace(self, what=words(self.what), value=words(self.value), why=words(self.why))

    def __str__(self) -> str:
        return self.what if self.warns else f"{self.what}: {self.value} ({self.why})"


def findings_of(decisions: Iterable[Finding]) -> list[Finding]:
    """Return the decisions that are no warnings."""
    return [decision for decision in decisions if not decision.warns]


def warnings_of(decisions: Iterable[Finding]) -> list[str]:
    """Return the texts of the warnings."""
    return [str(decision) for decision in decisions if decision.warns]


def flags_of(decisions: Iterable[Finding]) -> list[str]:
    """Return the flags of all decisions, each once."""
    return list(dict.fromkeys(flag for decision in decisions for flag in decision.flags))


def report(decisions: Iterable[Finding], log: logging.Logger) -> None:
    """Log decisions, warnings as warnings."""
    for decision in decisions:
        log.log(logging.WARNING if decision.warns else logging.INFO, "%s", decision)
