"""The most likely object of a scan that is too large for one fit: block by block, under one beam.

1. The positions are halved again and again until a block has few enough patterns. Its own patterns are those
   in its part of the scan; the patterns *around* it, half a probe away at most, are fitted with them, since
   they illuminate what is its own, too.
2. Every block is fitted alone. Each then has a phase (and, where the flux is refined, a scale) that no
   pattern determines, so they are brought together: with C_ab = Σ L_a L_b O_a conj(O_b) where two blocks
   overlap, the phases are those of the leading eigenvector of C (Singer, Appl. Comput. Harmon. Anal. 30
   (2011) 20), the logarithms of the scales the least-squares solution of the overlaps' ratios.
3. The blocks are joined by their illumination: ``O = Σ_b L_b² O_b / Σ_b L_b²``, ``L = Σ_j Σ_m |c_j P_m|²``.
4. A few steps of the whole object find what varies slowly from block to block, unless it is too large.
5. Every block goes on from the joined object, and they are joined again (restricted additive Schwarz; for
   ptychography: Nashed et al., Opt. Express 22 (2014) 32082).

What a block gives depends on nothing but its task, so that blocks may be fitted in any order, at once, by
other processes, or by a run before that was stopped; the sums are taken in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ptycho.config.memory import block_patterns
from ptycho.progress import Advance, silent
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.scan_likelihood import Cache, ScanLikelihood
from ptycho.reconstruction.solver import (
    OBJECT_ALONE,
    Fit,
    Objective,
    digest_of,
    fit,
    fit_from_constant,
    fit_learned,
)
from ptycho.scan.coarser import Coarser, coarser
from ptycho.scan.dataset import MARGIN, Dataset
from ptycho.scan.groups import halved
from ptycho.scan.patterns import MiddleRows
from ptycho.scan.probe import energy_diameter
from ptycho.scan.ramp import phase_ramp, phase_slope

Window = tuple[slice, slice]  # rows and columns


class Block(NamedTuple):
    """A part of a scan."""

    patterns: np.ndarray  # indices ``(n,)`` of those that are fitted
    own: np.ndarray  # ``(n,)`` bool, those in its part; the others lie around it
    # corner, shape: the window of the object which they illuminate
    corner: tuple[int, int]
    shape: tuple[int, int]

    @property
    def window(self) -> Window:
        """(rows, columns) of the object that the block covers."""
        (row, column), (height, width) = self.corner, self.shape
        return slice(row, row + height), slice(column, column + width)


def divide(estimate: Estimate, most: int) -> list[Block]:
    """Return the blocks of a scan, each with at most ``most`` patterns of its own."""
    count = len(estimate.positions)
    parts = halved(estimate.positions, np.arange(count), -(-count // most))
    return [block_of(estimate, part, energy_diameter(estimate.modes) / 2) for part in parts]


def block_of(estimate: Estimate, part: np.ndarray, reach: float = 0.0) -> Block:
    """Return the block of ``part (n,)``, indices of patterns, with those around it up to a ``reach`` away."""
    positions, N = estimate.positions, estimate.modes.shape[-1]
    low, high = positions[part].min(axis=0) - reach, positions[part].max(axis=0) + reach
    near = ((positions >= low) & (positions <= high)).all(axis=1)
    inside = np.flatnonzero(near) if reach else np.sort(part)
    corner = np.maximum(np.floor(positions[inside].min(axis=0)).astype(int) - MARGIN, 0)
    end = np.ceil(positions[inside].max(axis=0)).astype(int) + N + MARGIN
    size = np.minimum(end, estimate.object.shape) - corner
    return Block(inside, np.isin(inside, part), tuple(corner.tolist()), tuple(size.tolist()))


def cut(estimate: Estimate, block: Block) -> Estimate:
    """Return the part of an estimate that belongs to a block."""
    inside, image = estimate.at(block.patterns), np.ascontiguousarray(estimate.object[(..., *block.window)])
    return replace(inside, object=image, positions=inside.positions - np.array(block.corner, float))


def patterns_of(likelihood: ScanLikelihood, block: Block) -> ScanLikelihood:
    """Return the likelihood of a block's patterns, which are read when they are first needed."""
    assert likelihood.instead is None
    part = likelihood.data.subset(block.patterns, 1).on_window(np.array(block.corner), max(block.shape))
    likelihood = replace(likelihood, data=part)
    return likelihood if likelihood.keeps else likelihood.in_memory()


