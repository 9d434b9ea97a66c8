"""``scans.csv`` and ``scans.md``: runs on measured scans, a row for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.files.atomic import write_text
from ptycho.run.folder import csv_text

CSV, MARKDOWN = "scans.csv", "scans.md"
SCORES = ("r_factor", "r_free", "deviance_holdout", "frc_nm", "flags")
MEASURED = ("patterns", "N", "pixel_nm", "product", *SCORES)
FIRST, LAST = ("scan", "state"), ("seconds", "folder", "error")
COLUMNS = (*FIRST, *MEASURED, *LAST)
NO_COLUMN = ("data.file", "output_dir", "overwrite")  # of the overrides: scan and folder tell them


def override_cells(overrides: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Return the overrides of every run that are not the same for all, by key."""
    given = [dict(text.lstrip("+~").partition("=")[::2] for text in of_run) for of_run in overrides]
    keys = dict.fromkeys(key for of_run in given for key in of_run if key not in NO_COLUMN)
    varied = [key for key in keys if len({of_run.get(key) for of_run in given}) > 1]
    return [{key: of_run[key] for key in varied if key in of_run} for of_run in given]


def write_table(folder: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write both files, each whole or not at all; the table as text.

    ``rows``: cells by column; those that are not of :data:`COLUMNS` are overrides, and stand after the first.
    """
    own = dict.fromkeys(key for row in rows for key in row if key not in COLUMNS)
    columns = (*FIRST, *own, *MEASURED, *LAST)
    cells = [{key: str(row.get(key, "")) for key in columns} for row in rows]
    texts = {CSV: csv_text(cells), MARKDOWN: markdown(columns, cells)}
    for name, text in texts.items():
        write_text(folder / name, text)
    return texts[MARKDOWN]


def markdown(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table in Markdown that can be read as it stands; the last column is as long as it is."""
    lines = [columns, *([row[key].replace("|", "\\|") for key in columns] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(columns) - 1)] + [len(columns[-1])]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    padded.insert(1, ["-" * width for width in widths])
    return "".join(f"| {' | '.join(line)} |\n" for line in padded)


def check_table(folder: Path) -> None:
    """Raise ConfigError if a file of another kind stands where a table shall be written."""
    for name in (CSV, MARKDOWN):
        path = folder / name
        try:
            with path.open(encoding="utf-8") as file:
                head = file.readline()
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            head = ""
        if not all(column in head for column in (*FIRST, *LAST)):
            raise ConfigError(
                f"output_dir={folder}: holds {name}, which is no table of this program and nothing replaces; "
                "move it away, or choose another folder"
            )
