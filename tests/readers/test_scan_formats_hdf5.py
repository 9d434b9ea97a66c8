"""Readers of measured scans in HDF5: each format against the arrays that it was written from."""

import h5py
import numpy as np
import pytest
from helpers.hdf5 import (
    DET,
    EV,
    NO,
    SRC,
    H,
    J,
    W,
    cxi_arrays,
    eiger_folder,
    made_up,
    product,
    refused,
    same,
    written,
)

from ptycho.preparation.marks import find_marks
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan


@pytest.fixture(scope="module")
def made():
    return made_up()


@pytest.mark.parametrize("dtype", ["uint16", "int32", "float32", ">u4", "float64"])
def test_foldslice(tmp_path, made, dtype):
    arrays = {"dp": made.counts.astype(dtype), "ppX": made.metres[:, 1:], "ppY": made.metres[:, :1].T}
    scan = open_scan(written(tmp_path / "a.hdf5", arrays), NO)
    assert (scan.format, scan.domain, scan.zero_frequency) == ("foldslice", "counts", "centre")
    assert scan.patterns.dtype == np.dtype(dtype).newbyteorder("=")
    same(scan, made)


def test_foldslice_pair_by_either_name(tmp_path, made):
    written(tmp_path / "s_dp.hdf5", {"dp": made.intensity})
    values = {"probe_position_x_m": made.metres[:, 1], "probe_position_y_m": made.metres[:, 0]}
    values |= {"probe": made.probe[None], "object": made.object[None], "object@pixel_height_m": 2e-8}
    written(tmp_path / "s_para.hdf5", values | {"object@pixel_width_m": 3e-8})
    for name in ("s_dp.hdf5", "s_para.hdf5"):
        scan = open_scan(tmp_path / name, NO)
        assert scan.domain == "intensity"
        assert scan.object_pixel_m == (2e-8, 3e-8)
        np.testing.assert_array_equal(scan.probe, made.probe)
        np.testing.assert_array_equal(scan.object, made.object)
        same(scan, made, made.intensity)


def test_foldslice_of_eight_bits_is_not_taken_for_counts(tmp_path, made):
    small = np.sqrt(made.counts).astype(np.uint8)
    places = {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]}
    scan = open_scan(written(tmp_path / "a.h5", {"dp": small} | places), NO)
    assert scan.domain is None
    assert "holoptycho" in scan.warnings[0]
    scan = open_scan(written(tmp_path / "b.h5", {"diffraction/dp": small} | places), NO)
    assert (scan.domain, scan.zero_frequency) == ("amplitude", None)


def test_cxi(tmp_path, made):
    bits = np.zeros((H, W), np.uint32)
    bits[1, 2], bits[3, 4], bits[5, 6] = 0x1000, 0x1, 0x1001
    extra = {f"{DET}/mask": bits, f"{DET}/data_dark": np.stack([np.full((H, W), 2.0), np.full((H, W), 4.0)])}
    extra |= {"entry_1/image_1/data": made.object}
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **extra))
    scan = open_scan(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.distance_m) == ("counts", None, 1.25)
    assert scan.detector_pixel_m == (55e-6, 75e-6)
    assert scan.energy_eV == pytest.approx(6200)
    assert scan.good[1, 2] and not scan.good[3, 4] and not scan.good[5, 6]
    assert np.count_nonzero(~scan.good) == 2
    np.testing.assert_array_equal(scan.dark, 3)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    same(scan, made)


def test_cxi_of_electrons(tmp_path, made):
    """300 keV are 1.9687 pm, as have photons of 629.8 keV; what the user states is no electrons' energy."""
    changes = {f"{SRC}/energy": 3e5 * EV, f"{SRC}/probe": "electron"}
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **changes))
    scan = open_scan(path, NO)
    assert scan.energy_eV == pytest.approx(1.239841984e-6 / 1.9687e-12, rel=1e-4)
    assert any("300 keV is theirs" in note for note in scan.notes)
    np.testing.assert_array_equal(scan.probe, made.probe)
    assert open_scan(path, ReadOptions(stated={"energy_eV": 5e5})).energy_eV == 5e5


