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
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.mapping import flat, to_mapping
from ptycho.config.messages import show
from ptycho.config.sections import NAMED, product_of
from ptycho.files.lock import is_locked
from ptycho.files.npz import NpzFile, read_all
from ptycho.files.reading import FileError, read_json, read_yaml, shown
from ptycho.run import names
from ptycho.run.record import own_files
from ptycho.run.stored_run import read_job

KINDS = {"object": "c", "mask": "b", "probe": "c", "positions": "f", "flux": "f"}
KINDS |= {"slices": "c", "opr_modes": "c", "opr_weights": "c"}
SIGMAS = {"sigma_amplitude": "f", "sigma_phase": "f"}
ORDER = ("solver", "refined", "pinn", *NAMED, "baseline", "lsqml", "gt")
REFERENCES = ("constant", "truth_blurred_1px")  # rows of scores without a picture
WELL_ILLUMINATED = 0.1  # of the strongest illumination
INSPECTED = 2000  # positions from which the illuminated part is determined


@dataclass(frozen=True, eq=False)
class StoredRecon:
    """A reconstruction in a file.

    Attributes:
        object, mask: ``(M, M)`` complex and bool, of the first image.
        probe: ``(K, N, N)`` complex; positions: ``(J, 2)`` in object pixels; flux: ``(J,)``. None: unknown.
        sigma_amplitude, sigma_phase: ``(M, M)`` one standard deviation, or None.
        slices: ``(L, M, M)`` complex, of a thick object; or None.
        opr_modes, opr_weights: ``(K', N, N)`` and ``(J, K')`` complex, of a probe that varies; or None.
    """

    object: np.ndarray
    mask: np.ndarray
    probe: np.ndarray | None = None
    positions: np.ndarray | None = None
    flux: np.ndarray | None = None
    sigma_amplitude: np.ndarray | None = None
    sigma_phase: np.ndarray | None = None
    slices: np.ndarray | None = None
    opr_modes: np.ndarray | None = None
    opr_weights: np.ndarray | None = None

    @cached_property
    def illuminated(self) -> np.ndarray:
        """Mask ``(M, M)`` bool of the well illuminated part; all that is covered if the beam is not known."""
        if self.probe is None or self.positions is None or not len(self.positions):
            return self.mask
        one, illumination = np.sum(np.abs(self.probe) ** 2, axis=0), np.zeros(self.mask.shape)
        some = np.unique(np.linspace(0, len(self.positions) - 1, INSPECTED).astype(int))
        for row, col in np.round(self.positions[some]).astype(int):
            if row >= 0 and col >= 0:
                place = illumination[row : row + len(one), col : col + len(one)]
                place += one[: place.shape[0], : place.shape[1]]
        illuminated = self.mask & (illumination > WELL_ILLUMINATED * illumination.max())
        return illuminated if illuminated.any() else self.mask


def _recon(arrays: dict[str, np.ndarray]) -> StoredRecon:
    """Checked in their shapes, so that no picture fails later.

    Raises:
        KeyError, ValueError: an array is missing or has a wrong shape.
    """
    image, mask = arrays["object"], arrays["mask"]
    if image.ndim != 3 or mask.shape != image.shape or 0 in image.shape:
        raise ValueError("object and mask must be (images, M, M)")

    def checked(name: str, fits: Callable[[np.ndarray], bool]) -> np.ndarray | None:
        array = arrays.get(name)
        return array if array is not None and fits(array) and np.isfinite(array).all() else None

    known = mask[0] & np.isfinite(image[0])
    probe = checked("probe", lambda array: array.ndim == 3 and array.shape[1] == array.shape[2])
    positions = checked("positions", lambda array: array.ndim == 2 and array.shape[1] == 2 and len(array) > 0)
    flux = checked("flux", lambda array: array.ndim == 1 and len(array) > 0)
    slices = checked("slices", lambda array: array.ndim == 3 and array.shape[1:] == image.shape[1:])
    weights = checked("opr_weights", lambda array: probe is not None and array.ndim == 2 and len(array) > 0)
    sides = None if probe is None or weights is None else (weights.shape[1], *probe.shape[1:])
    modes = checked("opr_modes", lambda array: array.shape == sides)
    return StoredRecon(
        np.where(known, image[0], 0),
        known,
        probe,
        positions,
        flux,
        slices=None if slices is None else np.where(known, slices, 0),
        opr_modes=modes,
        opr_weights=None if modes is None else weights,
        **{name: arrays[name][0] for name in SIGMAS if name in arrays and arrays[name].shape == image.shape},
    )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and np.isfinite(value) and value > 0


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
        pitch = self.metrics.get("pixel_m")
        if not isinstance(pitch, list) or len(pitch) != 2 or not all(map(_positive, pitch)):
            return None
        return float(pitch[0]), float(pitch[1])

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

    def read(self, name: str) -> StoredRecon | None:
        """Read a reconstruction; None where its file is missing or damaged."""
        try:
            with NpzFile(self.path / names.recon(name)) as file:
                kinds = {key: kind for key, kind in (KINDS | SIGMAS).items() if key in file.keys}
                return _recon({key: file.read(file.header(key, kind)) for key, kind in kinds.items()})
        except (FileError, KeyError, ValueError, OSError):
            return None


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
