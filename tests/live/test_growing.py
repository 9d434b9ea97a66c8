"""An object that grows with its scan: what is known is not spoilt, what is new begins near its neighbours."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.scans import Frames

from ptycho.config import ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.evaluation.metrics import align
from ptycho.live import finishing, growing
from ptycho.live.beginning import begin
from ptycho.live.finishing import finish, stay
from ptycho.live.growing import choose, extend, filled, improve, judged, nothing
from ptycho.readers.raw_scan import RawScan
from ptycho.reconstruction.solver import OBJECT_ALONE
from ptycho.reconstruction.state import Freedom
from ptycho.scan.dataset import MARGIN
from ptycho.scan.probe import make_probe
from ptycho.simulation.measured_like import ScanSettings, simulate_measured_like

N, COUNT, FIRST = 32, 120, 40  # side of the patterns, how many, and how many settle the rest
PROBE_ALONE = Freedom(probe=True)


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """Counts, positions in pixels by rows, the object, and what the first of them have settled."""
    settings = ScanSettings(N=N, n_positions=COUNT, nphotons=1e6, seed=2, path="jittered")
    made = simulate_measured_like(settings, make_probe(ZonePlateProbe(), N))
    counts = np.concatenate(list(made.counts(np.random.default_rng(0))))
    order = np.argsort(made.positions[:, 0], kind="stable")
    counts, positions = counts[order], made.positions[order]
    raw = RawScan(
        "live",
        Frames(counts[:FIRST]),
        "counts",
        "centre",
        positions[:FIRST],
        "px",
        probe=made.photon_probe.reshape(1, N, N),
    )
    config = ScanRunConfig(data=DataConfig(file=("-",)))
    begun = begin(raw, config, tmp_path_factory.mktemp("scratch"))
    return counts, positions, made.object, begun


def reader(scan):
    return lambda rows: scan[3].detector.amplitudes(scan[0][rows])


def extended(scan, grown, count):
    places = scan[3].in_pixels(scan[1][:count])
    return extend(grown, np.arange(count), np.arange(count), places, np.zeros(count))


@pytest.fixture(scope="module")
def half(scan):
    """After some cycles on the first half of the rows."""
    grown = extended(scan, nothing(scan[3]), COUNT // 2)
    for _ in range(6):
        grown = improve(grown, scan[3], reader(scan), PROBE_ALONE, 1e5)
    return grown


def error(grown, truth):
    """Relative, where much light fell; both in the positions' pixels."""
    row, col = -grown.origin
    side = truth.shape
    image, light = (array[row : row + side[0], col : col + side[1]] for array in (grown.object, grown.light))
    truth = truth[: image.shape[0], : image.shape[1]]
    lit = light > 0.2 * light.max()
    square = min(image.shape)
    image, truth, lit = (array[:square, :square] for array in (image, truth, lit))
    made = align(image, truth, lit).object
    return np.linalg.norm((made - truth)[lit]) / np.linalg.norm(truth[lit])


def test_the_first_cycles_find_the_object_and_judges_agree(scan, half):
    assert half.used == np.count_nonzero(~half.judges) and half.judges.any()
    assert error(half, scan[2]) < 0.1
    flat = replace(half, object=np.ones_like(half.object))
    assert judged(half, scan[3], reader(scan)) < 0.1 * judged(flat, scan[3], reader(scan))


def known_by_others(grown, chosen):
    """Pixels ``(H, W)`` that others light brightly, and thirty times as strongly as the chosen patterns."""
    one = np.sum(np.abs(grown.modes) ** 2, axis=0)
    light = np.zeros(grown.light.shape)
    for row, col in np.round(grown.told[chosen] - grown.origin).astype(int):
        light[row : row + N, col : col + N] += one
    used = chosen[grown.visits[chosen] > 0]
    own = np.zeros(grown.light.shape)
    for row, col in np.round(grown.told[used] - grown.origin).astype(int):
        own[row : row + N, col : col + N] += one
    bright = grown.light > 0.05 * grown.light.max()
    found = bright & (grown.light - own > 30 * light) & (light > 1e-6 * light.max())
    assert found.sum() > 30
    return found