def test_cxi_sample_moves_against_the_probe(tmp_path, made):
    """By hand: y is up; the sample goes up, the probe down on it, to a later row; so with x and columns."""
    moves = np.zeros((J, 3))
    moves[1], moves[2] = (1e-6, 0, 0), (0, 1e-6, 0)
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **{"entry_1/data_1/translation": moves}))
    positions = open_scan(path, NO).positions
    np.testing.assert_array_equal(positions[1], [0, 1e-6])
    np.testing.assert_array_equal(positions[2], [1e-6, 0])


@pytest.mark.parametrize("turned", [False, True], ids=["(2, 3)", "(3, 2) of cdtools"])
def test_cxi_along_the_detectors_axes(tmp_path, made, turned):
    """By hand: rows of the detector go along +x, columns along −y; the probe goes against the sample."""
    basis = np.array([[55e-6, 0, 0], [0, -75e-6, 0]])
    arrays = cxi_arrays(made, **{f"{DET}/basis_vectors": basis.T if turned else basis})
    del arrays[f"{DET}/x_pixel_size"], arrays[f"{DET}/y_pixel_size"]
    scan = open_scan(written(tmp_path / "a.cxi", arrays), NO)
    sample = arrays["entry_1/data_1/translation"]
    np.testing.assert_allclose(scan.positions, np.stack([-sample[:, 0], sample[:, 1]], axis=1), rtol=1e-12)
    assert scan.detector_pixel_m == pytest.approx((55e-6, 75e-6))


def test_cxi_patterns_beside_the_product_that_ptychodus_writes(tmp_path, made):
    """The first image is the probe, the second the object; some patterns have no position."""
    kept = np.array([2, 3, 7, 11, 12])
    arrays = cxi_arrays(made)
    moves = arrays.pop("entry_1/data_1/translation")[kept]
    data = written(tmp_path / "d.cxi", arrays)
    parts = {"entry_1/sample_1/geometry_1/translation": moves, f"{SRC}/energy": 8000 * EV}
    parts |= {"entry_1/ptychodus/probe_position_indexes": kept, f"{DET}/distance": 1.25}
    parts |= {"entry_1/image_1/data": made.probe[None], "entry_1/image_2/data": made.object[None]}
    parts |= {f"{SRC}/illumination": h5py.SoftLink("/entry_1/image_1/data")}
    own = written(tmp_path / "p.cxi", parts)
    scan = open_scan(data, ReadOptions(positions_file=str(own)))
    assert scan.energy_eV == pytest.approx(8000)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    same(scan, made, index=kept)


@pytest.mark.parametrize("place", ["entry_1/sample_1/geometry_1", DET])
def test_cxi_elsewhere(tmp_path, made, place):
    arrays = cxi_arrays(made)
    arrays[f"{place}/translation"] = arrays.pop("entry_1/data_1/translation").T * 1e6  # (3, J)
    arrays[f"{place}/translation@units"] = "um"
    arrays[f"{DET}/data"] = arrays.pop("entry_1/data_1/data")
    arrays[f"{SRC}/wavelength"] = 1.239841984e-6 / 6200
    arrays["entry_1/data_1/data"] = h5py.SoftLink(f"/{DET}/data")
    del arrays[f"{SRC}/energy"]
    scan = open_scan(written(tmp_path / "a.cxi", arrays), NO)
    assert scan.energy_eV == pytest.approx(6200)
    same(scan, made)


