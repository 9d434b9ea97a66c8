"""Rows of arrays in files."""

import numpy as np
import pytest

from ptycho.files.file_array import FileArray


def test_rows_are_those_of_the_array(tmp_path):
    array = np.arange(5 * 3 * 2).reshape(5, 3, 2).astype(np.complex64) * 1.5
    (tmp_path / "file").write_bytes(b"1234567" + array.tobytes())
    rows = FileArray((tmp_path / "file").open("rb"), array.shape, np.complex64, start=7)
    assert len(rows) == 5 and rows.ndim == 3 and rows.shape == array.shape and rows.dtype == np.complex64
    indices = [np.array(some, int) for some in ([3], [4, 0, 0, 2], [[1, 2], [2, 1]], [])]
    for index in (slice(None), slice(1, 4), slice(4, 9), slice(3, 3), slice(-2, None), *indices):
        np.testing.assert_array_equal(rows[index], array[index])
    for beyond in ([5], [-1]):
        with pytest.raises(IndexError):
            rows[np.array(beyond)]


def test_temporary_rows_hold_what_is_written_and_leave_nothing(tmp_path):
    rows = FileArray.temporary(tmp_path, (6, 4), np.complex64)
    assert list(tmp_path.iterdir()) == []
    assert not rows[:].any()
    values = np.arange(8).reshape(2, 4) * (1 - 2j)
    rows[3:5] = values
    np.testing.assert_array_equal(rows[:], np.concatenate([np.zeros((3, 4)), values, np.zeros((1, 4))]))
    with pytest.raises(ValueError, match=r"does not fit"):
        rows[0:3] = values


def test_a_file_that_shrinks_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(bytes(40))
    rows = FileArray((tmp_path / "file").open("rb"), (10,), np.float32)
    (tmp_path / "file").write_bytes(bytes(20))
    with pytest.raises(OSError, match="ends before row 10"):
        rows[:]
