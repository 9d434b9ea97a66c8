"""The error of a configuration or input file, and the checks that raise it."""

from __future__ import annotations

import math
from typing import Any


class ConfigError(ValueError):
    """A configuration or input file that cannot be used; the message is one line for the user."""


def check(ok: bool, key: str, value: Any, allowed: str) -> None:
    """Raise :class:`ConfigError` naming ``key``, ``value`` and what is ``allowed`` unless ``ok``."""
    if not ok:
        raise ConfigError(f"{key}={value}: must be {allowed}")


def finite(key: str, value: float, low: float = 0.0, *, above: bool = False) -> None:
    relation = ">" if above else ">="
    ok = math.isfinite(value) and (value > low if above else value >= low)
    check(ok, key, value, f"a finite number {relation} {low:g}")


def at_least(key: str, value: int, low: int) -> None:
    check(value >= low, key, value, f"an integer >= {low}")


def at_most(key: str, value: int, high: int) -> None:
    """For numbers that no machine could serve; what this one can is :mod:`ptycho.config.memory`'s to say."""
    check(value <= high, key, value, f"at most {high}")
