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

from ptycho.evaluation.display import ORIENTATION
from ptycho.report.compare import group_entries
from ptycho.report.entries import Entry, differing
from ptycho.report.gather import RunRecord
from ptycho.report.scan_charts import losses
from ptycho.report.views import view_of
from ptycho.report.wording import size_text, time_text

STYLE, VIEWER, TABLE, BLINK = "style.css", "viewer.js", "table.js", "blink.js"


def report_page(record: RunRecord) -> str:
    """Return the page of a run."""
    view = None if record.scan is None else view_of(record, record.scan)
    charts = [*losses(record.path)] if view is None else []
    values = {"run": record, "scan": view, "charts": charts}
    return render("report.html", (VIEWER, TABLE), orientation=ORIENTATION, **values)


def compare_page(
    entries: Sequence[Entry], skipped: Sequence[tuple[str, str]], links: Mapping[str, str]
) -> str:
    """Return the page of several runs; ``links``: pages of runs by the labels of their entries."""
    keys, values = differing(entries)
    return render(
        "compare.html",
        (TABLE, BLINK),
        orientation=ORIENTATION,
        entries=entries,
        groups=group_entries(entries),
        skipped=skipped,
        keys=keys,
        values=values,
        links=links,
        now=datetime.now(UTC),
    )


def index_page(folder: str, entries: Sequence[Entry], links: Mapping[str, str]) -> str:
    """Return the page of all runs below a folder; ``links``: as of :func:`compare_page`."""
    return render("index.html", (TABLE,), folder=folder, entries=entries, links=links)


def render(template: str, scripts: tuple[str, ...], **values: Any) -> str:
    """Return a page from a template, with the style sheet and some scripts in it."""
    script, style = "".join(asset(name) for name in scripts), asset(STYLE)
    policy = (  # style and script by their hashes, and its pictures
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(f"{template}.j2")
    return page.render(style=Markup(style), script=Markup(script), policy=policy, **values)


@functools.cache
def asset(name: str) -> str:
    """Return a file of the templates' folder."""
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
    """Return a score in a cell: four digits, pairs side by side, nothing for what is not there."""
    if value is None or isinstance(value, bool | Mapping):
        return ""
    if isinstance(value, list):
        return " / ".join(score_text(one) or "–" for one in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
