"""Patterns that contradict all others are left out; those in a dim beam stay, with their flux."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

import ptycho
from ptycho.align.aligned import RunContext, read
from ptycho.align.cached import READING
from ptycho.align.outliers import drop_outliers, find_outliers, may_have_outliers
from ptycho.config import ScanRunConfig
from ptycho.preparation.prepare import interpret_again
from ptycho.preparation.start import decided_reading
from ptycho.reconstruction.trial import middle_patterns, stand_out

COUNT = 100


@pytest.fixture(scope="module")
def counts():
    """Photons of 100 patterns, (J, 16, 16), and the scan that they belong to."""
    whole = Scan.of(np.random.default_rng(1), 1e5, count=10, step=2.0)
    scan = replace(whole, positions=np.round(whole.positions))
    data = scan.dataset(np.random.default_rng(2), exact=True)
    return data, np.rint(np.square(data.amplitudes[:]))


def spoilt(counts, kinds):
    """Return the photons with some frames spoilt, each by its kind."""
    rng, bad = np.random.default_rng(4), counts.copy()
    for frame, kind in kinds.items():
        other = counts[(frame + 43) % COUNT]
        bad[frame] = {
            "another": lambda other=other: other,
            "double": lambda frame=frame, other=other: counts[frame] + other,
            "half": lambda frame=frame: np.where(np.arange(16)[:, None] < 8, 0, counts[frame]),
            "noise": lambda frame=frame: rng.poisson(counts.mean(), (16, 16)),
            "dim": lambda frame=frame: rng.binomial(counts[frame].astype(int), 0.3),
        }[kind]()
    return bad


MIXED = {33: "another", 45: "double", 57: "half", 64: "noise", 72: "dim"}


def test_what_contradicts_the_others_is_found(counts):
    data, good = counts
    bad = find_outliers(replace(data, amplitudes=np.sqrt(spoilt(good, MIXED)).astype(np.float32)))
    assert np.flatnonzero(bad.mask).tolist() == [33, 45, 57, 64]
    assert np.flatnonzero(bad.flux != 1).tolist() == [72]
    assert bad.flux[72] ** 2 == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("photons", [300, 1e4, 1e6])
def test_nothing_is_dropped_of_a_right_scan(photons):
    """Nor of one whose flux varies by a tenth, nor where the probe is wrong."""
    whole = Scan.of(np.random.default_rng(1), photons, count=10, step=2.0)
    flux = np.random.default_rng(3).normal(1, 0.1, COUNT)
    for scan in (whole, replace(whole, flux=flux)):
        data = scan.dataset(np.random.default_rng(2), exact=True)
        wrong = replace(data, beam=data.beam.with_probe(np.roll(data.probe, 1, axis=1) * np.exp(0.2j)))
        for one in (data, wrong):
            found = find_outliers(one)
            assert not found.mask.any() and np.all(found.flux == 1)


def test_a_pattern_a_few_pixels_off_is_no_outlier(counts):
    data, _ = counts
    positions = data.positions.copy()
    positions[[22, 38, 66, 71]] += [[2, -3], [-3, 0], [0, 3], [3, 2]]
    off = replace(data, beam=replace(data.beam, positions=positions))
    assert not find_outliers(off).mask.any()


def test_too_many_are_no_outliers(counts):
    data, good = counts
    third = spoilt(good, dict.fromkeys(range(0, COUNT, 3), "another"))
    assert not find_outliers(replace(data, amplitudes=np.sqrt(third).astype(np.float32))).mask.any()


def test_what_only_one_pattern_illuminates_is_not_predicted(counts):
    """A pattern far from the others contradicts none of them."""
    data, _ = counts
    positions = data.positions.copy()
    positions[99] += 14
    alone = replace(data, beam=replace(data.beam, positions=positions), object_size=data.object_size + 14)
    assert not find_outliers(alone).mask.any()


def test_a_scan_goes_on_without_them(counts, tmp_path):
    """The frames are those that ``data.drop`` takes, so that the scan is read again in the same way."""
    data, good = counts
    given = ptycho.Scan.from_arrays(spoilt(good, MIXED), data.positions, data.probe[0], counts=True)
    config, context = ScanRunConfig(data=replace(given.data, drop=(3,))), RunContext(tmp_path)
    aligned = read(interpret_again(given.geometry, config.data), config, context)
    assert stand_out(aligned.data).any() and may_have_outliers(aligned)
    dropped = drop_outliers(aligned, context)
    assert dropped.config.data.drop == (3, 33, 45, 57, 64)
    kept = np.setdiff1d(np.arange(COUNT), dropped.config.data.drop)
    np.testing.assert_array_equal(dropped.scan.frames, kept)
    steps = np.diff(dropped.data.positions, axis=0)
    np.testing.assert_allclose(steps, np.diff(data.positions[kept], axis=0), atol=1e-4)
    flux = dropped.data.beam.flux
    assert flux.argmin() == np.flatnonzero(kept == 72)[0] and np.mean(flux**2) == pytest.approx(1)
    finding = dropped.steps[0]
    (tmp_path / "metrics.json").write_text(f'{{"findings": {{"{finding.what}": ["{finding.value}", ""]}}}}')
    assert decided_reading(tmp_path, config.data).drop == dropped.config.data.drop
    assert "drop" in READING


def test_frames_of_a_dim_beam_are_in_no_trial(counts):
    """Eight frames in a row, in the middle of the scan; of more than a tenth the sample may be the cause."""
    data, good = counts
    for dim, found in ((range(41, 49), range(41, 49)), (range(41, 55), ())):
        weak = good.copy()
        weak[list(dim)] = np.rint(weak[list(dim)] / 100)
        seen = replace(data, amplitudes=np.sqrt(weak).astype(np.float32))
        assert np.flatnonzero(stand_out(seen)).tolist() == list(found)
        chosen = middle_patterns(seen, 60, 0.0)
        assert len(chosen) == 60 and not np.isin(chosen, list(found)).any()
    assert np.isin(chosen, range(41, 55)).any()
