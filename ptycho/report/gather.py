"""A run's folder → a frozen value: configuration, scores, and what else is needed to say how it stands.

What is missing or damaged is noted, not raised: older runs have less.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.config.mapping import flat, to_mapping
from ptycho.config.sections import NAMED, product_of
from ptycho.files.lock import is_locked
from ptycho.files.reading import read_json, read_yaml, shown
from ptycho.run import names
from ptycho.run.stored_run import read_job

ORDER = ("solver", "refined", "pinn", *NAMED, "baseline", "lsqml", "gt")
REFERENCES = ("constant", "truth_blurred_1px")  # rows of scores without a picture


FINISHED, RUNNING, ENDED = "finished", "running", "not finished"
MEASURED, GRID_LINES, OTHER = "measured scan", "grid lines", "training"


@dataclass(frozen=True, eq=False)
class RunRecord:
    """Content of a run's folder.

    Attributes:
        path: the folder; kind: which program wrote it; state: how far it came.
        scan: name of its scan, or of its test images; empty: a training, which has neither.
        flat: settings by dotted key.
        metrics, manifest: of the files of these names; empty where there is none.
        recons: names of the reconstructions whose files are there.
        missing: what could not be read, and why.
        words: what puts the names that the reader knows for keys of the configuration in a text.
    """

    path: Path
    kind: str
    state: str
    scan: str = ""
    flat: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    recons: tuple[str, ...] = ()
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
    config = _read_config(path, missing)
    metrics, manifest = (_read_json(path / name, missing) for name in (names.METRICS, names.MANIFEST))
    state = FINISHED if metrics and manifest else RUNNING if is_locked(path) else ENDED
    kind = _kind(config)
    scan = _scan_name(kind, config)
    recons = tuple(name for name in ORDER if scan and (path / names.recon(name)).is_file())
    return RunRecord(path, kind, state, scan, config, metrics, manifest, recons, tuple(missing))


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


def _read_config(path: Path, missing: list[str]) -> dict[str, Any]:
    """Return the configuration by dotted keys; as the file has it, where that cannot be used."""
    try:
        return flat(to_mapping(read_job(path)))
    except ConfigError as error:
        missing.append(shown(str(error), 400))
    try:
        stored = read_yaml(path / names.CONFIG)
    except (OSError, ValueError):
        return {}
    return flat(stored) if isinstance(stored, dict) else {}


def _kind(config: Mapping[str, Any]) -> str:
    if "data.file" in config:
        return MEASURED
    return GRID_LINES if "gridsize" in config else OTHER


def _read_json(path: Path, missing: list[str]) -> dict[str, Any]:
    try:
        return read_json(path)
    except FileNotFoundError:
        missing.append(f"{path.name}: the run did not write it")
    except (OSError, ValueError) as error:
        missing.append(f"{path.name}: is damaged ({shown(str(error))})")
    return {}


def _scan_name(kind: str, config: Mapping[str, Any]) -> str:
    files = config.get("data.file")
    name = Path(str(files[0])).stem if isinstance(files, list) and files else ""
    return {MEASURED: name or "scan", GRID_LINES: "test image"}.get(kind, "")
