"""Kinds of probes and objects that the study of zero-shot reconstruction adds to those of the training."""

import numpy as np
import pytest

from benchmarks.study import zero_shot_kinds
from ptycho.scan.probe import energy_diameter
from ptycho_pretrain.object_kinds import OBJECT_KINDS
from ptycho_pretrain.probe_kinds import PROBE_KINDS, draw_probe

OBJECTS = {key: kind for key, kind in zero_shot_kinds.OBJECTS.items() if key not in OBJECT_KINDS}
PROBES = {key: kind for key, kind in zero_shot_kinds.PROBES.items() if key not in PROBE_KINDS}


def rng(seed):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("side", [47, 64])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_maps_from_nothing_to_all(name, side):
    for seed in range(3):
        found = OBJECTS[name].sample(side, {}, rng(seed))
        assert found.shape == (side, side) and np.isrealobj(found) and np.isfinite(found).all()
        assert found.min() >= 0 and found.max() <= 1 and found.std() > 0.02
        np.testing.assert_array_equal(OBJECTS[name].sample(side, {}, rng(seed)), found)


@pytest.mark.parametrize("N", [32, 47, 64])
@pytest.mark.parametrize("name", PROBES)
def test_probes_are_waves_whose_largest_amplitude_is_one(name, N):
    for seed in range(3):
        found = draw_probe(PROBES[name], N, {}, rng(seed))
        assert found.shape == (N, N) and found.dtype == np.complex64 and np.isfinite(found).all()
        assert np.abs(found).max() == pytest.approx(1, rel=1e-6)
        np.testing.assert_array_equal(draw_probe(PROBES[name], N, {}, rng(seed)), found)


# The focus of mirrors has a square edge.
LIMITS = {"mirrors": (2.4, 0.15), "mask": (1.45, 0.01), "ring": (1.45, 0.01)}


@pytest.mark.parametrize("name", PROBES)
def test_probes_have_the_specified_diameter_and_a_dark_rim(name):
    N, (widest, brightest) = 64, LIMITS[name]
    own = {"reach": (0.12, 0.3), "strength": (0.3, 0.5)} if name == "mirrors" else {}
    for share in (0.35, 0.5):
        for seed in range(4):
            probe = draw_probe(PROBES[name], N, own | {"diameter": (share, share)}, rng(seed))
            assert 0.65 < energy_diameter(probe) / (share * N) < widest
            rim = 1 - np.sum(np.abs(probe[2:-2, 2:-2]) ** 2) / np.sum(np.abs(probe) ** 2)
            assert rim < brightest
