"""Kinds of things that are drawn at random: a function each, and the parameters that it takes.

A table of kinds lists what can be drawn; a distribution (``conf/network/group.yaml``) gives the frequency of
each kind, and the part of the allowed range from which its parameters are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ptycho.config import check
from ptycho_pretrain.config import FormConfig


class Parameter(NamedTuple):
    """The range of a number, ``low`` to ``high``; ``log``: its logarithm is drawn evenly."""

    low: float
    high: float
    log: bool = False


class Kind(NamedTuple):
    """Kind of a random array: ``draw(side, rng, **parameters)`` → an array ``(side, side)``."""

    draw: Callable[..., np.ndarray]
    parameters: Mapping[str, Parameter]

    def sample(
        self, side: int, ranges: Mapping[str, Sequence[float]], rng: np.random.Generator
    ) -> np.ndarray:
        """Draw an array ``(side, side)`` with random parameters; see :func:`draw_values`."""
        return self.draw(side, rng, **draw_values(self, ranges, rng))


class Entry(NamedTuple):
    """A kind in a distribution: its name, its share, and narrower ranges of some parameters."""

    kind: str
    weight: float
    ranges: Mapping[str, tuple[float, float]]


W = TypeVar("W", bound=Entry | FormConfig)


def draw_values(
    kind: Kind, ranges: Mapping[str, Sequence[float]], rng: np.random.Generator
) -> dict[str, float]:
    """Draw a value for each parameter of a kind, from ``ranges`` or else from all that is allowed."""
    return {
        name: draw_value(parameter._replace(low=low, high=high), rng)
        for name, parameter in kind.parameters.items()
        for low, high in [ranges.get(name, parameter[:2])]
    }


def draw_value(parameter: Parameter, rng: np.random.Generator) -> float:
    """Draw a number of a parameter's range."""
    if parameter.log:
        return math.exp(rng.uniform(math.log(parameter.low), math.log(parameter.high)))
    return float(rng.uniform(parameter.low, parameter.high))


def read_entries(
    table: Mapping[str, Kind], values: Mapping[str, Mapping[str, object]], key: str
) -> list[Entry]:
    """Read the entries of a distribution, ``kind: {weight: w, parameter: [low, high]}``.

    Raises:
        ConfigError: a kind or a parameter that there is not, or a range that is not within what is allowed.
    """
    check(len(values) > 0, key, "{}", f"at least one of {', '.join(table)}")
    entries = []
    for name, value in values.items():
        section = value is None or isinstance(value, Mapping)
        check(section, f"{key}.{name}", value, "a section: {weight: 1, parameter: [low, high]}")
        entries.append(_read_entry(table, name, dict(value or {}), f"{key}.{name}"))
    return entries


def _read_entry(table: Mapping[str, Kind], name: str, value: dict[str, object], where: str) -> Entry:
    check(name in table, where, "", f"one of {', '.join(table)}")
    weight = value.pop("weight", 1.0)
    positive = isinstance(weight, int | float) and 0 < weight < math.inf
    check(positive, f"{where}.weight", weight, "a number > 0")
    allowed, ranges = table[name].parameters, {}
    for parameter, given in value.items():
        known = ", ".join(("weight", *allowed))
        check(parameter in allowed, f"{where}.{parameter}", given, f"removed; known are {known}")
        low, high = allowed[parameter][:2]
        listed = given if isinstance(given, list | tuple) else []
        numbers = [float(x) for x in listed if isinstance(x, int | float)]
        inside = len(numbers) == len(listed) == 2 and low <= numbers[0] <= numbers[1] <= high
        check(inside, f"{where}.{parameter}", given, f"[low, high] within [{low:g}, {high:g}]")
        ranges[parameter] = (numbers[0], numbers[1])
    return Entry(name, float(weight), ranges)  # type: ignore[arg-type]


def choose_entry(entries: Sequence[W], rng: np.random.Generator) -> W:
    """Return one of the entries, by their weights."""
    weights = np.array([entry.weight for entry in entries])
    return entries[rng.choice(len(entries), p=weights / weights.sum())]


def rotation(angle: float) -> np.ndarray:
    """Return the matrix ``(2, 2)`` that turns by an angle in rad."""
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
