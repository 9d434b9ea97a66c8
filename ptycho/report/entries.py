"""The table of many scans, ``scans.csv`` and ``scans.md``: a row for each run, with its scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.files.atomic import write_text
from ptycho.report.gather import FINISHED, RunRecord, gather, is_run, number
from ptycho.report.wording import advice_of, score_text
from ptycho.run.folder import csv_text

CSV, MARKDOWN = "scans.csv", "scans.md"
SCORES = ("r_factor", "r_free", "deviance_holdout", "frc_nm", "flags")
MEASURED_COLUMNS = ("patterns", "N", "pixel_nm", "product", *SCORES)
FIRST_COLUMNS, LAST_COLUMNS = ("scan", "state"), ("seconds", "folder", "error")
COLUMNS = (*FIRST_COLUMNS, *MEASURED_COLUMNS, *LAST_COLUMNS)
NO_COLUMN = ("data.file", "output_dir", "overwrite")  # of the overrides: scan and folder tell them


def cells_of(record: RunRecord) -> dict[str, Any]:
    """Return the cells of a run in a table, as numbers and texts."""
    row, sizes, halves = record.row, record.sizes, record.metrics.get("half_scan_frc")
    precision = None
    if isinstance(halves, dict) and record.pixel_nm is not None:  # at best it is the pixel
        metres = number(halves.get("frc50_m"))
        precision = record.pixel_nm if metres is None else 1e9 * metres
    ssim = row.get("ssim")
    pair = ssim if isinstance(ssim, list) and len(ssim) == 2 else [None, None]
    names_of_scores = "r_factor", "r_free", "r_noise", "deviance_holdout"
    return {
        "state": record.state,
        "product": record.product,
        "patterns": _whole(sizes.get("patterns")),
        "N": _whole(sizes.get("N")) or _whole(record.flat.get("N")),
        "pixel_nm": record.pixel_nm,
        **{name: number(row.get(name)) for name in names_of_scores},
        "frc_nm": precision,
        "ssim_amplitude": number(pair[0]),
        "ssim_phase": number(pair[1]),
        "flags": " ".join(one.flag for one in advice_of(row)),
        "seconds": record.seconds,
    }


def _whole(value: Any) -> int | None:
    return None if (known := number(value)) is None else int(known)


def row_of(run: Path) -> dict[str, str]:
    """Return the cells of a finished run in a table of many scans, as texts; none if it is not finished."""
    record = gather(run) if is_run(run) else None
    if record is None or record.state != FINISHED:
        return {}
    cells = cells_of(record)
    return {name: score_text(cells[name]) for name in (*MEASURED_COLUMNS, "seconds")}


def override_cells(overrides: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Return the overrides of every run that are not the same for all, by key."""
    given = [dict(text.lstrip("+~").partition("=")[::2] for text in of_run) for of_run in overrides]
    keys = dict.fromkeys(key for of_run in given for key in of_run if key not in NO_COLUMN)
    varied = [key for key in keys if len({of_run.get(key) for of_run in given}) > 1]
    return [{key: of_run[key] for key in varied if key in of_run} for of_run in given]


def write_table(folder: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Write ``scans.csv`` and ``scans.md``, each whole or not at all; return the table as text.

    ``rows``: cells by column; those that are not of :data:`COLUMNS` are overrides, and stand after the first.
    """
    own = dict.fromkeys(key for row in rows for key in row if key not in COLUMNS)
    columns = (*FIRST_COLUMNS, *own, *MEASURED_COLUMNS, *LAST_COLUMNS)
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
        if not all(column in head for column in (*FIRST_COLUMNS, *LAST_COLUMNS)):
            raise ConfigError(
                f"output_dir={folder}: holds {name}, which is no table of this program and nothing replaces; "
                "move it away, or choose another folder"
            )
