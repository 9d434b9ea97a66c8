"""Write a trained network to a run's folder, and read it back verified; nothing here imports TensorFlow.

``<name>/weights.npz`` holds the variables by path, ``<name>/setup.npz`` what the network was trained for,
``<name>/model.json`` how the training went, ``<name>/history.csv`` its losses; ``config.yaml`` says how the
network is built. No class is looked up by a name in a file, and nothing is unpickled.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError, CustomModel, RunConfig, ScanRunConfig
from ptycho.config.mapping import AnyConfig
from ptycho.config.messages import one_line
from ptycho.config.own_code import check_allowed
from ptycho.files.npz import read_all
from ptycho.files.reading import FileError, faults_of, read_json, shown
from ptycho.run.folder import RunFolder
from ptycho.run.names import DESCRIPTION, HISTORY, PROBE, SETUP, WEIGHTS
from ptycho.run.record import problem, read_record
from ptycho.run.stored_run import read_config
from ptycho.scan.dataset import Dataset

COLUMNS: dict[str, type[float]] = {"epoch": int}  # of history.csv; the others are float
KINDS = {"probe": "c"} | dict.fromkeys(("photon_scale", "normalisation", "offsets"), "f")  # of setup.npz
KINDS |= dict.fromkeys(("region_size", "group_size", "support"), "iu")


@dataclass(frozen=True, eq=False)
class Setup:
    """Setup for which a network was trained."""

    probe: np.ndarray  # (N, N) complex64, the strongest mode
    photon_scale: float  # s of the training data
    normalisation: float  # f of the training data
    region_size: int  # R
    group_size: int  # C
    offsets: np.ndarray  # (C, 2) float32, of a group of the regular grid
    support: int  # even side of the central square outside which its probes are negligible

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.probe.shape[-1]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the fields as arrays ``(…)``, the form of ``setup.npz``."""
        return {key: np.asarray(value) for key, value in asdict(self).items()}


def setup_of(data: Dataset, offsets: np.ndarray, support: int) -> Setup:
    """Return the setup of a network trained on ``data``, whose groups have typical ``offsets (C, 2)``."""
    scales, sizes = (data.photon_scale, data.normalisation), (data.region_size, data.group_size)
    return Setup(data.probe[0], *scales, *sizes, offsets, support)


def regular_offsets(offset: float, group_size: int) -> np.ndarray:
    """Return offsets ``(C, 2)`` float32 of a square group of the regular grid, or of a single pattern."""
    gridsize = math.isqrt(group_size)
    steps = offset * (np.arange(gridsize) - (gridsize - 1) / 2)
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)


@dataclass(frozen=True, eq=False)
class StoredNetwork:
    """The verified files of a trained network; not yet compared with the network that they belong to."""

    run: Path
    name: str
    config: AnyConfig
    setup: Setup
    weights: dict[str, np.ndarray]
    description: dict[str, Any]  # what model.json holds

    @property
    def sha256(self) -> str:
        """SHA-256 of the weights."""
        return self.description["weights_sha256"]


def write_network(
    folder: RunFolder,
    name: str,
    weights: dict[str, np.ndarray],
    description: dict[str, Any],
    rows: list[dict[str, float]],
) -> None:
    """Write ``weights (…)`` by path, history and, when these are complete, the description."""
    sha256 = folder.arrays(f"{name}/{WEIGHTS}", weights)
    folder.table(f"{name}/{HISTORY}", rows)
    folder.json(f"{name}/{DESCRIPTION}", description | {"weights_sha256": sha256})


def is_stored(run: Path, name: str) -> bool:
    """Return whether a network was written to the end."""
    return (run / name / DESCRIPTION).exists()


