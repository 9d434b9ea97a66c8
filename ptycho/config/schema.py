"""Define a key of the configuration: type, default, bounds, unit and text on one line, checked by pydantic.

    @settings("train")
    class TrainConfig:
        clip_norm: Number = key(1.0, "of the global gradient norm", gt=0)

The values are frozen dataclasses that check themselves; types are strict (``"3"`` and ``true`` are no
integers, ``3.0`` is one; a number is finite). A mistake raises a :class:`ptycho.config.ConfigError` of one
line, worded by :mod:`ptycho.config.messages`. The files of ``conf/`` are written from the same lines.
"""

from __future__ import annotations

import functools
import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, cast, dataclass_transform, get_args

import pydantic
from annotated_types import Ge, Le, Predicate
from pydantic import BeforeValidator, ConfigDict, Field, Strict
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

from ptycho.config.messages import ConfigError, explain

T = TypeVar("T")
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Word:
    """What a type is called in messages."""

    text: str


@dataclass(frozen=True)
class Within:
    """``low <= first <= second <= high`` for the two numbers of a range."""

    low: float
    high: float

    @property
    def text(self) -> str:
        """The allowed range, in the words of an error message."""
        return f"[low, high] within [{self.low:g}, {self.high:g}]"

    def holds(self, value: tuple[float, float]) -> tuple[float, float]:
        """Return ``value`` (low, high) if it is ordered and within the range; else raise ValueError."""
        if not self.low <= value[0] <= value[1] <= self.high:
            raise ValueError(self.text)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.holds, handler(source))


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's, and a float without a fraction where an integer is wanted."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Any) -> Any:
    known = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return float(value) if known else value


def _listed(value: Any) -> Any:
    """A tuple; of one where a text stands alone."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _path(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _texts(value: Any) -> Any:
    listed = _listed(value)
    return tuple(str(item) for item in listed if item != "") if isinstance(listed, tuple) else value


Integer = Annotated[int, BeforeValidator(_plain), Strict(), Word("an integer")]
Positive = Annotated[Integer, Ge(1)]
Even = Annotated[Integer, Predicate(lambda value: value % 2 == 0), Word("an even integer")]
PowerOfTwo = Annotated[Integer, Predicate(lambda n: n > 0 and n & (n - 1) == 0), Word("a power of two")]
Sign = Annotated[Integer, Predicate(lambda value: value in (1, -1)), Word("1 or -1")]
Number = Annotated[float, BeforeValidator(_number), Strict(), Word("a finite number")]
Share = Annotated[Number, Ge(0), Le(1)]
Flag = Annotated[bool, Strict(), Word("true or false")]
Text = Annotated[str, BeforeValidator(_path), Strict(), Word("a text")]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), Word("a list of texts")]
Each = Annotated[tuple[T, ...], BeforeValidator(_listed), Predicate(lambda each: len({*each}) == len(each))]
"""Some of several, each once."""
Range = tuple[Number, Number]


Level = Literal["always", "sometimes", "expert"]
LEVELS: tuple[Level, ...] = get_args(Level)


def key(
    default: Any,  # a value, or a function that makes it; ...: there is none
    text: str,  # description of the key, on one line
    *,
    unit: str = "",
    allowed: str = "",  # values in words, for messages, if type and bounds do not give them
    program: bool | str = False,
    level: Level = "expert",  # who sets it: nearly every user, some, or experts; help is sorted by it
    **bounds: Any,  # ge, gt, le, lt, min_length; discriminator and kw_only
) -> Any:
    """Return the default of a field, with its description and bounds.

    ``program``: the key names code that is run; only the command line may set it, not a file of a folder.
    ``"import path"``: only if its value is one (:mod:`ptycho.config.own_code`).
    """
    extra: Any = {"unit": unit, "allowed": allowed, "program": program, "level": level}
    source = {"default_factory": default} if callable(default) else {"default": default}
    return Field(**source, description=text, json_schema_extra=extra, **bounds)


def level_of(field: FieldInfo) -> int:
    """Return the place of a key's level in :data:`LEVELS`."""
    return LEVELS.index(cast(dict[str, Any], field.json_schema_extra)["level"])


@dataclass_transform(frozen_default=True)
def settings(section: str = "", *, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a class a frozen dataclass that checks itself; ``section`` is where its keys stand."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = pydantic.dataclasses.dataclass(cls, frozen=True, kw_only=kw_only, config=STRICT)
        build = made.__init__

        @functools.wraps(build)
        def __init__(self: Any, *args: Any, **values: Any) -> None:
            if kw_only and args:
                raise TypeError(f"{type(self).__name__} takes keys by name alone")
            try:
                build(self, *args, **values)
            except pydantic.ValidationError as error:
                raise ConfigError(explain(error, type(self), values)) from None

        made.__init__, made.SECTION = __init__, section
        return made

    return decorate
