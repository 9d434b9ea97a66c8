"""The error of a configuration or input file: one line with key, value and what is allowed.

In Python it names an argument, ``positions=True``, where the command line has ``solver.positions=true``.
"""

from __future__ import annotations

import difflib
import functools
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, ParamSpec, TypeVar

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import ValidationError
from pydantic.fields import FieldInfo


class ConfigError(ValueError):
    """A configuration or input file that cannot be used; the message is one line for the user."""


def check(ok: bool, key: str, value: Any, allowed: str) -> None:
    """Raise :class:`ConfigError` naming ``key``, ``value`` and what is ``allowed`` unless ``ok``."""
    if not ok:
        raise ConfigError(f"{key}={value}: must be {allowed}")


UNKNOWN = "unexpected_keyword_argument"


def fields_of(cls: Any) -> dict[str, FieldInfo]:
    """Return the keys of a section, with their descriptions and bounds."""
    fields: dict[str, FieldInfo] = cls.__pydantic_fields__
    return fields


def explain(error: ValidationError, cls: type, values: Mapping[str, Any]) -> str:
    """Return the first mistake in the ``values`` of a section: a wrong kind or value, or an unknown key."""
    mistakes = error.errors(include_url=False)
    first = min(mistakes, key=lambda one: (one["loc"][-1:] != ("kind",), one["type"] != UNKNOWN))
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return str(cause)
    names, field = _located(cls, first["loc"])
    section = cls.SECTION  # type: ignore[attr-defined]
    name = ".".join([*filter(None, [section]), *names])
    if first["type"] == UNKNOWN:
        return unknown_key(cls, ".".join(names), show(first["input"]))
    value = first["input"] if first["type"] != "missing" else None
    if "tag" in first["type"] or first["type"] == "model_attributes_type":
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", value)
        return f"{name}.kind={kind}: must be one of {', '.join(sections_of(field.annotation))}"
    if first["loc"][-1] != names[-1]:  # an item of a list
        value = _looked_up(values, names, value)
    return f"{name}={show(value)}: must be {allowed(field)}"


def _located(cls: type, place: tuple[int | str, ...]) -> tuple[list[str], FieldInfo]:
    """The names on the way to a mistake, and the last field on it; kinds and places in lists are left out."""
    names: list[str] = []
    field, hint = FieldInfo(), typing.cast(Any, cls)
    for part in place:
        kinds = sections_of(hint)
        if typing.get_origin(without_none(hint)) is Mapping:
            names.append(str(part))
            hint = typing.get_args(without_none(hint))[1]
        elif len(kinds) > 1 and part in kinds:
            hint = kinds[str(part)]
        elif kinds:
            section = next(iter(kinds.values()))
            places = [name for name, known in fields_of(section).items() if not known.kw_only]
            name = part if isinstance(part, str) else places[part]
            names.append(name)
            field = fields_of(section).get(name, FieldInfo())
            hint = field.annotation
        else:
            break
    return names, field


def _looked_up(values: Any, names: list[str], otherwise: Any) -> Any:
    for name in names:
        values = values.get(name) if isinstance(values, dict) else getattr(values, name, None)
    return otherwise if values is None else values