def test_nxcxi_raster(tmp_path, made):
    """Data (5, 3, H, W); the machine's energy is not the photons'; the beam's centre is a length."""
    arrays = {
        "entry_1/definition": "NXcxi_ptycho",
        "cxi_version": 160,
        f"{DET}/data": made.counts.reshape(5, 3, H, W),
        f"{DET}/translation": np.stack([made.metres[:, 1], made.metres[:, 0], 0 * made.metres[:, 0]], 1)
        * 1e3,
        f"{DET}/translation@units": "mm",
        f"{DET}/distance": 1250.0,
        f"{DET}/distance@units": "mm",
        f"{DET}/x_pixel_size": 75.0,
        f"{DET}/x_pixel_size@units": "µm",
        f"{DET}/beam_center_x": 450e-6,
        f"{DET}/beam_center_x@units": "m",
        f"{DET}/beam_center_y": 4.5,
        f"{DET}/beam_center_y@units": "pixel",
        f"{SRC}/energy": 3.0,
        f"{SRC}/probe": "x-ray",
        "entry_1/instrument_1/beam_1/energy": 9.1,
        "entry_1/instrument_1/beam_1/energy@units": "keV",
        f"{DET}/pixel_mask": np.eye(H, W, dtype=np.uint32) * 4,
    }
    path = written(tmp_path / "a.nxs", arrays)
    scan = open_scan(path, NO)
    assert scan.energy_eV == pytest.approx(9100)
    assert scan.distance_m == pytest.approx(1.25)
    assert scan.detector_pixel_m == pytest.approx((75e-6, 75e-6))
    assert scan.zero_frequency == pytest.approx((4.5, 6.0))
    np.testing.assert_array_equal(scan.good, np.eye(H, W) == 0)
    same(scan, made)


@pytest.mark.parametrize("shape", ["list", "grid", "axes", "flat"])
def test_diamond(tmp_path, made, shape):
    """The columns are slow: data (5, 3, H, W) with x along the first axis."""
    rows, cols = made.metres[:, 0], made.metres[:, 1]
    x, y, data = cols, rows, made.counts.reshape(5, 3, H, W)
    if shape == "grid":
        x, y = cols.reshape(5, 3, 1), rows.reshape(5, 3, 1)
    if shape == "axes":
        x, y = cols[::3], rows[:3]
    if shape == "flat":
        x, y, data = cols.reshape(J, 1, 1), rows.reshape(J, 1, 1), made.counts
    arrays = {"entry_1/data/data": data, "entry_1/data/x": x, "entry_1/data/y": y}
    arrays |= {"entry_1/instrument_1/beam_1/energy": 700.0, "entry_1/instrument_1/monitor/data": np.ones(J)}
    path = written(tmp_path / "a.nxs", arrays)
    scan = open_scan(path, NO)
    assert scan.energy_eV == 700
    assert "the monitor is not applied" in scan.notes
    same(scan, made)


def test_nxcxi_motors_are_the_samples(tmp_path, made):
    arrays = {"entry_1/definition": "NXcxi_ptycho", f"{DET}/data": made.counts}
    for k, name in enumerate("yx"):
        arrays[f"entry_1/sample_1/transformations/{name}"] = -made.metres[:, k] * 1e6
        arrays[f"entry_1/sample_1/transformations/{name}@units"] = "um"
    same(open_scan(written(tmp_path / "a.nxs", arrays), NO), made)


@pytest.mark.parametrize("parts", [False, True])
def test_ptyd(tmp_path, made, parts):
    weights = np.ones((H, W))
    weights[4, 5] = 0
    arrays = {
        "meta/energy": 6.2,
        "meta/distance": 7.0,
        "meta/psize": [55e-6, 75e-6],
        "meta/center": [5.0, 6.5],
    }
    arrays |= {"meta/propagation": "farfield", "meta/label": "None", "info/weight2d": weights}
    for k, (first, stop) in enumerate([(0, 4), (4, 12), (12, J)]):
        chunk = {
            "data": made.intensity[first:stop],
            "positions": made.metres[first:stop],
            "weights": np.zeros(0),
        }
        chunk |= {"indices": np.arange(first, stop)}
        if parts:
            written(tmp_path / f"s.part{k:03d}.ptyd", {f"chunks/{k}/{name}": v for name, v in chunk.items()})
            arrays[f"chunks/{k}"] = h5py.ExternalLink(f"s.part{k:03d}.ptyd", f"/chunks/{k}")
        else:
            arrays |= {f"chunks/{k}/{name}": value for name, value in chunk.items()}
    path = written(tmp_path / "s.ptyd", arrays)
    scan = open_scan(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.distance_m) == ("intensity", (5.0, 6.5), 7.0)
    assert scan.energy_eV == pytest.approx(6200)
    assert scan.detector_pixel_m == (55e-6, 75e-6)
    np.testing.assert_array_equal(scan.good, weights > 0)
    same(scan, made, made.intensity)


