"""``ptycho report``: the page of a run, or an index of the pages of several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from ptycho.command_line.jobs import run_program
from ptycho.command_line.words import place_words
from ptycho.config import check
from ptycho.config.schema import Text, key, settings
from ptycho.report.gather import is_run
from ptycho.run import names
from ptycho_report.entries import Entry, find_entries
from ptycho_report.page import check_page, index_page, report_page, write_page
from ptycho_report.page_record import gather_page

INDEX = "index.html"


@settings()
class ReportConfig:
    """The keys of ``conf/report.yaml``."""

    run: Text | None = key(None, "folder of the run, or of several runs")
    output: Text | None = key(
        None, "page to write; null: report.html in the folder of the run, index.html in a folder of runs"
    )


def main(text: str | None) -> NoReturn:
    """End the process as what the command line asks for; ``text``: the help."""
    run_program("report", ReportConfig, write_report, text, partial(place_words, "run"))


def write_report(config: ReportConfig) -> list[str]:
    """Write the page of a run, or the index of a folder of runs; return a line on it."""
    check(bool(config.run), "run", "null", "the folder of a run")
    folder = Path(str(config.run))
    if config.output:
        check_page(Path(config.output))
    runs = find_entries([str(folder)]).entries if folder.is_dir() and not is_run(folder) else ()
    path = Path(config.output) if config.output else folder / (INDEX if runs else names.REPORT)
    if not runs:
        return [f"report: {write_page(path, report_page(gather_page(folder)))}"]
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
