"""MATLAB 7.3: HDF5 files with every array's axes in reverse, against the arrays that MATLAB would show."""

import h5py
import numpy as np
import pytest
from helpers.hdf5 import MADE, H, W, same

from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan


def saved(path, arrays, block=False):
    """Write a file like ``save -v7.3``: reversed axes, marked by MATLAB's own block or attribute."""
    with h5py.File(path, "w", userblock_size=512 if block else 0) as file:
        for name, array in arrays.items():
            pairs = array.T
            if np.iscomplexobj(array):
                pairs = np.empty(array.T.shape, [("real", "f8"), ("imag", "f8")])
                pairs["real"], pairs["imag"] = array.T.real, array.T.imag
            dataset = file.create_dataset(name, data=pairs)
            if not block:
                dataset.attrs["MATLAB_class"] = np.bytes_("double")
    if block:
        with path.open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    return path


def read(path, axes="rc", **keys):
    return open_scan(path, ReadOptions(keys={"patterns": "dp"} | keys, unit="m", axes=axes))


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("images_last", [True, False])
def test_every_array_is_turned_over(tmp_path, block, images_last):
    good = np.ones((H, W), bool)
    good[2, 3] = False
    arrays = {
        "dp": np.moveaxis(MADE.counts, 0, -1) if images_last else MADE.counts,
        "probe": np.moveaxis(np.pad(MADE.probe, [(0, 0), (0, W - H), (0, 0)]), 0, -1),
        "pos": MADE.metres[:, ::-1],
        "good": good.astype(float),
        "object": MADE.object,
        "dark": np.arange(H * W, dtype=float).reshape(H, W),
        "energy": np.array([[6200.0]]),
    }
    keys = {"probe": "probe", "object": "object", "good": "good", "dark": "dark", "energy_eV": "energy"}
    scan = read(saved(tmp_path / "s.mat", arrays, block), "xy", positions="pos", **keys)
    np.testing.assert_allclose(scan.probe[:, :H], MADE.probe, rtol=1e-6)
    np.testing.assert_allclose(scan.object, MADE.object, rtol=1e-6)
    np.testing.assert_array_equal(scan.good, good)
    np.testing.assert_array_equal(scan.dark, arrays["dark"])
    assert scan.energy_eV == 6200 and any("in reverse" in note for note in scan.notes)
    same(scan)


@pytest.mark.parametrize("rows", [3, 5])
def test_a_raster_is_run_through_as_matlab_does(tmp_path, rows):
    """Its first index is the fast one, whether the raster is a square or not."""
    count = 3 * rows
    frames = MADE.counts[:count]
    raster = frames.reshape(3, rows, H, W).transpose(2, 3, 1, 0)  # (H, W, A, B), pattern a + A·b
    row, col = (np.arange(count).reshape(3, rows).T * step for step in (2.0, 5.0))
    path = saved(tmp_path / "s.mat", {"dp": raster, "row": row, "col": col})
    scan = read(path, None, positions_row="row", positions_col="col")
    np.testing.assert_array_equal(scan.patterns.read(slice(0, count)), frames)
    np.testing.assert_array_equal(scan.positions, np.arange(count)[:, None] * [2.0, 5.0])
    axes = {"dp": raster, "row": np.arange(rows)[None] * 1.0, "col": np.arange(3)[None] * 9.0}
    scan = read(saved(tmp_path / "t.mat", axes), None, positions_row="row", positions_col="col")
    expected = [(a, 9 * b) for b in range(3) for a in range(rows)]
    np.testing.assert_array_equal(scan.positions, expected)
