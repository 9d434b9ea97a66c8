"""Nested plain values → the frozen dataclasses of :mod:`ptycho.config`, strictly, and back.

No key is ignored, no type is guessed; every mistake becomes a :class:`ptycho.config.ConfigError` of one
line. This module knows neither Hydra nor TensorFlow.
"""

from __future__ import annotations

import difflib
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from ptycho.config import GENERATORS, MEASURED_PROBES, OBJECTS, PROBES, ConfigError, RunConfig, ScanRunConfig
from ptycho.config.network_config import NetworkConfig
from ptycho.config.pretrain_config import PretrainConfig

TABLES: dict[str, dict[str, type]] = {
    "object": OBJECTS,
    "probe": MEASURED_PROBES | PROBES,
    "test_probe": PROBES,
    "model": GENERATORS,
}


AnyConfig = RunConfig | ScanRunConfig | PretrainConfig


def from_mapping(values: Any) -> AnyConfig:
    """The validated configuration that nested plain values describe; what is left out has its default.

    A section ``data`` makes it that of a run on a measured scan, ``batches`` that of a pretraining.

    Raises:
        ConfigError: an unknown key, a value of the wrong type, or one that the configuration refuses.
    """
    sections: dict[str, type] = {"data": ScanRunConfig, "batches": PretrainConfig}
    found = [cls for key, cls in sections.items() if isinstance(values, dict) and key in values]
    config: AnyConfig = _convert(found[0] if found else RunConfig, values, "")
    return config


def to_dataclass(cls: type, values: Any) -> Any:
    """As :func:`from_mapping`, for another dataclass of plain values."""
    return _convert(cls, values, "")


def to_mapping(config: NetworkConfig) -> dict[str, Any]:
    """The configuration as plain values that YAML and JSON hold; :func:`from_mapping` reads them back."""
    values = _listed(asdict(config))
    for group in TABLES:
        if values.get(group) is not None:
            values[group] = {"kind": getattr(config, group).KIND} | values[group]
    return values


def _listed(value: Any) -> Any:
    """Plain values whose tuples are lists."""
    if isinstance(value, dict):
        return {key: _listed(entry) for key, entry in value.items()}
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def result_settings(config: NetworkConfig) -> dict[str, Any]:
    """The plain values that decide what a run gives: all but where it is written."""
    return {key: value for key, value in to_mapping(config).items() if key not in ("output_dir", "overwrite")}


def completed(settings: dict[str, Any]) -> dict[str, Any]:
    """Stored :func:`result_settings`; keys that are newer than they are have their defaults."""
    return result_settings(from_mapping(settings))


def differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """``key: stored value -> asked value`` for every key, dotted, that two nested mappings do not share."""
    one, two = flat(stored), flat(asked)
    return [
        f"{key}: {show(one[key]) if key in one else 'absent'} -> {show(two[key]) if key in two else 'absent'}"
        for key in one | two
        if key not in one or key not in two or one[key] != two[key]
    ]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted keys."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _convert(cls: type, values: Any, prefix: str) -> Any:
    """Build the dataclass ``cls`` from a mapping; unknown keys and wrong types are errors."""
    if not isinstance(values, dict):
        raise ConfigError(
            f"{prefix.rstrip('.')}={show(values)}: must be a section of keys, or one of its options"
        )
    hints = typing.get_type_hints(cls)
    known = keys(cls)
    for key in values:
        if key not in known:
            raise ConfigError(unknown_key(f"{prefix}{key}", show(values[key])))
    converted = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if not prefix and key in TABLES and _has_dataclass(hints[key]) and value is not None:
            converted[key] = _variant(key, value)
        else:
            converted[key] = _typed(hints[key], value, name)
    return cls(**converted)


def _has_dataclass(hint: Any) -> bool:
    return any(is_dataclass(option) for option in typing.get_args(hint) or (hint,))


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
    if kind is typing.Any:
        return value
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
        items, kind_of = [value] if isinstance(value, str) else value, typing.get_args(kind)[0]
        if kind_of is str:
            return tuple(str(item) for item in items)
        return tuple(_typed(kind_of, item, name) for item in items)
    if typing.get_origin(kind) is Mapping and isinstance(value, dict):
        inner = typing.get_args(kind)[1]
        return {key: _typed(inner, one, f"{name}.{key}") for key, one in value.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        return _convert(kind, value, f"{name}.")
    nothing = " or null" if type(None) in options else ""
    raise ConfigError(f"{name}={show(value)}: must be {_WORDS.get(kind, 'a list of names')}{nothing}")


_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    tuple[float, ...]: "a list of numbers",
    tuple[float, float]: "a list of two numbers",
    Mapping[str, typing.Any]: "a section of keys",
}


def show(value: Any) -> str:
    """A value as it is written in YAML."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def unknown_key(name: str, value: str) -> str:
    """What to say about a key ``name`` that does not exist, or not with the chosen option of its group."""
    section, _, key = name.rpartition(".")
    kinds = [kind for kind, cls in TABLES.get(section, {}).items() if key in keys(cls)]
    if kinds:
        return f"{name}={value}: unknown key; only {section}={' or '.join(kinds)} has it"
    known = {other for cls in _classes(section) for other in keys(cls)}
    prefix = f"{section}." if known else ""
    known = known or keys(RunConfig)
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {prefix}{close[0]}?" if close else f"known are {', '.join(sorted(known))}"
    return f"{name}={value}: unknown key; {hint}"


def _classes(section: str) -> list[type]:
    """The dataclasses that a section of the configuration may become."""
    if section in TABLES:
        return list(TABLES[section].values())
    top = section.split(".")[0]
    kind: Any = next((c for c in (RunConfig, ScanRunConfig, PretrainConfig) if top in keys(c)), None)
    for part in section.split("."):
        if typing.get_origin(kind) is Mapping:
            kind = typing.get_args(kind)[1]
        else:
            kind = typing.get_type_hints(kind).get(part) if isinstance(kind, type) else None
    return [kind] if isinstance(kind, type) and is_dataclass(kind) else []


def keys(cls: type) -> set[str]:
    return {f.name for f in fields(cls)}


def one_line(text: str) -> str:
    """A message of several lines on one."""
    return " ".join(text.split())