class Stage(NamedTuple):
    """A step of every block, after which the blocks are joined."""

    name: str  # of the step
    # ``(objective, start, refine, steps) → Fit`` of a block
    fit: Callable[[Objective, Estimate, Refine, int], Fit]
    alone: bool = False  # the blocks do not know each other yet: their phases must be brought together
    whole: bool = False  # it is of the whole scan at once, if that can be held


def begin(objective: Objective, start: Estimate, refine: Refine, steps: int, projected: bool = False) -> Fit:
    """Fit the object from a constant or by the ``projected`` start, then with what else is refined."""
    steps = min(steps, objective.options.block_steps)
    fitted = fit_from_constant(objective, start, steps, projected)
    if refine == OBJECT_ALONE:
        return fitted
    return fit(objective, fitted.estimate, refine, steps, objective.options.preliminary)


def level(objective: Objective, start: Estimate, refine: Refine, steps: int) -> Fit:
    """Fit phases that vary slowly from block to block, which no block determines: a few steps of all."""
    return fit(objective, start, OBJECT_ALONE, min(steps, objective.options.level_steps), 0.0)


def finish(objective: Objective, start: Estimate, refine: Refine, steps: int) -> Fit:
    """Fit from the joined object until steps gain little, then near the output of a network."""
    fitted = fit(objective, start, refine, steps, objective.options.preliminary)
    if objective.learned is None:
        return fitted
    last = fit_learned(objective, fitted.estimate, 1, steps=objective.options.short_steps)
    return replace(last, evaluations=fitted.evaluations + last.evaluations, converged=fitted.converged)


def go_on(objective: Objective, start: Estimate, refine: Refine, steps: int) -> Fit:
    """Fit a few steps more, from a fit that has ended, of patterns most of which it was fitted to."""
    if objective.learned is not None:
        return fit_learned(objective, start, 1, steps=objective.options.short_steps)
    return fit(objective, start, refine, min(steps, objective.options.short_steps))


TO_THE_END = (Stage("level", level, whole=True), Stage("end", finish))
FROM_NOTHING = (Stage("begin", begin, True), *TO_THE_END)
FROM_DIFFERENCE_MAP = (Stage("difference map", partial(begin, projected=True), True), *TO_THE_END)
ONCE_MORE = (Stage("once more", go_on),)


@dataclass(frozen=True, eq=False)
class Task:
    """Arguments of the fit of a block, :attr:`Stage.fit`."""

    fit: Callable[[Objective, Estimate, Refine, int], Fit]
    objective: Objective
    start: Estimate
    refine: Refine
    steps: int

    def in_memory(self) -> Task:
        """Return the same task with its patterns read, to be sent to another process."""
        likelihood = self.objective.likelihood.in_memory()
        return replace(self, objective=replace(self.objective, likelihood=likelihood))


def solve_task(task: Task, advance: Advance = silent) -> Fit:
    """Return the fit of a block; ``advance`` is called with a number of patterns after each chunk of them."""
    objective = replace(task.objective, likelihood=replace(task.objective.likelihood, advance=advance))
    return task.fit(objective, task.start, task.refine, task.steps)


Executor = Callable[[Sequence[Callable[[], Task]], Advance], Iterator[Fit]]
"""Runner of fits of blocks, which yields the fits in the order of the tasks."""


def serial(tasks: Sequence[Callable[[], Task]], advance: Advance) -> Iterator[Fit]:
    """Fit blocks in this process, one after the other."""
    return (solve_task(make(), advance) for make in tasks)


@dataclass(frozen=True, eq=False)
class Blockwise:
    """Settings of a fit in blocks."""

    patterns: int | None = None  # of a block, at most; None: :func:`~ptycho.config.memory.block_patterns`
    executor: Executor = serial  # how blocks are fitted: one after the other, or by several processes
    cache: Cache | None = None  # where fits are kept
    whole_pixels: int = 3_000_000  # of an object whose vectors are held at once, at most

    def most(self, N: int) -> int:
        """Return how many patterns of N × N pixels a block has at most."""
        return block_patterns(N) if self.patterns is None else self.patterns

    def divides(self, data: Dataset) -> bool:
        """Return whether the patterns of a scan are more than a block's."""
        return len(data.positions) > self.most(data.N)


