"""Masks that differ from pattern to pattern: bad pixels hold a mark in their own patterns alone."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
from helpers.hdf5 import DET, MADE, H, J, W, cxi_arrays, written
from helpers.scans import save_npz

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import join_scans, open_scan

ALWAYS = np.zeros((H, W), bool)
ALWAYS[1, 1] = True
BAD = (np.random.default_rng(8).random((J, H, W)) < 0.1) | ALWAYS


def cxi(folder, bad):
    return written(folder / "s.cxi", cxi_arrays(**{f"{DET}/mask": np.where(bad, 1, 0x1000).astype("u4")})), {}


def ptyd(folder, bad):
    arrays = {"meta/energy": 6.2, "meta/distance": 7.0, "meta/psize": 55e-6, "meta/center": "fftshift"}
    for k, part in enumerate(np.array_split(np.arange(J), 4)):
        chunk = {"data": MADE.counts[part], "positions": MADE.metres[part], "weights": 1.0 * ~bad[part]}
        arrays |= {f"chunks/{k}/{key}": value for key, value in chunk.items()}
    return written(folder / "s.ptyd", arrays), {}


def npz(folder, bad):
    arrays = {"frames": MADE.counts.astype("f4"), "places": MADE.metres, "wrong": bad}
    keys = {"patterns": "frames", "positions": "places", "bad": "wrong"}
    return save_npz(folder / "s.npz", **arrays), {"keys": keys, "unit": "m"}


@pytest.mark.parametrize(("write", "mark"), [(cxi, 2**16 - 1), (ptyd, 2**16 - 1), (npz, 2.0**32)])
def test_bad_pixels_hold_a_mark_in_their_own_patterns(tmp_path, write, mark):
    path, options = write(tmp_path, BAD)
    scan = open_scan(path, ReadOptions(**options))
    if write is ptyd:  # its masks stay in the file and are read with their patterns
        assert scan.good is None
    else:
        np.testing.assert_array_equal(scan.good, ~ALWAYS)
    wanted = np.where(BAD, mark, MADE.counts)
    np.testing.assert_array_equal(scan.patterns.read(slice(2, 9)), wanted[2:9])
    np.testing.assert_array_equal(scan.patterns.read(np.array([12, 0, 12])), wanted[[12, 0, 12]])
    scan.patterns.close()


def test_weights_of_some_chunks_alone_are_refused(tmp_path):
    path, _ = ptyd(tmp_path, BAD)
    with h5py.File(path, "a") as file:
        del file["chunks/2/weights"]
    with pytest.raises(ConfigError, match=r"weights have shapes .* must be those of data"):
        open_scan(path, ReadOptions())


@pytest.mark.parametrize("write", [cxi, npz])
def test_one_mask_repeated_is_one_mask(tmp_path, write):
    path, options = write(tmp_path, np.broadcast_to(BAD[3], BAD.shape))
    scan = open_scan(path, ReadOptions(**options))
    np.testing.assert_array_equal(scan.good, ~BAD[3])
    np.testing.assert_array_equal(scan.patterns.read(slice(0, J)), MADE.counts)
    scan.patterns.close()


def test_scans_of_one_object_keep_the_marks_and_the_least_saturation(tmp_path):
    """A file of narrower numbers beside one of wider ones."""
    scans = []
    for dtype, saturation in (("u2", 50), ("u4", 70)):
        (tmp_path / dtype).mkdir()
        path, _ = cxi(tmp_path / dtype, BAD)
        with h5py.File(path, "a") as file:
            del file["entry_1/data_1/data"]
            file["entry_1/data_1/data"] = MADE.counts.astype(dtype)
        scans.append(replace(open_scan(path, ReadOptions()), saturation=saturation))
    joined = join_scans(scans, ("one", "two"))
    wanted = np.concatenate([np.where(BAD, 2**32 - 1, MADE.counts.astype("u4"))] * 2)
    np.testing.assert_array_equal(joined.patterns.read(np.arange(2 * J)), wanted)
    assert joined.saturation == 50
    joined.patterns.close()


def test_masks_that_are_not_one_for_each_pattern_mask_all(tmp_path):
    path, _ = cxi(tmp_path, BAD[:5])
    scan = open_scan(path, ReadOptions())
    np.testing.assert_array_equal(scan.good, ~BAD[:5].any(axis=0))
    assert any("masked in all" in line for line in scan.warnings)
    scan.patterns.close()
