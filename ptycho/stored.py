"""What a run left in its folder, read back; nothing is unpickled, nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import yaml

from ptycho.config import ConfigError, RunConfig
from ptycho.conversion import from_mapping, keys, one_line

CONFIG = "config.yaml"


def read_config(run: Path) -> RunConfig:
    """The configuration of the run in folder ``run``, from its ``config.yaml``.

    A section may lack keys that are newer than the file, which then have their defaults; a file that lacks
    whole entries has been cut short.

    Raises:
        ConfigError: the file is missing, unreadable, incomplete, or holds an unknown key or a wrong value.
    """
    path = run / CONFIG
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{run}: holds no run; there is no {CONFIG} in it") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not text; a date of month 13
        raise ConfigError(f"{path}: is damaged ({one_line(str(error))})") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: is damaged (it must hold a configuration: lines of key: value)")
    try:
        config = from_mapping(values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    if missing := sorted(keys(RunConfig) - values.keys()):
        raise ConfigError(f"{path}: is incomplete; it lacks {', '.join(missing)}")
    return config
