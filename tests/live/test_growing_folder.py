"""A folder that fills."""

import numpy as np
import pytest
import tifffile

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.live.sources import SourceOptions, open_source
from ptycho.live.sources.growing_folder import GrowingFolder

DATA = np.random.default_rng(0).poisson(9, (6, 16, 18)).astype(np.uint16)


def how(folder, **changes):
    return SourceOptions(DataConfig(file=("-",)), folder, lambda number: False, **changes)


def rows_of(came):
    """Index, row and column of the positions that came."""
    return [(index, row, col) for index, row, col in came.positions.tolist()]


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "frames"
    made.mkdir()
    return made


def test_files_are_taken_by_the_number_in_their_name_when_they_are_whole(tmp_path, folder):
    source = open_source(f"{folder}/", how(tmp_path))
    tifffile.imwrite(folder / "run7_0010.tif", DATA[0])
    np.save(folder / "run7_2.npy", DATA[1])
    whole = (folder / "run7_0010.tif").read_bytes()
    (folder / "run7_0011.tif").write_bytes(whole[: len(whole) // 2])
    (folder / "notes.tif").write_bytes(b"")
    came = source.poll()
    assert {frame.number for frame in came.frames} == {2, 10} and came.faults == {"file without a number": 1}
    np.testing.assert_array_equal(next(f.data for f in came.frames if f.number == 10), DATA[0])
    assert source.poll().empty
    (folder / "run7_0011.tif").write_bytes(whole)
    assert [frame.number for frame in source.poll().frames] == [11]
    (folder / "END").touch()
    assert source.poll().ended


def test_a_file_that_stays_cut_short_is_given_up(tmp_path, folder):
    source = GrowingFolder(folder, how(tmp_path), patience_s=0.0)
    (folder / "f_1.tif").write_bytes(b"II*\0 no more")
    (folder / "END").touch()
    assert not source.poll().ended
    assert source.poll().faults == {"frame cut short": 1}
    assert source.poll().ended


def test_pickled_arrays_are_never_read(tmp_path, folder):
    np.save(folder / "f_1.npy", np.array([{"a": 1}], object), allow_pickle=True)
    assert not open_source(f"{folder}/", how(tmp_path)).poll().frames


def test_a_table_of_positions_that_grows(tmp_path, folder):
    source = open_source(f"{folder}/", how(tmp_path))
    table = folder / "positions.csv"
    table.write_text("frame,x_um,y_um\n4,1.5,2.5\n0,3,")
    assert rows_of(source.poll()) == [(4, 2.5, 1.5)]
    with table.open("a") as file:
        file.write("4\n7,nonsense,1\nnan,1,2\ninf,1,2\n8\n8,5,6\n")
    came = source.poll()
    assert rows_of(came) == [(0, 4.0, 3.0), (8, 6.0, 5.0)]
    assert came.faults == {"line of the table dropped": 4} and source.description.unit == "um"


def test_lines_without_an_index_are_those_of_the_frames_in_turn(tmp_path, folder):
    source = open_source(f"{folder}/", how(tmp_path))
    (folder / "positions.csv").write_text("row_nm col_nm\n1 2\n3 4\n5 nonsense\n7 8\n")
    assert rows_of(source.poll()) == [(0, 1.0, 2.0), (1, 3.0, 4.0), (3, 7.0, 8.0)]


@pytest.mark.parametrize("watch", ["tcp://127.0.0.1:1", "zmq://127.0.0.1:5555"])
def test_a_stream_is_not_watched(tmp_path, watch):
    with pytest.raises(ConfigError, match=r"must be a file or a folder; write what a stream brings into one"):
        open_source(watch, how(tmp_path))
