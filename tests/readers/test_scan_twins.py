"""Formats that are both HDF5 and NPZ, and what all archives have in common: one test for both."""

import itertools

import numpy as np
import pytest
from helpers.hdf5 import made_up, written
from helpers.hdf5 import product as product_hdf5
from helpers.scans import H, J, Made, W, equal, pinn, save_npz, tike

from ptycho.config import ConfigError
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.npz import NpzArchive
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan

KINDS = ("HDF5", "NPZ")


@pytest.fixture(scope="module")
def made():
    return Made()


def save(kind, path, arrays):
    """A file of arrays by path; ``path@name`` is an attribute, of NPZ an array ``path_name``."""
    if kind == "HDF5":
        return written(path.with_suffix(".h5"), arrays)
    return save_npz(
        path.with_suffix(".npz"),
        **{key.replace("@", "_").lstrip("_"): value for key, value in arrays.items()},
    )


def product(made, **changes):
    arrays = {
        "probe_position_indexes": np.arange(J),
        "probe_position_x_m": made.col * 1e-8,
        "probe_position_y_m": made.row * 1e-8,
        "probe": made.probe[None],
        "probe@pixel_height_m": 2e-8,
        "probe@pixel_width_m": 3e-8,
        "object": made.object[None],
        "object@center_x_m": -5e-7,
        "object@center_y_m": 2e-7,
        "object@pixel_height_m": 2e-8,
        "object@pixel_width_m": 3e-8,
        "@probe_energy_eV": 8000.0,
        "@detector_object_distance_m": 1.5,
    }
    return arrays | changes


def metres(made):
    return np.stack([made.row, made.col], axis=1) * 1e-8


# ---------------------------------------------------------------- the interface


@pytest.mark.parametrize(("kind", "archive"), [("HDF5", Hdf5Archive), ("NPZ", NpzArchive)])
def test_an_archive_declares_without_reading(tmp_path, made, kind, archive):
    path = save(kind, tmp_path / "a", {"a/d": made.counts, "a/d@pitch": 5e-5, "t": "a word"})
    with archive(path) as file:
        assert file.kind == kind and file.entry("a/d") == ((J, H, W), np.uint16)
        assert file.holds("a/d@pitch") and not file.holds("a/e") and file.entry("a/e") is None
        assert file.read("a/d@pitch") == 5e-5 and file.text("t") == "a word" and file.text("a/d") is None
        assert file.read("a/e") is None and not file.problems
        assert file.read("t", needed=True) is None and "must be real numbers" in file.problems[0]
        assert (
            file.need("patterns", "x", "y") is None and "lacks patterns (x or y); it has" in file.problems[1]
        )
        with pytest.raises(ConfigError, match=f"{path}: t .*; lacks patterns"):
            file.refuse()


# ---------------------------------------------------------------- a product and its patterns


@pytest.mark.parametrize(("kind", "other", "swapped"), list(itertools.product(KINDS, KINDS, [False, True])))
def test_product_and_patterns(tmp_path, made, kind, other, swapped):
    arrays = {"patterns": made.counts, "indexes": np.arange(J), "bad_pixels": made.bad}
    own, data = save(kind, tmp_path / "p", product(made)), save(other, tmp_path / "d", arrays)
    path, options = (data, {"positions_file": own}) if swapped else (own, {"patterns_file": data})
    scan = open_scan(path, ReadOptions(**{key: str(value) for key, value in options.items()}))
    assert (scan.format, scan.domain, scan.unit) == ("ptychodus", "counts", "m")
    np.testing.assert_allclose(scan.positions, metres(made), rtol=1e-12)
    np.testing.assert_array_equal(scan.good, ~made.bad)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    assert scan.probe_pixel_m == scan.object_pixel_m == (2e-8, 3e-8)
    assert scan.object_centre_m == (2e-7, -5e-7)
    assert (scan.energy_eV, scan.distance_m) == (8000, 1.5) and not scan.warnings
    equal(scan.patterns, made.counts)


def paired(tmp_path, made, kind, mine, theirs):
    """A scan of patterns with the numbers ``mine``, and positions with ``theirs``."""
    places = metres(made)[: len(theirs)]
    arrays = {"probe_position_x_m": places[:, 1], "probe_position_y_m": places[:, 0]}
    own = save(kind, tmp_path / "p", product(made, probe_position_indexes=np.array(theirs), **arrays))
    data = {"patterns": made.counts[: len(mine)], "indexes": np.array(mine)}
    return open_scan(own, ReadOptions(patterns_file=str(save(kind, tmp_path / "d", data))))