@pytest.mark.parametrize(
    "word, centre", [("fftshift", "centre"), ("fft", "corner"), ("geometric", (5.0, 6.5)), ("None", None)]
)
def test_ptyd_centres_and_own_weights(tmp_path, made, word, centre):
    weights = np.ones((J, H, W))
    weights[:, 1, 1] = 0
    arrays = {"meta/center": word, "meta/energy": 6.2, "meta/psize": 55e-6, "info/energy": 6200.0}
    chunk = {"data": made.counts, "positions": made.metres, "weights": weights}
    scan = open_scan(
        written(tmp_path / "s.ptyd", arrays | {f"chunks/0/{k}": v for k, v in chunk.items()}), NO
    )
    assert scan.zero_frequency == centre
    assert scan.detector_pixel_m == (55e-6, 55e-6)
    assert not scan.good[1, 1] and np.count_nonzero(~scan.good) == 1


@pytest.mark.parametrize("turned", [False, True])
def test_ptylab(tmp_path, made, turned):
    encoder = made.metres.T if turned else made.metres
    arrays = {"ptychogram": made.counts.astype(np.float32), "encoder": encoder, "wavelength": 632.8e-9}
    path = written(
        tmp_path / "a.hdf5", arrays | {"zo": [[0.05]], "dxd": 4.5e-6, "emptyBeam": np.ones((H, W))}
    )
    scan = open_scan(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.distance_m) == ("counts", "centre", 0.05)
    assert scan.energy_eV == pytest.approx(1.9593, rel=1e-4)  # a helium-neon laser
    assert scan.detector_pixel_m == pytest.approx((4.5e-6, 4.5e-6))
    same(scan, made)


@pytest.mark.parametrize(
    ("code", "keys"), [(0, None), (1, "data.flip_cols=true"), (6, "data.transpose=true data.flip_rows=true")]
)
def test_ptylab_that_turns_its_patterns(tmp_path, made, code, keys):
    arrays = {"ptychogram": made.counts, "encoder": made.metres, "orientation": code}
    scan = open_scan(written(tmp_path / "a.h5", arrays), NO)
    assert scan.warnings == (
        () if keys is None else (f"orientation is {code}: PtyLab turns the patterns; add {keys}",)
    )


def test_ptylab_refuses_lamps(tmp_path, made):
    arrays = {"ptychogram": made.counts, "encoder": made.metres, "zled": 0.1}
    refused(written(tmp_path / "a.h5", arrays), "zled: Fourier ptychography")


