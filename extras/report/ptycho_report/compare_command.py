"""``ptycho compare``: runs side by side, as a page, as a table in CSV, and on the terminal."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NoReturn

from ptycho.command_line.jobs import run_program
from ptycho.command_line.words import place_words
from ptycho.config import ConfigError, check
from ptycho.config.schema import Text, Texts, key, settings
from ptycho.files.atomic import write_text
from ptycho.report.entries import markdown
from ptycho.report.wording import score_text
from ptycho.run.folder import csv_text
from ptycho.run.record import check_output
from ptycho_report.entries import differing, find_entries
from ptycho_report.page import check_page, compare_page, write_page
from ptycho_report.report_command import links


@settings()
class CompareConfig:
    """The keys of ``conf/compare.yaml``."""

    runs: Texts = key((), "folders of runs, batches or sweeps, also as patterns such as outputs/*")
    output: Text = key("compare.html", "page to write; the table is written beside it as .csv")


def main(text: str | None) -> NoReturn:
    """End the process as what the command line asks for; ``text``: the help."""
    run_program("compare", CompareConfig, write_comparison, text, partial(place_words, "runs[]"))


def write_comparison(config: CompareConfig) -> list[str]:
    """Write page and table of some runs; return the table as lines, and the skipped folders."""
    check(bool(config.runs), "runs", "[]", "folders of runs")
    path = Path(config.output)
    table = path.with_suffix(".csv")
    check_output(table, overwrite=True)
    check_page(path)
    selected = find_entries(config.runs)
    if not selected.entries:
        reasons = "; ".join(f"{name}: {why}" for name, why in selected.skipped[:3])
        raise ConfigError(f"runs={' '.join(config.runs)}: no run to compare ({reasons})")
    entries = list(selected.entries)
    keys, values = differing(entries)
    rows = [
        entry.cells | {"folder": str(entry.record.path)} | dict(zip(keys, row, strict=True))
        for entry, row in zip(entries, values, strict=True)
    ]
    written = write_page(path, compare_page(entries, selected.skipped, links(entries, path.parent)))
    write_text(table, csv_text(rows))
    lines = [f"skipped: {name}: {why}" for name, why in selected.skipped]
    shown = [{name: score_text(value) for name, value in entry.cells.items()} for entry in entries]
    columns = [name for name in shown[0] if any(row[name] for row in shown)]
    lines += markdown(columns, shown).rstrip().split("\n")
    return [*lines, f"compared: {written}, {table}"]
