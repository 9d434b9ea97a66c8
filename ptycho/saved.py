"""A trained network in a run's folder, verified and read; nothing here imports TensorFlow.

``<name>/weights.npz`` holds the variables by path, ``<name>/model.json`` their SHA-256, ``<name>/setup.npz``
what the network was trained for, and ``config.yaml`` how it is built. No class is looked up by a name in a
file, and no other file is needed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError, RunConfig
from ptycho.npz import NpzError, read_all
from ptycho.report import weights_hash
from ptycho.stored import read_config

MAX_JSON = 2**24  # bytes of model.json
MAX_YAML = 2**20
KINDS = {
    "probe": "c",
    "photon_scale": "f",
    "normalisation": "f",
    "region_size": "iu",
    "group_size": "iu",
    "offsets": "f",
    "support": "iu",
    "sha256": "u",
}


@dataclass(frozen=True, eq=False)
class Setup:
    """What a network was trained for.

    Attributes:
        probe: ``(N, N)`` complex64.
        photon_scale: s of the training data.
        normalisation: f of the training data.
        region_size, group_size: R, C.
        offsets: ``(C, 2)`` float32, of a group of the regular grid.
        support: even side of the central square outside which its probes are negligible.
    """

    probe: np.ndarray
    photon_scale: float
    normalisation: float
    region_size: int
    group_size: int
    offsets: np.ndarray
    support: int

    @property
    def N(self) -> int:
        return self.probe.shape[-1]

    @property
    def transmission(self) -> float:
        """⟨Σ A²⟩ / (s² Σ|P|²) of the training data: the mean |O|² that its patterns imply."""
        light = (self.photon_scale * self.normalisation) ** 2 * np.sum(np.abs(self.probe) ** 2, dtype=float)
        return float((self.N / 2) ** 2 / light)

    def arrays(self) -> dict[str, np.ndarray]:
        """The form of ``setup.npz``, with a checksum of its own."""
        arrays = {key: np.asarray(value) for key, value in asdict(self).items()}
        return arrays | {"sha256": _digest(arrays)}


def setup_of(config: RunConfig, data: Any, support: int | None) -> Setup:
    """The setup of a network trained on ``data``, a :class:`ptycho.data.Dataset`; no support: N."""
    return Setup(
        data.probe,
        data.photon_scale,
        data.normalisation,
        data.region_size,
        data.group_size,
        regular_offsets(config, data.group_size),
        support or data.N,
    )


def regular_offsets(config: RunConfig, group_size: int) -> np.ndarray:
    """Offsets ``(C, 2)`` float32 of a group of the regular grid, or of a single pattern."""
    gridsize = config.gridsize if group_size == config.group_size else 1
    steps = config.offset * (np.arange(gridsize) - (gridsize - 1) / 2)
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SavedNetwork:
    """The verified files of a trained network; not yet compared with the network that they are for."""

    run: Path
    name: str
    config: RunConfig
    setup: Setup
    weights: dict[str, np.ndarray]
    sha256: str


def read_saved_config(run: Path) -> RunConfig:
    """The configuration of a run.

    Raises:
        ConfigError: ``run`` is no folder of a run, or its ``config.yaml`` is damaged.
    """
    path = run / "config.yaml"
    if path.is_file() and path.stat().st_size > MAX_YAML:
        raise ConfigError(f"{path}: has {path.stat().st_size} bytes; a configuration has at most {MAX_YAML}")
    return read_config(run)


def read_saved(run: Path, name: str) -> SavedNetwork:
    """Read and verify the network ``name`` of a run.

    Raises:
        ConfigError: one line with every problem of its files.
    """
    config, folder = read_saved_config(run), run / name
    if not folder.is_dir():
        raise ConfigError(f"{run}: holds no trained network {name} ({folder} is no folder)")
    found: list[str] = []
    weights = _arrays(folder / "weights.npz", "f", found)
    arrays = _arrays(folder / "setup.npz", KINDS, found)
    digest = _stated_hash(folder / "model.json", found)
    if weights is not None:
        broken = [key for key, value in weights.items() if not np.isfinite(value).all()]
        if broken:
            found.append(f"weights.npz: {broken[0]} holds NaN or infinity ({len(broken)} arrays do)")
        elif digest is not None and weights_hash(weights) != digest:
            found.append("weights.npz: has another SHA-256 than model.json says; one of them was changed")
    setup = _setup(arrays, name, config, found) if arrays is not None else None
    if found or weights is None or setup is None or digest is None:
        raise ConfigError(f"{folder}: {'; '.join(found)}")
    return SavedNetwork(run, name, config, setup, weights, digest)


def _arrays(path: Path, kinds: dict[str, str] | str, found: list[str]) -> dict[str, np.ndarray] | None:
    try:
        return read_all(path, kinds)
    except NpzError as error:
        found.append(f"{path.name}: {error}")
        return None


def _stated_hash(path: Path, found: list[str]) -> str | None:
    """The SHA-256 of the weights that ``model.json`` states; nothing else in it is used."""
    try:
        if path.stat().st_size > MAX_JSON:
            raise ValueError(f"it has {path.stat().st_size} bytes")
        description = json.loads(path.read_text(encoding="utf-8"))
        digest = description.get("weights_sha256") if isinstance(description, dict) else None
        if not isinstance(digest, str):
            raise ValueError("it states no weights_sha256")
        return digest
    except FileNotFoundError:
        found.append(f"{path.name}: no such file")
    except (OSError, ValueError, RecursionError) as error:
        found.append(f"{path.name}: is damaged ({' '.join(str(error).split())[:200]})")
    return None


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """SHA-256 over names, shapes and bytes, as ``(32,)`` uint8."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(f"{key}{arrays[key].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[key]).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _setup(arrays: dict[str, np.ndarray], name: str, config: RunConfig, found: list[str]) -> Setup | None:
    """The setup in the arrays of ``setup.npz``, if it is what the configuration makes of it."""
    N, C = config.N, config.group_size if name == "pinn" else 1
    shapes = {key: () for key in KINDS} | {"probe": (N, N), "offsets": (C, 2), "sha256": (32,)}
    wrong = [
        f"setup.npz: {key} has shape {arrays[key].shape}; must be {shape}"
        for key, shape in shapes.items()
        if arrays[key].shape != shape
    ]
    if not wrong and not np.array_equal(arrays.pop("sha256"), _digest(arrays)):
        wrong = ["setup.npz: has another SHA-256 than it states; it was changed"]
    if wrong:
        found += wrong
        return None
    values: dict[str, Any] = {key: array if array.shape else array.item() for key, array in arrays.items()}
    setup = Setup(**values)
    positive = (setup.photon_scale, setup.normalisation)
    sides = (config.region_size,) if name == "pinn" else (N, N + 2)
    if not (np.isfinite(setup.probe).all() and setup.probe.any() and np.isfinite(setup.offsets).all()):
        found.append("setup.npz: probe or offsets hold NaN or infinity, or the probe is zero")
    if not all(np.isfinite(value) and value > 0 for value in positive):
        found.append(f"setup.npz: photon_scale, normalisation = {positive}; must be finite numbers > 0")
    if setup.group_size != C or setup.region_size not in sides:
        found.append(
            f"setup.npz: group_size={setup.group_size}, region_size={setup.region_size}; config.yaml makes "
            f"them {C} and {sides[0]}"
        )
    if not (0 < setup.support <= N and setup.support % 2 == 0):
        found.append(f"setup.npz: support={setup.support}; must be even and at most N={N}")
    return setup
