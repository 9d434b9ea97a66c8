"""A whole scan of one kind of object under one kind of probe, with its truth.

======== ==================================================================================================
``d``    diameter of the centred circle that holds 90 % of the probe's energy, pixels
``r_j``  positions of a path whose mean step is ``d·(1 − overlap)``; real numbers
``λ_j``  ``s² |F(P·O[r_j : r_j + N])|²``, ``⟨Σ λ⟩ = photons``; ``n_j ~ Poisson(λ_j)``
======== ==================================================================================================

Nothing is interpolated: fractions of a pixel move the probe. NumPy, SciPy and scikit-image alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import energy_diameter
from ptycho.simulation.measured_like import PATHS, MeasuredLike
from ptycho_pretrain.config import MaterialsConfig
from ptycho_pretrain.distributions import transmission
from ptycho_pretrain.kinds import Entry, Kind
from ptycho_pretrain.object_kinds import OBJECT_KINDS
from ptycho_pretrain.probe_kinds import PROBE_KINDS, draw_probe


@dataclass(frozen=True, kw_only=True)
class KindScan:
    """Object, beam and positions of a simulated scan of some kinds."""

    probe: Entry
    object: Entry
    material: MaterialsConfig
    path: str  # a key of :data:`ptycho.simulation.measured_like.PATHS`
    overlap: float  # 1 − step/d
    photons: float  # in a pattern, on average
    N: int  # side of the patterns
    positions: int  # J, how many there are
    seed: int  # of every random number; probe, object and photons have streams of their own
    STREAMS: ClassVar[tuple[str, ...]] = ("probe", "object", "material", "path", "photons")

    def rng(self, stream: str) -> np.random.Generator:
        """Return a generator of its own for each of ``STREAMS``."""
        return np.random.default_rng([self.seed, self.STREAMS.index(stream)])


def simulate_kind_scan(
    settings: KindScan,
    probes: Mapping[str, Kind] = PROBE_KINDS,
    objects: Mapping[str, Kind] = OBJECT_KINDS,
) -> Dataset:
    """Simulate the scan as measured, each pattern a group, with its true object, ``objects (1, M, M)``.

    ``probes``, ``objects``: the tables that have its kinds.
    """
    N = settings.N
    probe = draw_probe(probes[settings.probe.kind], N, settings.probe.ranges, settings.rng("probe"))
    step = energy_diameter(probe) * (1 - settings.overlap)
    path = PATHS[settings.path](settings.positions, step, settings.rng("path"))
    positions = (path - path.min(axis=0) + 1).astype(np.float32)
    side = N + int(np.ceil(positions.max())) + 1
    kind, rng = objects[settings.object.kind], settings.rng("object")
    thickness, other = (kind.sample(side, settings.object.ranges, rng) for _ in range(2))
    truth = transmission(thickness, other, settings.material, settings.rng("material"))
    measured = MeasuredLike(
        sample=truth.astype(np.complex128),
        probe=probe.astype(np.complex128),
        positions=positions.astype(np.float64),
        oversampling=1,
        nphotons=settings.photons,
        good=np.ones((N, N), bool),
        hot=np.zeros((N, N), bool),
    )
    counts = np.concatenate([*measured.counts(settings.rng("photons"))])
    return Dataset(
        amplitudes=Patterns(np.sqrt(counts).astype(np.float32)),
        beam=Beam(probe, positions),
        image=np.zeros(len(positions), np.int32),
        groups=np.arange(len(positions), dtype=np.int32)[:, None],
        photon_scale=float(np.sqrt(measured.scale)),
        object_size=side,
        region_size=N + 2,
        objects=truth[None],
        exact=True,
    )
