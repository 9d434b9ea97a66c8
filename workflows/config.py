"""From a composed Hydra configuration to the frozen dataclasses, strictly.

No key is ignored, no type is guessed; every mistake becomes a :class:`ptycho.config.ConfigError` of one
line. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.config import GENERATORS, OBJECTS, PROBES, ConfigError, RunConfig

TABLES: dict[str, dict[str, type]] = {
    "object": OBJECTS,
    "probe": PROBES,
    "test_probe": PROBES,
    "model": GENERATORS,
}
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
    return _convert(RunConfig, values, "")


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
                f"{variable}={environ[variable]} contradicts {key}={_show(section[name])} on the command "
                "line; drop one of them"
            )
        section[name] = wanted


def _convert(cls: type, values: Any, prefix: str) -> Any:
    """Build the dataclass ``cls`` from a mapping; unknown keys and wrong types are errors."""
    if not isinstance(values, dict):
        raise ConfigError(
            f"{prefix.rstrip('.')}={_show(values)}: must be a section of keys, or one of its options"
        )
    hints = typing.get_type_hints(cls)
    known = _keys(cls)
    for key in values:
        if key not in known:
            raise ConfigError(unknown_key(f"{prefix}{key}", _show(values[key])))
    converted = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if not prefix and key in TABLES and value is not None:
            converted[key] = _variant(key, value)
        else:
            converted[key] = _typed(hints[key], value, name)
    return cls(**converted)


def _variant(group: str, values: Any) -> Any:
    """An entry of a table (object, probe, model), chosen by its ``kind``."""
    table = TABLES[group]
    if not isinstance(values, dict) or values.get("kind") not in table:
        found = values.get("kind") if isinstance(values, dict) else values
        raise ConfigError(f"{group}.kind={found}: must be one of {', '.join(table)}")
    settings = {key: value for key, value in values.items() if key != "kind"}
    return _convert(table[values["kind"]], settings, f"{group}.")


def _typed(hint: Any, value: Any, name: str) -> Any:
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    kind = next(option for option in options if option is not type(None))
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is int and isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, str):
        return value
    if typing.get_origin(kind) is tuple and isinstance(value, (list, str)):
        return tuple(str(item) for item in ([value] if isinstance(value, str) else value))
    if isinstance(kind, type) and is_dataclass(kind):
        return _convert(kind, value, f"{name}.")
    nothing = " or null" if type(None) in options else ""
    raise ConfigError(f"{name}={_show(value)}: must be {_WORDS.get(kind, 'a list of names')}{nothing}")


_WORDS = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def _show(value: Any) -> str:
    """A value as it is written in YAML."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def unknown_key(name: str, value: str) -> str:
    """What to say about a key ``name`` that does not exist, or not with the chosen option of its group."""
    section, _, key = name.rpartition(".")
    kinds = [kind for kind, cls in TABLES.get(section, {}).items() if key in _keys(cls)]
    if kinds:
        return f"{name}={value}: unknown key; only {section}={' or '.join(kinds)} has it"
    known = {other for cls in _classes(section) for other in _keys(cls)}
    prefix = f"{section}." if known else ""
    known = known or _keys(RunConfig)
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {prefix}{close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return f"{name}={value}: unknown key; {hint}"


def _classes(section: str) -> list[type]:
    """The dataclasses that a section of the configuration may become."""
    if section in TABLES:
        return list(TABLES[section].values())
    kind = typing.get_type_hints(RunConfig).get(section)
    return [kind] if isinstance(kind, type) and is_dataclass(kind) else []


def _keys(cls: type) -> set[str]:
    return {f.name for f in fields(cls)}


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
    if (found := NO_KEY.search(message)) and found[1] not in _keys(RunConfig):
        return unknown_key(*found.groups())
    return one_line(message)


def one_line(text: str) -> str:
    """A message of several lines on one."""
    return " ".join(text.split())
