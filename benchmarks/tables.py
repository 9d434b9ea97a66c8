"""Rows of results as CSV and as Markdown; the columns are the keys of the first row."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

Rows = Sequence[Mapping[str, Any]]


def write_csv(path: Path, rows: Rows, columns: Sequence[str] = ()) -> None:
    """Write rows as CSV; ``columns`` selects or orders the keys, by default those of the first row."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns or list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def markdown(rows: Rows) -> str:
    """Return rows as a Markdown table, without rounding."""
    texts = [{key: str(value) for key, value in row.items()} for row in rows]
    return tabulate(texts, headers="keys", tablefmt="pipe", disable_numparse=True)
