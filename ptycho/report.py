"""The only writer of run outputs. Every file is written under a temporary name and renamed."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import logging
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure

from ptycho.config import ConfigError, RunConfig
from ptycho.conversion import to_mapping
from ptycho.files import remove_temporary, unusable, write_atomically

log = logging.getLogger(__name__)

CONTENTS = (
    "config.yaml",
    "datasets",
    "pinn",
    "baseline",
    "recons",
    "visuals",
    "metrics.json",
    "manifest.json",
    "run.log",
)
PACKAGES = ("ptychopinn", "tensorflow", "keras", "numpy", "scipy", "scikit-image", "hydra-core", "matplotlib")


class RunFolder:
    """A run's output folder; see the README for the tree.

    Args:
        path: the folder. It is made if need be, with its parents.
        overwrite: remove the run that the folder holds; without it such a folder is refused.
        resumed: go on with the run that the folder holds; nothing but temporary files is removed.

    Raises:
        ConfigError: the folder holds a run, is no folder, or cannot be written.
    """

    def __init__(self, path: Path, overwrite: bool = False, resumed: bool = False) -> None:
        self.path, self.resumed = path, resumed
        held = [] if resumed else check_free(path, overwrite)
        try:
            path.mkdir(parents=True, exist_ok=True)
            probe = path / f".write-test-{os.getpid()}"
            probe.touch()
            probe.unlink()
            for name in held:
                _remove(path / name)
            remove_temporary(path, CONTENTS)
        except OSError as error:
            raise unusable(path, error.strerror or str(error)) from error
        self.timings: dict[str, float] = {}

    def write(self, name: str, save: Callable[[Any], object]) -> Path:
        """Write a file atomically: ``save`` gets a binary file object; the result appears when complete."""
        target = self.path / name
        write_atomically(target, save)
        return target

    def config(self, config: RunConfig) -> Path:
        """Write ``config.yaml``, from which a run can be resumed."""
        return self.text("config.yaml", yaml.safe_dump(to_mapping(config), sort_keys=False))

    def text(self, name: str, content: str) -> Path:
        return self.write(name, lambda file: file.write(content.encode()))

    def json(self, name: str, value: Any) -> Path:
        """Write JSON; NaN and infinity are refused."""
        return self.text(name, json.dumps(value, indent=2, allow_nan=False) + "\n")

    def arrays(self, name: str, arrays: dict[str, np.ndarray]) -> Path:
        """Write an uncompressed NPZ that holds no pickle."""
        return self.write(name, lambda file: np.savez(file, allow_pickle=False, **arrays))

    def figure(self, name: str, figure: Figure) -> Path:
        return self.write(name, lambda file: figure.savefig(file, format="png", dpi=110))

    def table(self, name: str, rows: list[dict[str, Any]]) -> Path:
        """Write rows of equal keys as CSV."""
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
        return self.text(name, text.getvalue())

    def model(
        self, name: str, weights: dict[str, np.ndarray], description: dict[str, Any], rows: list
    ) -> None:
        """Write ``<name>/weights.npz``, ``history.csv`` and, when these are complete, ``model.json``."""
        self.arrays(f"{name}/weights.npz", weights)
        self.table(f"{name}/history.csv", rows)
        self.json(f"{name}/model.json", description | {"weights_sha256": weights_hash(weights)})

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the wall time of a block to ``timings[phase]``, in seconds."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.timings[phase] = self.timings.get(phase, 0.0) + time.perf_counter() - began

    @contextlib.contextmanager
    def logged(self) -> Iterator[None]:
        """Append the log to ``run.log`` while the block runs."""
        handler = _LogFile(self.path / "run.log")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            handler.close()

    def manifest(self, entries: dict[str, Any]) -> Path:
        """Write ``manifest.json``: what ran, on what, how long, and ``entries``."""
        timings = {phase: round(seconds, 3) for phase, seconds in self.timings.items()}
        return self.json("manifest.json", environment() | entries | {"timings_s": timings})


def check_free(path: Path, overwrite: bool) -> list[str]:
    """What a folder holds of an earlier run; without touching anything.

    Raises:
        ConfigError: it holds something and ``overwrite`` is false, or it can be seen not to be writable.
    """
    held = [name for name in CONTENTS if os.path.lexists(path / name)]
    if held and not overwrite:
        raise ConfigError(
            f"output_dir={path}: holds another run ({', '.join(held)}); "
            "choose another folder, or overwrite=true to replace it"
        )
    check_writable(path)
    return held


def check_writable(path: Path) -> None:
    """Raise ConfigError if an output folder, made or not, can be seen not to be writable."""
    absolute = path.absolute()
    nearest = next(folder for folder in (absolute, *absolute.parents) if os.path.exists(folder))
    if not os.path.isdir(nearest):
        raise unusable(path, f"{nearest} is no folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise unusable(path, f"no permission in {nearest}")


class _LogFile(logging.FileHandler):
    """``run.log``, without which a run goes on: a full disk loses lines, it does not stop the work."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


def weights_hash(weights: dict[str, np.ndarray]) -> str:
    """SHA-256 over names and bytes of weights, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(weights[name]).tobytes())
    return digest.hexdigest()


def environment() -> dict[str, Any]:
    """Versions, machine and peak memory so far (MiB) of this process."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024**2 if sys.platform == "darwin" else 1024
    )
    return {
        "versions": versions,
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "peak_memory_mib": round(peak),
    }


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
