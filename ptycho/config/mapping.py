"""Nested plain values → the values of :mod:`ptycho.config`, and back; and keys as lines of YAML."""

from __future__ import annotations

import inspect
import pkgutil
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ptycho.config.messages import ConfigError, choices_of, fields_of, programs_of, sections_of, show
from ptycho.config.network_config import GeneralConfig, JobConfig
from ptycho.config.own_code import is_import_path
from ptycho.config.run_config import RunConfig, ScanRunConfig

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AnyConfig = RunConfig | ScanRunConfig | GeneralConfig  # of runs with networks of patterns
PRETRAININGS: dict[str, tuple[type[JobConfig], str]] = {
    "group": (GeneralConfig, "ptycho_pretrain.config:PretrainConfig"),
    "denoiser": (JobConfig, "ptycho_pretrain.config:DenoiserConfig"),
}
"""By ``network``, what the program must know of a pretraining, and its schema in the optional part."""
Section = TypeVar("Section")
COLUMN, WIDTH = 27, 120  # of the texts, of a line


def from_mapping(values: Any) -> JobConfig:
    """Return the validated configuration that nested plain values describe; what is left out has its default.

    ``network`` makes it a pretraining, and ``data`` a run on a scan. Where the part that pretrains is not
    installed, the keys that only the training needs are left out. ConfigError: an unknown key, a value of
    the wrong type, or one that the configuration refuses.
    """
    if not isinstance(values, dict):
        return to_dataclass(RunConfig, values)
    if (network := str(values.get("network"))) not in PRETRAININGS:
        return to_dataclass(ScanRunConfig if "data" in values else RunConfig, values)
    known, schema = PRETRAININGS[network]
    try:
        full = pkgutil.resolve_name(schema)
    except ModuleNotFoundError as error:
        if error.name is None or not schema.startswith(error.name):
            raise
        return to_dataclass(known, {key: values[key] for key in fields_of(known) if key in values})
    return to_dataclass(full, values)


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


def yaml_lines(cls: type, values: Any, left_out: Collection[str] = (), indent: str = "") -> Iterator[str]:
    """Yield the keys of a section, a line each, with ``values``, or else the defaults."""
    for name, field in ordered_fields(cls):
        if name in left_out:
            continue
        value = getattr(values, name) if values is not None else default_of(field)
        text = comment_of(field)
        section = type(value) if is_dataclass(value) else inner_section(field)
        if section and value is not None:
            inner = None if value is PydanticUndefined or field.default_factory else value
            if below := list(yaml_lines(section, inner, indent=f"{indent}  ")):
                yield f"{indent}{name}:{' ' * (COLUMN - len(indent + name) - 1)}# {text}\n"
                yield from below
        else:
            written = f"{indent}{name}: {yaml_value(value)}"
            first, *more = textwrap.wrap(text, WIDTH - COLUMN, break_on_hyphens=False) or [""]
            yield (f"{written:<{COLUMN - 1}} # {first}" if first else written) + "\n"
            yield from (f"{'':<{COLUMN}}# {rest}\n" for rest in more)


def ordered_fields(cls: type) -> list[tuple[str, FieldInfo]]:
    """Return the fields: the kind, those of the class itself, those of its bases; sections come last."""
    fields = fields_of(cls)
    own = [name for base in cls.__mro__ for name in inspect.get_annotations(base) if name in fields]
    names = dict.fromkeys([*({"kind"} & set(fields)), *own])
    return sorted(((name, fields[name]) for name in names), key=lambda entry: bool(inner_section(entry[1])))


def inner_section(field: FieldInfo) -> type | None:
    """Return the class of a section whose keys stand in the same file; None: a group, or one value."""
    kinds = sections_of(field.annotation)
    single = len(kinds) == 1 and "Mapping" not in str(field.annotation)
    return next(iter(kinds.values())) if single else None


def default_of(field: FieldInfo) -> Any:
    return field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]


def comment_of(field: FieldInfo) -> str:
    choices = choices_of(field.annotation)
    words = " | ".join(map(str, choices)) if len(choices) > 1 else ""
    return "; ".join(filter(None, [words, field.description]))


def yaml_value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(yaml_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and value and not 1e-4 <= abs(value) < 1e5:
        return f"{value:g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
    return "{}" if isinstance(value, dict) else str(value) or '""'
