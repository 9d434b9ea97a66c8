"""A run's folder → a frozen value: configuration, scores, objects, beam, and their parts.

What is missing or damaged is noted, not raised: older runs have less.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.mapping import flat, to_mapping
from ptycho.config.messages import show
from ptycho.config.sections import NAMED, product_of
from ptycho.files.lock import is_locked
from ptycho.files.npz import read_all
from ptycho.files.reading import FileError, read_json, read_yaml, shown
from ptycho.run import names
from ptycho.run.record import own_files
from ptycho.run.stored_run import read_job

ORDER = ("solver", "refined", "pinn", *NAMED, "baseline", "lsqml", "gt")
REFERENCES = ("constant", "truth_blurred_1px")  # rows of scores without a picture


FINISHED, RUNNING, ENDED = "finished", "running", "not finished"
MEASURED, GRID_LINES, OTHER = "measured scan", "grid lines", "training"
COMMANDS = {MEASURED: "scan", GRID_LINES: "grid-lines"}  # of the program ptycho
PLACES = ("output_dir", "overwrite")
Setting = tuple[str, str, str]  # a key whose value is not the default: key, value, default


@dataclass(frozen=True, eq=False)
class RunRecord:
    """Content of a run's folder.

    Attributes:
        path: the folder; kind: which program wrote it; state: how far it came.
        ended: when the run ended, or its newest file was written.
        scan: name of its scan, or of its test images; empty: a training, which has neither.
        settings: that differ from the defaults; flat: all of them by dotted key.
        command: that repeats the run; empty where the configuration cannot be read.
        metrics, manifest: of the files of these names; empty where there is none.
        recons: names of the reconstructions whose files are there.
        assessment: arrays of ``assessment.npz``; empty where there is none, as in older runs.
        files: names and bytes; log: its last lines; missing: what could not be read, and why.
        words: what puts the names that the reader knows for keys of the configuration in a text.
    """

    path: Path
    kind: str
    state: str
    ended: datetime
    scan: str = ""
    settings: tuple[Setting, ...] = ()
    flat: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    recons: tuple[str, ...] = ()
    assessment: Mapping[str, np.ndarray] = field(default_factory=dict)
    files: tuple[tuple[str, int], ...] = ()
    log: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    words: Callable[[str], str] = str

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.path.resolve().name

    @property
    def seconds(self) -> float | None:
        """Wall time of the whole run."""
        return number(section(self.manifest, "timings_s").get("total"))

    @property
    def sizes(self) -> dict[str, Any]:
        """Number of patterns of the scan, and their side N."""
        return section(section(self.manifest, "scans"), self.scan)

    @property
    def product(self) -> str:
        """The reconstruction that is the result of the run; by default the best known."""
        return product_of(self.metrics, self.recons) or next(iter(self.recons), "")

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels."""
        stored = self.metrics.get("pixel_m")
        row, col = map(number, stored) if isinstance(stored, list) and len(stored) == 2 else (None, None)
        return (row, col) if row and col and row > 0 and col > 0 else None

    @property
    def pixel_nm(self) -> float | None:
        """The larger pitch of the object's pixels in nm; None: unknown."""
        return None if self.pixel_m is None else 1e9 * max(self.pixel_m)

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Scores of each reconstruction, the product's first."""
        every = [name for name in (*ORDER, *REFERENCES) if isinstance(self.metrics.get(name), dict)]
        return {name: self.metrics[name] for name in sorted(every, key=lambda name: name != self.product)}

    @property
    def row(self) -> Mapping[str, Any]:
        """Scores of the product."""
        return self.rows.get(self.product, {})


def is_run(path: Path) -> bool:
    """Return whether a folder holds a run, or what is left of one."""
    return (path / names.CONFIG).is_file()


