"""Frames without a position, and positions without a frame: keys that exclude either."""

import h5py
import numpy as np
import pytest
from helpers.hdf5 import MADE, J, cxi_arrays, written

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.readers.raw_scan import ReadOptions, checked_frames
from ptycho.readers.table import open_raw, open_scan


@pytest.mark.parametrize(
    ("frames", "places", "data"),
    [
        *((J + 2, J, data) for data in ({"drop": (J, J + 1)}, {"frames": J}, {"stride": 2}, {"frames": 5})),
        (J + 2, J, {"stride": 3, "frames": 4}),
        (J + 2, J, {"frames": 5, "drop": (J + 1,)}),  # a number that is not among the first
        (J, J - 2, {"drop": (0, 1)}),  # the first two frames are dark and have no position
        (9, J, {"frames": 9}),  # a scan that was stopped
    ],
)
def test_frames_that_are_used_have_positions_in_their_order(tmp_path, frames, places, data):
    """Of a CXI file; frames after the first J are dark."""
    dark = np.zeros((max(0, frames - J), *MADE.counts.shape[1:]), np.uint16)
    counts = np.concatenate([MADE.counts, dark])[:frames]
    translation = cxi_arrays()["entry_1/data_1/translation"][:places]
    arrays = {"entry_1/data_1/data": counts, "entry_1/data_1/translation": translation}
    config = DataConfig(file=str(written(tmp_path / "s.cxi", cxi_arrays(**arrays))), **data)
    raw = open_raw(config)
    used = checked_frames(config, raw.patterns.shape[0])
    assert used[0] == J - places and len(used) >= 4
    np.testing.assert_allclose(raw.positions[used], MADE.metres[used - used[0]], atol=1e-20)
    np.testing.assert_array_equal(raw.patterns.read(used), MADE.counts[used])


@pytest.mark.parametrize(("frames", "places"), [(6, 4), (4, 6), (5, 5)])
def test_a_file_that_is_being_written_is_read_up_to_the_shorter_of_both(tmp_path, frames, places):
    with h5py.File(tmp_path / "s.h5", "w", libver="latest") as file:
        for name, rows in (("data", MADE.counts[:frames]), ("rc", MADE.metres[:places])):
            file.create_dataset(name, data=rows, maxshape=(None, *rows.shape[1:]))
        file.swmr_mode = True
        content = (tmp_path / "s.h5").read_bytes()
    (tmp_path / "s.h5").write_bytes(content)  # as of a writer that goes on
    keys = {"patterns": "data", "positions": "rc"}
    with pytest.raises(ConfigError, match="open for writing"):
        open_scan(tmp_path / "s.h5", ReadOptions(keys=keys, unit="m"))
    raw = open_scan(tmp_path / "s.h5", ReadOptions(keys=keys, unit="m", growing=True))
    shorter = min(frames, places)
    np.testing.assert_array_equal(raw.patterns.read(slice(0, shorter)), MADE.counts[:shorter])
    np.testing.assert_allclose(raw.positions, MADE.metres[:shorter])
    assert raw.patterns.shape[0] == shorter
    raw.patterns.close()
