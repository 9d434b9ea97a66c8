"""A run's folder → its page, a folder of runs → an index of their pages; nothing here imports TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from ptycho.config import ConfigError
from ptycho.config.schema import Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.report.entries import Entry, find_entries
from ptycho.report.gather import gather, is_run
from ptycho.report.page import index_page, report_page
from ptycho.report.wording import size_text
from ptycho.run import names
from ptycho.run.record import check_no_file_of_a_run, is_page

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
    if not config.run:
        raise ConfigError("run=null: must be the folder of a run")
    folder = Path(config.run)
    runs = find_entries([config.run]).entries if folder.is_dir() and not is_run(folder) else ()
    path = Path(config.output) if config.output else folder / (INDEX if runs else names.REPORT)
    check_page("output", path)
    if runs:
        newest_first = sorted(runs, key=lambda entry: entry.record.ended, reverse=True)
        page = index_page(folder.resolve().name, newest_first, links(runs, path.parent)).encode()
    else:
        page = report_page(gather(folder)).encode()
    write_atomically(path, lambda file: file.write(page))
    return [f"report: {path} ({size_text(len(page))})"]


def check_page(name: str, path: Path) -> None:
    """Raise ConfigError if something else than a page stands where one shall be written."""
    check_no_file_of_a_run(name, path)
    if path.is_dir():
        raise ConfigError(f"{name}={path}: is a folder; name a file in it")
    if path.is_file() and not is_page(path):
        raise ConfigError(
            f"{name}={path}: is no page of this program, and nothing replaces it; choose another name"
        )


def links(entries: Sequence[Entry], folder: Path) -> dict[str, str]:
    """Where the reports are that lie in the runs' folders, seen from the folder of the page."""
    pages = {entry.label: entry.record.path / names.REPORT for entry in entries}
    return {
        label: quote(Path(os.path.relpath(str(page), str(folder))).as_posix())
        for label, page in pages.items()
        if page.is_file()
    }
