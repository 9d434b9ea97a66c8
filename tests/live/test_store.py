"""What came is on the disk at once, and a killed program loses no whole record."""

import os

import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.live.arrivals import BY_TIME, Description, Frame, Place
from ptycho.live.store import FRAMES, PLACES, Store

H, W = 5, 7


def frame(number, dtype=np.uint16, shape=(H, W)):
    return Frame(number, np.random.default_rng(number).integers(0, 99, shape).astype(dtype), number / 10)


def filled(folder, count=4):
    store = Store(folder)
    store.add([frame(k) for k in range(count)], [Place(k, k + 0.5, -k) for k in range(count)], None)
    return store


def test_what_was_put_in_is_there_after_it_was_opened_again(tmp_path):
    filled(tmp_path).close()
    store = Store(tmp_path)
    np.testing.assert_array_equal(store.frames.indices, range(4))
    np.testing.assert_allclose(store.frames.times, [0, 0.1, 0.2, 0.3])
    np.testing.assert_array_equal(store.places.values, [[0.5, 0], [1.5, -1], [2.5, -2], [3.5, -3]])
    np.testing.assert_array_equal(store.read(np.array([2, 0])), [frame(2).data, frame(0).data])
    assert store.has(3) and not store.has(4) and store.counts == (4, 4)
    store.add([frame(7), frame(8)], [Place(7, 1, 1)], None)
    assert store.counts == (6, 5)


@pytest.mark.parametrize("lost", [1, 30, 2 * H * W])
def test_half_a_record_is_cut_off_and_what_follows_is_whole(tmp_path, lost):
    filled(tmp_path).close()
    for name in (FRAMES, PLACES):
        os.truncate(tmp_path / name, (tmp_path / name).stat().st_size - min(lost, 35))
    store = Store(tmp_path)
    np.testing.assert_array_equal(store.frames.indices, range(3))
    np.testing.assert_array_equal(store.places.indices, range(3))
    store.add([frame(9)], [Place(9, 1, 2)], None)
    store.close()
    again = Store(tmp_path)
    np.testing.assert_array_equal(again.read(np.array([3]))[0], frame(9).data)
    np.testing.assert_array_equal(again.places.values[-1], [1, 2])


def test_a_record_whose_bytes_changed_at_the_end_is_cut_off(tmp_path):
    filled(tmp_path).close()
    content = bytearray((tmp_path / FRAMES).read_bytes())
    content[-1] ^= 0xFF
    (tmp_path / FRAMES).write_bytes(content)
    np.testing.assert_array_equal(Store(tmp_path).frames.indices, range(3))


def test_what_does_not_fit_is_counted_and_left_out(tmp_path):
    store = filled(tmp_path)
    wrong = [frame(1), frame(5, shape=(H, W - 1)), frame(6, np.float32), Frame(-1, frame(0).data)]
    places = [Place(2, 7, 7), Place(8, np.nan, 1), Place(BY_TIME, 1, 1, 0.2), Place(BY_TIME, 2, 2, 0.4)]
    faults = store.add([*wrong, frame(7, np.uint8)], places, None)
    assert faults == {
        "repeated": 1,
        "wrong shape": 1,
        "wrong dtype": 2,
        "position repeated": 1,
        "position not finite": 1,
    }
    np.testing.assert_array_equal(store.frames.indices, [0, 1, 2, 3, 7])
    np.testing.assert_array_equal(store.read(np.array([1]))[0], frame(1).data)  # the first one stays


def test_the_first_frame_may_be_the_wrong_one_where_the_source_says_what_is_right(tmp_path):
    store = Store(tmp_path)
    told = Description(shape=(H, W), dtype=np.dtype("uint16"))
    assert store.add([frame(0, shape=(H, W + 1)), frame(1)], [], told) == {"wrong shape": 1}
    assert store.shape == (H, W) and store.dtype == np.uint16


def test_a_full_disk_leaves_whole_records_and_takes_the_frame_again(tmp_path, monkeypatch):
    store = filled(tmp_path, 2)
    handle = store._handles[FRAMES]

    class Full:
        """Takes half of what it is given."""

        def write(self, content):
            return handle.write(content[: len(content) // 2])

        def __getattr__(self, name):
            return getattr(handle, name)

    monkeypatch.setitem(store._handles, FRAMES, Full())
    with pytest.raises(OSError, match="No space left"):
        store.add([frame(2)], [], None)
    monkeypatch.setitem(store._handles, FRAMES, handle)
    assert store.add([frame(2)], [], None) == {}
    store.close()
    np.testing.assert_array_equal(Store(tmp_path).read(np.array([2]))[0], frame(2).data)


def test_what_the_source_says_is_read_back(tmp_path):
    told = Description(
        "um",
        "counts",
        (3.0, 4.0),
        8800.0,
        None,
        (1e-6, 2e-6),
        probe=np.ones((1, 4, 4), np.complex64),
        good=np.eye(4, dtype=bool),
        shape=(H, W),
        dtype=np.dtype("uint16"),
        expected=9,
    )
    store = Store(tmp_path)
    store.describe(told)
    found = Store(tmp_path).description
    for name in ("unit", "domain", "zero_frequency", "energy_eV", "distance_m", "detector_pixel_m", "shape"):
        assert getattr(found, name) == getattr(told, name), name
    assert (found.dtype, found.expected) == (told.dtype, 9)
    np.testing.assert_array_equal(found.good, told.good)


def test_damaged_header_is_refused(tmp_path):
    filled(tmp_path).close()
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(ConfigError, match=r"store\.json: is damaged"):
        Store(tmp_path)
