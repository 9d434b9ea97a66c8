"""The record of a run: ``files.json``, the list of the files that it wrote, and what it ran on.

The SHA-256 stands beside the name of an array file; other files have an empty text, as they may be edited.
TensorFlow is imported by the functions that need it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import sys
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError, XlaConfig
from ptycho.config.messages import one_line
from ptycho.files.atomic import sha256
from ptycho.files.reading import read_json, shown
from ptycho.run.names import DATASETS, DISCARDED, LIVE, OF_A_RUN, RECORD, REPLACED, UNFINISHED

PAGE = b'<meta name="generator" content="PtychoPINN">'


def read_record(run: Path) -> dict[str, str]:
    """Read file names and SHA-256, or empty texts; none if there is no record. ConfigError: it is damaged."""
    path = run / RECORD
    try:
        record = read_json(path, 2**20)
        if not all(isinstance(value, str) for value in record.values()):
            raise ValueError("it must hold names and hashes")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = one_line(str(error))[:200]
        raise ConfigError(f"{path}: is damaged ({reason}); remove it to go on without its hashes") from error
    return record


def problem(run: Path, name: str, record: dict[str, str]) -> str | None:
    """Return what is wrong with the file ``name`` of a run, if its hash is recorded."""
    if not record.get(name):
        return None
    try:
        same = sha256(run / name) == record[name]
    except FileNotFoundError:
        return f"{name}: no such file"
    except OSError as error:
        return f"{name}: cannot be read ({error.strerror or error})"
    return None if same else f"{name}: has another SHA-256 than {RECORD} says; it was changed or damaged"


def damaged(run: Path) -> list[str]:
    """Return everything that is wrong with the recorded files of a run."""
    record = read_record(run)  # datasets that are gone altogether were removed to save space
    names = [n for n in record if (run / DATASETS).exists() or not n.startswith(f"{DATASETS}/")]
    return [text for name in names if (text := problem(run, name, record))]


def own_files(run: Path) -> list[str]:
    """Return the files that the run in a folder wrote, relative to it; none that leads out of it."""
    record = read_record(run) if os.path.isdir(run) else {}
    if RECORD not in record:  # of another program, or of a former version
        return []
    unfinished = (path.relative_to(run).as_posix() for glob in UNFINISHED for path in run.glob(glob))
    names = {name for name in (*record, *unfinished) if ".." not in name.split("/") and name[:1] != "/"}
    return sorted(name for name in names if os.path.isfile(run / name) or os.path.islink(run / name))


def is_page(path: Path, beginning: int = 500) -> bool:
    """Return whether the ``beginning`` of a file, in bytes, is that of a page of this program."""
    try:
        with path.open("rb") as file:
            return PAGE in file.read(beginning)
    except OSError:
        return False


def foreign_files(run: Path) -> list[str]:
    """Return the files in the places of a run that no run wrote, but for hidden ones."""
    own, tops = set(own_files(run)), [run / name for name in OF_A_RUN]
    below = (Path(folder, name) for top in tops for folder, _, names in os.walk(top) for name in names)
    files = [*(top for top in tops if os.path.lexists(top) and not os.path.isdir(top)), *below]
    names = (path.relative_to(run).as_posix() for path in files if not path.name.startswith("."))
    return [name for name in names if name not in own]


def owner(path: Path) -> Path | None:
    """Return the folder of the run that wrote the file ``path``; None for a file of no run."""
    place = Path(os.path.realpath(path))
    for folder in place.parents:
        try:
            if place.relative_to(folder).as_posix() in own_files(folder):
                return folder
        except ConfigError:  # a files.json of something else
            continue
    return None


def check_output(path: Path, overwrite: bool, inputs: Iterable[Path] = (), key: str = "output") -> None:
    """Raise ConfigError, with ``key``, if a file cannot be written, is there, is an input, or a run's."""
    if path.is_dir():
        raise ConfigError(f"{key}={path}: is a folder; name a file in it")
    for source in inputs:
        if path.exists() and source.exists() and path.samefile(source):
            raise ConfigError(f"{key}={path}: is the input file; choose another file")
    if (run := owner(path)) is not None:
        raise ConfigError(f"{key}={path}: is a file of the run in {run}; choose another file")
    if path.exists() and not overwrite:
        raise ConfigError(f"{key}={path}: is there already; choose another file, or overwrite=true")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise ConfigError(f"{key}={path}: {nearest} is no folder that can be written")


def check_files(run: Path) -> None:
    """Refuse a folder in the place of a file that a run to be resumed has written, and the reverse."""
    for file in (run / name for name in read_record(run)):
        if file.is_dir():
            raise ConfigError(f"{file}: must be a file, not a folder; remove it, and it is made again")
        for folder in file.parents:
            if folder.is_relative_to(run) and folder.is_file():
                raise ConfigError(f"{folder}: must be a folder; remove it, and its files are made again")


def check_links(run: Path) -> None:
    """Refuse links in a run's places that lead out of its folder: nothing is read, moved or written there."""
    inside = Path(os.path.realpath(run))
    for top in sorted({*OF_A_RUN, REPLACED, DISCARDED, LIVE}):
        below = (Path(folder, name) for folder, dirs, files in os.walk(run / top) for name in dirs + files)
        for path in (run / top, *below):
            if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(inside):
                raise ConfigError(
                    f"{shown(str(path))}: is a link that leads out of the run's folder, to "
                    f"{shown(os.readlink(path))}, and is not followed; put what it names in its place, or "
                    "choose another folder"
                )


PACKAGES = ("ptychopinn", "tensorflow", "keras", "numpy", "scipy", "scikit-image", "hydra-core", "matplotlib")


def environment() -> dict[str, Any]:
    """Return versions, machine and peak memory so far (MiB) of this process."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    kib = 1024 if sys.platform == "darwin" else 1  # units in a kibibyte
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / kib / 1024
    return {
        "versions": versions,
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "peak_memory_mib": round(peak),
    }


def prepare_tensorflow() -> None:
    """Forget earlier models of the process."""
    import keras

    keras.backend.clear_session()


def device_facts(xla: XlaConfig) -> dict[str, Any]:
    """Return the devices of TensorFlow and the effective switches, for the manifest."""
    import tensorflow as tf

    devices = [f"{d.device_type}:{i}" for i, d in enumerate(tf.config.list_logical_devices())]
    first = next((d for d in devices if d.startswith("GPU")), devices[0])
    return {"device": first, "devices": devices, "xla": asdict(xla)}
