"""A run that was made before: its folder and its configuration, read back; nothing is guessed."""

from __future__ import annotations

import os
from pathlib import Path

from ptycho.config import ConfigError, JobConfig
from ptycho.config.mapping import AnyConfig, from_mapping, to_mapping
from ptycho.config.messages import one_line
from ptycho.config.run_config import PRETRAINED
from ptycho.files.npz import NpzFile
from ptycho.files.reading import FileError, read_json, read_yaml
from ptycho.run.names import CONFIG, MANIFEST, METRICS, REPLACED

REMOVED = {
    ("object", "kind"): "lines",
    ("denoise",): False,
    ("stitch", "passes"): ...,
    ("train", "tensorboard"): ...,
}
"""Keys of former versions, and the value that changed nothing; ``...``: no value changed anything."""


def read_config(run: Path) -> AnyConfig:
    """Read the configuration as :func:`read_job`, of a run with networks of patterns."""
    job = read_job(run)
    if isinstance(job, AnyConfig):
        return job
    raise ConfigError(f"{run}: trained a denoiser; solver.denoiser_weights=… uses it, nothing else")


def read_job(run: Path) -> JobConfig:
    """Read the configuration of the run in folder ``run``, from its ``config.yaml``.

    Keys that are newer than the file have their defaults, and keys that are gone may have had no effect; a
    file that lacks whole sections has been cut short. ConfigError: the file is missing, unreadable,
    incomplete, or holds an unknown key or a wrong value.
    """
    path = run / CONFIG
    try:
        values = read_yaml(path)
    except FileNotFoundError:
        aside = f"; move the files of {run / REPLACED} back" if os.path.isdir(run / REPLACED) else ""
        raise ConfigError(f"{run}: holds no run; there is no {CONFIG} in it{aside}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ConfigError(f"{path}: is damaged ({one_line(str(error))})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: is damaged (it must hold a configuration: lines of key: value)")
    for (*section, name), neutral in REMOVED.items():
        part = values.get(section[0]) if section else values
        if isinstance(part, dict) and name in part and neutral in (..., part[name]):
            del part[name]
    try:
        config = from_mapping(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    sections = {key for key, value in to_mapping(type(config)()).items() if isinstance(value, dict)}
    if missing := sorted(sections - values.keys()):
        raise ConfigError(f"{path}: is incomplete; it lacks {', '.join(missing)}")
    return config


def is_finished(run: Path) -> bool:
    """Return whether a run's last files, ``metrics.json`` and ``manifest.json``, can be read."""
    try:
        return all(read_json(run / name) for name in (METRICS, MANIFEST))
    except (OSError, ValueError):
        return False


FOLDER = Path(__file__).resolve().parent.parent / PRETRAINED


def run_folder(run: str | Path) -> Path:
    """Return the folder of ``run=…``; ``pretrained`` is the program's, a folder of that name ./pretrained."""
    return FOLDER if str(run) == PRETRAINED else Path(run)


def check_prior_weights(file: str | None) -> None:
    """Raise ConfigError unless ``solver.denoiser_weights`` names the weights of a learned prior."""
    if file is None:
        return
    wanted = "must be prior/weights.npz of a folder that ptycho pretrain network=denoiser made"
    try:
        with NpzFile(file) as stored:
            ours = bool(stored.keys) and all(name.startswith("denoiser/") for name in stored.keys)
    except FileError as error:
        raise ConfigError(f"solver.denoiser_weights={file}: cannot be read ({error}); {wanted}") from error
    if not ours:
        raise ConfigError(f"solver.denoiser_weights={file}: holds no weights of a prior; {wanted}")