def gather(path: Path) -> RunRecord:
    """Read a run's folder.

    Raises:
        ConfigError: it holds no run.
    """
    if not is_run(path):
        raise ConfigError(f"run={path}: holds no run; there is no {names.CONFIG} in it")
    missing: list[str] = []
    config, settings, command = _read_config(path, missing)
    metrics, manifest = (_read_json(path / name, missing) for name in (names.METRICS, names.MANIFEST))
    kind = _kind(config)
    scan = _scan_name(kind, config)
    recons = tuple(name for name in ORDER if scan and (path / names.recon(name)).is_file())
    return RunRecord(
        path,
        kind,
        FINISHED if metrics and manifest else RUNNING if is_locked(path) else ENDED,
        _ended(path, manifest),
        scan,
        settings,
        config,
        command,
        metrics,
        manifest,
        recons,
        _assessment(path, scan, recons, metrics, missing),
        tuple(_files(path, missing)),
        last_lines(path / names.LOG),
        tuple(missing),
    )


def number(value: Any) -> float | None:
    """Return a finite number; None for anything else that a file may hold in its place."""
    with contextlib.suppress(OverflowError):  # an integer that no float holds
        known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if known else None
    return None


def section(values: Any, name: str) -> dict[str, Any]:
    """Return a section of nested values; empty where there is none."""
    value = values.get(name) if isinstance(values, Mapping) else None
    return value if isinstance(value, dict) else {}


def last_lines(path: Path, most: int = 40, most_bytes: int = 2**16) -> tuple[str, ...]:
    """Return the end of a log, without what steers a terminal."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(shown(line, 400) for line in text.splitlines()[-most:])


def _read_config(path: Path, missing: list[str]) -> tuple[dict[str, Any], tuple[Setting, ...], str]:
    try:
        stored = read_yaml(path / names.CONFIG)
    except (OSError, ValueError):
        stored = {}
    raw = flat(stored) if isinstance(stored, dict) else {}
    try:
        config = read_job(path)
    except ConfigError as error:
        missing.append(shown(str(error), 400))
        return raw, (), ""
    found = flat(to_mapping(config))
    defaults = flat(to_mapping(type(config)()))
    others = {key: value for key, value in found.items() if key not in defaults or value != defaults[key]}
    settings = [
        (key, show(value), show(defaults[key]) if key in defaults else "")
        for key, value in others.items()
        if key not in PLACES and key != "data.file"
    ]
    kind = _kind(found)
    return found, tuple(settings), repeat(kind, others) if kind in COMMANDS else ""


def _kind(config: Mapping[str, Any]) -> str:
    if "data.file" in config:
        return MEASURED
    return GRID_LINES if "gridsize" in config else OTHER


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


def _read_json(path: Path, missing: list[str]) -> dict[str, Any]:
    try:
        return read_json(path)
    except FileNotFoundError:
        missing.append(f"{path.name}: the run did not write it")
    except (OSError, ValueError) as error:
        missing.append(f"{path.name}: is damaged ({shown(str(error))})")
    return {}


def _ended(path: Path, manifest: Mapping[str, Any]) -> datetime:
    """Return the end of the run by its manifest; of older runs, the time of their newest file."""
    try:
        return datetime.fromisoformat(str(manifest["finished"]))
    except (KeyError, ValueError):
        files = [path / name for name in (names.MANIFEST, names.LOG, names.CONFIG)]
        newest = max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)
        return datetime.fromtimestamp(newest, UTC)


def _scan_name(kind: str, config: Mapping[str, Any]) -> str:
    files = config.get("data.file")
    name = Path(str(files[0])).stem if isinstance(files, list) and files else ""
    return {MEASURED: name or "scan", GRID_LINES: "test image"}.get(kind, "")


def _assessment(
    path: Path, scan: str, recons: Sequence[str], metrics: Mapping[str, Any], missing: list[str]
) -> dict[str, np.ndarray]:
    if scan and not recons:
        missing.append(f"{shown(scan)}: no reconstruction is stored")
    if not (recons and metrics.get("product")):
        return {}
    try:
        return read_all(path / names.ASSESSMENT, "fiu")
    except (FileError, OSError, ValueError) as error:
        missing.append(
            f"{names.ASSESSMENT} of {shown(scan)}: {shown(str(error))}; runs of early versions lack it: "
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
