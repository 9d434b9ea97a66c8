"""Held-out data of a fit, and scores on them: fractions, independence, and wrong estimates."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.likelihood import N, Scan, likelihood_of
from helpers.reference import random_complex

from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.holdout import HoldOut, coverage, hold_out
from ptycho.scan.comparison import CLEAR, REFINED, compare, compare_shares

KINDS = ("patterns", "photons", "noise")


@pytest.fixture(scope="module")
def scans():
    """A dense scan, of which patterns are held out, and one of few patterns."""
    return {count: Scan.of(np.random.default_rng(1), 3e4, count=count, step=2.2) for count in (8, 5)}


def split(scans, kind, seed=0, **changes):
    """Return the scan of a kind, its likelihood, the fitted likelihood, and the held-out data."""
    scan = scans[8 if kind == "patterns" else 5]
    data = scan.dataset(np.random.default_rng(2), counts=kind != "noise", **changes)
    whole = likelihood_of(data, noise="gaussian" if kind == "noise" else "poisson")
    return scan, whole, *hold_out(whole, seed)


def test_compare_is_the_paired_mean_and_its_error():
    rng = np.random.default_rng(3)
    new, old = rng.normal(1, 0.3, 23), rng.normal(1.2, 0.3, 23)
    found = compare(new, old)
    gains = [o - n for n, o in zip(new, old, strict=True)]
    mean = sum(gains) / 23
    assert found.gain == pytest.approx(mean) and found.gain > 0
    variance = sum((gain - mean) ** 2 for gain in gains) / 22
    assert found.error == pytest.approx(np.sqrt(variance / 23))
    back = compare(old, new)
    assert back.gain == pytest.approx(-found.gain) and not back.passes(CLEAR)
    assert compare(np.array([1.0]), np.array([5.0])).error == np.inf, "one pattern proves nothing"


def test_patterns_are_held_out_whole(scans):
    _, whole, kept, holdout = split(scans, "patterns")
    assert holdout.kind == "patterns" and holdout.kept_share == 1
    count = round(0.1 * 64)
    assert len(holdout.likelihood.data.positions) == count and len(kept.data.positions) == 64 - count
    rows = [tuple(row) for part in (kept, holdout.likelihood) for row in part.data.positions.tolist()]
    assert sorted(rows) == sorted(map(tuple, whole.data.positions.tolist())) and len(set(rows)) == 64
    for part in (kept, holdout.likelihood):
        assert part.normalisation == whole.normalisation and part.unit == whole.unit
        for position, amplitudes in zip(part.data.positions, part.data.amplitudes[:], strict=True):
            j = np.flatnonzero(np.all(whole.data.positions == position, axis=1))[0]
            np.testing.assert_array_equal(amplitudes, whole.data.amplitudes[j])


@pytest.mark.parametrize("unit", [1.0, 3e-3])
def test_photons_are_held_out_of_every_count(scans, unit):
    scan = scans[5]
    data = scan.dataset(np.random.default_rng(2), counts=unit == 1)
    data = replace(data, amplitudes=data.amplitudes[:] * unit)
    whole = likelihood_of(data, unit=unit)
    kept, holdout = hold_out(whole, 0)
    assert holdout.kind == "photons" and holdout.kept_share == 1 - 0.1
    counts = np.rint((data.amplitudes[:] / unit) ** 2)
    stay, out = (np.square(part.instead.astype(float) / unit) for part in (kept, holdout.likelihood))
    np.testing.assert_allclose(stay + out, counts, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(out, np.rint(out), atol=1e-2)
    total = counts.sum()
    assert abs(out.sum() - 0.1 * total) < 5 * np.sqrt(0.1 * (1 - 0.1) * total)
    deviates = (out - 0.1 * counts)[counts > 0] / np.sqrt(0.1 * (1 - 0.1) * counts[counts > 0])
    assert deviates.var() == pytest.approx(1, abs=0.1)
    assert holdout.likelihood.unit == kept.unit == whole.unit


def test_noise_held_out_is_independent_of_the_rest(scans):
    """Amplitudes with normal noise of a known size: neither part depends on the noise of the other."""
    scan, rng = scans[5], np.random.default_rng(5)
    clean, sigma = 50 + np.zeros((25, N, N)), 0.7
    noisy = scan.dataset(counts=False, amplitudes=(clean + sigma * rng.standard_normal(clean.shape)))
    whole = likelihood_of(noisy, noise="gaussian", unit=2 * sigma)
    kept, holdout = hold_out(whole, 2)
    assert holdout.kind == "noise" and holdout.kept_share == 1
    stay, out = (part.instead - clean for part in (kept, holdout.likelihood))
    assert abs(np.corrcoef(stay.ravel(), out.ravel())[0, 1]) < 5 / np.sqrt(clean.size)
    assert stay.std() == pytest.approx(kept.unit / 2, rel=0.05)
    assert stay.std() == pytest.approx(sigma / np.sqrt(1 - 0.1), rel=0.05)
    assert out.std() == pytest.approx(holdout.likelihood.unit / 2, rel=0.05)
    assert out.std() == pytest.approx(sigma / np.sqrt(0.1), rel=0.05)
    both = (1 - 0.1) * kept.instead + 0.1 * holdout.likelihood.instead
    np.testing.assert_allclose(both, noisy.amplitudes[:], rtol=1e-5)


def test_a_sparse_scan_keeps_its_patterns():
    sparse = Scan.of(np.random.default_rng(1), 3e4, count=8, step=6.0)
    data = sparse.dataset(np.random.default_rng(2))
    assert coverage(data) < 5
    assert hold_out(likelihood_of(data), 0)[1].kind == "photons"


def test_coverage_is_how_many_beams_overlap():
    """Of a disk of radius r on a lattice of step d: πr²/d²."""
    axis = np.arange(32) - 16
    disk = (np.hypot(axis[:, None], axis) <= 8).astype(np.complex64)
    rows, cols = np.divmod(np.arange(900), 30)
    for step in (2, 3):
        data = single_patterns(np.ones((900, 32, 32)), disk, step * np.stack([rows, cols], 1), 150)
        assert coverage(data) == pytest.approx(np.pi * 8**2 / step**2, rel=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_estimate_scores_worse(scans, kind):
    scan, whole, kept, holdout = split(scans, kind)
    assert holdout.kind == kind
    f, rng = whole.normalisation, np.random.default_rng(6)
    estimate = Estimate.of(kept.data, scan.object, normalisation=f)
    if kind == "photons":
        estimate = replace(estimate, object=estimate.object * np.float32(np.sqrt(1 - 0.1)))
    noise = 0.15 * random_complex(rng, scan.object.shape)
    wrong = replace(estimate, object=(estimate.object + noise).astype(np.complex64))
    right, worse = (holdout.score(one, Refine(False)) for one in (estimate, wrong))
    assert right.shape == (len(holdout.likelihood.data.positions),)
    assert compare_shares(right, worse).passes(REFINED) and not compare_shares(worse, right).passes(CLEAR)
    assert right.mean() == pytest.approx(1 if kind == "noise" else 0.7, abs=0.35)


def test_photons_are_scored_with_their_share_of_intensity_and_background(scans):
    """The estimate for the held-out photons expects 0.1/(1 − 0.1) of the fitted photons."""
    scan, whole, _, holdout = split(scans, "photons")
    estimate = replace(scan.estimate(whole.normalisation), background=np.full((N, N), 0.2, np.float32))
    found = holdout.places(estimate, Refine(False))
    np.testing.assert_allclose(found.flux**2, 0.1 / (1 - 0.1), rtol=1e-5)
    np.testing.assert_allclose(found.background, 0.2 * 0.1 / (1 - 0.1), rtol=1e-5)
    assert found.object is estimate.object and found.modes is estimate.modes


def test_patterns_held_out_find_their_own_places(scans):
    """Positions and flux, if refined, cost two units of deviance per number; otherwise they are nominal."""
    scan, whole, _, holdout = split(scans, "patterns")
    rng, data = np.random.default_rng(7), holdout.likelihood.data
    nominal = data.positions + rng.uniform(-0.4, 0.4, data.positions.shape).astype(np.float32)
    holdout = HoldOut(replace(holdout.likelihood, data=data.under(replace(data.beam, positions=nominal))))
    estimate = scan.estimate(whole.normalisation)
    found = holdout.places(estimate, Refine(False, positions=True))
    assert np.abs(found.positions - data.positions).mean() < 0.3 * np.abs(nominal - data.positions).mean()
    still = holdout.places(estimate, Refine(True, background=True))
    np.testing.assert_array_equal(still.positions, nominal)
    refine = Refine(False, True, True)
    expected = holdout.likelihood.evaluate(holdout.places(estimate, refine)).deviance + 2 * 3
    np.testing.assert_allclose(holdout.score(estimate, refine), expected / N**2, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_positions_come_in_the_order_of_the_scan(scans, kind):
    scan, whole, kept, holdout = split(scans, kind)
    nominal, fitted = whole.data.positions, kept.data.positions
    estimate = replace(scan.estimate(whole.normalisation), positions=fitted + 0.25)
    found = holdout.all_positions(estimate, Refine(False))
    moved = (nominal[:, None] == fitted).all(axis=-1).any(axis=1)
    assert moved.sum() == (58 if kind == "patterns" else len(nominal))
    np.testing.assert_allclose(found, nominal + 0.25 * moved[:, None], rtol=1e-6)


def test_the_flux_of_held_out_patterns_is_theirs_though_their_mean_is_another(scans):
    """Two patterns have 1.3 and 1.1 times the mean amplitude of the others."""
    scan, whole, _, holdout = split(scans, "patterns")
    data = holdout.likelihood.data.subset(np.arange(2), 1)
    flux = np.array([1.3, 1.1], np.float32)
    brighter = replace(data, amplitudes=flux[:, None, None] * data.amplitudes[:])
    holdout = HoldOut(replace(holdout.likelihood, data=brighter))
    estimate = scan.estimate(whole.normalisation)
    found = holdout.places(estimate, Refine(True, flux=True))
    np.testing.assert_allclose(found.flux, flux, rtol=0.01)
    assert found.object is estimate.object and found.modes is estimate.modes
