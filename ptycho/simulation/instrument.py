"""The instrument of a run of grid lines: its true values, and those that the networks assume.

All roles have one detector, one source and one recorded probe; errors of positions and flux are drawn anew
for every image. See :mod:`ptycho.simulation.imperfections`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ptycho.config import ProbeConfig
from ptycho.config.imperfections import Imperfections
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import smallest_region
from ptycho.scan.probe import fresnel_number, make_probe
from ptycho.simulation.imperfections import (
    HOT,
    Detector,
    draw_faults,
    draw_flux,
    draw_gaps,
    incoherent_modes,
    misstate_probe,
    record_positions,
    stream,
)

ROLES = ("train", "val", "test")
STREAMS = ("object", "jitter", "noise", "draw", "elsewhere", "recorded")


def child_rng(seed: int, role: str, image: int, stream: str) -> np.random.Generator:
    """Return a generator of its own for every (seed, role, image, stream), independent of all others."""
    key = (ROLES.index(role), image, STREAMS.index(stream))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def true_modes(config: ProbeConfig, N: int, wrong: Imperfections) -> np.ndarray:
    """Return the incoherent modes of a probe, ``(K, N, N)`` complex64; together they have its power."""
    probe = make_probe(config, N)
    return incoherent_modes(probe.astype(complex), wrong.modes, wrong.coherence).astype(np.complex64)


def true_flux(rms: float, seed: int, role: str, image: np.ndarray) -> np.ndarray | None:
    """Return the flux of each pattern, one on average, ``(J,)``, of images ``image (J,)``; None: all one."""
    if not rms:
        return None
    flux = np.ones(len(image))
    for i in np.unique(image):
        mine = image == i
        flux[mine] = draw_flux(int(mine.sum()), rms, stream(_seed(seed, role, i), "flux"))
    return flux


def true_detector(
    N: int, bad: int, hot_pixels: int, wrong: Imperfections, seed: int, brightest: float
) -> Detector:
    """Return the detector; ``brightest`` is the largest expected count of the sample."""
    good, hot = draw_faults(N, bad, hot_pixels, stream(seed, "faults"))
    gap = draw_gaps(N, wrong.gap_rows, wrong.gap_columns, stream(seed, "gap"))
    glow = np.where(hot & gap, HOT * brightest, 0.0)
    return Detector(good & gap, glow, wrong.background, wrong.saturation)


def apply_beliefs(
    data: dict[str, Dataset],
    good: np.ndarray,
    wrong: Imperfections,
    probes: Mapping[str, ProbeConfig],
    seed: int,
) -> tuple[dict[str, Dataset], int]:
    """Return the datasets with the recorded probe and positions, and the pixels that are known to work.

    Where recorded positions leave the objects, these get a margin that is not illuminated. Fractions of a
    pixel move the probe then, so that nothing is interpolated.

    Args:
        data: by role, with the first mode of the true probe and the true positions.
        good: ``(N, N)`` bool.
        wrong: by what the records err.
        probes: by role; whether they have a focus decides how a record of them errs.
        seed: of the errors.

    Returns:
        The datasets, which share R and M, and the margin in pixels.
    """
    first = data[ROLES[0]]
    places = {role: _record_positions(wrong, seed, role, part) for role, part in data.items()}
    low, high = min(r.min() for r in places.values()), max(r.max() for r in places.values())
    margin = math.ceil(max(0.0, -low, high - (first.object_size - first.N)))
    places = {role: (r + margin).astype(np.float32) for role, r in places.items()}
    exact = any(np.any(r != np.round(r)) for r in places.values())
    side = first.region_size
    if exact:
        side = max(smallest_region(places[role], part.groups, part.N) for role, part in data.items())
    assumed = {}
    for role, part in data.items():
        pitch, top, left, height, width = part.tiling
        assert part.objects is not None  # they have just been made
        fresnel = fresnel_number(probes[role], part.N)
        probe = misstate_probe(part.probe[0], wrong, fresnel, seed).astype(np.complex64)
        assumed[role] = replace(
            part,
            beam=Beam(probe, places[role]),
            objects=np.pad(part.objects, [(0, 0), (margin, margin), (margin, margin)], mode="edge"),
            object_size=part.object_size + 2 * margin,
            region_size=side,
            stated_tiling=type(part.tiling)(pitch, top + margin, left + margin, height, width),
            good=None if good.all() else good,
            exact=exact,
        )
    return assumed, margin


def _record_positions(wrong: Imperfections, seed: int, role: str, data: Dataset) -> np.ndarray:
    """Return recorded positions ``(J, 2)`` float64."""
    positions = data.positions.astype(np.float64)
    for i in np.unique(data.image):
        mine = data.image == i
        positions[mine] = record_positions(positions[mine], wrong, 1, _seed(seed, role, i))
    return positions


def _seed(seed: int, role: str, image: int) -> int:
    """Return the seed of the imperfections of one image."""
    return int(child_rng(seed, role, int(image), "recorded").integers(2**32))