def fit_in_blocks(
    objective: Objective,
    start: Estimate,
    refine: Refine,
    steps: int,
    blockwise: Blockwise,
    stages: Sequence[Stage] = FROM_NOTHING,
    advance: Advance = silent,
) -> Fit:
    """Fit object, positions, flux and OPR weights of a scan, block by block; what all patterns share stays.

    The course has the sum of the blocks' objectives after each stage. What belongs to all of a scan is not
    refined, nor is an affine map of all positions. ``advance`` is called with a number of patterns, each as
    often as it was used.
    """
    positions = refine.positions and objective.moves != "affine"
    own = replace(refine, probe=False, background=False, point_spread=False, positions=positions)
    objective = replace(objective, moves="independent", weight_waves=None)
    estimate, course, evaluations, converged = start, list[float](), 0, True
    for stage in stages:
        if stage.whole:
            if estimate.object.size <= blockwise.whole_pixels:
                levelled = stage.fit(objective, estimate, own, steps)
                estimate, evaluations = levelled.estimate, evaluations + levelled.evaluations
            continue
        blocks = divide(estimate, blockwise.most(objective.likelihood.data.N))
        fits = list(_fits(objective, estimate, own, steps, stage, blocks, blockwise, advance))
        scale = _together(fits, blocks, own.flux) if stage.alone else np.ones(len(blocks), np.complex64)
        estimate = _joined(estimate, fits, blocks, scale)
        course.append(sum(fitted.course[-1] for fitted in fits))
        converged = stage.alone or all(fitted.converged for fitted in fits)
        evaluations += max(fitted.evaluations for fitted in fits)
    return Fit(estimate, course, evaluations, converged)


def _fits(
    objective: Objective,
    estimate: Estimate,
    refine: Refine,
    steps: int,
    stage: Stage,
    blocks: Sequence[Block],
    blockwise: Blockwise,
    advance: Advance,
) -> Iterator[Fit]:
    """The fits of all blocks in order, of those that are not on the cache by the executor."""

    def make(block: Block) -> Task:
        likelihood = replace(patterns_of(objective.likelihood, block), advance=silent, cache=None)
        return Task(stage.fit, replace(objective, likelihood=likelihood), cut(estimate, block), refine, steps)

    def name_of(number: int, block: Block) -> str:
        return f"{stage.name}-{number:04d}-{digest_of_task(make(block))}"

    cache = blockwise.cache
    names = ["" if cache is None else name_of(number, block) for number, block in enumerate(blocks)]
    kept = [None if cache is None else cache.get(name) for name in names]
    missing = [partial(make, block) for block, fit in zip(blocks, kept, strict=True) if fit is None]
    new = blockwise.executor(missing, advance)
    for name, known in zip(names, kept, strict=True):
        fitted = next(new) if known is None else Fit.of(known)
        if known is None and cache is not None:
            cache.put(name, fitted.arrays())
        yield fitted


def digest_of_task(task: Task) -> str:
    """Return what the fit of a block is known by."""
    learned = task.objective.learned
    networks = () if learned is None else (learned.strength, learned.network)
    projected = getattr(task.fit, "keywords", {}).get("projected")
    return digest_of(task.objective, task.start, task.refine, task.steps, *networks, projected)


def _together(fits: Sequence[Fit], blocks: Sequence[Block], scaled: bool) -> np.ndarray:
    """Complex factors ``(B,)`` of the blocks' objects with which they agree best where they overlap."""
    count = len(blocks)
    illuminations = [object_illumination(fitted.estimate) for fitted in fits]
    products = np.eye(count, dtype=complex)
    ratios, weights = np.zeros((count, count)), np.zeros((count, count))
    for a in range(count):
        for b in range(a + 1, count):
            shared = _overlap(blocks[a], blocks[b])
            if shared is None:
                continue
            here, there = shared
            illumination = np.sqrt(illuminations[a][here].astype(float) * illuminations[b][there])
            one, two = fits[a].estimate.object[here], fits[b].estimate.object[there]
            powers = [float(np.sum(illumination * np.abs(image) ** 2)) for image in (one, two)]
            product = np.sum(illumination * one * two.conj())
            if min(powers) <= 0 or not product:
                continue
            products[a, b] = product / np.sqrt(powers[0] * powers[1])
            products[b, a] = products[a, b].conj()
            ratios[a, b], ratios[b, a] = np.array([1, -1]) * np.log(powers[0] / powers[1]) / 2
            weights[a, b] = weights[b, a] = illumination.sum()
    vector = np.linalg.eigh(products)[1][:, -1]
    phases = np.exp(-1j * np.angle(vector * np.conj(vector[0])))
    logs = np.zeros(count)
    if scaled:  # x with x_a − x_b nearest to the ratios, and a mean of zero
        laplacian = np.diag(weights.sum(axis=1)) - weights
        logs = np.linalg.lstsq(laplacian, (weights * ratios).sum(axis=1), rcond=None)[0]
        logs = logs - logs.mean()
    return (phases * np.exp(-logs)).astype(np.complex64)


