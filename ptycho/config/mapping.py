"""Nested plain values → the values of :mod:`ptycho.config`, and back; nothing is ignored or guessed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from ptycho.config.messages import ConfigError, programs_of, show
from ptycho.config.own_code import is_import_path
from ptycho.config.pretrain_config import DenoiserConfig, PretrainConfig
from ptycho.config.run_config import RunConfig, ScanRunConfig

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnyConfig = RunConfig | ScanRunConfig | PretrainConfig  # of runs with networks of patterns
Job = AnyConfig | DenoiserConfig
Section = TypeVar("Section")


def from_mapping(values: Any) -> Job:
    """Return the validated configuration that nested plain values describe; what is left out has its default.

    ``network`` makes it a pretraining, and ``data`` a run on a scan. ConfigError: an unknown key, a value of
    the wrong type, or one that the configuration refuses.
    """
    schema: type[Job] = RunConfig
    if isinstance(values, dict):
        networks: dict[str, type[Job]] = {"group": PretrainConfig, "denoiser": DenoiserConfig}
        schema = networks.get(str(values.get("network")), ScanRunConfig if "data" in values else RunConfig)
    return to_dataclass(schema, values)


def to_dataclass(cls: type[Section], values: Any) -> Section:
    """Validate plain values as :func:`from_mapping` does, for another class of settings."""
    if not isinstance(values, dict):
        raise ConfigError(f"{show(values)}: must be a section of keys")
    return cls(**{str(key): value for key, value in values.items()})


def to_mapping(settings: DataclassInstance) -> dict[str, Any]:
    """Return settings as plain values for YAML and JSON; :func:`from_mapping` reads them back."""
    values: dict[str, Any] = _listed(asdict(settings))
    return values


def _listed(value: Any) -> Any:
    """Plain values whose tuples are lists, and whose kinds come first."""
    if isinstance(value, dict):
        kind = {"kind": value["kind"]} if "kind" in value else {}
        return kind | {key: _listed(entry) for key, entry in value.items()}
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value


def result_settings(settings: DataclassInstance) -> dict[str, Any]:
    """Return the plain values that decide what a run gives: all but where it is written."""
    return {k: value for k, value in to_mapping(settings).items() if k not in ("output_dir", "overwrite")}


def differences(stored: dict[str, Any], requested: dict[str, Any]) -> list[str]:
    """Return ``key: stored value -> requested value`` for dotted keys in which two nested mappings differ."""
    one, two = flat(stored), flat(requested)
    return [
        f"{key}: {show(one[key]) if key in one else 'absent'} -> {show(two[key]) if key in two else 'absent'}"
        for key in one | two
        if key not in one or key not in two or one[key] != two[key]
    ]


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted keys."""
    flattened: dict[str, Any] = {}
    for key, value in values.items():
        flattened |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flattened


def programs_in(settings: DataclassInstance) -> dict[str, str]:
    """Return the programs and import paths that settings name, by key."""
    values = flat(to_mapping(settings))
    return {
        key: values[key]
        for key, program in programs_of(type(settings)).items()
        if values.get(key) is not None and (program is True or is_import_path(values[key]))
    }
