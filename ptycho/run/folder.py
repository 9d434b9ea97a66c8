"""The only writer of run outputs. Every file is written under a temporary name and renamed."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from matplotlib.figure import Figure

from ptycho.config import ConfigError
from ptycho.config.mapping import to_mapping
from ptycho.files.atomic import (
    WriteError,
    open_new,
    read_verified,
    remove_files,
    remove_temporary,
    sha256,
    write_atomically,
    write_verified,
)
from ptycho.files.lock import check_unlocked, unusable
from ptycho.progress import EachWarningOnce, PlainFormatter, heartbeat, next_run
from ptycho.run import names
from ptycho.run.record import check_links, environment, foreign_files, own_files, read_record
from ptycho.run.replacing import discard, make_way, mend, put_back, waits

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)


class RunFolder:
    """The output folder of a run; it lists its files in ``files.json``. The tree is in ``docs/networks.md``.

    A run that the folder holds is resumed; or gives way (:mod:`ptycho.run.replacing`) with ``overwrite``, and
    is deleted with the first result of this one; or the folder is refused.
    ConfigError: it holds a run, is no folder, or cannot be written; nothing is changed.
    """

    def __init__(self, path: Path, overwrite: bool = False, resumed: bool = False) -> None:
        self.path, self.resumed = path, resumed
        check_links(path) if resumed else check_free(path, overwrite)
        try:
            path.mkdir(parents=True, exist_ok=True)
            trial = path / f".{names.RECORD}.{os.getpid()}.tmp"
            open_new(trial).close()
            trial.unlink()
            (mend if resumed else make_way)(path)
            remove_temporary(path, names.OF_A_RUN)
        except OSError as error:
            raise unusable(path, error.strerror or str(error)) from error
        self._record = read_record(path) if resumed else {}
        self.timings: dict[str, float] = {}
        with self.replacing():
            self._list(names.RECORD)
        if any(PurePath(name).name in names.RESULTS for name in own_files(path)):
            discard(path)

    @contextlib.contextmanager
    def replacing(self) -> Iterator[None]:
        """Restore the replaced run if the block fails before there is a result, unless a disk was full."""
        try:
            yield
        except Exception as error:
            resumable = (self.path / names.CONFIG).is_file()
            if waits(self.path) and resumable and isinstance(error, WriteError):
                log.warning("%s", kept_aside(self.path))
            elif put_back(self.path):
                log.warning("%s: holds the run again that was to be replaced", self.path)
            raise

    def place(self, name: str) -> Path:
        """List a file, which others write, as the run's; return where it will be."""
        self._list(name)
        return self.path / name

    def write(self, name: str, save: Callable[[Any], object]) -> Path:
        """Write a file whole: ``save`` gets a binary file. It is listed; a first result ends the old run."""
        target = self.place(name)
        write_atomically(target, save)
        if target.name in names.RESULTS:
            discard(self.path)
        return target

    def text(self, name: str, content: str) -> Path:
        """Write a text in UTF-8."""
        return self.write(name, lambda file: file.write(content.encode()))

    def json(self, name: str, value: Any) -> Path:
        """Write JSON; NaN and infinity are refused."""
        return self.write(name, lambda file: file.write(_as_json(value)))

    def figure(self, name: str, figure: Figure) -> Path:
        """Write a figure as PNG, 110 dots per inch."""
        return self.write(name, lambda file: figure.savefig(file, format="png", dpi=110))

    def table(self, name: str, rows: list[dict[str, Any]]) -> Path:
        """Write rows as CSV, a column for each key."""
        return self.text(name, csv_text(rows))

    def _list(self, name: str, digest: str = "") -> None:
        """Note a file as the run's own, before it is written; an array file with its SHA-256 after that."""
        if digest or name not in self._record:
            self._record[name] = digest
            write_atomically(self.path / names.RECORD, lambda file: file.write(_as_json(self._record)))

    def config(self, settings: DataclassInstance) -> Path:
        """Write ``config.yaml``, from which a run can be resumed."""
        return self.text(names.CONFIG, config_text(settings))

    def arrays(self, name: str, arrays: dict[str, np.ndarray]) -> str:
        """Write an uncompressed NPZ of ``arrays (…)`` without pickles; record its SHA-256, and return it."""
        path = self.write(name, lambda file: np.savez(file, allow_pickle=False, **arrays))
        self._list(name, digest := sha256(path))
        return digest

    def recorded(self, name: str) -> str | None:
        """Return the SHA-256 of an array file as it was written."""
        return self._record.get(name) or None

    def holds(self, name: str) -> bool:
        """Return whether a resumed folder has the file ``name`` just as this run wrote it."""
        path = self.path / name
        return path.is_file() and self._record.get(name) == sha256(path)

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the wall time of a block to ``timings[phase]``, in seconds; a long one logs a line a minute."""
        began = time.perf_counter()
        speaks = phase == "total" or phase.endswith("training")  # trainings have lines of their own
        name = names.PHASES.get(phase, phase.replace("_", " "))
        try:
            with contextlib.nullcontext() if speaks else heartbeat(name):
                yield
        finally:
            self.timings[phase] = self.timings.get(phase, 0.0) + time.perf_counter() - began

    @contextlib.contextmanager
    def logged(self) -> Iterator[None]:
        """Append the log to ``run.log`` while the block runs."""
        self._list(names.LOG)
        handler = logging.FileHandler(self.path / names.LOG)
        handler.handleError = lambda record: None  # type: ignore[method-assign]  # a full disk loses lines
        handler.setFormatter(PlainFormatter("%(asctime)s %(levelname)s %(message)s"))
        handler.addFilter(EachWarningOnce())
        next_run()
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            with contextlib.suppress(OSError):
                handler.close()

    def manifest(self, entries: dict[str, Any]) -> Path:
        """Write ``manifest.json``: what ran, on what, how long, and ``entries``."""
        timings = {"timings_s": {phase: round(seconds, 3) for phase, seconds in self.timings.items()}}
        ended = {"finished": datetime.now(UTC).isoformat(timespec="seconds")}
        return self.json(names.MANIFEST, environment() | ended | entries | timings)


def config_text(settings: DataclassInstance) -> str:
    """Return settings as YAML, in the order of their fields."""
    return yaml.safe_dump(to_mapping(settings), sort_keys=False)


def csv_text(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV; what a row does not have is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode("utf-8")


def check_free(path: Path, overwrite: bool) -> None:
    """Raise ConfigError if a new run must not be written into a folder, which is not touched.

    Another process writes there; it holds a run and ``overwrite`` is false, or files of others in places of a
    run's; or it can be seen not to be writable.
    """
    check_unlocked(path)
    check_links(path)
    if foreign := foreign_files(path):
        some = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise ConfigError(
            f"output_dir={path}: holds {some}, which no run of this program has listed in "
            f"{names.RECORD} as its own and nothing replaces; move it away, or choose another folder"
        )
    tops = {file.split("/")[0] for file in own_files(path)}
    held = [name for name in names.OF_A_RUN if name in tops]
    replaced = os.path.isdir(path / names.REPLACED)
    if (held or replaced) and not overwrite:
        waiting = f"; {kept_aside(path)}" if replaced else ""
        raise ConfigError(
            f"output_dir={path}: holds another run ({', '.join(held) or names.REPLACED}); "
            f"choose another folder, or overwrite=true to replace it{waiting}"
        )
    check_writable(path)


def kept_aside(path: Path) -> str:
    """Return where the run is that was to be replaced in a folder."""
    place, back = path / names.REPLACED, "(to have it back, move its files from there)"
    return f"the run that was to be replaced is kept in {place} until there is a new result {back}"


def check_writable(path: Path) -> None:
    """Raise ConfigError if an output folder, made or not, can be seen not to be writable."""
    absolute = path.absolute()
    nearest = next(folder for folder in (absolute, *absolute.parents) if os.path.lexists(folder))
    if not os.path.isdir(nearest):
        raise unusable(path, f"{nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise unusable(path, f"no permission in {nearest}")


class FileCache:
    """Results in a run's folder until it is done, a file for each: from these a stopped run continues.

    ``least_seconds``: of a result that is no block's, to be stored.
    """

    def __init__(self, folder: Path, least_seconds: float = 1.0) -> None:
        self.folder, self.least_seconds = folder, least_seconds

    def get(self, name: str) -> dict[str, np.ndarray] | None:
        """Return the arrays ``(…)`` of a result; None: it was not made, or its file is damaged."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            arrays = read_verified(path)
        except Exception as error:  # a damaged archive raises whatever its bytes lead to
            log.warning("%s: cannot be used (%s); it is computed again", path, error)
            return None
        log.info("%s: computed before, and not again", path.name)
        return arrays

    def put(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store the ``arrays (…)`` of a result; where that fails, warn: the run goes on without."""
        try:
            write_verified(self._path(name), arrays)
        except (WriteError, OSError) as error:
            log.warning("a result was not stored, the run continues: %s", error)

    def remove(self) -> None:
        """Remove them all: the run is over and its results stored."""
        remove_files(self.folder, "*-*.npz")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name.replace(' ', '_')}.npz"
