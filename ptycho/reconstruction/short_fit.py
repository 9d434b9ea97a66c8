"""Some neighbouring patterns in the middle of a scan, and a few steps of the solver on them: one trial.

The object takes some steps alone before a probe is free with it, which would otherwise learn to explain that
there is no object. A weak prior keeps few photons from being explained by noise in the object.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.refinement import likelihood_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.reconstruction.state import Freedom, State
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import smallest_region
from ptycho.scan.optics import seen_power
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import energy_diameter

PRIOR = Prior("quadratic", 10.0)  # measured; without it, probes of below 3000 photons are missed
SPACING = 0.1  # of the probe's diameter: of two patterns nearer to each other one is left out


def fit_shortly(data: Dataset, alone: int, together: int) -> tuple[np.ndarray, Dataset]:
    """An object ``(1, M, M)`` complex64 after some steps of the solver, and the data with the probe then.

    It begins as a constant; see :func:`constant_object`.

    Args:
        data: a scan of one object.
        alone: steps of :func:`ptycho.reconstruction.solver.fit` that find the object.
        together: further steps, that find object and probe; 0: the probe stays as it is.
    """
    terms = Terms(likelihood_of(data), PRIOR)
    state = fit(terms, constant_object(data, data.object_size), OBJECT_ALONE, alone).state
    if not together:
        return state.object[None], data
    state = fit(terms, state, Freedom(), together).state
    return state.object[None], data.under(state.beam(data.photon_scale, data.normalisation))


def constant_object(data: Dataset, side: int) -> State:
    """An object of ``(side, side)`` equal pixels, under which the patterns' mean energy is expected."""
    bright = data.N / 2 / np.sqrt(seen_power(data.model_probe, data.fresnel, data.good))
    return State.of(data, np.full((side, side), bright))


def middle(data: Dataset, count: int) -> Dataset:
    """Some neighbouring patterns in the middle of a scan, on an object as small as they need.

    They are the nearest ones to the pattern that is nearest to the middle; where they lie denser than
    ``SPACING`` of the probe's diameter, some between them are left out.
    """
    off_middle = np.linalg.norm(data.positions - np.median(data.positions, axis=0), axis=1)
    centre = int(np.argmin(off_middle))
    mine = np.flatnonzero(data.image == data.image[centre])
    distance = np.linalg.norm(data.positions[mine] - data.positions[centre], axis=1)
    mine = mine[np.argsort(distance, kind="stable")]
    apart = _apart(data.positions[mine], SPACING * energy_diameter(data.probe), count)
    chosen = mine[np.concatenate([apart, np.setdiff1d(np.arange(len(mine)), apart)])[:count]]
    return place_anew(data, data.amplitudes[chosen], data.positions[chosen], data.good)


def _apart(positions: np.ndarray, spacing: float, count: int) -> np.ndarray:
    """Indices of at most ``count`` positions ``(K, 2)``, from the first on, none nearer to another than
    ``spacing``."""
    kept = [0]
    for k in range(1, len(positions)):
        if len(kept) == count:
            break
        if np.linalg.norm(positions[kept] - positions[k], axis=1).min() >= spacing:
            kept.append(k)
    return np.array(kept)


def place_anew(
    data: Dataset, amplitudes: np.ndarray, positions: np.ndarray, good: np.ndarray | None
) -> Dataset:
    """A dataset of one object with other patterns ``(K, N, N)`` at positions ``(K, 2)`` of any origin."""
    corners = positions - np.floor(positions.min(axis=0)) + 1
    groups = np.arange(len(corners), dtype=np.int32)[:, None]
    return replace(
        data,
        amplitudes=Patterns(np.ascontiguousarray(amplitudes)),
        beam=Beam(data.probe, corners.astype(np.float32), background=data.beam.background),
        image=np.zeros(len(corners), np.int32),
        groups=groups,
        object_size=data.N + int(np.ceil(corners.max())) + 1,
        region_size=smallest_region(corners, groups, data.N),
        objects=None,
        neighbours=None,
        stated_tiling=None,
        good=good,
        exact=bool(np.any(corners != np.round(corners))),
    )
