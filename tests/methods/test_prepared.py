"""A prepared scan: which of its patterns are fitted and which are kept out, under any beam."""

from dataclasses import replace

import numpy as np
import pytest

from ptycho.methods.prepared import Prepared
from ptycho.scan.beam import Beam
from ptycho.scan.patterns import Patterns, Statistics


@pytest.fixture
def each(dataset_of):
    rng = np.random.default_rng(0)
    whole = dataset_of(rng.uniform(0, 40, (20, 2)), [[k] for k in range(20)], region_size=18, exact=True)
    out = np.array([3, 11, 19])
    return Prepared("scan", None, whole, np.setdiff1d(np.arange(20), out), out)


def another_beam(each):
    rng = np.random.default_rng(1)
    positions = (each.whole.positions + rng.uniform(-0.4, 0.4, (20, 2))).clip(0, 47).astype(np.float32)
    return Beam(2 * each.whole.probe, positions, rng.uniform(0.8, 1.2, 20).astype(np.float32))


def test_each_pattern_has_its_own_place_and_flux(each):
    beam = another_beam(each)
    for part, indices in ((each.fitted(beam), each.kept), (each.left_out(beam), each.out)):
        np.testing.assert_array_equal(part.positions, beam.positions[indices])
        np.testing.assert_array_equal(part.beam.flux, beam.flux[indices])
        np.testing.assert_array_equal(part.amplitudes[:], each.whole.amplitudes[indices])
        np.testing.assert_array_equal(part.probe, beam.probe)
    whole = each.beam_of(each.fitted(beam).beam, each.left_out(beam).beam)
    np.testing.assert_array_equal(whole.positions, beam.positions)
    np.testing.assert_array_equal(whole.flux, beam.flux)


def test_patterns_are_looked_through_once(each, monkeypatch):
    """However many reconstructions are judged under however many beams."""
    passes, of = [], Statistics.of
    monkeypatch.setattr(Statistics, "of", staticmethod(lambda blocks: passes.append(1) or of(blocks)))
    each = replace(each, whole=replace(each.whole, amplitudes=Patterns(each.whole.amplitudes[:])))
    for _ in range(3):
        each.fitted(another_beam(each))
        each.left_out(another_beam(each))
    assert len(passes) == 3  # of all, of those that are fitted, of those that are kept out


def test_no_pattern_is_kept_out(each):
    alone = replace(each, kept=np.arange(20), out=np.zeros(0, int))
    assert alone.left_out(alone.whole.beam) is None
    beam = another_beam(alone)
    np.testing.assert_array_equal(alone.beam_of(alone.fitted(beam).beam, None).positions, beam.positions)
