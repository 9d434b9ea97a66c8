"""A made-up scan, and HDF5 files that hold it in the layouts of measured scans."""

from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan

J, H, W = 15, 11, 14
EV = 1.602176634e-19
DET, SRC = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
NO = ReadOptions()


def _made_up():
    """A complex object, two modes; the columns are the slow axis: 5 of them of 3 rows, 4 and 3 px apart."""
    rng = np.random.default_rng(3)
    object_ = np.exp(1j * rng.uniform(-1, 1, (29, 31))) * rng.uniform(0.5, 1, (29, 31))
    rows, cols = np.indices((H, W)) - np.array([H // 2, W // 2])[:, None, None]
    first = np.exp(-(rows**2 + cols**2) / 12 + 0.1j * rows * cols)
    probe = 30 * np.stack([first, 0.4j * cols * first]).astype(np.complex64)
    places = np.array([(3 * a, 4 * b) for b in range(5) for a in range(3)])
    exit_waves = np.array([probe * object_[r : r + H, c : c + W] for r, c in places])
    far = np.fft.fftshift(np.fft.fft2(exit_waves, norm="ortho"), axes=(-2, -1))
    intensity = (np.abs(far) ** 2).sum(axis=1)
    return SimpleNamespace(
        probe=probe,
        object=object_.astype(np.complex64),
        metres=places * [2e-8, 3e-8] - [1e-7, 5e-7],
        counts=rng.poisson(intensity).astype(np.uint16),
        intensity=intensity,
    )


MADE = _made_up()


def written(path, arrays):
    """An HDF5 file of arrays by path; ``path@name`` is an attribute."""
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            if "@" not in key:
                file[key] = value
        for key, value in arrays.items():
            if "@" in key:
                node, name = key.split("@")
                file[node or "/"].attrs[name] = value
    return path


def cxi_arrays(**changes):
    """Return the arrays of a CXI file."""
    x, y = MADE.metres[:, 1], MADE.metres[:, 0]  # the sample goes up, the probe down on it
    return {
        "cxi_version": 160,
        "entry_1/data_1/data": MADE.counts,
        "entry_1/data_1/translation": np.stack([x, y, 0 * x], axis=1),
        f"{DET}/distance": 1.25,
        f"{DET}/x_pixel_size": 75e-6,
        f"{DET}/y_pixel_size": 55e-6,
        f"{SRC}/energy": 6200 * EV,
        f"{SRC}/illumination": MADE.probe,
    } | changes


def eiger_folder(folder, parts=3):
    """A master and its files of 5 patterns."""
    with h5py.File(folder / "s_master.h5", "w") as master:
        for k in range(1, parts + 1):
            some = MADE.counts[5 * k - 5 : 5 * k].astype("u4")
            written(folder / f"s_data_{k:06d}.h5", {"entry/data/data": some})
            link = h5py.ExternalLink(f"s_data_{k:06d}.h5", "/entry/data/data")
            master[f"entry/data/data_{k:06d}"] = link
        detector = master.create_group("entry/instrument/detector")
        detector.update({"detector_distance": 2.1, "x_pixel_size": 75e-6, "y_pixel_size": 75e-6})
        detector.update({"beam_center_x": 6.5, "beam_center_y": 5.25})
        mask = np.zeros((H, W), np.uint32)
        mask[2, 3] = 1
        detector["detectorSpecific/pixel_mask"] = mask
        detector["detectorSpecific/photon_energy"] = 9000.0
    return folder / "s_master.h5"


def product(path, **changes):
    """A product of ptychodus, without patterns unless they are among the changes; no path: its arrays."""
    arrays = {
        "probe_position_indexes": np.arange(J),
        "probe_position_x_m": MADE.metres[:, 1],
        "probe_position_y_m": MADE.metres[:, 0],
        "probe": MADE.probe,
        "probe@pixel_width_m": 3e-8,
        "probe@pixel_height_m": 2e-8,
        "object": MADE.object[None],
        "object@center_x_m": -1e-8,
        "object@center_y_m": 4e-8,
        "object@pixel_width_m": 3e-8,
        "object@pixel_height_m": 2e-8,
        "@probe_energy_eV": 8000.0,
        "@detector_object_distance_m": 1.9,
    } | changes
    arrays = {key: value for key, value in arrays.items() if value is not None}
    return arrays if path is None else written(path, arrays)


def same(scan, counts=None, index=slice(None)):
    """Assert that patterns and positions of the scan are those that were written."""
    counts = MADE.counts if counts is None else counts
    assert scan.patterns.shape == (len(MADE.metres[index]), H, W)
    np.testing.assert_array_equal(scan.patterns.read(slice(0, J)), counts[index])
    some = np.array([4, 1, 2, 4])
    np.testing.assert_array_equal(scan.patterns.read(some), counts[index][some])
    assert scan.positions.dtype == np.float64
    np.testing.assert_allclose(scan.positions, MADE.metres[index], rtol=1e-12, atol=1e-20)
    assert scan.unit == "m"
    scan.patterns.close()


def says(scan, **values):
    """Assert attributes of the scan; numbers up to rounding."""
    for key, value in values.items():
        found = getattr(scan, key)
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(found, value, rtol=1e-6, err_msg=key)
        else:
            assert found == (value if isinstance(value, str | None) else pytest.approx(value)), key


def refused(path, match, options=NO):
    with pytest.raises(ConfigError, match=match) as caught:
        open_scan(path, options)
    assert "\n" not in str(caught.value)
