"""Live reconstruction: the known part of the object stays, the new part starts close to its neighbours."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.scans import raw_scan

from ptycho.config import ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.evaluation.metrics import align
from ptycho.reconstruction.estimate import Refine
from ptycho.scan.dataset import MARGIN
from ptycho.scan.probe import make_probe
from ptycho.simulation.measured_like import ScanSettings, simulate_measured_like
from ptycho_live import fitting
from ptycho_live.fitting import choose, final_positions, finish, improve, is_still, score, stages_of
from ptycho_live.state import LiveOptions, begin, extend

N, COUNT, FIRST = 32, 120, 40  # side of the patterns, how many, and how many settle the rest
OPTIONS = LiveOptions()


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """Counts, positions in pixels by rows, the object, and the state after the first patterns."""
    settings = ScanSettings(N=N, n_positions=COUNT, nphotons=1e6, seed=2, path="jittered")
    made = simulate_measured_like(settings, make_probe(ZonePlateProbe(), N))
    counts = np.concatenate(list(made.counts(np.random.default_rng(0))))
    order = np.argsort(made.positions[:, 0], kind="stable")
    counts, positions = counts[order], made.positions[order]
    raw = raw_scan(counts[:FIRST], positions[:FIRST], probe=made.photon_probe.reshape(1, N, N))
    config = ScanRunConfig(data=DataConfig(file=("-",)))
    context = begin(raw, config, tmp_path_factory.mktemp("scratch"), lambda rows: counts[rows], OPTIONS)
    return counts, positions, made.object, replace(context, refined=Refine(probe=True))


def extended(scan, state, count):
    rows = state.unknown(np.arange(count))
    return extend(state, rows, rows, scan[1][rows] @ scan[3].matrix.T)


@pytest.fixture(scope="module")
def half(scan):
    state = extended(scan, scan[3], COUNT // 2)
    for _ in range(6):
        state = improve(state, 1e5)
    return state


def error(state, truth):
    """Return the relative error where the object is well illuminated, both in pixels of the positions."""
    row, col = -state.origin
    rows, cols = truth.shape
    here = slice(row, row + rows), slice(col, col + cols)
    image, illumination = state.estimate.object[here], state.illumination[here]
    side = min(image.shape)
    image, truth, illumination = (array[:side, :side] for array in (image, truth, illumination))
    illuminated = illumination > 0.2 * illumination.max()
    made = align(image, truth, illuminated).object
    return np.linalg.norm((made - truth)[illuminated]) / np.linalg.norm(truth[illuminated])


def test_the_first_cycles_find_the_object_and_held_out_patterns_agree(scan, half):
    held_out = half.patterns["held_out"]
    assert half.used == np.count_nonzero(~held_out) and held_out.any()
    assert error(half, scan[2]) < 0.1
    flat = replace(half, estimate=replace(half.estimate, object=np.ones_like(half.estimate.object)))
    assert score(half) < 0.1 * score(flat)


def intensity_of(state, chosen):
    """Return the illumination ``(H, W)`` by some patterns."""
    one, illumination = np.sum(np.abs(state.estimate.modes) ** 2, axis=0), np.zeros(state.illumination.shape)
    for row, col in np.round(state.nominal[chosen]).astype(int):
        illumination[row : row + N, col : col + N] += one
    return illumination


def known_by_others(state, chosen):
    """Return pixels that the others illuminate brightly, thirty times as strongly as the chosen patterns."""
    whole_illumination, illumination = state.illumination, intensity_of(state, chosen)
    own = intensity_of(state, chosen[state.patterns["visits"][chosen] > 0])
    found = (
        (whole_illumination > 0.05 * whole_illumination.max())
        & (whole_illumination - own > 30 * illumination)
        & (illumination > 1e-6 * illumination.max())
    )
    assert found.sum() > 30
    return found


def inside(before, after):
    shift = before.origin - after.origin
    return tuple(slice(s, s + n) for s, n in zip(shift, before.illumination.shape, strict=True))


def test_what_new_patterns_do_not_illuminate_stays_and_what_others_illuminate_hardly_changes(scan, half):
    state = extended(scan, half, COUNT // 2 + 6)  # half a row more
    after = improve(state, 6 * 16)  # with few of the old ones
    here, chosen = inside(half, after), choose(state, 16)
    old, new = half.estimate.object, after.estimate.object[here]
    top = int(np.floor(state.estimate.positions[chosen].min(axis=0)[0])) - MARGIN - here[0].start
    assert half.illumination[:top].any()
    np.testing.assert_array_equal(new[:top], old[:top])
    others = known_by_others(state, chosen)[here]
    assert np.linalg.norm((new - old)[others]) < 0.01 * np.linalg.norm(old[others])
    assert after.used > half.used


def test_the_object_grows_on_any_side_and_keeps_its_place(half):
    nominal = half.patterns["nominal"]
    rows = len(nominal) + np.arange(2)
    state = extend(half, rows, rows, nominal[:1] + np.array([[-25.0, 0], [0, 20]]))
    grown_by = half.origin - state.origin
    assert grown_by[0] >= 16 and grown_by[0] % (N // 2) == 0
    np.testing.assert_array_equal(state.estimate.object[inside(half, state)], half.estimate.object)
    np.testing.assert_allclose(state.estimate.positions[: len(nominal)] + state.origin, nominal)
    assert state.nominal.min() >= 0 and (state.nominal + N <= state.illumination.shape).all()


def test_new_patterns_are_chosen_first_with_their_neighbours_and_wait_in_a_sweep(half):
    patterns = half.patterns.copy()
    patterns["visits"] = np.where(patterns["held_out"] | (np.arange(len(patterns)) >= 55), 0, 3)
    state = replace(half, patterns=patterns)
    chosen, new, held_out = choose(state, 20), state.waiting, state.patterns["held_out"]
    assert set(new) <= set(chosen) and len(chosen) == 20 and not held_out[chosen].any()
    rest = np.setdiff1d(np.flatnonzero(~held_out), chosen)

    def nearest(indices):
        return np.linalg.norm(state.nominal[indices][:, None] - state.nominal[new], axis=-1).min(axis=1)

    assert nearest(np.setdiff1d(chosen, new)).max() <= nearest(rest).min()
    assert len(new) and not np.isin(choose(state, 20, sweep=True), new).any()


@pytest.fixture
def clock(monkeypatch):
    """A clock that advances by 0.01 s per reading: the same steps on any machine."""
    ticks = itertools.count()
    monkeypatch.setattr(fitting, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 100))


def test_all_together_in_the_end_explain_more(scan, half, clock):
    state = extended(scan, half, COUNT)
    for _ in range(3):
        state = improve(state, 1e5)
    *_, last = finish(state, seconds=1.0, speed=100)
    assert score(last) <= score(state)
    assert error(last, scan[2]) < 1.2 * error(state, scan[2])


def test_a_stage_that_explains_less_is_not_kept(scan, half, clock, monkeypatch):
    def first_then_spoil(limit, stage, objective, estimate, options):
        spoilt = stage != stages_of(half)[0]
        return replace(estimate, object=np.ones_like(estimate.object)) if spoilt else estimate

    monkeypatch.setattr(fitting, "fit_until", first_then_spoil)
    (only,) = finish(half, seconds=1.0, speed=100)
    assert score(only) == pytest.approx(score(half), rel=0.1)


def test_corrections_of_positions_are_those_that_were_found_or_none(scan, half):
    moves = np.random.default_rng(0).normal(size=half.nominal.shape)
    moves[half.patterns["held_out"]] = 0
    places = (half.nominal + factor * moves for factor in (1, 0.01))
    far, near = (replace(half, estimate=replace(half.estimate, positions=place)) for place in places)
    assert is_still(near) and not is_still(far)
    assert not is_still(half)  # they were not refined yet
    for still in (near, half):
        assert not final_positions(still).any()
    fitted = ~half.patterns["held_out"]
    np.testing.assert_allclose(final_positions(far)[fitted], moves[fitted])


def test_frames_with_numbers_that_are_not_finite_are_skipped(scan):
    def spoilt(rows):
        frames = scan[0][rows].astype(np.float32)
        frames[rows == 5] = np.nan
        return frames

    context = replace(scan[3], frames=spoilt)
    state = improve(extended(scan, context, 30), 1e5)
    assert np.isfinite(state.estimate.object).all() and state.estimate.object.any() and not len(state.waiting)
