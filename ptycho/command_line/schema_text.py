"""Keys of the schema as lines of YAML."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Collection, Iterator
from dataclasses import is_dataclass
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from ptycho.config.messages import choices_of, fields_of, sections_of
from ptycho.config.schema import LEVELS, level_of

COLUMN, WIDTH = 27, 120  # of the texts, of a line


def yaml_lines(
    cls: type, values: Any, left_out: Collection[str] = (), indent: str = "", level: int = len(LEVELS)
) -> Iterator[str]:
    """The keys of a section up to a level, a line each; the values of ``values``, or else the defaults."""
    for name, field in in_order(cls):
        if name in left_out:
            continue
        value = getattr(values, name) if values is not None else default_of(field)
        text = comment(field)
        section = type(value) if is_dataclass(value) else inner_section(field)
        if section and value is not None:
            inner = None if value is PydanticUndefined or field.default_factory else value
            if below := list(yaml_lines(section, inner, indent=f"{indent}  ", level=level)):
                yield f"{indent}{name}:{' ' * (COLUMN - len(indent + name) - 1)}# {text}\n"
                yield from below
        elif level_of(field) <= level:
            written = f"{indent}{name}: {yaml_value(value)}"
            first, *more = textwrap.wrap(text, WIDTH - COLUMN, break_on_hyphens=False) or [""]
            yield (f"{written:<{COLUMN - 1}} # {first}" if first else written) + "\n"
            yield from (f"{'':<{COLUMN}}# {rest}\n" for rest in more)


def in_order(cls: type) -> list[tuple[str, FieldInfo]]:
    """The kind first, then what the class has of its own, then what it has from others; sections last."""
    fields = fields_of(cls)
    own = [name for base in cls.__mro__ for name in inspect.get_annotations(base) if name in fields]
    names = dict.fromkeys([*({"kind"} & set(fields)), *own])
    return sorted(((name, fields[name]) for name in names), key=lambda entry: bool(inner_section(entry[1])))


def inner_section(field: FieldInfo) -> type | None:
    """The class of a section whose keys stand in the same file; None for a group and for a single value."""
    kinds = sections_of(field.annotation)
    single = len(kinds) == 1 and "Mapping" not in str(field.annotation)
    return next(iter(kinds.values())) if single else None


def default_of(field: FieldInfo) -> Any:
    return field.default_factory() if field.default_factory else field.default  # type: ignore[call-arg]


def comment(field: FieldInfo) -> str:
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