@pytest.mark.parametrize("kind", KINDS)
def test_patterns_and_positions_are_paired_by_number(tmp_path, made, kind):
    """Positions 6, 5, … 0 and 9; patterns 0, 2, … 12: four have a partner, in the order of the patterns."""
    scan = paired(tmp_path, made, kind, 2 * np.arange(J), [6, 5, 4, 9, 2, 1, 0])
    np.testing.assert_array_equal(scan.numbers, [0, 2, 4, 6])
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 4)), made.counts[:4])
    np.testing.assert_allclose(scan.positions, metres(made)[[6, 4, 2, 0]], rtol=1e-12)
    assert scan.warnings == ("3 of 7 patterns and 3 of 7 positions are excluded: no partner",)
    scan.patterns.close()


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_repeat(tmp_path, made, kind):
    scan = paired(tmp_path, made, kind, np.arange(J), [0] * J)
    assert "repeat, 6 of 7: they are paired in the order of the files" in scan.warnings[0]
    np.testing.assert_allclose(scan.positions, metres(made), rtol=1e-12)
    scan.patterns.close()
    scan = paired(tmp_path, made, kind, [4, 5, 6], [5, 4, 5, 6])
    assert scan.warnings == ("1 of 4 positions are of patterns that have another; are they right?",)
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 4)), made.counts[[0, 1, 1, 2]])
    np.testing.assert_allclose(scan.positions, metres(made)[[1, 0, 2, 3]], rtol=1e-12)
    scan.patterns.close()
    with pytest.raises(ConfigError, match=r"3 patterns and 4 positions have numbers that repeat; give each"):
        paired(tmp_path, made, kind, [4, 4, 6], [4, 5, 6, 7])
    with pytest.raises(ConfigError, match=r"no pattern has a position: .* are 0 to 2, those .* 7 to 8"):
        paired(tmp_path, made, kind, [0, 1, 2], [7, 8])


@pytest.mark.parametrize(
    ("kind", "key"), list(itertools.product(KINDS, ["opr_weights", "probe@opr_weights"]))
)
def test_coherent_modes_and_layers(tmp_path, made, kind, key):
    """By hand: mean weights (1, 0.5) of two coherent modes."""
    sets, weights = np.stack([made.probe, -2j * made.probe]), np.stack([np.ones(J), np.linspace(0, 1, J)], 1)
    changes = {"probe": sets, key: weights, "object": np.stack([made.object, made.object])}
    own = save(kind, tmp_path / "p", product(made, **changes))
    data = save(kind, tmp_path / "d", {"patterns": made.counts, "bad_pixels": made.bad})
    scan = open_scan(own, ReadOptions(patterns_file=str(data)))
    scan.patterns.close()
    np.testing.assert_allclose(scan.probe, (1 - 1j) * made.probe, rtol=1e-5)
    np.testing.assert_allclose(scan.object, made.object**2, rtol=1e-6)
    assert len(scan.warnings) == 2 and any("mean of" in line for line in scan.warnings)


# ---------------------------------------------------------------- a map of keys


@pytest.mark.parametrize("kind", KINDS)
def test_keymap(tmp_path, kind):
    made = made_up()
    (_, rows, cols), probe = made.counts.shape, made.probe
    if kind == "HDF5":
        probe = np.zeros(made.probe.shape, [("real", "f8"), ("imag", "f8")])  # as MATLAB writes it
        probe["real"], probe["imag"] = made.probe.real, made.probe.imag
    arrays = {
        "a/d": made.intensity,
        "a/xy": made.metres[:, ::-1].T * 1e6,
        "p": probe,
        "E": 7.1,
        "E@units": "keV",
    }
    arrays |= {"b": np.eye(rows, cols), "g": 1 - np.eye(rows, cols)[::-1].astype(int), "z": 1.5}
    arrays |= {"a@pitch": [55e-6, 75e-6], "f": np.full((rows, cols), 0.5), "o": made.object}
    keys = {"patterns": "a/d", "positions": "a/xy", "probe": "p", "bad": "b", "good": "g", "energy_eV": "E"}
    keys |= {"detector_pixel_m": "a@pitch", "distance_m": "z", "flat": "f", "dark": "f", "object": "o"}
    path = save(kind, tmp_path / "a", arrays)
    scan = open_scan(path, ReadOptions(keys=keys, unit="um", axes="xy"))
    assert scan.format == {"HDF5": "hdf5", "NPZ": "npz"}[kind]
    assert (scan.domain, scan.zero_frequency, scan.unit, scan.distance_m) == (None, None, "um", 1.5)
    np.testing.assert_allclose(scan.positions, made.metres * 1e6, rtol=1e-12)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    np.testing.assert_array_equal(scan.good, (np.eye(rows, cols) + np.eye(rows, cols)[::-1]) == 0)
    np.testing.assert_array_equal(scan.flat, 0.5)
    np.testing.assert_array_equal(scan.dark, 0.5)
    assert scan.energy_eV == pytest.approx(7100)
    assert scan.detector_pixel_m == pytest.approx((55e-6, 75e-6))
    np.testing.assert_array_equal(scan.patterns.read(np.array([7])), made.intensity[7:8])
    scan.patterns.close()


# ---------------------------------------------------------------- other positions than the file's


@pytest.mark.parametrize("arrays", [pinn, tike])
@pytest.mark.parametrize("second", ["table", "product"])
def test_other_positions_take_the_place_of_the_files(tmp_path, made, arrays, second):
    path = save_npz(tmp_path / "a.npz", **arrays(made))
    wanted = np.random.default_rng(0).uniform(0, 1e-6, (J, 2))
    if second == "table":
        np.save(tmp_path / "t.npy", wanted)
        options = ReadOptions(positions_file=str(tmp_path / "t.npy"), axes="rc", unit="m")
    else:
        places = {"probe_position_x_m": wanted[:, 1], "probe_position_y_m": wanted[:, 0]}
        own = product_hdf5(tmp_path / "p.h5", made_up(), probe_position_indexes=np.arange(J), **places)
        options = ReadOptions(positions_file=str(own))
    scan = open_scan(path, options)
    np.testing.assert_allclose(scan.positions, wanted, rtol=1e-12)
    assert scan.unit == "m" and (scan.object is None) == (second == "table")