def test_product_with_raw_data(tmp_path, made):
    order = np.arange(J)[::-1].copy()
    raw = {"raw_data/diffraction": np.sqrt(made.intensity), "raw_data/scan_index": np.arange(J) // 5}
    raw |= {"probe_position_indexes": order, "tomography_angle_deg": 12.0}
    path = product(tmp_path / "a.h5", made, **raw)
    scan = open_scan(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.energy_eV) == ("amplitude", "centre", 8000)
    assert (scan.object_centre_m, scan.object_pixel_m, scan.probe_pixel_m) == (
        (4e-8, -1e-8),
        (2e-8, 3e-8),
        (2e-8, 3e-8),
    )
    assert any("angle 12 degrees" in note for note in scan.notes)
    np.testing.assert_array_equal(scan.scan_index, np.arange(J) // 5)  # the patterns keep their order
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    np.testing.assert_array_equal(scan.patterns.read(slice(0, J)), np.sqrt(made.intensity))
    np.testing.assert_allclose(scan.positions, made.metres[order], rtol=1e-12, atol=1e-20)
    scan.patterns.close()


@pytest.mark.parametrize("swapped", [False, True])
def test_product_beside_patterns(tmp_path, made, swapped):
    """Some patterns have no position, and stay out."""
    kept = np.array([1, 3, 4, 8, 9, 13])
    index = {"probe_position_indexes": kept, "@tomography_angle_deg": 3.0}
    places = {"probe_position_x_m": made.metres[kept, 1], "probe_position_y_m": made.metres[kept, 0]}
    own = product(tmp_path / "p.h5", made, **index, **places)
    data = written(tmp_path / "d.h5", {"entry/data/data": made.counts})
    if swapped:
        scan = open_scan(data, ReadOptions(positions_file=str(own)))
    else:
        scan = open_scan(own, ReadOptions(patterns_file=str(data)))
        assert scan.format == "ptychodus"
    assert (scan.energy_eV, scan.distance_m) == (8000, 1.9)
    same(scan, made, index=kept)


def test_product_of_version_17(tmp_path, made):
    """The energy has another name since; a product is not taken for the second file of a pair."""
    energy = {"@probe_energy_eV": None, "@photon_energy_eV": 9000.0, "raw_data/diffraction": made.counts}
    path = product(tmp_path / "p.h5", made, **energy)
    scan = open_scan(path, NO)
    assert scan.energy_eV == 9000
    same(scan, made)


@pytest.mark.parametrize("swapped", [False, True])
def test_patterns_of_ptychodus_beside_a_product(tmp_path, made, swapped):
    """Patterns 30, 28, … 2 are in the file; the product has 4, 30, 28 and one that is not there.

    The patterns keep their order.
    """
    bad = np.zeros((H, W), bool)
    bad[2, 3] = True
    numbers = np.arange(30, 0, -2)
    arrays = {"patterns": made.counts, "indexes": numbers, "bad_pixels": bad}
    arrays |= {"patterns@detector_pixel_height_m": 55e-6, "patterns@detector_pixel_width_m": 75e-6}
    data = written(tmp_path / "d.h5", arrays)
    rows = np.array([13, 0, 1])
    metres = np.concatenate([made.metres[rows], [[9.0, 9.0]]])
    changes = {"probe_position_indexes": np.array([4, 30, 28, 5])}
    changes |= {"probe_position_x_m": metres[:, 1], "probe_position_y_m": metres[:, 0]}
    own = product(tmp_path / "p.h5", made, **changes)
    if swapped:
        scan = open_scan(own, ReadOptions(patterns_file=str(data)))
    else:
        scan = open_scan(data, ReadOptions(positions_file=str(own)))
    assert (scan.zero_frequency, scan.domain, scan.energy_eV) == ("centre", "counts", 8000)
    assert scan.detector_pixel_m == (55e-6, 75e-6)
    np.testing.assert_array_equal(scan.good, ~bad)
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 3)), made.counts[np.sort(rows)])
    np.testing.assert_allclose(scan.positions, made.metres[np.sort(rows)], rtol=1e-12)
    assert "1 of 4 positions are excluded" in scan.warnings[0]


def test_patterns_of_ptychodus_alone(tmp_path, made):
    data = written(tmp_path / "d.h5", {"patterns": made.counts, "indexes": np.arange(J)})
    refused(data, "has no positions; add data.positions_file=, a product")
    data = written(tmp_path / "e.h5", {"patterns": made.counts, "indexes": np.arange(J - 1)})
    own = product(tmp_path / "p.h5", made)
    options = ReadOptions(positions_file=str(own))
    refused(data, rf"indexes has shape \({J - 1},\) of int64; must be \({J},\)", options)


