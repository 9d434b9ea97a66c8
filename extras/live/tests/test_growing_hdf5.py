"""An HDF5 file that is read while another process writes it, as at a beamline."""

import contextlib
import fcntl
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

from ptycho.config.data import DataConfig, KeyMap
from ptycho.readers.hdf5 import OPENED, WRITING, mark_of, open_growing
from ptycho_live.sources.growing_hdf5 import GrowingHdf5

FRAMES = np.random.default_rng(0).poisson(9, (12, 16, 18)).astype(np.uint16)
XY = 1e-6 * np.random.default_rng(1).normal(size=(12, 2)).cumsum(axis=0)
WRITER = """
import sys, h5py, numpy as np
path, frames, xy = sys.argv[1], np.load(sys.argv[2]), np.load(sys.argv[3])
file = h5py.File(path, "w", libver="latest")
detector = file.create_group("entry_1/instrument_1/detector_1")
detector["distance"], detector["x_pixel_size"], detector["y_pixel_size"] = 0.3, 55e-6, 75e-6
source = file.create_group("entry_1/instrument_1/source_1")
source["energy"] = 8000 * 1.602176634e-19
shape = frames.shape[1:]
data = detector.create_dataset("data", (0, *shape), frames.dtype, maxshape=(None, *shape), chunks=(1, *shape))
geometry = file.create_group("entry_1/sample_1/geometry_1")
kinds = {"maxshape": (None, 3), "chunks": (4, 3), "fillvalue": np.nan}
places = geometry.create_dataset("translation", (0, 3), float, **kinds)
places.attrs["units"] = "m"
file["entry_1/data_1/data"] = h5py.SoftLink(data.name)
file["entry_1/data_1/translation"] = h5py.SoftLink(places.name)
file.swmr_mode = True
print("begun", flush=True)
for line in sys.stdin:
    what, *numbers = line.split()
    for k in map(int, numbers):
        if what == "frame":
            data.resize(max(len(data), k + 1), axis=0)
            data[k] = frames[k]
        elif what == "place":
            places.resize(max(len(places), k + 1), axis=0)
            places[k] = xy[k, 1], xy[k, 0], 0
    data.flush(), places.flush()
    if what == "close":
        file.close()
    print("done", flush=True)
"""


