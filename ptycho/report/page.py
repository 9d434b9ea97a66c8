"""Templates → pages of one file: every text escaped, no request to anywhere, a policy that forbids both."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ptycho.evaluation.colours import ORIENTATION
from ptycho.report.compare import group_entries
from ptycho.report.entries import Entry, differing
from ptycho.report.gather import RUNNING, RunRecord
from ptycho.report.scan_charts import losses
from ptycho.report.views import view_of
from ptycho.report.wording import size_text, time_text

STYLE, VIEWER, TABLE, BLINK, REFRESH = "style.css", "viewer.js", "table.js", "blink.js", "refresh.js"
REPORT, TABLES, COMPARED = (VIEWER, TABLE), (TABLE,), (TABLE, BLINK)
SERVED_RUNNING, SERVED_INDEX = (VIEWER, TABLE, REFRESH), (TABLE, REFRESH)
SCRIPTS = (REPORT, TABLES, COMPARED, SERVED_RUNNING, SERVED_INDEX)  # of all pages


def report_page(record: RunRecord, home: str = "") -> str:
    """The page of a run.

    ``home``: where a link leads back to; such a page is served, and loads itself again while the run goes on.
    """
    view = None if record.scan is None else view_of(record, record.scan)
    charts = [*losses(record.path)] if view is None else []
    scripts = SERVED_RUNNING if home and record.state == RUNNING else REPORT
    return render(
        "report.html",
        scripts=scripts,
        run=record,
        scan=view,
        home=home,
        charts=charts,
        orientation=ORIENTATION,
    )


def compare_page(
    entries: Sequence[Entry], passed_over: Sequence[tuple[str, str]], links: Mapping[str, str], home: str = ""
) -> str:
    """The page of several runs; ``links``: pages of runs by the labels of their entries."""
    keys, values = differing(entries)
    return render(
        "compare.html",
        scripts=COMPARED,
        orientation=ORIENTATION,
        home=home,
        entries=entries,
        groups=group_entries(entries),
        passed_over=passed_over,
        keys=keys,
        values=values,
        links=links,
        now=datetime.now(UTC),
    )


def index_page(
    folder: str, entries: Sequence[Entry], links: Mapping[str, str], live: Mapping[str, str], running: bool
) -> str:
    """The page of all runs below a folder; ``live``: addresses of pages of scans that are being measured."""
    scripts = SERVED_INDEX if running else TABLES
    return render("index.html", scripts=scripts, folder=folder, entries=entries, links=links, live=live)


def message_page(text: str) -> str:
    """A page of one sentence."""
    return render("message.html", text=text)


def render(template: str, scripts: tuple[str, ...] = (), **values: Any) -> str:
    """A page from a template, with the style sheet and some scripts in it."""
    script = "".join(asset(name) for name in scripts)
    return (
        _environment()
        .get_template(f"{template}.j2")
        .render(style=Markup(asset(STYLE)), script=Markup(script), policy=policy(script), **values)
    )


def policy(script: str) -> str:
    """The Content-Security-Policy of a page: its own style and script by their hashes, and its pictures."""
    allowed = f"'{_hash(script)}'" if script else "'none'"
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(asset(STYLE))}'; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def policies() -> str:
    """One policy for all pages that are served."""
    hashes = " ".join(f"'{_hash(''.join(map(asset, names)))}'" for names in SCRIPTS)
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(asset(STYLE))}'; script-src {hashes}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@functools.cache
def asset(name: str) -> str:
    """A file of the templates' folder."""
    return (files("ptycho.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ptycho.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": size_text, "seconds": time_text, "score": score_text}
    return environment


def score_text(value: Any) -> str:
    """A score in a cell: four digits, pairs side by side, nothing for what is not there."""
    if value is None or isinstance(value, bool | Mapping):
        return ""
    if isinstance(value, list):
        return " / ".join(score_text(one) or "–" for one in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
