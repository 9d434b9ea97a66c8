"""Runs that are compared: folders → entries, with what tells them apart."""

from __future__ import annotations

import csv
import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.messages import show
from ptycho.files.reading import shown
from ptycho.report.entries import CSV, cells_of
from ptycho.report.gather import GRID_LINES, RUNNING, is_run
from ptycho.report.wording import advice_of, verdict_of
from ptycho.run import names
from ptycho.run.record import read_record
from ptycho_report.page_record import PLACES, PageRecord, gather_page


@dataclass(frozen=True, eq=False)
class Entry:
    """A run among others; its ``label`` is unique among those that are compared."""

    label: str
    record: PageRecord

    @property
    def progress(self) -> str:
        """Last line of the log of a run that goes on, without its date."""
        if self.record.state != RUNNING or not self.record.log:
            return ""
        before, _, text = self.record.log[-1].partition(" INFO ")
        return text or before

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the flags of the product, gravest first."""
        return tuple(one.flag for one in advice_of(self.record.row))

    @property
    def level(self) -> str:
        """Level of trust of the product, as of :func:`ptycho.report.wording.verdict_of`."""
        return verdict_of(self.record).level

    @cached_property
    def same_scan(self) -> tuple[str, ...]:
        """Key that entries of one scan share: the measured file; the truth of simulated test images."""
        if self.record.kind == GRID_LINES:
            try:
                truth = read_record(self.record.path).get(names.recon("gt"), "")
            except ConfigError:
                truth = ""
            return ("truth", truth or self.label)
        stored = self.record.flat.get("data.file")
        listed = stored if isinstance(stored, list) else []
        return ("file", str(Path(str(listed[0])).absolute()) if listed else self.label)

    @property
    def cells(self) -> dict[str, Any]:
        """A row of the table, as numbers and texts."""
        return {"run": self.label, **cells_of(self.record)}


@dataclass(frozen=True)
class Found:
    """Entries, and the folders that were skipped, with the reason."""

    entries: tuple[Entry, ...]
    skipped: tuple[tuple[str, str], ...]


def find_entries(words: Sequence[str], most: int = 1000) -> Found:
    """Find the entries of runs, of folders of runs (batches, sweeps), and of patterns of such.

    Raises:
        ConfigError: a pattern or a folder names nothing, or too many runs.
    """
    runs: dict[Path, None] = {}
    passed: dict[str, str] = {}
    for word in words:
        for path in _folders(word):
            inside = [path] if is_run(path) else runs_below(path)
            passed |= {} if is_run(path) else failed_scans(path)
            runs |= dict.fromkeys(inside)
            if not inside:
                passed[str(path)] = "holds no run"
    if len(runs) > most:
        raise ConfigError(f"runs: {len(runs)} runs; at most {most} are compared; name fewer")
    entries, labels = [], _labels([*runs])
    for path in runs:
        try:
            entries.append(Entry(labels[path], gather_page(path)))
        except (ConfigError, OSError) as error:
            passed[str(path)] = shown(str(error))
    return Found(tuple(entries), tuple(passed.items()))


def _folders(word: str) -> list[Path]:
    if Path(word).exists():
        return [Path(word)]
    if not glob.has_magic(word):
        raise ConfigError(f"runs={word}: no such folder")
    found = sorted(glob.glob(word, recursive=True))
    if not found:
        raise ConfigError(f"runs={word}: matches nothing")
    return [Path(name) for name in found if Path(name).is_dir()]


def runs_below(path: Path, depth: int = 4) -> list[Path]:
    """Return the runs in a folder that is none itself, and in the folders in it; links are not followed."""
    if depth == 0 or not path.is_dir():
        return []
    runs = []
    for inner in sorted(path.iterdir()):
        if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
            runs += [inner] if is_run(inner) else runs_below(inner, depth - 1)
    return runs


def failed_scans(batch: Path) -> dict[str, str]:
    """Return the scans of a batch that have no run, and why, as its table says."""
    try:
        with (batch / CSV).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        return {}
    failed = [row for row in rows if row.get("state") == "failed" and row.get("scan")]
    errors = {batch / row["scan"]: shown(row.get("error") or "failed") for row in failed}
    return {str(path): error for path, error in errors.items() if not is_run(path)}


def _labels(runs: list[Path]) -> dict[Path, str]:
    """Return the shortest ends of paths that distinguish the runs."""
    resolved = {path: path.resolve().parts for path in runs}
    for count in range(1, max((len(parts) for parts in resolved.values()), default=1) + 1):
        labels = {path: "/".join(parts[-count:]) for path, parts in resolved.items()}
        if len(set(labels.values())) == len(runs):
            break
    return labels if runs else {}


def differing(entries: Sequence[Entry], most: int = 40) -> tuple[list[str], list[list[str]]]:
    """Return up to ``most`` keys whose values differ between runs that have them, and these of each entry."""
    values: dict[str, set[str]] = {}
    for entry in entries:
        for key, value in entry.record.flat.items():
            values.setdefault(key, set()).add(repr(value))
    left_out = {*PLACES, "data.file"}
    keys = [key for key, found in values.items() if len(found) > 1 and key not in left_out][:most]
    rows = (entry.record.flat for entry in entries)
    return keys, [[shown(show(row[key])) if key in row else "" for key in keys] for row in rows]


def held_out_of(entry: Entry) -> tuple[np.ndarray, np.ndarray] | None:
    """Return patterns ``(n,)`` held out of the product, and their deviance; None: the run stored neither."""
    arrays, name = entry.record.assessment, entry.record.product
    patterns, values = arrays.get(f"{name}_holdout_patterns"), arrays.get(f"{name}_holdout_deviance")
    if patterns is None or values is None or patterns.shape != values.shape or patterns.ndim != 1:
        return None
    return patterns, values