def without_none(hint: Any) -> Any:
    """Return a type without its null, if it has one, and without annotations."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType | typing._UnionGenericAlias) else ()  # type: ignore[attr-defined]
    others = [option for option in options if option is not type(None)]
    return others[0] if len(others) == 1 else hint


def sections_of(hint: Any) -> dict[str, type]:
    """Return the sections that a type allows, by their kind."""
    hint = without_none(hint)
    options = typing.get_args(hint) or (hint,)
    if typing.get_origin(hint) is Mapping:
        options = options[1:]
    classes = [option for option in options if isinstance(option, type) and is_dataclass(option)]
    return {str(getattr(cls, "kind", "")): cls for cls in classes}


def allowed(field: FieldInfo) -> str:
    """Return what a key may be, in words: ``an integer from 1 to 8, or null``."""
    extra = typing.cast(dict[str, str], field.json_schema_extra or {})
    nullable = type(None) in typing.get_args(field.annotation)
    if extra.get("allowed"):
        return extra["allowed"] + (", or null" if nullable else "")
    hint, notes = without_none(field.annotation), list(field.metadata)
    if hasattr(hint, "__metadata__"):
        hint, notes = hint.__origin__, [*hint.__metadata__, *notes]
    words = _word(hint, notes) + _bounds(notes)
    return words + (f" {extra['unit']}" if extra.get("unit") else "") + (", or null" if nullable else "")


def _word(hint: Any, notes: list[Any]) -> str:
    named = [note.text for note in notes if hasattr(note, "text")]
    if named:
        return named[-1]
    if choices := choices_of(hint):
        some = "a non-empty list" if any(isinstance(note, MinLen) for note in notes) else "a list"
        listed = ", ".join(map(str, choices))
        return f"{some} drawn from [{listed}], each once" if _many(hint) else f"one of {listed}"
    if typing.get_origin(hint) is tuple:
        return "a list of two numbers" if len(typing.get_args(hint)) == 2 and not _many(hint) else "a list"
    return "a section of keys"


def _many(hint: Any) -> bool:
    return typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is Ellipsis


def choices_of(hint: Any) -> tuple[Any, ...]:
    """Return what a type lists, of which a key is one or some."""
    hint = without_none(hint)
    hint = getattr(hint, "__origin__", hint) if hasattr(hint, "__metadata__") else hint
    hint = typing.get_args(hint)[0] if _many(hint) else hint
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


def _bounds(notes: list[Any]) -> str:
    bounds = {type(note): getattr(note, type(note).__name__.lower()) for note in notes if type(note) in SIGNS}
    if Ge in bounds and Le in bounds:
        return f" from {_short(bounds[Ge])} to {_short(bounds[Le])}"
    return " and".join(f" {SIGNS[kind]} {_short(bound)}" for kind, bound in bounds.items())


SIGNS: dict[type, str] = {Ge: ">=", Gt: ">", Le: "<=", Lt: "<"}


def bounds_of(cls: type, name: str) -> tuple[float, float]:
    """Return the least and the largest value of a number that has both."""
    notes = {type(note): note for note in fields_of(cls)[name].metadata}
    return notes[Ge].ge, notes[Le].le


def programs_of(cls: type, prefix: str = "") -> dict[str, bool | str]:
    """Return the dotted keys of a configuration that name a program or code to run, with its ``program``."""
    programs: dict[str, bool | str] = {}
    for name, field in fields_of(cls).items():
        if program := typing.cast(dict[str, Any], field.json_schema_extra or {}).get("program"):
            programs[f"{prefix}{name}"] = program
        for section in sections_of(field.annotation).values():
            programs |= programs_of(section, f"{prefix}{name}.")
    return programs


def _short(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def show(value: Any) -> str:
    """Return a value as it is written in YAML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, str):
        return value or "''"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def unknown_key(cls: type, name: str, value: str) -> str:
    """Return the message on a dotted key that ``cls`` lacks, or lacks with the chosen option of its group."""
    section, _, last = name.rpartition(".")
    owners = {"": cls}
    for part in filter(None, section.split(".")):
        fields = [fields_of(owner) for owner in owners.values()]
        hint = next((known[part].annotation for known in fields if part in known), None)
        named_by_hand = hint is None and "" in owners  # as the entry "many" of batches.many.C
        owners = owners if named_by_hand else sections_of(hint)
    prefix = ".".join(filter(None, [cls.SECTION, section]))  # type: ignore[attr-defined]
    if kinds := [kind for kind, owner in owners.items() if last in fields_of(owner)]:
        lacking = f"unknown key; only {prefix}={' or '.join(kinds)} has it" if any(kinds) else ""
        return f"{prefix}.{last}={value}: {lacking or f'needs {prefix}=… beside it'}"
    place = f"{prefix}." if owners and prefix else ""
    known = sorted({other for owner in (owners or {"": cls}).values() for other in fields_of(owner)})
    close = difflib.get_close_matches(last, known, n=1)
    advice = f"did you mean {place}{close[0]}?" if close else f"known are {', '.join(known)}"
    return f"{'.'.join(filter(None, [prefix, last]))}={value}: unknown key; {advice}"


def one_line(text: str) -> str:
    """Return a message of several lines on one."""
    return " ".join(text.split())


P = ParamSpec("P")
T = TypeVar("T")
VALUES = {"true": "True", "false": "False", "null": "None"}


def argument_words(*sections: Any, renamed: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Return a function of a text that names arguments where the text has keys of the configuration.

    Keys of ``sections`` are arguments under their own names; ``renamed`` has others.
    """
    keys = {f"{cls.SECTION}.{name}": name for cls in sections for name in fields_of(cls)}
    keys |= renamed or {}
    names = "|".join(map(re.escape, sorted(keys, key=len, reverse=True)))
    known = re.compile(rf"(?<![\w./])({names})\b(?:=({'|'.join(VALUES)})\b)?")

    def argument(key: re.Match[str]) -> str:
        return keys[key[1]] + (f"={VALUES[key[2]]}" if key[2] else "")

    return functools.partial(known.sub, argument)


def name_arguments(
    *sections: Any, renamed: Mapping[str, str] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let the errors of a function name its arguments by :func:`argument_words`."""
    words = argument_words(*sections, renamed=renamed)
    places = "|".join(re.escape(cls.SECTION) for cls in sections)
    unknown = re.compile(rf"^({places})\.(?=\w+=)")

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return function(*arguments, **named)
            except ConfigError as error:
                text = unknown.sub("", words(str(error)))
                error.args = (re.sub(", or null$", ", or None", text),)
                raise

        return call

    return decorate
