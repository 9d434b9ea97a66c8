"""The pages of a folder of runs, made when they are asked for; nothing outside the folder is ever read."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote, urlsplit

from ptycho.config import ConfigError
from ptycho.files.lock import is_locked
from ptycho.files.text import shown
from ptycho.report.entries import Entry, entry_of, runs_below
from ptycho.report.gather import RUNNING, gather, is_run
from ptycho.report.page import compare_page, index_page, message_page, policies, report_page

log = logging.getLogger(__name__)

DEPTH = 4  # of folders of folders: a sweep in a folder of its date and time
LIVE_PAGE = "live.html"
LIVE_FILES = {LIVE_PAGE: "text/html; charset=utf-8", "live.png": "image/png", "live.json": "application/json"}
LIVE_POLICY = "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; frame-ancestors 'none'"
HTML = "text/html; charset=utf-8"
RUN, LIVE, COMPARE = "run", "live", "compare"  # first parts of addresses
MOST_LIVE = 2**25  # bytes of a file of a live page
MOST_COMPARED, MOST_PAGES, MOST_FILES = 60, 64, 20_000


@dataclass(frozen=True)
class Answer:
    """What is sent: status, type, policy of the page, content."""

    status: int
    kind: str
    policy: str
    body: bytes


class Site:
    """The runs below a folder.

    Args:
        folder: must be there; a run stands for the folder it is in.
    """

    def __init__(self, folder: Path) -> None:
        place = folder.resolve(strict=True)
        self.folder = place.parent if is_run(place) else place
        self._pages: dict[tuple, bytes] = {}
        self._entries: dict[Path, tuple[tuple, Entry]] = {}
        self._busy = Lock()  # pages are made one after the other

    def answer(self, target: str) -> Answer:
        """The answer to ``GET target``; never an exception."""
        try:
            parts = parts_of(target)
            with self._busy:
                return self._page(parts)
        except (ConfigError, OSError, ValueError) as error:
            return _message(404, f"There is no such page: {shown(str(error))}")
        except Exception:  # a damaged run must not end the service
            log.exception("%s", shown(target))
            return _message(500, "This page could not be made; the log of the program says why.")

    def _page(self, parts: list[str]) -> Answer:
        if not parts:
            runs = self._runs()
            return self._kept(("index",), [*runs.values(), self._live_pages()], lambda: self._index(runs))
        first, *rest = parts
        if first == COMPARE and not rest:
            runs = self._runs()
            return self._kept((COMPARE,), [*runs.values()], lambda: self._comparison(runs))
        if first == RUN and rest:
            run = self.inside(rest)
            return self._kept((RUN, run), [self._state(run)], lambda: report_page(gather(run), home="/"))
        if first == LIVE and len(rest) > 1 and rest[-1] in LIVE_FILES:
            path = self.inside(rest)
            with path.open("rb") as file:
                return Answer(200, LIVE_FILES[rest[-1]], LIVE_POLICY, file.read(MOST_LIVE))
        raise ValueError("/".join(parts))

    def inside(self, parts: list[str]) -> Path:
        """A place below the folder, wherever links lead.

        Raises:
            ValueError: it lies outside; OSError: there is nothing.
        """
        path = self.folder.joinpath(*parts).resolve(strict=True)
        if not path.is_relative_to(self.folder) or path == self.folder:
            raise ValueError("/".join(parts))
        return path

    def _kept(self, name: tuple, states: list[tuple], make: Callable[[], str]) -> Answer:
        """A page from before, if no file of its runs has changed since."""
        key = (name, tuple(states))
        if key not in self._pages:
            for other in [old for old in self._pages if old[0] == name]:
                del self._pages[other]
            while len(self._pages) >= MOST_PAGES:
                del self._pages[next(iter(self._pages))]
            self._pages[key] = make().encode()
        return Answer(200, HTML, policies(), self._pages[key])

    def _state(self, run: Path) -> tuple:
        """What changes when a run's files do.

        Raises:
            ValueError: a link in the run leads out of the folder.
        """
        found: list[tuple[str, int, int]] = []
        for folder, inner, files in os.walk(run):
            for name in (*inner, *files):
                path = Path(folder, name)
                if path.is_symlink() and not path.resolve().is_relative_to(self.folder):
                    raise ValueError(f"{run.name}: {name} is a link that leads out of the folder")
            places = [Path(folder, name) for name in files if not name.endswith(".tmp")]
            found += [(str(p), s.st_mtime_ns, s.st_size) for p in places if (s := _status(p)) is not None]
            if len(found) > MOST_FILES:
                break
        return (run, is_locked(run), hash(tuple(found)))

    def _runs(self) -> dict[Path, tuple]:
        """All runs with their states, but for those with links that lead out."""
        found = {}
        for run in runs_below(self.folder, DEPTH):
            try:
                found[run] = self._state(run)
            except ValueError as error:
                log.warning("%s", error)
        return found

    def _all(self, runs: Mapping[Path, tuple]) -> list[Entry]:
        """The entries of all runs, the newest first; those of runs that did not change are kept."""
        kept, self._entries = self._entries, {}
        for run, state in runs.items():
            if run in kept and kept[run][0] == state:
                self._entries[run] = kept[run]
                continue
            try:
                name = run.relative_to(self.folder).as_posix()
                entry = entry_of(name, gather(run))
                _ = entry.cells, entry.level, entry.flags, entry.same_scan  # what the pages of all show of it
                self._entries[run] = (state, entry)
            except Exception as error:  # one damaged run never takes the others with it
                log.warning("%s: is skipped (%s)", shown(str(run)), shown(str(error)))
        found = [entry for _, entry in self._entries.values()]
        return sorted(found, key=lambda entry: entry.record.ended, reverse=True)

    def _live_pages(self) -> tuple[str, ...]:
        """Folders below, of scans that are being measured."""
        pages = (page for page in sorted(self.folder.glob(f"**/{LIVE_PAGE}")) if not page.is_symlink())
        return tuple(page.parent.relative_to(self.folder).as_posix() for page in pages)

    def _index(self, runs: Mapping[Path, tuple]) -> str:
        entries = self._all(runs)
        places = (place for place in self._live_pages() if place != ".")
        live = {place: f"/{LIVE}/{quote(place)}/{LIVE_PAGE}" for place in places}
        running = any(entry.record.state == RUNNING for entry in entries) or bool(live)
        return index_page(self.folder.name, entries, self._links(entries), live, running)

    def _comparison(self, runs: Mapping[Path, tuple]) -> str:
        entries = self._all(runs)
        left = [(entry.label, "older than those that are compared") for entry in entries[MOST_COMPARED:]]
        return compare_page(entries[:MOST_COMPARED], left, self._links(entries), home="/")

    def _links(self, entries: list[Entry]) -> dict[str, str]:
        """Addresses of the reports."""
        places = {entry.label: entry.record.path.relative_to(self.folder).as_posix() for entry in entries}
        return {label: f"/{RUN}/{quote(place)}" for label, place in places.items()}


def parts_of(target: str) -> list[str]:
    """The parts of an address, decoded once.

    Raises:
        ValueError: it would lead somewhere else than down.
    """
    path = urlsplit(target).path
    if not path.startswith("/") or path.startswith("//"):
        raise ValueError(target)
    parts = [unquote(part, errors="strict") for part in path.strip("/").split("/")] if path != "/" else []
    if any(part in ("", ".", "..") or set("/\\\0") & set(part) for part in parts):
        raise ValueError(target)
    return parts


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _message(status: int, text: str) -> Answer:
    return Answer(status, HTML, policies(), message_page(text).encode())
