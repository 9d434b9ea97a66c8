"""Stitched objects, corrected by the measured patterns; the probe and all else are known."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np

from ptycho.config import check
from ptycho.progress import Advance, Progress
from ptycho.reconstruction.joint import JointSolver
from ptycho.reconstruction.joint_state import State
from ptycho.scan.dataset import Dataset

log = logging.getLogger(__name__)

FAR = 10.0  # misfit; a pass above it is in BATCHES, each of which starts from the one before
BATCHES = 24
DAMPING = 0.1  # β of weakly lit pixels: a known probe can be trusted farther out
ORDER = 0  # seed of the order of the patterns in such a pass
SAMPLED = 12  # every so manieth pattern tells the misfit of the start


def refine(objects: np.ndarray, data: Dataset, passes: int) -> np.ndarray:
    """Objects that explain the measured patterns better: at most ``passes`` of the joint solver's passes, in
    which the object alone is free; see :mod:`ptycho.reconstruction.joint`.

    An object that is far from its patterns is corrected batch by batch, which is faster; one that is near
    them by all at once, since the last batch would leave the noise of its own patterns. An object is done
    early when it explains its patterns as well as photon noise lets the true one do, with the misfit

        Σ(n − λ)² ≤ Σ n

    for n photons counted where the object lets λ expect (one pass more finds out). Amplitudes that are not
    those of counts have no such level: all passes are done, of all patterns at once.
    Source: Morozov, Soviet Math. Dokl. 7 (1966) 414, for the end by the discrepancy.

    Args:
        objects: ``(I, M, M)`` complex64, in the units of the training data's objects.
        data: the patterns, in memory or in a file, their positions, and the probe.
        passes: number of passes at most, each of two transforms a pattern, or three where it moves the probe.

    Returns:
        ``(I, M, M)`` complex64; an object without patterns stays as it is.

    Raises:
        ConfigError: ``passes`` is less than one, or the objects are not those of the data.
    """
    check(passes >= 1, "passes", passes, "at least 1")
    shape = (data.n_images, data.object_size, data.object_size)
    check(objects.shape == shape, "shape of the objects", objects.shape, f"{shape}, as the data have it")
    refined = objects.astype(np.complex64)
    with closing(Progress("refinement", passes * len(data.amplitudes))) as progress:
        for i in np.unique(data.image):
            one = data if data.n_images == 1 else data.subset(np.flatnonzero(data.image == i), 1)
            refined[i], done = corrected(refined[i], one, passes, progress.advance)
            if done < passes:
                log.info(
                    "refinement: object %d is at the level of photon noise after %d of %d passes",
                    i,
                    done,
                    passes,
                )
    return refined


def corrected(
    start: np.ndarray, data: Dataset, passes: int, advance: Advance = lambda patterns: None
) -> tuple[np.ndarray, int]:
    """One object ``(M, M)`` after so many passes or fewer, and their number."""
    found = start
    for done, update in enumerate(itertools.islice(refinements(start, data, advance), passes)):
        if data.counts and update.exact and update.misfit <= 1:
            return found, done
        found = update.object
    return found, passes


class Update(NamedTuple):
    """A pass over the patterns of one object: the object after it, and the misfit ``Σ(n − λ)² / Σ n`` that it
    met, which is ``exact``ly that of the object before it if all patterns were used at once."""

    object: np.ndarray
    misfit: float
    exact: bool


def refinements(
    start: np.ndarray, data: Dataset, advance: Advance = lambda patterns: None
) -> Iterator[Update]:
    """The passes of :func:`refine` over the patterns of one object ``(M, M)``, without end."""
    solver = JointSolver(data, data, ORDER, compile_xla=False, damping=DAMPING, batches=BATCHES)
    state, rng = State.of(data, start), np.random.default_rng(ORDER)
    misfit = solver.misfit(state, np.arange(0, len(data.positions), SAMPLED)) if data.counts else 0.0
    while True:
        batches = BATCHES if misfit > FAR else 1
        state, misfit = solver.corrected(state, batches, rng, advance)
        yield Update(state.object, misfit, batches == 1)