def test_training_data_of_ptychodus(tmp_path, made):
    """Pitch by hand: λz/(N·dx) = 1.239841984e-10 m · 2 m/(11 · 20 nm), and 14 · 30 nm along columns."""
    places = made.metres / [2e-8, 3e-8]
    arrays = {"patterns": made.counts, "bad_pixels": np.zeros((H, W), bool), "probe": made.probe}
    arrays |= {"probe_position_y_px": places[:, 0] + 14, "probe_position_x_px": places[:, 1] + 15}
    arrays |= {"object": made.object, "object_pixel_height_m": 2e-8, "object_pixel_width_m": 3e-8}
    arrays |= {"photon_energy_eV": 10000.0, "detector_object_distance_m": 2.0}
    path = written(tmp_path / "t.h5", arrays)
    scan = open_scan(path, NO)
    assert (scan.unit, scan.object_centre_m, scan.distance_m) == ("px", (9, 8.5), 2)
    # Of the first of 11 × 14 samples, (5, 6.5) before the probe's middle; the object's is (14, 15).
    np.testing.assert_allclose(scan.positions, places + np.array([14 - 5, 15 - 6.5]), atol=1e-9)
    assert scan.detector_pixel_m == pytest.approx((1.1271290764e-3, 5.9040094476e-4) * np.array(1.0))
    assert scan.good.all()
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)


def test_eiger(tmp_path, made):
    master = eiger_folder(tmp_path, made)
    (tmp_path / "p.csv").write_text("x_m,y_m\n" + "\n".join(f"{c!r},{r!r}" for r, c in made.metres.tolist()))
    scan = open_scan(master, ReadOptions(positions_file=str(tmp_path / "p.csv")))
    assert (scan.domain, scan.zero_frequency, scan.energy_eV) == ("counts", (5.25, 6.5), 9000)
    assert (scan.distance_m, scan.detector_pixel_m) == (2.1, (75e-6, 75e-6))
    assert not scan.good[2, 3] and np.count_nonzero(~scan.good) == 1
    same(scan, made)


def test_eiger_marks_and_saturation(tmp_path, made):
    master = eiger_folder(tmp_path, made)
    for k in (1, 2, 3):
        with h5py.File(tmp_path / f"s_data_{k:06d}.h5", "a") as file:
            file["entry/data/data"][:, 7, :] = 2**32 - 1
    with h5py.File(master, "a") as file:
        file["entry/instrument/detector/detectorSpecific/saturation_value"] = 5
        file["entry/instrument/detector/detectorSpecific/nimages"] = 16
        file["entry/places"] = made.metres
        file["entry/instrument/detector/beam_center_x"][()] = 0
    options = ReadOptions(keys={"positions": "entry/places"}, unit="m")
    scan = open_scan(master, options)
    assert scan.zero_frequency is None
    marks = find_marks(scan.patterns.read(slice(0, J)), scan.patterns.dtype)
    assert marks[:, 7].all() and np.count_nonzero(marks) == J * W and np.count_nonzero(~scan.good) == 1
    assert any("saturates at 5" in line for line in scan.warnings)
    assert any("announces 16 patterns, and there are 15" in line for line in scan.warnings)


def test_a_mark_of_pilatus_stays_in_its_patterns(tmp_path, made):
    counts = made.counts.astype(np.int32)
    counts[:, 4, :] = -1
    arrays = {
        "entry/data/data": counts,
        "entry/instrument/detector/detectorSpecific/ntrigger": 1,
        "p": made.metres,
    }
    path = written(tmp_path / "m.h5", arrays)
    scan = open_scan(path, ReadOptions(keys={"positions": "p"}, unit="m"))
    assert scan.good is None  # which pixels hold marks is found in preparation, for all formats
    same(scan, made, counts)


def test_keymap_of_two_files(tmp_path, made):
    data = written(tmp_path / "d.h5", {"entry/data/data": made.counts})
    places = written(tmp_path / "p.h5", {"r": made.metres[:, 0], "c": made.metres[:, 1]})
    keys = {"positions_row": "r", "positions_col": "c"}
    same(open_scan(places, ReadOptions(keys=keys, unit="m", patterns_file=str(data))), made)
    same(open_scan(data, ReadOptions(keys=keys, unit="m", positions_file=str(places))), made)
    pp = written(tmp_path / "pp.h5", {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]})
    same(open_scan(data, ReadOptions(positions_file=str(pp))), made)
