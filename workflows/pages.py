"""Pages about runs: a report, an index of reports, a comparison; nothing here imports TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ptycho.config import ConfigError, check
from ptycho.config.schema import Text, Texts, key, settings
from ptycho.files.atomic import write_text
from ptycho.report.entries import Entry, differing, find_entries
from ptycho.report.gather import gather, is_run
from ptycho.report.page import compare_page, index_page, report_page, score_text, write_page
from ptycho.run import names
from ptycho.run.folder import csv_text
from ptycho.run.record import check_no_file_of_a_run
from ptycho.run.scan_table import markdown

INDEX = "index.html"


@settings()
class ReportConfig:
    """The keys of ``conf/report.yaml``."""

    run: Text | None = key(None, "folder of the run, or of several runs")
    output: Text | None = key(
        None, "page to write; null: report.html in the folder of the run, index.html in a folder of runs"
    )


def write_report(config: ReportConfig) -> list[str]:
    """Write the page of a run, or the index of a folder of runs; return a line on it."""
    check(bool(config.run), "run", "null", "the folder of a run")
    folder = Path(str(config.run))
    runs = find_entries([str(folder)]).entries if folder.is_dir() and not is_run(folder) else ()
    path = Path(config.output) if config.output else folder / (INDEX if runs else names.REPORT)
    if not runs:
        return [f"report: {write_page(path, report_page(gather(folder)))}"]
    newest_first = sorted(runs, key=lambda entry: entry.record.ended, reverse=True)
    page = index_page(folder.resolve().name, newest_first, links(runs, path.parent))
    return [f"report: {write_page(path, page)}"]


def links(entries: Sequence[Entry], folder: Path) -> dict[str, str]:
    """Where the reports are that lie in the runs' folders, seen from the folder of the page."""
    pages = {entry.label: entry.record.path / names.REPORT for entry in entries}
    return {
        label: quote(Path(os.path.relpath(str(page), str(folder))).as_posix())
        for label, page in pages.items()
        if page.is_file()
    }


@settings()
class CompareConfig:
    """The keys of ``conf/compare.yaml``."""

    runs: Texts = key((), "folders of runs, batches or sweeps, also as patterns such as outputs/*")
    output: Text = key("compare.html", "page to write; the table is written beside it as .csv")


def write_comparison(config: CompareConfig) -> list[str]:
    """Write page and table of some runs; return the table as lines, and the skipped folders."""
    check(bool(config.runs), "runs", "[]", "folders of runs")
    path = Path(config.output)
    table = path.with_suffix(".csv")
    check_no_file_of_a_run("output", table)
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