class Detector:
    """A process that writes a file on command."""

    def __init__(self, folder, path):
        np.save(folder / "frames.npy", FRAMES)
        np.save(folder / "xy.npy", XY)
        words = [sys.executable, "-c", WRITER, str(path), str(folder / "frames.npy"), str(folder / "xy.npy")]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def do(self, what, *numbers):
        self.process.stdin.write(f"{what} {' '.join(map(str, numbers))}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


@pytest.fixture
def detector(tmp_path):
    made = Detector(tmp_path, tmp_path / "scan.h5")
    yield made
    made.end()


def open_source(tmp_path, has=lambda number: False, **data):
    return GrowingHdf5(tmp_path / "scan.h5", DataConfig(file=("-",), **data), has, pause_s=0.0)


def gather(source):
    """Return frames and positions by number, until two polls are empty or the source ends."""
    frames, places, nothing, ended = {}, {}, 0, False
    while nothing < 2 and not ended:
        came = source.poll()
        frames |= {frame.number: frame.data for frame in came.frames}
        places |= {index: place for index, _, *place in came.positions.tolist()}
        nothing, ended = 0 if came.frames or len(came.positions) else nothing + 1, came.ended
    return frames, places, ended


def test_frames_and_positions_come_in_their_own_time_and_keep_their_numbers(tmp_path, detector):
    source = open_source(tmp_path)
    detector.do("frame", 0, 1, 2)
    frames, places, ended = gather(source)
    assert (sorted(frames), places, ended) == ([0, 1, 2], {}, False)
    np.testing.assert_array_equal(frames[2], FRAMES[2])
    detector.do("place", 0, 3, 2)  # 1 is late
    frames, places, ended = gather(source)
    assert (frames, sorted(places), ended) == ({}, [0, 2], False)  # 3 comes with its frame
    detector.do("frame", 3, 4, 7)
    detector.do("place", 1)
    frames, more, ended = gather(source)
    assert (sorted(frames), sorted(more), ended) == ([3, 4, 7], [1, 3], False)  # 5 and 6 are gaps, not zeros
    for number, place in (places | more).items():
        np.testing.assert_allclose(place, XY[number], atol=1e-15)
    detector.do("frame", 5)
    detector.do("close")
    frames, _, ended = gather(source)
    assert (sorted(frames), ended) == ([5], True)
    description = source.description
    assert (description.unit, description.distance_m) == ("m", 0.3)
    assert description.detector_pixel_m == (75e-6, 55e-6)
    np.testing.assert_allclose(description.energy_eV, 8000)
    source.close()


def test_a_writer_that_is_killed_leaves_what_it_has_written_and_no_end(tmp_path, detector):
    detector.do("frame", 0, 1)
    detector.do("place", 0, 1)
    detector.end()
    source = open_source(tmp_path)
    frames, places, ended = gather(source)
    assert (sorted(frames), sorted(places), ended) == ([0, 1], [0, 1], False)
    assert mark_of(tmp_path / "scan.h5") == WRITING
    source.close()


def test_no_lock_of_the_reader_stops_the_writer(tmp_path, detector):
    """SWMR begins only if nobody holds a lock; a file that its writer has for itself is left alone."""
    with open_growing(tmp_path / "scan.h5"), (tmp_path / "scan.h5").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as HDF5 does
    path = tmp_path / "other" / "scan.h5"
    path.parent.mkdir()
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("data", data=FRAMES, maxshape=(None, 16, 18))
        file.flush()
        assert mark_of(path) == OPENED
        assert gather(open_source(path.parent, **KEYS)) == ({}, {}, False)
        with pytest.raises(OSError, match="not opened it for readers"):
            open_growing(path)
        file.swmr_mode = True
    assert sorted(gather(open_source(path.parent, **KEYS))[0]) == list(range(12))


def write_whole(path, frames):
    with h5py.File(path.with_suffix(".tmp"), "w", libver="latest") as file:
        file["data"], file["xy"] = frames, 1e6 * XY
    os.replace(path.with_suffix(".tmp"), path)


KEYS = {"keys": KeyMap(patterns="data", positions="xy"), "unit": "um"}


def test_a_copy_in_the_files_place_is_gone_on_with_another_scan_is_not(tmp_path):
    path = tmp_path / "scan.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("data", data=FRAMES[:5], maxshape=(None, 16, 18))
        file.create_dataset("xy", data=1e6 * XY[:5], maxshape=(None, 2))
        file.swmr_mode = True
        file.flush()
        content = path.read_bytes()
    path.write_bytes(content)  # as of a writer that goes on
    source = open_source(tmp_path, **KEYS)
    assert sorted(gather(source)[0]) == list(range(5))
    write_whole(path, FRAMES)
    frames, places, ended = gather(source)
    assert (sorted(frames), len(places), ended) == (list(range(5, 12)), 7, True)
    other = open_source(tmp_path, **KEYS)
    path.write_bytes(content)
    gather(other)
    write_whole(path, FRAMES + 1)
    came = other.poll()
    assert (came.frames, came.faults["file replaced"], other.poll().ended) == ((), 1, True)


def test_one_column_of_the_positions_may_be_ahead_of_the_other(tmp_path):
    with h5py.File(tmp_path / "scan.h5", "w", libver="latest") as file:
        file.create_dataset("data", data=FRAMES[:6], maxshape=(None, 16, 18))
        file.create_dataset("y", data=1e6 * XY[:5, 0], maxshape=(None,))
        file.create_dataset("x", data=1e6 * XY[:3, 1], maxshape=(None,))
    keys = KeyMap(patterns="data", positions_row="y", positions_col="x")
    _, places, _ = gather(open_source(tmp_path, keys=keys, unit="um"))
    assert sorted(places) == [0, 1, 2]
    np.testing.assert_allclose(places[2], 1e6 * XY[2])
