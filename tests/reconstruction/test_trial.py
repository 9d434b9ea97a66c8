"""Trials: their patterns, and the result of a few steps of the solver."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.phase_scans import aberrated, scan_with

from ptycho.config import IdealDiskProbe, ZonePlateProbe
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import Sample, Trial, best_of, middle
from ptycho.scan.probe import make_probe

N = 32


@pytest.fixture(scope="module")
def curved():
    """A scan with a round, curved probe."""
    return scan_with(make_probe(ZonePlateProbe(), N))


def tried(data, *steps):
    sample = Sample.of(data)
    return sample.trial(None, sample.fit_object(*steps))


def test_the_score_by_hand():
    """Scores are means of logarithms over each part; the gain is by pattern, over both parts."""
    estimate = None
    one = Trial("one", estimate, np.exp([1.0, 3.0]), np.exp([0.5]))
    other = Trial("other", estimate, np.exp([2.0, 3.5]), np.exp([2.0]))
    assert one.score == pytest.approx(2.5) and other.score == pytest.approx(4.75)
    assert best_of([other, one]) is one and one.mean_deviance == pytest.approx(np.exp(1.5))
    gain = one.gain_over(other)
    assert gain.gain == pytest.approx(1.0) and gain.error == pytest.approx(0.5 / np.sqrt(3))
    assert Trial("only held out", estimate, np.zeros(0), np.exp([0.5, 0.7])).score == pytest.approx(0.6)


def test_held_out_patterns_lie_where_the_map_has_them(curved):
    """Positions of fitted patterns are stretched; those of the others are predicted between them."""
    sample = Sample.of(middle(curved, 36))
    start = sample.fit_object(3)
    stretched = replace(start, positions=1.1 * start.positions + 3)
    found = sample.trial(None, replace(stretched, object=np.pad(start.object, 20, "edge")))
    np.testing.assert_allclose(found.matrix, 1.1 * np.eye(2), atol=1e-9)
    assert len(found.fitted) == 30 and len(found.held_out) == 6
    energies = (p.data.amplitudes[:].sum(axis=(1, 2)) for p in (sample.fitted, sample.held_out))
    assert not np.intersect1d(*energies).size


@pytest.mark.parametrize("counts", [True, False])
def test_a_refined_probe_explains_more_than_a_wrong_one(curved, counts):
    wrong = aberrated(curved.probe, np.random.default_rng(8), 0.3)
    data = middle(replace(curved, beam=curved.beam.with_probe(wrong), counts=counts), 40)
    alone, together = (tried(data, *steps) for steps in ((7,), (3, 4)))
    assert alone.estimate.object.shape == (data.object_size,) * 2
    assert together.score < alone.score - 0.8
    assert np.abs(together.estimate.modes - alone.estimate.modes).max() > 0


def test_cases_within_cases_are_done():
    """More of them than there are threads, which would wait for each other."""

    def row(k):
        return sum(side_by_side(lambda m: k * m, range(50)))

    assert list(side_by_side(row, range(50))) == [k * 1225 for k in range(50)]


def test_the_middle_is_compact():
    rng = np.random.default_rng(9)
    data = scan_with(make_probe(IdealDiskProbe(), N), side=10, step=4)
    data = replace(data, good=rng.uniform(size=(N, N)) > 0.1)
    some = middle(data, 30)
    assert len(some.positions) == 30 and some.object_size < data.object_size
    reach = np.linalg.norm(some.positions - some.positions[0], axis=1)
    assert np.all(np.diff(reach) >= 0) and reach.max() < 5 * 4
    energies = data.amplitudes.statistics.energies
    assert np.isin(some.amplitudes.statistics.energies, energies).all()
    assert len(middle(data, 1000).positions) == 100


def test_dense_scans_are_thinned():
    data = scan_with(make_probe(IdealDiskProbe(), N), side=14, step=0.7)
    some = middle(data, 20)
    apart = np.linalg.norm(some.positions[:, None] - some.positions, axis=-1) + 9 * np.eye(20)
    assert apart.min() >= 1  # a tenth of ten pixels; many of the scan's positions coincide
