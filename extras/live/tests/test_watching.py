"""From a live source to the image: the collector, the loop, the page, and a resumed run."""

import json
import os
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ptycho.config import ConfigError, ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.preparation.prepare import interpret
from ptycho.readers.table import open_raw
from ptycho.scan.probe import make_probe
from ptycho.simulation.measured_like import ScanSettings, simulate_measured_like
from ptycho_live.arrivals import Arrivals, Description, Frame, Source, make_positions
from ptycho_live.collecting import CollectOptions, Collector
from ptycho_live.page import NAMES
from ptycho_live.run import LiveRun
from ptycho_live.state import LiveOptions
from ptycho_live.store import Store

N, COUNT = 32, 90


class Played(Source):
    """A source that yields its batches one after the other."""

    def __init__(self, description, batches, ends=True):
        self.description, self._batches, self._ends = description, list(batches), ends

    def poll(self):
        if self._batches:
            return self._batches.pop(0)
        return Arrivals(ended=self._ends)


@pytest.fixture(scope="module")
def scan():
    settings = ScanSettings(N=N, n_positions=COUNT, nphotons=1e6, seed=2, path="jittered")
    made = simulate_measured_like(settings, make_probe(ZonePlateProbe(), N))
    counts = np.concatenate(list(made.counts(np.random.default_rng(0)))).astype(np.uint32)
    probe = made.photon_probe.reshape(1, N, N).astype(np.complex64)
    description = Description("px", "counts", "centre", probe=probe)
    return counts, made.positions, description


def batches(scan, size=30):
    """Return frames in bursts, their positions a burst later or earlier; one frame twice."""
    frames = [Frame(k, scan[0][k]) for k in range(COUNT)]
    places = make_positions(range(COUNT), *scan[1].T)[::-1]
    for k in range(0, COUNT, size):
        yield Arrivals(tuple(frames[k : k + size]), faults=Counter({"message dropped": 1}))
    yield Arrivals((frames[3],), places)


def collect(source, store, timeout_s=60.0, wait_s=60.0, **changes):
    options = CollectOptions(timeout_s=timeout_s, wait_s=wait_s, **changes)
    collector = Collector(source, store, options)
    collector.start()
    return collector


def until(condition, seconds=60.0):
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    assert condition()


CONFIG = ScanRunConfig(data=DataConfig(file=("-",)), solver=SolverConfig(positions=False))
REFINED = ScanRunConfig(data=DataConfig(file=("-",)))


def test_the_picture_the_numbers_and_the_page_of_a_whole_scan(tmp_path, scan):
    store = Store(tmp_path / "live")
    collector = collect(Played(scan[2], batches(scan)), store)
    live = LiveRun(collector, store, CONFIG, LiveOptions(30, 0.5, 1.0), tmp_path, "beam/scan.h5")
    live.watch()
    live.complete()
    numbers = json.loads((tmp_path / "live.json").read_text())
    wanted = {"state": "complete", "ended": "complete", "gaps": 0, "backlog": 0}
    wanted |= {"frames": COUNT, "patterns": COUNT}
    assert {key: numbers[key] for key in wanted} == wanted
    assert numbers["faults"] == {"message dropped": 3, "repeated": 1}
    assert numbers["patterns_used"] + numbers["patterns_held_out"] == COUNT
    assert numbers["deviance_holdout"] < live.course[0][1] + 1e-3 and np.isfinite(numbers["longest_lag_s"])
    assert (tmp_path / "live.png").read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "live.npz") as found:
        side = np.array(found["object"].shape)
        assert found["probe"].shape == (1, N, N) and found["object"].dtype == np.complex64
        corners = found["positions"] - found["positions"].min(axis=0)
        description = scan[1][found["numbers"]]
        np.testing.assert_allclose(corners, description - description.min(axis=0), atol=1e-6)
        assert (found["positions"].max(axis=0) + N <= side).all()
    assert set(numbers) - set(NAMES) <= {"state", "problem", "warnings"}  # the others have a name and a unit
    page = (tmp_path / "live.html").read_text()
    assert 'http-equiv="refresh"' in page and '<img src="live.png' in page and "message dropped 3" in page


def test_the_run_that_follows_begins_from_the_probe_and_the_positions_that_were_found(tmp_path, scan):
    nominal = scan[1] + np.random.default_rng(1).normal(scale=0.7, size=scan[1].shape)
    store = Store(tmp_path / "live")
    collector = collect(Played(scan[2], batches((scan[0], nominal, scan[2]))), store)
    live = LiveRun(collector, store, REFINED, LiveOptions(30, 5.0, 0.0), tmp_path, "x")
    live.watch()
    patterns, estimate = live.state.patterns, live.state.estimate
    fitted, indices = ~patterns["held_out"], store.table.frames["index"][patterns["row"]]
    moves = np.where(fitted[:, None], scan[1][indices] - nominal[indices], 0)  # as if they had been found
    live.state = replace(live.state, estimate=replace(estimate, positions=live.state.nominal + moves))
    config = live.store_scan()
    store.close()
    again = interpret(open_raw(config.data), config.data)
    np.testing.assert_allclose(again.probe, estimate.modes)
    found = again.raw.positions[patterns["row"]]
    np.testing.assert_allclose(found[fitted], scan[1][indices][fitted], atol=1e-6)
    assert (found[~fitted] != nominal[indices][~fitted]).any()  # those were looked for, too


@pytest.mark.parametrize(("frames", "match"), [(0, "0.3 s"), (5, "0.1 s")])
def test_an_end_that_never_comes(tmp_path, scan, frames, match):
    some = [Arrivals(tuple(Frame(k, scan[0][k]) for k in range(frames)))] if frames else []
    collector = collect(Played(scan[2], some, ends=False), Store(tmp_path), 0.1, wait_s=0.3)
    until(lambda: collector.ended)
    assert collector.ended == f"nothing came for {match}"


def test_a_full_disk_makes_frames_wait_and_loses_none(tmp_path, scan, monkeypatch):
    allocate, full, store = os.posix_fallocate, [True], Store(tmp_path, slack=0)

    def allocated(*place):
        if full and store.counts[0]:
            raise OSError(28, "No space left on device")
        allocate(*place)

    monkeypatch.setattr(os, "posix_fallocate", allocated)
    collector = collect(Played(scan[2], batches(scan)), store, retry_s=0.01)
    until(lambda: collector.trouble)
    assert "until there is room" in collector.trouble
    full.clear()
    until(lambda: collector.ended)
    assert collector.trouble is None and collector.faults["disk full"] > 0
    assert collector.faults["repeated"] == 1  # the one that was sent twice
    np.testing.assert_array_equal(np.sort(store.table.frames["index"]), np.arange(COUNT))
    assert np.isfinite(store.table.frames["position"]).all()


def test_a_source_that_breaks_is_an_error_not_a_silence(tmp_path, scan):
    class Broken(Played):
        def poll(self):
            raise ZeroDivisionError("within the driver")

    store = Store(tmp_path)
    collector = collect(Broken(scan[2], []), store)
    with pytest.raises(ConfigError, match=r"cannot be read any more .*within the driver"):
        LiveRun(collector, store, CONFIG, LiveOptions(), tmp_path, "x").watch()
