"""Orientation of the detector: definitions, orientations that are equivalent, and those that are found."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from helpers import reference
from helpers.phase_scans import N, aberrated, scan_with

from ptycho.align.align_scan import doubt_orientation
from ptycho.align.orientation import (
    AS_READ,
    Orientation,
    alike,
    as_read,
    better,
    classes,
    clearly_better,
    orientations,
)
from ptycho.config import IdealDiskProbe, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.evaluation.trust import ORIENTATION
from ptycho.preparation.detector import oriented
from ptycho.reconstruction.trial import Trial, TrialOptions
from ptycho.scan.probe import make_probe

FORTY = TrialOptions(patterns=40)
WAYS = [Orientation(*way) for way in itertools.product((False, True), (False, True), (False, True), (1, -1))]
REVERSED = Orientation(flip_rows=True, flip_cols=True)
NEGATED = Orientation(position_sign=-1)
BOTH = Orientation(flip_rows=True, flip_cols=True, position_sign=-1)


@pytest.fixture(scope="module")
def curved():
    """A scan with a round, curved probe."""
    return scan_with(make_probe(ZonePlateProbe(), N))


def undoes(way, other):
    """Return whether ``way`` undoes ``other``, by their effect on unequal numbers."""
    numbers = np.arange(25.0).reshape(5, 5)
    same = np.array_equal(way.patterns(other.patterns(numbers)), numbers)
    return same and way.position_sign * other.position_sign == 1


@pytest.mark.parametrize("side", [6, 7])
@pytest.mark.parametrize("way", [way for way in WAYS if way.position_sign == 1])
def test_patterns_are_turned_about_the_zero_frequency(side, way):
    """Sample by sample, by their frequencies; −side/2 of an even side is its own negative."""
    image = np.random.default_rng(1).normal(size=(2, side, side))
    turned = way.patterns(image)
    for i, j in itertools.product(range(side), repeat=2):
        row, col = i - side // 2, j - side // 2
        row, col = (-row if way.flip_rows else row), (-col if way.flip_cols else col)
        row, col = (col, row) if way.transpose else (row, col)
        source = (row + side // 2) % side, (col + side // 2) % side
        np.testing.assert_array_equal(turned[:, i, j], image[:, source[0], source[1]])


@pytest.mark.parametrize("way", WAYS[::2])
@pytest.mark.parametrize("first", WAYS[::2])
def test_the_keys_read_a_file_the_same_way(way, first):
    """On an odd detector, where reversing and reversing about the zero frequency are the same."""
    frames = np.random.default_rng(2).normal(size=(2, 7, 7))
    config = DataConfig(
        file="-", transpose=first.transpose, flip_rows=first.flip_rows, flip_cols=first.flip_cols
    )
    new = way.on(config)
    expected = way.patterns(oriented(frames, False, *first[:3]))
    np.testing.assert_array_equal(
        oriented(frames, False, new.transpose, new.flip_rows, new.flip_cols), expected
    )
    assert new.position_sign == 1


def test_a_scan_is_turned_as_a_whole():
    rng = np.random.default_rng(3)
    data = scan_with(aberrated(make_probe(IdealDiskProbe(), N), rng, 0.5), side=3)
    good = rng.uniform(size=(N, N)) > 0.1
    way = Orientation(transpose=True, flip_cols=True, position_sign=-1)
    turned = way.of(replace(data, good=good))
    np.testing.assert_array_equal(turned.amplitudes[:], way.patterns(data.amplitudes[:]))
    np.testing.assert_array_equal(turned.good, way.patterns(good))
    np.testing.assert_array_equal(turned.probe, data.probe)
    moved = turned.positions + data.positions
    assert np.ptp(moved, axis=0).max() == 0 and turned.positions.min() >= 0
    assert turned.object_size >= N + turned.positions.max()


@pytest.mark.parametrize("way", [REVERSED, NEGATED, BOTH])
def test_what_the_table_says_is_the_same_measurement(way):
    """A scan in another orientation, and in the stored one with another probe and object: equal patterns."""
    rng, n, M = np.random.default_rng(4), 7, 13
    probe, image = reference.random_complex(rng, (n, n)), reference.random_complex(rng, (M, M))
    positions = rng.integers(0, M - n + 1, (4, 2)).astype(float)
    turned, negated = way.flip_rows, way.position_sign < 0
    where = (M - n) - positions if negated else positions
    read = way.patterns(reference.diffraction(image, where, probe))
    if negated:
        probe, image = probe[::-1, ::-1], image[::-1, ::-1]
    if turned != negated:
        probe, image = probe.conj(), image.conj()
    np.testing.assert_allclose(reference.diffraction(image, positions, probe), read, atol=1e-10)


def test_classes():
    zone_plate, disk = make_probe(ZonePlateProbe(), N), make_probe(IdealDiskProbe(), N)
    random = reference.random_complex(np.random.default_rng(6), (9, 9))
    real = random.real
    for probe, size in ((random, 1), (zone_plate, 2), (real, 2), (disk, 4)):
        found = classes(alike(probe))
        assert {len(together) for together in found} == {size}
        assert sorted(itertools.chain(*found)) == sorted(WAYS)
        assert all(ways[0].changes == min(way.changes for way in ways) for ways in found)
        assert found[0][0] == AS_READ
    assert classes(alike(zone_plate))[0] == (AS_READ, BOTH)
    assert classes(alike(real))[0] == (AS_READ, REVERSED)
    assert set(classes(alike(disk))[0]) == {AS_READ, REVERSED, NEGATED, BOTH}


def test_no_alarm_for_a_scan_that_is_read_right(curved):
    trials = orientations(curved, FORTY)
    assert len(trials) == 8 and trials[0].hypothesis[0] == AS_READ
    assert all(one.score <= two.score for one, two in itertools.pairwise(trials))
    assert better(trials) is None


@pytest.mark.parametrize(
    "read",
    [
        Orientation(transpose=True),
        Orientation(flip_cols=True),
        NEGATED,
        Orientation(transpose=True, flip_rows=True, position_sign=-1),
    ],
)
def test_a_scan_that_is_read_wrong(curved, read):
    """Bad pixels are flipped and transposed with the patterns."""
    good = np.ones((N, N), bool)
    good[20:24], good[:, 3] = False, False
    seen = replace(curved, good=good, amplitudes=np.where(good, curved.amplitudes[:], 0))
    trials = orientations(read.of(seen), FORTY)
    found = better(trials)
    assert found is trials[0]
    assert any(undoes(way, read) for way in found.hypothesis)
    assert found.gain_over(as_read(trials)).gain > 0.4


def test_a_lopsided_probe_tells_all_sixteen():
    data = scan_with(aberrated(make_probe(ZonePlateProbe(), N), np.random.default_rng(10), 0.7))
    trials = orientations(BOTH.of(data), FORTY)
    assert len(trials) == 16 and better(trials).hypothesis[0] == BOTH


@pytest.mark.parametrize("wrong", ["aberrated", "defocus", "narrow"])
def test_a_wrong_probe_gives_no_false_alarm(curved, wrong):
    probe = {
        "aberrated": aberrated(curved.probe, np.random.default_rng(11), 0.3),
        "defocus": make_probe(ZonePlateProbe(defocus_um=1.3 * 45), N),
        "narrow": make_probe(ZonePlateProbe(outermost_zone_width_nm=1.3 * 30), N),
    }[wrong]
    data = replace(curved, beam=curved.beam.with_probe(probe))
    assert better(orientations(data, FORTY)) is None
    if wrong != "narrow":
        read = Orientation(flip_rows=True)
        found = better(orientations(read.of(data), FORTY))
        assert any(undoes(way, read) for way in found.hypothesis)


def test_patterns_without_overlap_tell_nothing():
    data = scan_with(make_probe(IdealDiskProbe(), N), side=4, step=16, jitter=0)
    assert better(orientations(Orientation(transpose=True).of(data), TrialOptions(patterns=16))) is None


def trial(way, deviance, alike=(), count=20, spread=0.01, seed=0):
    """Return a trial of patterns with this geometric mean of the deviance and ``spread`` of its logarithm."""
    error = np.random.default_rng(seed).normal(size=count)
    each = deviance * np.exp(spread * (error - error.mean()) / error.std())
    return Trial((way, *alike), None, each[: -count // 5], each[-count // 5 :])


ROWS, COLS = Orientation(flip_rows=True), Orientation(flip_cols=True, position_sign=-1)


@pytest.mark.parametrize(
    "one, other, expected",
    [
        (trial(ROWS, 2.2), trial(AS_READ, 4.0), True),
        (trial(ROWS, 3.5), trial(AS_READ, 4.0), False),  # by 13 %, but most of the misfit is left
        (trial(ROWS, 1.02), trial(AS_READ, 1.06), False),  # by 4 %
        (trial(ROWS, 1.02), trial(AS_READ, 1.15), True),
        (trial(NEGATED, 1.02), trial(AS_READ, 1.15), False),
        (trial(NEGATED, 1.02), trial(AS_READ, 1.4), True),
        (trial(COLS, 1.02), trial(ROWS, 1.15), False),
        (trial(ROWS, 0.3), trial(AS_READ, 0.4), True),  # so few photons that noise leaves less than one
        (trial(ROWS, 2.2, spread=1.0), trial(AS_READ, 4.0, seed=1, spread=1.0), False),
        (trial(ROWS, 2.2, count=10), trial(AS_READ, 4.0, count=10), False),
    ],
)
def test_clearly_better(one, other, expected):
    """Most of the misfit beyond photon noise and some of all is gone, significantly, in enough patterns."""
    assert clearly_better(one, other) is expected


def test_the_one_that_changes_least_is_named():
    own = trial(AS_READ, 9.0)
    trials = [trial(COLS, 2.0), trial(ROWS, 2.001, seed=1), own]
    assert better(trials).hypothesis[0] == ROWS
    assert better([trial(COLS, 2.0), trial(ROWS, 2.4, seed=1), own]).hypothesis[0] == COLS
    assert better([trial(COLS, 2.0), trial(Orientation(transpose=True), 2.001, seed=1), own]) is None
    assert better([trial(COLS, 8.0), own]) is None
    assert better([trial(NEGATED, 2.0, (AS_READ,)), trial(ROWS, 9.0)]) is None


def test_under_a_wrong_probe_longer_fits_tell_the_orientation(curved):
    """A probe of less than half the defocus: short fits leave all ways alike."""
    wrong = make_probe(ZonePlateProbe(defocus_um=20.0), N)
    data, config = Orientation(transpose=True).of(curved).under_probe(wrong[None]), DataConfig(file="-")
    assert better(orientations(data)) is None
    doubt = doubt_orientation(data, config)
    assert doubt.flags == (ORIENTATION,) and "data.transpose=true" in str(doubt)
