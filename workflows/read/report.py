"""A run's folder → one page; nothing here imports TensorFlow."""

from __future__ import annotations

from pathlib import Path

from ptycho.config import ConfigError
from ptycho.config.schema import Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.report.gather import gather
from ptycho.report.page import report_page
from ptycho.report.wording import size_text
from ptycho.run import names
from ptycho.run.record import check_no_file_of_a_run, is_page


@settings()
class ReportConfig:
    """The keys of ``conf/report.yaml``."""

    run: Text | None = key(None, "folder of the run")
    output: Text | None = key(None, "page to write; null: report.html in the folder of the run")


def write_report(config: ReportConfig) -> list[str]:
    """Write the page of a run; a line on what it says."""
    if not config.run:
        raise ConfigError("run=null: must be the folder of a run")
    run = Path(config.run)
    path = Path(config.output) if config.output else run / names.REPORT
    check_page("output", path)
    record = gather(run)
    page = report_page(record).encode()
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