def test_what_the_new_patterns_do_not_light_stays_and_what_others_light_hardly_changes(scan, half):
    grown = extended(scan, half, COUNT // 2 + 6)  # half a row more
    after = improve(grown, scan[3], reader(scan), PROBE_ALONE, 6 * 16)  # with few of the old ones
    shift = half.origin - after.origin
    here = tuple(slice(s, s + n) for s, n in zip(shift, half.object.shape, strict=True))
    old, new = half.object, after.object[here]
    top = int(np.floor(grown.positions[choose(grown, 16)].min(axis=0)[0])) - MARGIN - half.origin[0]
    assert half.light[:top].any()
    np.testing.assert_array_equal(new[:top], old[:top])
    others = known_by_others(grown, choose(grown, 16))[here]
    assert np.linalg.norm((new - old)[others]) < 0.01 * np.linalg.norm(old[others])
    assert after.used == half.used + np.count_nonzero(~after.judges) - np.count_nonzero(~half.judges)


def test_the_object_grows_on_any_side_and_keeps_its_place(scan, half):
    places = np.concatenate([half.told, half.told[:1] - [25.0, 0], half.told[:1] + np.array([0, 20.0])])
    rows = np.arange(len(places))
    grown = extend(half, rows, rows, places, np.zeros(len(places)))
    shift = half.origin - grown.origin
    assert shift[0] >= 16 and shift[0] % (N // 2) == 0
    here = tuple(slice(s, s + n) for s, n in zip(shift, half.object.shape, strict=True))
    np.testing.assert_array_equal(grown.object[here], half.object)
    corner = grown.told - grown.origin
    assert corner.min() >= 0 and (corner + N <= grown.object.shape).all()


def test_a_position_far_from_all_others_waits(half):
    places = np.concatenate([half.told, half.told[:1] + 1e6, half.told[:1] + 1e6 + 5])
    rows = np.arange(len(places))
    assert extend(half, rows, rows, places, np.zeros(len(places))) is half


def test_first_positions_that_do_not_hang_together(scan):
    places = scan[1][:30].copy()
    places[3] += 1e5
    grown = extend(nothing(scan[3]), np.arange(30), np.arange(30), places, np.zeros(30))
    assert len(grown.rows) == 29 and max(grown.object.shape) < 1000


def test_new_patterns_are_chosen_first_with_their_neighbours(half):
    visits = np.where(np.arange(len(half.visits)) >= 55, 0, 3)
    grown = replace(half, visits=np.where(half.judges, 0, visits))
    chosen = choose(grown, 20)
    new = grown.waiting
    assert set(new) <= set(chosen) and len(chosen) == 20 and not grown.judges[chosen].any()
    rest = np.setdiff1d(np.flatnonzero(~grown.judges), chosen)

    def nearest(indices):
        return np.linalg.norm(grown.told[indices][:, None] - grown.told[new], axis=-1).min(axis=1)

    assert nearest(np.setdiff1d(chosen, new)).max() <= nearest(rest).min()


def test_where_nothing_is_new_the_least_fitted_come_next(half):
    visits = np.full(len(half.visits), 5)
    seed = np.flatnonzero(~half.judges)[7]
    visits[seed] = 2
    assert seed in choose(replace(half, visits=visits), 16)


def test_in_a_sweep_new_patterns_wait(half):
    grown = replace(half, visits=np.where(half.judges | (np.arange(len(half.visits)) >= 55), 0, 3))
    assert len(grown.waiting) and not np.isin(choose(grown, 20, sweep=True), grown.waiting).any()


def test_what_is_not_lit_begins_as_the_mean_of_what_is_lit_near_it():
    rng = np.random.default_rng(0)
    image = np.full((60, 80), 2 * np.exp(1j), np.complex64)
    image[:, 40:] = 3 * np.exp(-0.5j)
    light = np.zeros((60, 80), np.float32)
    light[20:40, 5:75] = 1
    noisy = np.where(light > 0, image, rng.normal(size=image.shape))
    made = filled(noisy, light, 32)
    np.testing.assert_array_equal(made[light > 0], noisy[light > 0])
    np.testing.assert_allclose(made[14:18, 8:24], image[14:18, 8:24], rtol=0.02)
    np.testing.assert_allclose(made[14:18, 60:72], image[14:18, 60:72], rtol=0.02)
    np.testing.assert_array_equal(filled(noisy, 0 * light, 32), np.ones((60, 80)))


@pytest.fixture
def clock(monkeypatch):
    """Time goes on by a hundredth of a second whenever somebody looks: the same steps on any machine."""
    ticks = itertools.count()
    monkeypatch.setattr(finishing, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 100))


def test_all_together_in_the_end_explain_more(scan, half, clock):
    grown = extended(scan, half, COUNT)
    for _ in range(3):
        grown = improve(grown, scan[3], reader(scan), PROBE_ALONE, 1e5)
    before = judged(grown, scan[3], reader(scan))
    *_, last = finish(grown, scan[3], reader(scan), PROBE_ALONE, seconds=1.0, speed=100)
    assert judged(last, scan[3], reader(scan)) <= before
    assert error(last, scan[2]) < 1.2 * error(grown, scan[2])


def test_a_stage_that_explains_less_is_not_kept(scan, half, monkeypatch, clock):
    def spoil(state, watch):
        return replace(state, object=np.ones_like(state.object))

    stages = [(0.5, OBJECT_ALONE, lambda state, watch: state), (0.5, OBJECT_ALONE, spoil)]
    monkeypatch.setattr(finishing, "_stages", lambda terms, free: stages)
    (only,) = finish(half, scan[3], reader(scan), PROBE_ALONE, seconds=1.0, speed=100)
    assert judged(only, scan[3], reader(scan)) == pytest.approx(judged(half, scan[3], reader(scan)), rel=0.1)


def test_positions_that_hardly_moved_are_left_alone_in_the_end(half):
    moves = np.random.default_rng(0).normal(size=half.told.shape)
    assert stay(replace(half, positions=half.told + 0.01 * moves))
    assert not stay(replace(half, positions=half.told + moves))
    assert not stay(half)  # they were not free yet


def test_frames_with_numbers_that_are_not_finite_are_passed_over(scan):
    def spoilt(rows):
        amplitudes = reader(scan)(rows)
        amplitudes[rows == 5] = np.nan
        return amplitudes

    grown = improve(extended(scan, nothing(scan[3]), 30), scan[3], spoilt, PROBE_ALONE, 1e5)
    assert np.isfinite(grown.object).all() and grown.object.any() and not len(grown.waiting)


def test_a_scan_that_is_too_large_goes_on_in_parts(scan, half, monkeypatch, clock):
    monkeypatch.setattr(finishing, "BLOCK_PIXELS", 10)
    *_, last = finish(half, scan[3], reader(scan), PROBE_ALONE, seconds=0.1, speed=100)
    assert last.visits.sum() > half.visits.sum()
    assert growing.steps_of(half, 0) == growing.STEPS
