"""The patterns of a scan together, once all have come: what no part of it tells is found.

The object alone (phases that vary slowly over the scan), then what else is free, then the object near what a
network takes it for; of each the share of the time that is left for it. A stage after the first is kept where
the patterns that are never fitted are explained better. A scan that is too large to be held goes on in parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ptycho.config.memory import BLOCK_PIXELS
from ptycho.live.beginning import Beginning
from ptycho.live.growing import Growing, Read, filled, improve, sound_judges
from ptycho.reconstruction.holdout import HoldOut
from ptycho.reconstruction.learned import Learned, StoredNetwork
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.solver import ENOUGH, OBJECT_ALONE, Terms, fit, fit_learned, normalise
from ptycho.reconstruction.state import Freedom, State

PART_S, CYCLE_S = 5.0, 2.0  # between two pictures, and of a cycle, of a scan that goes on in parts
PRIOR, TRUST = Prior("edge_preserving", 10.0), 2.0  # λ and κ that are mostly chosen for counted photons
MOST_STEPS = 400  # of a stage
STILL = 0.1  # pixels; noise alone moves positions by less
Watch = Callable[[State, float], object]
Stage = Callable[[State, Watch], State]


class Over(Exception):
    """The time of a stage is over."""


@dataclass(frozen=True, eq=False)
class Whole:
    """All fitted patterns of a scan, on a square object.

    Attributes:
        terms: their likelihood, and the prior.
        state: where they stand; ``fitted``: their indices.
        judge: by the patterns that are never fitted; None: there are too few.
    """

    terms: Terms
    state: State
    fitted: np.ndarray
    judge: HoldOut | None

    def score(self, state: State, free: Freedom) -> float:
        """Mean deviance of what is never fitted; 0: nobody judges."""
        return 0.0 if self.judge is None else float(self.judge.score(state, free).mean())


def finish(
    grown: Growing, begun: Beginning, read: Read, free: Freedom, seconds: float, speed: float
) -> Iterator[Growing]:
    """What the patterns lead to, after every stage, in about so many seconds.

    Args:
        free: what may be found.
        speed: pattern-steps in a second, of a scan that goes on in parts.
    """
    fitted = np.flatnonzero(~grown.judges)
    if len(fitted) * begun.N**2 > BLOCK_PIXELS:
        yield from _in_parts(grown, begun, read, free, seconds, speed)
        return
    whole = _together(grown, begun, read, fitted)
    free = replace(free, positions=free.positions and not stay(grown))
    state, until, left = whole.state, time.monotonic() + seconds, 1.0
    best = np.inf  # the first stage is kept whatever it leads to
    for share, wanted, stage in _stages(whole.terms, free):
        limit = time.monotonic() + (until - time.monotonic()) * share / left
        left -= share
        found = within(limit, stage, state, wanted)
        score = whole.score(found, wanted)
        if score <= best:
            state, best = found, score
            yield _placed(grown, state, whole.fitted)


def stay(grown: Growing) -> bool:
    """Whether positions were free while the object grew, and hardly moved: then they are as they are told."""
    moves = np.linalg.norm(grown.positions - grown.told, axis=1)
    moved = moves[moves > 0]
    return len(moved) > len(moves) / 2 and float(np.median(moved)) < STILL


def within(limit: float, stage: Stage, start: State, free: Freedom) -> State:
    """Where a stage is at a moment, or at its end if that comes before."""
    reached = start

    def watch(state: State, value: float) -> None:
        nonlocal reached
        reached = state
        if time.monotonic() > limit:
            raise Over

    try:
        return stage(start, watch)
    except Over:
        power = float(np.sum(np.abs(start.modes) ** 2, dtype=float))
        return normalise(reached, power, free)


def _stages(terms: Terms, free: Freedom) -> Iterator[tuple[float, Freedom, Stage]]:
    """Share of the time, what is free, and the fit; the shares of all add up to one."""
    stages: list[tuple[float, Freedom, Stage]] = [(0.4, OBJECT_ALONE, _plain(terms, OBJECT_ALONE))]
    if free.probe:
        stages.append((0.2, Freedom(True), _plain(terms, Freedom(True))))
    if free.positions:
        wanted = Freedom(free.probe, True)
        stages.append((0.1, wanted, _plain(terms, wanted)))

    def learned(state: State, watch: Watch) -> State:
        return fit_learned(terms, state, Learned(StoredNetwork(), TRUST), 1, watch, MOST_STEPS).state

    stages.append((0.3, OBJECT_ALONE, learned))
    total = sum(share for share, _, _ in stages)
    return ((share / total, wanted, stage) for share, wanted, stage in stages)


def _plain(terms: Terms, wanted: Freedom) -> Stage:
    return lambda state, watch: fit(terms, state, wanted, MOST_STEPS, ENOUGH, watch).state


def _together(grown: Growing, begun: Beginning, read: Read, fitted: np.ndarray) -> Whole:
    side = max(grown.object.shape)
    image = np.pad(
        filled(grown.object, grown.light, begun.N), [(0, side - n) for n in grown.object.shape], mode="edge"
    )
    background = np.zeros((begun.N, begun.N), np.float32)

    def at(chosen: np.ndarray, places: np.ndarray) -> tuple[Terms, State]:
        amplitudes, there = read(grown.rows[chosen]), places[chosen] - grown.origin
        likelihood = begun.likelihood_of(amplitudes, there, side)
        flux = np.ones(len(chosen), np.float32)
        return Terms(likelihood, PRIOR, "independent", begun.lit), State(
            image, grown.modes, there, flux, background
        )

    fitted = fitted[np.isfinite(read(grown.rows[fitted])).all(axis=(1, 2))]
    terms, state = at(fitted, grown.positions)
    judges = sound_judges(grown, read)
    judge = HoldOut(at(judges, grown.told)[0].likelihood) if len(judges) else None
    return Whole(terms, state, fitted, judge)


def _placed(grown: Growing, state: State, fitted: np.ndarray) -> Growing:
    height, width = grown.object.shape
    positions = grown.positions.copy()
    positions[fitted] = state.positions + grown.origin
    return replace(grown, object=state.object[:height, :width], modes=state.modes, positions=positions)


def _in_parts(
    grown: Growing, begun: Beginning, read: Read, free: Freedom, seconds: float, speed: float
) -> Iterator[Growing]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        picture = min(until, time.monotonic() + PART_S)
        while time.monotonic() < picture:
            grown = improve(grown, begun, read, free, CYCLE_S * speed)
        yield grown
