"""Virtual images of a raster: sums by loops, a phase by its gradient, and scans that are no raster."""

import numpy as np

from ptycho.config.data import DataConfig
from ptycho.preparation.prepare import interpret
from ptycho.preparation.virtual_images import integrated, raster_of, virtual_images
from ptycho.readers.table import open_raw

A, B, N = 5, 7, 32


def test_dark_field_and_deflection_by_hand(tmp_path):
    """A disk of radius 6 that moves by whole pixels, and a spot beside it, of another count at each place."""
    far = np.hypot(*np.mgrid[-N // 2 : N // 2, -N // 2 : N // 2])
    cube = np.zeros((A, B, N, N), np.uint16)
    for row in range(A):
        for column in range(B):
            cube[row, column] = np.roll(100 * (far <= 6), (row - 2, 0), (0, 1))
            cube[row, column, 2, 3] += 10 * row + column
    np.save(tmp_path / "a.npy", cube)
    keys = {"scan_step_nm": 100.0, "energy_eV": 8e3, "distance_m": 1.0, "detector_pixel_m": 1e-4}
    keys |= {"zero_frequency": "centre", "hot_pixels": False, "zingers": False}
    config = DataConfig(file=(str(tmp_path / "a.npy"),), **keys)
    found = virtual_images(interpret(open_raw(config), config))
    rows, columns = np.mgrid[:A, :B]
    dark = found["virtual dark field"]
    shifted = dark - (10 * rows + columns)  # what of the disk leaves it is the same in a row
    assert np.ptp(shifted, axis=1).max() < 0.1
    phase = found["iDPC / rad"]
    assert np.diff(phase, axis=0)[-1].min() > 0 > np.diff(phase, axis=0)[0].max()  # down, then up


def test_a_phase_is_found_by_its_gradient():
    y, x = np.mgrid[:40, :50] * 1.0
    phase = np.exp(-((y - 20) ** 2 + (x - 22) ** 2) / 60) + np.exp(-((y - 8) ** 2 + (x - 40) ** 2) / 30) / 2
    rows, columns = np.gradient(phase, 2.0, 3.0)
    found = integrated(rows / (2 * np.pi), columns / (2 * np.pi), [2.0, 3.0])
    np.testing.assert_allclose(found, phase - phase.mean(), atol=0.02)


def test_what_is_no_raster():
    places = np.stack(np.meshgrid(2.0 * np.arange(4), 3.0 * np.arange(5), indexing="ij"), -1).reshape(-1, 2)
    assert raster_of(places) == (4, 5)
    assert raster_of(places[:-1]) is None
    assert raster_of(places + np.random.default_rng(1).normal(0, 0.2, places.shape)) is None