def read_network(run: Path, name: str) -> StoredNetwork:
    """Read and verify the network ``name`` of a run.

    ConfigError: one of its files is missing, damaged or another; its generator is code that only they name.
    """
    config, folder, record = read_config(run), run / name, read_record(run)
    if isinstance(config.model, CustomModel):
        check_allowed("model.target", config.model.target)
    if not folder.is_dir():
        raise ConfigError(f"{run}: holds no trained network {name} ({folder} is no folder)")
    try:
        weights = _read(folder / WEIGHTS, lambda path: read_all(path, "f"))
        arrays = _read(folder / SETUP, lambda path: read_all(path, KINDS))
        description = _read(folder / DESCRIPTION, read_json)
        for file in (WEIGHTS, SETUP):
            if changed := problem(run, f"{name}/{file}", record):
                raise ValueError(changed.removeprefix(f"{name}/"))
        stated = description.get("weights_sha256")
        if not isinstance(stated, str):
            raise ValueError(f"{DESCRIPTION}: is damaged (it states no weights_sha256)")
        if record.get(f"{name}/{WEIGHTS}", stated) != stated:
            raise ValueError(f"{DESCRIPTION}: speaks of other weights than {WEIGHTS} holds")
        for key, value in weights.items():
            if not np.isfinite(value).all():
                raise ValueError(f"{WEIGHTS}: {key} holds NaN or infinity")
        setup = _setup(arrays, config)
    except ValueError as error:
        raise ConfigError(f"{folder}: {error}") from error
    return StoredNetwork(run, name, config.of(name), setup, weights, description)


def read_history(run: Path, name: str) -> list[dict[str, float]]:
    """Read the rows of ``history.csv`` as numbers; what is empty is left out.

    ConfigError: the file is missing or damaged.
    """
    path = run / name / HISTORY
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if reader.fieldnames and "epoch" not in reader.fieldnames:
                raise ValueError("it has no column epoch")
            known = [{key: value for key, value in row.items() if value != ""} for row in reader]
            return [{key: COLUMNS.get(key, float)(row[key]) for key in row} for row in known]
    except Exception as error:  # a damaged file raises whatever its bytes lead to
        raise ConfigError(f"{path}: is damaged ({shown(str(error))})") from error


def read_probe(run: Path, name: str) -> np.ndarray:
    """Read the modes ``(K, N, N)`` complex64 of the probe learned with a network, the strongest first.

    ConfigError: the file is missing or damaged.
    """
    path = run / name / PROBE
    with faults_of(path):
        return read_all(path, {"modes": "c"})["modes"]


def _read(path: Path, read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What a file holds; ValueError: it has the file's name."""
    try:
        return read(path)
    except FileError as error:
        raise ValueError(f"{path.name}: {error}") from error
    except FileNotFoundError as error:
        raise ValueError(f"{path.name}: no such file") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name}: is damaged ({one_line(str(error))[:200]})") from error


def _group_sizes(config: AnyConfig) -> tuple[int, ...]:
    """Return the sizes that groups of a run may have, the largest last; empty: any."""
    if isinstance(config, RunConfig):
        return 1, config.group_size
    if isinstance(config, ScanRunConfig):  # a scan of few patterns has smaller groups than specified
        return tuple(range(1, config.patterns_in_group + 1))
    return ()


def _setup(arrays: dict[str, np.ndarray], config: AnyConfig) -> Setup:
    """The setup in the arrays of ``setup.npz``; ValueError: it cannot be that of a run like this."""
    N = config.N if isinstance(config, RunConfig) else (*arrays["probe"].shape[-1:], 0)[0]
    C = (*arrays["offsets"].shape, 0)[0]
    shapes = dict.fromkeys(KINDS, ()) | {"probe": (N, N), "offsets": (C, 2)}
    for key, shape in shapes.items():
        if arrays[key].shape != shape:
            raise ValueError(f"{SETUP}: {key} has shape {arrays[key].shape}; must be {shape}")
    values: dict[str, Any] = {key: array if array.shape else array.item() for key, array in arrays.items()}
    setup = Setup(**values)
    positive, sizes = (setup.photon_scale, setup.normalisation), _group_sizes(config) or range(1, C + 1)
    fits = setup.group_size == C and C in sizes and N <= setup.region_size <= 4 * N
    checks = {
        "probe or offsets hold NaN or infinity, or the probe is zero": setup.probe.any()
        and all(np.isfinite(array).all() for array in (setup.probe, setup.offsets)),
        f"photon_scale, normalisation = {positive}; must be finite numbers > 0": all(
            np.isfinite(value) and value > 0 for value in positive
        ),
        f"group_size={setup.group_size}, region_size={setup.region_size}, {C} offsets; config.yaml makes "
        f"groups of {max(sizes, default=0)}": fits,
        f"support={setup.support}; must be even and at most N={N}": 0 < setup.support <= N
        and setup.support % 2 == 0,
    }
    if wrong := [text for text, holds in checks.items() if not holds]:
        raise ValueError(f"{SETUP}: {wrong[0]}")
    return setup
