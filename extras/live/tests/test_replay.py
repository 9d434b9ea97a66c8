"""A replayed scan: frames and positions in their order, with the values of the file."""

from typing import get_args

import h5py
import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig, KeyMap
from ptycho.readers.table import open_raw
from ptycho_live.replay_command import Fault, ReplayConfig, replay, schedule

COUNTS = np.random.default_rng(0).poisson(50, (9, 16, 18)).astype(np.uint16)


@pytest.mark.parametrize("fault", get_args(Fault))
def test_each_fault_does_what_it_is_called_and_nothing_else(fault):
    plain, wrong = (schedule(400, 100.0, 0.1, faults, 0.1, 3) for faults in ((), (fault,)))
    frames = [[e.number for e in events if e.kind == "frame"] for events in (plain, wrong)]
    places = [[e.number for e in events if e.kind == "position"] for events in (plain, wrong)]
    assert sorted(places[1]) == list(range(400))
    if fault == "gaps":
        assert 10 < 400 - len(frames[1]) < 80 and len(set(frames[1])) == len(frames[1])
    elif fault == "repeats":
        assert 10 < len(frames[1]) - 400 < 80 and set(frames[1]) == set(range(400))
    elif fault in ("late", "disorder"):
        assert frames[1] == frames[0] and places[1] != sorted(places[1])
    else:
        assert frames[1] == frames[0] and 10 < sum(e.kind == fault for e in wrong) < 80


@pytest.fixture
def scan(tmp_path):
    path = tmp_path / "scan.h5"
    xy = np.random.default_rng(1).normal(size=(9, 2)).cumsum(axis=0)
    with h5py.File(path, "w") as file:
        file["data"], file["rc"] = COUNTS, xy
    lengths = {"energy_eV": 8000, "distance_m": 0.3, "detector_pixel_m": 55e-6}
    keys = KeyMap(patterns="data", positions="rc")
    return xy, DataConfig(file=(str(path),), keys=keys, unit="um", **lengths)


def config(scan, to, **changes):
    return ReplayConfig(to=str(to), rate=1000.0, lag_s=0.0, data=scan[1], **changes)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_that_was_played_is_a_scan_that_readers_read(tmp_path, scan, compressed):
    lines = replay(config(scan, tmp_path / "out.h5", compressed=compressed))
    raw = open_raw(DataConfig(file=(str(tmp_path / "out.h5"),)))
    np.testing.assert_array_equal(raw.patterns.read(slice(0, 9)), COUNTS)
    np.testing.assert_allclose(raw.positions, 1e-6 * scan[0], atol=1e-15)
    assert (raw.unit, raw.distance_m) == ("m", 0.3) and "9 frames" in lines[0]
    np.testing.assert_allclose(raw.energy_eV, 8000)
    with pytest.raises(ConfigError, match="is there already"):
        replay(config(scan, tmp_path / "out.h5"))


@pytest.mark.parametrize("to", ["out.npz", "zmq://nowhere"])
def test_what_nothing_is_played_into(tmp_path, scan, to):
    with pytest.raises(ConfigError, match="must be"):
        replay(config(scan, to if "zmq" in to else tmp_path / to))
