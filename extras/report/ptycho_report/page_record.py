"""What the page of a run shows beside its scores: settings, command, arrays, files, the end of its log."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.mapping import flat, to_mapping
from ptycho.config.messages import show
from ptycho.files.npz import read_all
from ptycho.files.reading import FileError, shown
from ptycho.report.gather import GRID_LINES, MEASURED, RunRecord, gather
from ptycho.run import names
from ptycho.run.record import own_files
from ptycho.run.stored_run import read_job

COMMANDS = {MEASURED: "scan", GRID_LINES: "grid-lines"}  # of the program ptycho
PLACES = ("output_dir", "overwrite")
Setting = tuple[str, str, str]  # a key whose value is not the default: key, value, default


@dataclass(frozen=True, eq=False)
class PageRecord(RunRecord):
    """A run with everything that its page shows."""

    ended: datetime = field(default_factory=partial(datetime.now, UTC))  # or when its newest file was written
    settings: tuple[Setting, ...] = ()  # that differ from the defaults
    command: str = ""  # that repeats the run; empty where the configuration cannot be read
    assessment: Mapping[str, np.ndarray] = field(default_factory=dict)  # of its file; empty in older runs
    files: tuple[tuple[str, int], ...] = ()  # names and bytes
    log: tuple[str, ...] = ()  # the last lines


def gather_page(path: Path) -> PageRecord:
    """Read a run's folder.

    Raises:
        ConfigError: it holds no run.
    """
    run = gather(path)
    known, missing = {one.name: getattr(run, one.name) for one in fields(run)}, list(run.missing)
    settings, command = _settings(run)
    return PageRecord(
        **known
        | {
            "ended": _ended(run),
            "settings": settings,
            "command": command,
            "assessment": _assessment(run, missing),
            "files": tuple(_files(path, missing)),
            "log": last_lines(path / names.LOG),
            "missing": tuple(missing),
        }
    )


def _settings(run: RunRecord) -> tuple[tuple[Setting, ...], str]:
    """Return what differs from the defaults, and the command; nothing where the configuration is damaged."""
    try:
        config = read_job(run.path)
    except ConfigError:
        return (), ""
    found, defaults = flat(to_mapping(config)), flat(to_mapping(type(config)()))
    others = {key: value for key, value in found.items() if key not in defaults or value != defaults[key]}
    settings = [
        (key, show(value), show(defaults[key]) if key in defaults else "")
        for key, value in others.items()
        if key not in PLACES and key != "data.file"
    ]
    return tuple(settings), repeat(run.kind, others) if run.kind in COMMANDS else ""


def repeat(kind: str, others: Mapping[str, Any]) -> str:
    """Return the command with the settings that are not the defaults; into a folder of its own.

    An option of a group stands as ``group=option``; the network of another run brings its own ``model``.
    """
    left_out = {*PLACES, *(key for key in others if key.startswith("model.") and others.get("run"))}
    words = []
    for key, value in others.items():
        if key in left_out:
            continue
        group = key.removesuffix(".kind").removesuffix(".method")
        words.append(f"{group}={value}" if group != key else f"{key}={_hydra(value)}")
    return shlex.join(["ptycho", COMMANDS[kind], *words, "output_dir=outputs/again"])


def _hydra(value: Any) -> str:
    """A value in Hydra's grammar."""
    if isinstance(value, list):
        return f"[{','.join(map(_hydra, value))}]"
    if isinstance(value, str):
        plain = value.replace("_", "").replace("-", "").replace("/", "").replace(".", "").isalnum()
        return value if plain else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return show(value)


def last_lines(path: Path, most: int = 40, most_bytes: int = 2**16) -> tuple[str, ...]:
    """Return the end of a log, without what steers a terminal."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(shown(line, 400) for line in text.splitlines()[-most:])


def _ended(run: RunRecord) -> datetime:
    """Return the end of the run by its manifest; of older runs, the time of their newest file."""
    try:
        return datetime.fromisoformat(str(run.manifest["finished"]))
    except (KeyError, ValueError):
        files = [run.path / name for name in (names.MANIFEST, names.LOG, names.CONFIG)]
        newest = max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)
        return datetime.fromtimestamp(newest, UTC)


def _assessment(run: RunRecord, missing: list[str]) -> dict[str, np.ndarray]:
    if run.scan and not run.recons:
        missing.append(f"{shown(run.scan)}: no reconstruction is stored")
    if not (run.recons and run.metrics.get("product")):
        return {}
    try:
        return read_all(run.path / names.ASSESSMENT, "fiu")
    except (FileError, OSError, ValueError) as error:
        missing.append(
            f"{names.ASSESSMENT} of {shown(run.scan)}: {shown(str(error))}; runs of early versions lack it: "
            "the misfit map, the ring correlation and the convergence of the solver are not shown"
        )
        return {}


def _files(path: Path, missing: list[str]) -> list[tuple[str, int]]:
    try:
        listed = own_files(path)
    except ConfigError as error:
        missing.append(shown(str(error), 400))
        return []
    return [(name, os.lstat(path / name).st_size) for name in listed if (path / name).exists()]
