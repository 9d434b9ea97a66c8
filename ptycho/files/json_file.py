"""JSON from anyone: names and values, of a size that is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LARGEST = 2**25  # bytes


def read_json(path: Path, largest: int = LARGEST) -> dict[str, Any]:
    """The names and values in a file.

    Raises:
        OSError: it cannot be read. ValueError: it is too large, is no JSON, or holds something else.
    """
    if (size := path.stat().st_size) > largest:
        raise ValueError(f"it has {size} bytes")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(values, dict):
        raise ValueError("it must hold names and values")
    return values
