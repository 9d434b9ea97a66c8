"""The error of a configuration or input file, and the check that raises it."""

from __future__ import annotations

from typing import Any


class ConfigError(ValueError):
    """A configuration or input file that cannot be used; the message is one line for the user."""


def check(ok: bool, key: str, value: Any, allowed: str) -> None:
    """Raise :class:`ConfigError` naming ``key``, ``value`` and what is ``allowed`` unless ``ok``."""
    if not ok:
        raise ConfigError(f"{key}={value}: must be {allowed}")
