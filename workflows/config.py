"""From what Hydra composed, and the switches of the environment, to the frozen dataclasses.

Every mistake becomes a :class:`ptycho.config.ConfigError` of one line. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from typing import Any

from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.config import ConfigError, RunConfig
from ptycho.conversion import from_mapping, keys, one_line, show, unknown_key

SWITCHES = {"USE_XLA_COMPILE": "xla.compile", "USE_XLA_TRANSLATE": "xla.translate"}
TRUE, FALSE = ("1", "true", "yes"), ("0", "false", "no")


def run_config(composed: DictConfig, overrides: list[str], environ: Mapping[str, str]) -> RunConfig:
    """The validated configuration of a run.

    Args:
        composed: what Hydra composed, without its own node.
        overrides: the overrides given on the command line, to tell an explicit choice from a default.
        environ: the environment; ``USE_XLA_COMPILE`` and ``USE_XLA_TRANSLATE`` are read from it.
    """
    try:
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(one_line(str(error))) from error
    values = typing.cast(dict[str, Any], values)
    values.pop("hydra", None)
    values.pop("experiment", None)
    _apply_switches(values, overrides, environ)
    return from_mapping(values)


def _apply_switches(values: dict[str, Any], overrides: list[str], environ: Mapping[str, str]) -> None:
    """Set ``xla.*`` from the environment; an explicit override that says otherwise is an error."""
    explicit = {override.lstrip("+").split("=", 1)[0] for override in overrides}
    section = values.get("xla")
    for variable, key in SWITCHES.items():
        text = environ.get(variable, "").strip().lower()
        if not text:
            continue
        if text not in TRUE + FALSE:
            raise ConfigError(
                f"{variable}={environ[variable]}: must be one of {', '.join(TRUE + FALSE)}, or empty"
            )
        wanted, name = text in TRUE, key.split(".")[1]
        if not isinstance(section, dict):
            raise ConfigError(f"xla={section}: must be a section with compile and translate")
        if key in explicit and section[name] != wanted:
            raise ConfigError(
                f"{variable}={environ[variable]} contradicts {key}={show(section[name])} on the command "
                "line; drop one of them"
            )
        section[name] = wanted


NO_OPTION = re.compile(
    r"Could not find '([\w/]+)/([^']*)'\s+Available options in '\S+':\s+(.*?)\s+Config search", re.S
)
NO_KEY = re.compile(r"Could not override '([^']+)'\.\s+To append to your config use \+[^=]+=(.*)", re.S)


def explained(error: Exception) -> str:
    """An error on one line; Hydra's about syntax, unknown options and unknown keys in our own words."""
    message = str(error)
    if isinstance(error, OverrideParseException):
        reason = one_line(message.split("See https://")[0])
        return f"{error.override}: must be key=value, with quotes around special characters ({reason})"
    if found := NO_OPTION.search(message):
        group, option, options = found.groups()
        return f"{group}={option}: must be one of {', '.join(options.split())}"
    if (found := NO_KEY.search(message)) and found[1] not in keys(RunConfig):
        return unknown_key(*found.groups())
    return one_line(message)