def _overlap(one: Block, two: Block) -> tuple[Window, Window] | None:
    """The part of the object that two windows share, in either's own pixels; None: they share nothing."""
    low = np.maximum(one.corner, two.corner)
    high = np.minimum(np.add(one.corner, one.shape), np.add(two.corner, two.shape))
    if (high <= low).any():
        return None
    (top, left), (bottom, right) = low.tolist(), high.tolist()

    def inside(block: Block) -> Window:
        row, column = block.corner
        return slice(top - row, bottom - row), slice(left - column, right - column)

    return inside(one), inside(two)


def _joined(estimate: Estimate, fits: Sequence[Fit], blocks: Sequence[Block], scale: np.ndarray) -> Estimate:
    """The blocks' objects weighted by their illumination, and of each its own positions and flux."""
    total, weight = np.zeros_like(estimate.object), np.zeros(estimate.object.shape, np.float32)
    positions, flux = estimate.positions.copy(), estimate.flux.copy()
    weights = estimate.opr_weights.copy()
    for fitted, block, factor in zip(fits, blocks, scale, strict=True):
        illumination = object_illumination(fitted.estimate)
        illumination = np.square(illumination / max(illumination.max(), 1e-30)) + np.float32(1e-12)
        total[block.window] += illumination * factor * fitted.estimate.object
        weight[block.window] += illumination
        mine = block.patterns[block.own]
        positions[mine] = fitted.estimate.positions[block.own] + np.array(block.corner, float)
        flux[mine] = fitted.estimate.flux[block.own] / abs(factor)
        weights[mine] = fitted.estimate.opr_weights[block.own]
    image = np.divide(total, weight, out=estimate.object.copy(), where=weight > 0).astype(np.complex64)
    return replace(estimate, object=image, positions=positions, flux=flux, opr_weights=weights)


def multiresolution_start(
    objective: Objective, start: Estimate, steps: int, blockwise: Blockwise | None = None
) -> Estimate | None:
    """Return an estimate with the object of the middle of the patterns, from a constant; the beam stays.

    Most steps of a large pattern are spent on low frequencies, so they come first. None: patterns cannot be
    downsampled; see :func:`~ptycho.scan.coarser.coarser`.
    """
    view = coarser(objective.likelihood.data)
    if view is None:
        return None
    likelihood, good = objective.likelihood, view.data.good
    assert good is not None
    other = None if likelihood.instead is None else MiddleRows(likelihood.instead[:], good)
    likelihood = replace(likelihood, data=view.data, instead=other, advance=silent)
    there, objective = estimate_of(view, start), Objective(likelihood, objective.prior)
    if blockwise is not None and blockwise.divides(view.data):
        fitted = fit_in_blocks(objective, there, OBJECT_ALONE, steps, blockwise, FROM_NOTHING)
    else:
        fitted = fit(objective, there, OBJECT_ALONE, steps, objective.options.preliminary)
    return replace(start, object=view.finer_object(fitted.estimate.object))


def estimate_of(view: Coarser, fine: Estimate) -> Estimate:
    """Return a flat object with the phase ramp of a finer one, under the beam of the finer estimate."""
    slope = phase_slope(fine.object, np.abs(fine.object))
    return Estimate(
        phase_ramp(view.data.object_size, slope / view.ratio),
        view.modes(fine.modes),
        fine.positions * view.ratio,
        fine.flux,
        view.background(fine.background),
        point_spread=fine.point_spread,
    )
