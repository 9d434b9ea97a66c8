"""Nested plain values → the values of :mod:`ptycho.config`, strictly, and back.

No key is ignored, no type is guessed. This module knows neither Hydra nor TensorFlow.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TypeVar

from ptycho.config.errors import ConfigError
from ptycho.config.former_names import current_keys, stored_keys
from ptycho.config.messages import programs_of, show
from ptycho.config.network_config import JobConfig
from ptycho.config.own_code import is_import_path
from ptycho.config.pretrain_config import DenoiserConfig, PretrainConfig
from ptycho.config.run_config import RunConfig
from ptycho.config.scan_run_config import ScanRunConfig

AnyConfig = RunConfig | ScanRunConfig | PretrainConfig  # of runs with networks of patterns
Job = AnyConfig | DenoiserConfig
Section = TypeVar("Section")

LEARNING = ("learn", "modes", "rate", "start_epoch")
WITHOUT_EFFECT: dict[type, tuple[str, ...]] = {  # keys that older runs have stored
    RunConfig: ("probe.modes", *(f"test_probe.{name}" for name in LEARNING)),
    ScanRunConfig: ("baseline", "stitch", "train.val_groups"),
    PretrainConfig: (
        *("baseline", "probe", "nepochs", "models", "mae_weight", "nll_weight", "realspace_weight"),
        *("train.val_groups", "train.patience"),
    ),
    DenoiserConfig: (),
}


def from_mapping(values: Any) -> Job:
    """The validated configuration that nested plain values describe; what is left out has its default.

    Raises:
        ConfigError: an unknown key, a value of the wrong type, or one that the configuration refuses.
    """
    return to_dataclass(schema_of(values), values)


def from_stored(values: Any) -> Job:
    """As :func:`from_mapping`, for what a run has stored: former names, and keys without effect."""
    cls = schema_of(values)
    known = without(stored_keys(values), WITHOUT_EFFECT[cls])
    if cls is DenoiserConfig and "scan" in known:
        known["measurement"] = known.pop("scan")  # its former name
    return to_dataclass(cls, known)


def schema_of(values: Any) -> type[Job]:
    """``data`` makes it that of a run on a scan, ``batches`` and ``forms`` that of a pretraining."""
    keys: dict[str, type[Job]] = {"data": ScanRunConfig, "batches": PretrainConfig, "forms": DenoiserConfig}
    networks: dict[str, type[Job]] = {"group": PretrainConfig, "denoiser": DenoiserConfig}
    if not isinstance(values, dict):
        return RunConfig
    named = networks.get(str(values.get("network")), RunConfig)
    return next((cls for key, cls in keys.items() if key in values), named)


def without(values: Any, dotted: tuple[str, ...]) -> Any:
    """Nested values without some of their keys."""
    if not isinstance(values, dict):
        return values
    deeper = {key: tuple(d[len(key) + 1 :] for d in dotted if d.startswith(f"{key}.")) for key in values}
    return {key: without(value, deeper[key]) for key, value in values.items() if key not in dotted}


def to_dataclass(cls: type[Section], values: Any) -> Section:
    """As :func:`from_mapping`, for another class of settings."""
    if not isinstance(values, dict):
        raise ConfigError(f"{show(values)}: must be a section of keys")
    return cls(**{str(key): value for key, value in current_keys(values).items()})


def to_mapping(config: JobConfig) -> dict[str, Any]:
    """The configuration as plain values that YAML and JSON hold; :func:`from_mapping` reads them back."""
    values: dict[str, Any] = _listed(asdict(config))
    return values


def _listed(value: Any) -> Any:
    """Plain values whose tuples are lists, and whose kinds come first."""
    if isinstance(value, dict):
        kind = {"kind": value["kind"]} if "kind" in value else {}
        return kind | {key: _listed(entry) for key, entry in value.items()}
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def result_settings(config: JobConfig) -> dict[str, Any]:
    """The plain values that decide what a run gives: all but where it is written."""
    return without(to_mapping(config), ("output_dir", "overwrite"))


def completed(settings: dict[str, Any]) -> dict[str, Any]:
    """Stored :func:`result_settings`; keys that are newer than they are have their defaults."""
    return result_settings(from_stored(settings))


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


def programs_in(config: JobConfig) -> dict[str, str]:
    """The programs and import paths that a configuration names, by key."""
    values = flat(to_mapping(config))
    return {
        key: values[key]
        for key, program in programs_of(type(config)).items()
        if values.get(key) is not None and (program is True or is_import_path(values[key]))
    }
