"""Arriving data are on the disk at once, and a killed program loses no complete record."""

import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from helpers.cli import ROOT

from ptycho.readers.hdf5 import CLOSED, WRITING, mark_of
from ptycho_live.arrivals import BY_TIME, Frame, make_positions
from ptycho_live.store import NAME, Store

H, W = 5, 7


def frame(number, dtype=np.uint16, shape=(H, W)):
    return Frame(number, np.random.default_rng(number).integers(0, 99, shape).astype(dtype), number / 10)


def places(numbers):
    numbers = np.array(numbers)
    return make_positions(numbers, numbers + 0.5, -numbers)


def filled(folder, count=4, **changes):
    store = Store(folder, **changes)
    store.add([frame(k) for k in range(count)], places(range(count)))
    return store


def check(store, numbers):
    frames = store.table.frames
    np.testing.assert_array_equal(frames["index"], numbers)
    np.testing.assert_allclose(frames["time"], np.array(numbers) / 10)
    expected = [[k + 0.5, -k] for k in numbers]
    np.testing.assert_array_equal(frames["position"][store.table.rows], expected)
    np.testing.assert_array_equal(store.read(np.arange(len(numbers))), [frame(k).data for k in numbers])


def test_what_was_put_in_is_there_after_it_was_opened_again(tmp_path):
    filled(tmp_path).close()
    store = Store(tmp_path)
    check(store, range(4))
    np.testing.assert_array_equal(store.read(np.array([2, 0])), [frame(2).data, frame(0).data])
    assert store.has(3) and not store.has(4)
    store.add([frame(7), frame(8)], places([7]))
    assert store.counts == (6, 5) and len(store.table.rows) == 5


KILLED = """
import sys, numpy as np
from pathlib import Path
from ptycho_live.arrivals import Description, Frame, make_positions
from ptycho_live.store import Store
store, k = Store(Path(sys.argv[1])), 0
store.add([], make_positions(0, 0.5, 0.0), Description(unit="um", distance_m=0.3))
while True:
    numbers = np.arange(k, k + 3)
    data = [Frame(n, np.random.default_rng(n).integers(0, 99, (5, 7)).astype("u2"), n / 10) for n in numbers]
    store.add(data, make_positions(numbers, numbers + 0.5, -numbers))
    k += 3
    print(k, flush=True)
"""


@pytest.mark.parametrize("seconds", [0.0, 0.11, 0.23])
def test_a_process_that_is_killed_loses_nothing_that_it_had_put_in(tmp_path, seconds):
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        process.stdout.readline()
        time.sleep(seconds)
        with h5py.File(tmp_path / NAME, "r", swmr=True, libver="latest") as file:  # as it grows
            row = len(file["frames"]) - 1
            np.testing.assert_array_equal(file["patterns"][row], frame(file["frames"]["index"][row]).data)
        os.kill(process.pid, signal.SIGKILL)
        description = int((["3", *process.stdout.read().split()])[-1])
    assert mark_of(tmp_path / NAME) == WRITING
    store = Store(tmp_path)
    count = store.counts[0]
    assert description <= count <= description + 3 and store.counts[1] in (count, count - 3)
    assert (store.description.unit, store.description.distance_m) == ("um", 0.3)
    store.add([frame(count)], places([k for k in range(count + 1)]))
    store.close()
    assert mark_of(tmp_path / NAME) == CLOSED
    check(Store(tmp_path), range(count + 1))


def test_rows_that_are_not_whole_are_cut_off_and_what_follows_is_whole(tmp_path):
    filled(tmp_path).close()
    with h5py.File(tmp_path / NAME, "r+", libver="latest") as file:
        chunk = file["patterns"].id.get_chunk_info_by_coord((3, 0, 0)).byte_offset
        file["received"].resize(6, axis=0)  # two of them were never written
    with (tmp_path / NAME).open("rb+") as file:
        file.seek(chunk)
        file.write(b"\xff\xff")  # its checksum is another one
    store = Store(tmp_path)
    assert store.counts == (3, 4)
    store.add([frame(3)])
    check(store, range(4))


def test_what_does_not_fit_is_counted_and_skipped(tmp_path):
    store = filled(tmp_path)
    wrong = [frame(1), frame(5, shape=(H, W - 1)), frame(6, np.float32), Frame(-1, frame(0).data)]
    more = make_positions([2, 8, BY_TIME, BY_TIME], [7, np.nan, 1, 2], [7, 1, 1, 2], [0, 0, 0.2, 0.4])
    assert store.add([*wrong, frame(7, np.uint8)], more) == {
        "repeated": 1,
        "wrong shape": 1,
        "wrong dtype": 2,
        "position not finite": 1,
    }
    np.testing.assert_array_equal(store.table.frames["index"], [0, 1, 2, 3, 7])
    np.testing.assert_array_equal(store.read(np.array([1]))[0], frame(1).data)  # the first one stays
