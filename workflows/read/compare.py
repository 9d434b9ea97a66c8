"""Many runs → one page, a table as CSV, and the table on the terminal; nothing here imports TensorFlow."""

from __future__ import annotations

from pathlib import Path

from ptycho.config import ConfigError
from ptycho.config.schema import Text, Texts, key, settings
from ptycho.files.atomic import write_atomically, write_text
from ptycho.report.entries import Entry, differing, find_entries
from ptycho.report.page import compare_page, score_text
from ptycho.report.wording import size_text
from ptycho.run.folder import csv_text
from ptycho.run.record import check_no_file_of_a_run
from ptycho.run.scan_table import markdown
from workflows.read.report import check_page, links


@settings()
class CompareConfig:
    """The keys of ``conf/compare.yaml``."""

    runs: Texts = key((), "folders of runs, batches or sweeps, also as patterns such as outputs/*")
    output: Text = key("compare.html", "page to write; the table is written beside it as .csv")


def write_comparison(config: CompareConfig) -> list[str]:
    """Write page and table of some runs; return the table as lines, and the skipped folders."""
    if not config.runs:
        raise ConfigError("runs=[]: must be folders of runs")
    path = Path(config.output)
    table = path.with_suffix(".csv")
    check_page("output", path)
    check_no_file_of_a_run("output", table)
    selected = find_entries(config.runs)
    if not selected.entries:
        reasons = "; ".join(f"{name}: {why}" for name, why in selected.skipped[:3])
        raise ConfigError(f"runs={' '.join(config.runs)}: no run to compare ({reasons})")
    entries = list(selected.entries)
    page = compare_page(entries, selected.skipped, links(entries, path.parent)).encode()
    rows = table_rows(entries)
    write_atomically(path, lambda file: file.write(page))
    write_text(table, csv_text(rows))
    lines = [f"skipped: {name}: {why}" for name, why in selected.skipped]
    shown = [{name: score_text(value) for name, value in entry.cells.items()} for entry in entries]
    columns = [name for name in shown[0] if any(row[name] for row in shown)]
    lines += markdown(columns, shown).rstrip().split("\n")
    return [*lines, f"compared: {path} ({size_text(len(page))}), {table}"]


def table_rows(entries: list[Entry]) -> list[dict[str, object]]:
    """Scores and the settings that differ, a row for each reconstruction, for CSV."""
    keys, values = differing(entries)
    return [
        entry.cells | {"folder": str(entry.record.path)} | dict(zip(keys, row, strict=True))
        for entry, row in zip(entries, values, strict=True)
    ]
