"""Minimisation by limited-memory BFGS: curvature from the last steps, one evaluation a step in the rule.

    x ← x − t B g,   B the BFGS matrix of the last pairs s = Δx, y = Δg (two-loop recursion)

t begins at 1 and is changed until Wolfe's weak conditions hold: enough decrease, and a slope that has risen.
Sources: Nocedal & Wright, Numerical Optimization, algorithms 7.4 and 7.5; Lewis & Overton, Math. Program. 141
(2013) 135, for the search between two lengths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
Operator = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SearchOptions:
    """Number of steps that are remembered, and limits of the accepted step length."""

    memory: int = 12  # pairs of steps
    decrease: float = 1e-4  # c₁ of Wolfe's conditions
    rise: float = 0.9  # c₂
    tries: int = 10  # lengths of one step
    precision: float = 3e-7  # of the value: a smaller increase is rounding
    # steps with one factor of ``scale``: more than one, where it is costly and near the inverse curvature
    same_factor: int = 1


SEARCH = SearchOptions()


class Point(NamedTuple):
    """Result of a step: ``x (n,)``, the value there, its gradient ``(n,)``, how often both were computed."""

    x: np.ndarray
    value: float
    gradient: np.ndarray
    evaluations: int


def plain(q: np.ndarray) -> np.ndarray:
    """Return a vector ``(n,)`` as it is: no other scale of steps than that of the variables."""
    return q


def minimise(
    function: Function, start: np.ndarray, scale: Operator = plain, options: SearchOptions = SEARCH
) -> Iterator[Point]:
    """Yield ``start (n,)``, then the point after every step, without end; it ends where no step leads down.

    ``function``: ``x → (value, gradient)``, x real, in units in which a unit step of steepest descent is
    about right. ``scale``: a symmetric positive operator, about the inverse curvature up to a factor.
    """
    value, gradient = function(start)
    point = Point(start, value, gradient, 1)
    yield point
    pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=options.memory)
    vain = 0  # evaluations since the last point that led nowhere
    factor, age = 1.0, 0  # of ``scale``, and for how many steps
    while True:
        if not pairs:
            factor, age = 1.0, 0
        elif age < 2 or (age + 1) % options.same_factor == 0:  # + 1: the start is a point, too
            _, change, curvature = pairs[-1]
            factor = curvature / float(np.dot(change, scale(change)))
        direction, age = _direction(point.gradient, pairs, scale, factor), age + 1
        slope = float(np.dot(direction, point.gradient))
        if not slope < 0:
            if not pairs:
                return
            pairs.clear()
            continue
        after = _search(function, point, direction, slope, options)
        if after is None:
            if not pairs:
                return
            pairs.clear()
            vain += options.tries
            continue
        step, change = after.x - point.x, after.gradient - point.gradient
        curvature = float(np.dot(step, change))
        if curvature > 1e-10 * float(np.dot(change, change)):
            pairs.append((step, change, curvature))
        point, vain = after._replace(evaluations=after.evaluations + vain), 0
        yield point


def _direction(
    gradient: np.ndarray, pairs: deque[tuple[np.ndarray, np.ndarray, float]], scale: Operator, factor: float
) -> np.ndarray:
    """``−B g``; before the pairs, B is the ``factor`` times ``scale``."""
    q, weights = -gradient, []
    for step, change, curvature in reversed(pairs):
        weight = float(np.dot(step, q)) / curvature
        weights.append(weight)
        q = q - weight * change
    q = factor * scale(q)
    for (step, change, curvature), weight in zip(pairs, reversed(weights), strict=True):
        q += (weight - float(np.dot(change, q)) / curvature) * step
    return q


def _search(
    function: Function, point: Point, direction: np.ndarray, slope: float, options: SearchOptions
) -> Point | None:
    """Return a point along a direction at which Wolfe's weak conditions hold, or the lowest that was met."""
    low, high, length, best = 0.0, np.inf, 1.0, None
    for tries in range(1, options.tries + 1):
        x = point.x + np.float32(length) * direction
        value, gradient = function(x)
        limit = point.value + options.decrease * length * slope + options.precision * abs(point.value)
        if not np.isfinite(value) or value > limit:
            high = length
            bend = value - point.value - slope * length
            lowest = -slope * length**2 / (2 * bend) if np.isfinite(bend) and bend > 0 else 0.0
            length = float(np.clip(lowest, low + 0.1 * (high - low), low + 0.5 * (high - low)))
        elif float(np.dot(gradient, direction)) < options.rise * slope:
            low, best = length, Point(x, value, gradient, tries)
            length = 2 * low if np.isinf(high) else (low + high) / 2
        else:
            return Point(x, value, gradient, tries)
    return None if best is None else best._replace(evaluations=options.tries)
