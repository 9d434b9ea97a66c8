"""What a prior is learned from: fits of simulated scans, what their patterns still ask for, and the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptycho.evaluation.metrics import align
from ptycho.files.atomic import write_atomically
from ptycho.reconstruction.learned import LEAST, Learned, view
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit, fit_learned
from ptycho.reconstruction.state import State
from ptycho.simulation.prior_scans import PriorScans

STRENGTHS = (0.0, 3.0, 10.0, 30.0)  # λ of the prior that keeps edges
STEPS = (15, 150)  # of a fit, by their logarithm
PULLS = (1.0, 16.0)  # κ of a learned prior, by its logarithm


@dataclass(frozen=True, eq=False)
class Example:
    """A fit and its truth, where the object is lit; one of :class:`~ptycho.reconstruction.learned.View`.

    Attributes:
        inputs: x ``(H, W, 4)`` float32.
        relative: ν ``(H, W, 1)`` float32.
        change: truth less object in units of the noise, real and imaginary part, ``(H, W, 2)`` float32.
        light: of the strongest ``(H, W, 1)`` float32, zero where too little falls.
    """

    inputs: np.ndarray
    relative: np.ndarray
    change: np.ndarray
    light: np.ndarray

    def save(self, path: Path) -> None:
        write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **vars(self)))

    @classmethod
    def load(cls, path: Path) -> Example:
        with np.load(path, allow_pickle=False) as stored:
            return cls(**stored)


def make_example(scans: PriorScans, number: int, learned: Learned | None = None) -> Example:
    """The fit of a scan: by a classical prior of random strength, or from that by one that is being learned.

    ``learned``: its network, whose strength is drawn.
    """
    drawn, rng = scans.draw(number), np.random.default_rng([scans.config.seed, number, 1])
    data = drawn.told
    likelihood = ScanLikelihood(data, data.normalisation, compile_xla=scans.config.xla.compile)
    start = State.of(data, np.ones((data.object_size,) * 2))
    strength, steps = rng.choice(STRENGTHS), int(np.exp(rng.uniform(*np.log(STEPS))))
    terms = Terms(likelihood, Prior("edge_preserving", float(strength)))
    state = fit(terms, start, OBJECT_ALONE, steps).state
    if learned is not None:
        pull = Learned(learned.network, float(np.exp(rng.uniform(*np.log(PULLS)))))
        state = fit_learned(terms, state, pull, rounds=int(rng.integers(1, 3))).state
    return _compared(likelihood, state, drawn.truth, drawn.exact)


def _compared(likelihood: ScanLikelihood, state: State, truth: np.ndarray, exact: bool) -> Example:
    """What a network is shown of a state, beside the truth in its phase.

    A wrong beam makes a phase plane and a scale of its own, which no prior can know.
    """
    seen = view(likelihood, state)
    lit = seen.light > LEAST
    if exact:
        along = np.vdot(np.where(lit, truth, 0), state.object)
        there = truth * (along / abs(along))
    else:
        there = align(truth, state.object, lit).object
    height, width, _ = seen.inputs.shape
    pad = [(0, n - part) for n, part in zip((height, width), there[seen.box].shape, strict=True)]
    light = np.pad(np.where(lit, seen.light, 0)[seen.box], pad)
    change = np.pad(((there - state.object) / seen.noise)[seen.box], pad)
    pair = np.stack([change.real, change.imag], axis=-1).astype(np.float32)
    return Example(seen.inputs, seen.relative, pair, light[..., None].astype(np.float32))
