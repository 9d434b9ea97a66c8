"""Readers of measured scans in HDF5: each format against arrays that it was written from, and every refusal."""

import shutil
import time
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.readers.scans import cxi, eiger, foldslice, keymap_hdf5, nexus, ptychodus, ptyd, ptylab
from ptycho.readers.scans.hdf5 import opened
from ptycho.readers.scans.hdf5_patterns import domain_of, patterns
from ptycho.readers.scans.raw_scan import ReadOptions

FORMATS = (foldslice, cxi, nexus, ptyd, ptylab, ptychodus, eiger)
J, H, W, GRID = 15, 11, 14, (3, 5)
EV = 1.602176634e-19
DET, SRC = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
NO = ReadOptions()


@pytest.fixture(scope="module")
def made():
    """A scan whose columns are the slow axis: 5 columns of 3 rows, 4 and 3 pixels apart, of a complex object."""
    rng = np.random.default_rng(3)
    object_ = np.exp(1j * rng.uniform(-1, 1, (29, 31))) * rng.uniform(0.5, 1, (29, 31))
    rows, cols = np.indices((H, W)) - np.array([H // 2, W // 2])[:, None, None]
    first = np.exp(-(rows**2 + cols**2) / 12 + 0.1j * rows * cols)
    probe = 30 * np.stack([first, 0.4j * cols * first]).astype(np.complex64)
    places = np.array([(3 * a, 4 * b) for b in range(5) for a in range(3)])
    exit_waves = np.array([probe * object_[r : r + H, c : c + W] for r, c in places])
    intensity = (np.abs(np.fft.fftshift(np.fft.fft2(exit_waves, norm="ortho"), axes=(-2, -1))) ** 2).sum(
        axis=1
    )
    return SimpleNamespace(
        probe=probe,
        object=object_.astype(np.complex64),
        metres=places * [2e-8, 3e-8] - [1e-7, 5e-7],
        counts=rng.poisson(intensity).astype(np.uint16),
        intensity=intensity,
    )


def written(path, arrays, **attributes):
    """An HDF5 file of arrays by path; ``path@name`` is an attribute."""
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            if "@" not in key:
                file[key] = value
        for key, value in arrays.items():
            if "@" in key:
                node, name = key.split("@")
                file[node or "/"].attrs[name] = value
        file.attrs.update(attributes)
    return path


def cxi_arrays(made, **changes):
    x, y = -made.metres[:, 1], -made.metres[:, 0]  # the sample goes against the probe
    return {
        "cxi_version": 160,
        "entry_1/data_1/data": made.counts,
        "entry_1/data_1/translation": np.stack([x, y, 0 * x], axis=1),
        f"{DET}/distance": 1.25,
        f"{DET}/x_pixel_size": 75e-6,
        f"{DET}/y_pixel_size": 55e-6,
        f"{SRC}/energy": 6200 * EV,
        f"{SRC}/illumination": made.probe,
    } | changes


def eiger_folder(folder, made, parts=3):
    """A master and its files of 5 patterns."""
    with h5py.File(folder / "s_master.h5", "w") as master:
        for k in range(1, parts + 1):
            written(
                folder / f"s_data_{k:06d}.h5",
                {"entry/data/data": made.counts[5 * k - 5 : 5 * k].astype("u4")},
            )
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


def product(path, made, weights_at="root", **changes):
    arrays = {
        "probe_position_indexes": np.arange(J),
        "probe_position_x_m": made.metres[:, 1],
        "probe_position_y_m": made.metres[:, 0],
        "probe": made.probe,
        "probe@pixel_width_m": 3e-8,
        "probe@pixel_height_m": 2e-8,
        "object": made.object[None],
        "object@center_x_m": -1e-8,
        "object@center_y_m": 4e-8,
        "object@pixel_width_m": 3e-8,
        "object@pixel_height_m": 2e-8,
        "@probe_energy_eV": 8000.0,
        "@detector_object_distance_m": 1.9,
    } | changes
    return written(path, {key: value for key, value in arrays.items() if value is not None})


def same(scan, made, counts=None, index=slice(None)):
    """The scan's patterns and positions are those it was written from."""
    counts = made.counts if counts is None else counts
    assert scan.patterns.shape == (len(made.metres[index]), H, W)
    np.testing.assert_array_equal(scan.patterns.read(slice(0, J)), counts[index])
    some = np.array([4, 1, 2, 4])
    np.testing.assert_array_equal(scan.patterns.read(some), counts[index][some])
    assert scan.positions.dtype == np.float64
    np.testing.assert_allclose(scan.positions, made.metres[index], rtol=1e-12, atol=1e-20)
    assert scan.unit == "m"
    scan.patterns.close()


def refused(module, path, match, options=NO):
    with pytest.raises(ConfigError, match=match) as caught:
        module.read(path, options)
    assert "\n" not in str(caught.value)


# -- formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint16", "int32", "float32", ">u4", "float64"])
def test_foldslice(tmp_path, made, dtype):
    arrays = {"dp": made.counts.astype(dtype), "ppX": made.metres[:, 1:], "ppY": made.metres[:, :1].T}
    scan = foldslice.read(written(tmp_path / "a.hdf5", arrays), NO)
    assert (scan.format, scan.domain, scan.zero_frequency) == ("foldslice", "counts", "centre")
    assert scan.patterns.dtype == np.dtype(dtype).newbyteorder("=")
    same(scan, made)


def test_foldslice_pair_by_either_name(tmp_path, made):
    written(tmp_path / "s_dp.hdf5", {"dp": made.intensity})
    values = {"probe_position_x_m": made.metres[:, 1], "probe_position_y_m": made.metres[:, 0]}
    values |= {"probe": made.probe[None], "object": made.object[None], "object@pixel_height_m": 2e-8}
    written(tmp_path / "s_para.hdf5", values | {"object@pixel_width_m": 3e-8})
    for name in ("s_dp.hdf5", "s_para.hdf5"):
        with h5py.File(tmp_path / name) as file:
            assert [module.NAME for module in FORMATS if module.detect(file)] == ["foldslice"]
        scan = foldslice.read(tmp_path / name, NO)
        assert scan.domain == "intensity"
        assert scan.object_pixel_m == (2e-8, 3e-8)
        np.testing.assert_array_equal(scan.probe, made.probe)
        np.testing.assert_array_equal(scan.object, made.object)
        same(scan, made, made.intensity)


def test_foldslice_of_eight_bits_is_not_taken_for_counts(tmp_path, made):
    small = np.sqrt(made.counts).astype(np.uint8)
    places = {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]}
    scan = foldslice.read(written(tmp_path / "a.h5", {"dp": small} | places), NO)
    assert scan.domain is None
    assert "holoptycho" in scan.warnings[0]
    scan = foldslice.read(written(tmp_path / "b.h5", {"diffraction/dp": small} | places), NO)
    assert (scan.domain, scan.zero_frequency) == ("amplitude", None)


def test_cxi(tmp_path, made):
    bits = np.zeros((H, W), np.uint32)
    bits[1, 2], bits[3, 4], bits[5, 6] = 0x1000, 0x1, 0x1001
    extra = {f"{DET}/mask": bits, f"{DET}/data_dark": np.stack([np.full((H, W), 2.0), np.full((H, W), 4.0)])}
    extra |= {"entry_1/image_1/data": made.object}
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **extra))
    scan = cxi.read(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.distance_m) == ("counts", None, 1.25)
    assert scan.detector_pixel_m == (55e-6, 75e-6)
    assert scan.energy_eV == pytest.approx(6200)
    assert scan.good[1, 2] and not scan.good[3, 4] and not scan.good[5, 6]
    assert np.count_nonzero(~scan.good) == 2
    np.testing.assert_array_equal(scan.dark, 3)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    same(scan, made)


def test_cxi_sample_moves_against_the_probe(tmp_path, made):
    """By hand: the sample goes to +x, so the probe goes to −x on it, and the column decreases; so with y, row."""
    moves = np.zeros((J, 3))
    moves[1], moves[2] = (1e-6, 0, 0), (0, 1e-6, 0)
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **{"entry_1/data_1/translation": moves}))
    positions = cxi.read(path, NO).positions
    np.testing.assert_array_equal(positions[1], [0, -1e-6])
    np.testing.assert_array_equal(positions[2], [-1e-6, 0])


def test_cxi_along_the_detectors_axes(tmp_path, made):
    """By hand: rows of the detector go down (−y), columns along −x: both signs turn once more."""
    basis = np.array([[0, -55e-6, 0], [-75e-6, 0, 0]])
    arrays = cxi_arrays(made, **{f"{DET}/basis_vectors": basis})
    del arrays[f"{DET}/x_pixel_size"], arrays[f"{DET}/y_pixel_size"]
    scan = cxi.read(written(tmp_path / "a.cxi", arrays), NO)
    np.testing.assert_allclose(scan.positions, -made.metres, rtol=1e-12)
    assert scan.detector_pixel_m == pytest.approx((55e-6, 75e-6))


@pytest.mark.parametrize("place", ["entry_1/sample_1/geometry_1", DET])
def test_cxi_elsewhere(tmp_path, made, place):
    arrays = cxi_arrays(made)
    arrays[f"{place}/translation"] = arrays.pop("entry_1/data_1/translation").T * 1e6  # (3, J)
    arrays[f"{place}/translation@units"] = "um"
    arrays[f"{DET}/data"] = arrays.pop("entry_1/data_1/data")
    arrays[f"{SRC}/wavelength"] = 1.239841984e-6 / 6200
    arrays["entry_1/data_1/data"] = h5py.SoftLink(f"/{DET}/data")
    del arrays[f"{SRC}/energy"]
    scan = cxi.read(written(tmp_path / "a.cxi", arrays), NO)
    assert scan.energy_eV == pytest.approx(6200)
    same(scan, made)


def test_nxcxi_raster(tmp_path, made):
    """Data (5, 3, H, W); the machine's energy is not the photons'; the beam's centre is a length."""
    arrays = {
        "entry_1/definition": "NXcxi_ptycho",
        "cxi_version": 160,
        f"{DET}/data": made.counts.reshape(5, 3, H, W),
        f"{DET}/translation": np.stack([-made.metres[:, 1], -made.metres[:, 0], 0 * made.metres[:, 0]], 1)
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
    with h5py.File(path) as file:
        assert nexus.detect(file)
    scan = nexus.read(path, NO)
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
    with h5py.File(path) as file:
        assert nexus.detect(file) and not cxi.detect(file)
    scan = nexus.read(path, NO)
    assert scan.energy_eV == 700
    assert "the monitor is not applied" in scan.notes
    same(scan, made)


def test_nxcxi_motors_are_the_samples(tmp_path, made):
    arrays = {"entry_1/definition": "NXcxi_ptycho", f"{DET}/data": made.counts}
    for k, name in enumerate("yx"):
        arrays[f"entry_1/sample_1/transformations/{name}"] = -made.metres[:, k] * 1e6
        arrays[f"entry_1/sample_1/transformations/{name}@units"] = "um"
    same(nexus.read(written(tmp_path / "a.nxs", arrays), NO), made)


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
    with h5py.File(path) as file:
        assert [module.NAME for module in FORMATS if module.detect(file)] == ["ptyd"]
    scan = ptyd.read(path, NO)
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
    scan = ptyd.read(
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
    with h5py.File(path) as file:
        assert [module.NAME for module in FORMATS if module.detect(file)] == ["ptylab"]
    scan = ptylab.read(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.distance_m) == ("counts", "centre", 0.05)
    assert scan.energy_eV == pytest.approx(1.9593, rel=1e-4)  # a helium-neon laser
    assert scan.detector_pixel_m == pytest.approx((4.5e-6, 4.5e-6))
    same(scan, made)


def test_ptylab_refuses_lamps(tmp_path, made):
    arrays = {"ptychogram": made.counts, "encoder": made.metres, "zled": 0.1}
    refused(ptylab, written(tmp_path / "a.h5", arrays), "zled: Fourier ptychography")


def test_product_with_raw_data(tmp_path, made):
    order = np.arange(J)[::-1].copy()
    raw = {"raw_data/diffraction": np.sqrt(made.intensity), "raw_data/scan_index": np.arange(J) // 5}
    raw |= {"probe_position_indexes": order, "tomography_angle_deg": 12.0}
    path = product(tmp_path / "a.h5", made, **raw)
    with h5py.File(path) as file:
        assert [module.NAME for module in FORMATS if module.detect(file)] == ["ptychodus"]
    scan = ptychodus.read(path, NO)
    assert (scan.domain, scan.zero_frequency, scan.energy_eV) == ("amplitude", "centre", 8000)
    assert (scan.object_centre_m, scan.object_pixel_m, scan.probe_pixel_m) == (
        (4e-8, -1e-8),
        (2e-8, 3e-8),
        (2e-8, 3e-8),
    )
    assert any("angle 12 degrees" in note for note in scan.notes)
    np.testing.assert_array_equal(scan.scan_index, order // 5)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.object, made.object)
    same(scan, made, np.sqrt(made.intensity)[order])


@pytest.mark.parametrize("swapped", [False, True])
def test_product_beside_patterns(tmp_path, made, swapped):
    """Some patterns have no position, and stay out."""
    kept = np.array([1, 3, 4, 8, 9, 13])
    index = {"probe_position_indexes": kept, "@tomography_angle_deg": 3.0}
    places = {"probe_position_x_m": made.metres[kept, 1], "probe_position_y_m": made.metres[kept, 0]}
    own = product(tmp_path / "p.h5", made, **index, **places)
    data = written(tmp_path / "d.h5", {"entry/data/data": made.counts})
    if swapped:
        scan = keymap_hdf5.read(data, ReadOptions(positions_file=str(own)))
    else:
        scan = ptychodus.read(own, ReadOptions(patterns_file=str(data)))
        assert scan.format == "ptychodus"
    assert (scan.energy_eV, scan.distance_m) == (8000, 1.9)
    same(scan, made, index=kept)


@pytest.mark.parametrize("key", ["opr_weights", "probe@opr_weights"])
def test_product_with_coherent_modes(tmp_path, made, key):
    """By hand: mean weights (1, 0.5) of two coherent modes."""
    sets = np.stack([made.probe, 1j * made.probe])
    weights = np.stack([np.ones(J), np.linspace(0, 1, J)], axis=1)
    path = product(
        tmp_path / "a.h5", made, **{"probe": sets, key: weights, "raw_data/diffraction": made.counts}
    )
    scan = ptychodus.read(path, NO)
    np.testing.assert_allclose(scan.probe, (1 + 0.5j) * made.probe, rtol=1e-5)
    assert any("mean of" in line for line in scan.warnings)
    assert scan.domain == "counts"
    assert any("the format says amplitude" in line for line in scan.warnings)


def test_eiger(tmp_path, made):
    master = eiger_folder(tmp_path, made)
    with h5py.File(master) as file:
        assert [module.NAME for module in FORMATS if module.detect(file)] == ["eiger"]
    (tmp_path / "p.csv").write_text("x_m,y_m\n" + "\n".join(f"{c!r},{r!r}" for r, c in made.metres.tolist()))
    scan = eiger.read(master, ReadOptions(positions_file=str(tmp_path / "p.csv")))
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
    scan = eiger.read(master, options)
    assert scan.zero_frequency is None
    assert not scan.good[7].any() and np.count_nonzero(~scan.good) == W + 1
    assert any("saturates at 5" in line for line in scan.warnings)
    assert any("announces 16 patterns, and there are 15" in line for line in scan.warnings)


def test_keymap(tmp_path, made):
    matlab = np.zeros((2, H, W), [("real", "f8"), ("imag", "f8")])
    matlab["real"], matlab["imag"] = made.probe.real, made.probe.imag
    arrays = {
        "a/d": made.intensity,
        "a/xy": made.metres[:, ::-1].T * 1e6,
        "p": matlab,
        "b": np.eye(H, W),
        "E": 7.1,
    }
    arrays |= {"g": 1 - np.eye(H, W)[::-1].astype(int), "E@units": "keV", "a@pitch": [55e-6, 75e-6], "z": 1.5}
    path = written(tmp_path / "a.h5", arrays | {"f": np.full((H, W), 0.5)})
    keys = {"patterns": "a/d", "positions": "a/xy", "probe": "p", "bad": "b", "good": "g", "energy_eV": "E"}
    keys |= {"detector_pixel_m": "a@pitch", "distance_m": "z", "flat": "f"}
    scan = keymap_hdf5.read(path, ReadOptions(keys=keys, unit="um", axes="xy"))
    assert (scan.domain, scan.zero_frequency, scan.unit, scan.distance_m) == (None, None, "um", 1.5)
    np.testing.assert_allclose(scan.positions, made.metres * 1e6, rtol=1e-12)
    np.testing.assert_array_equal(scan.probe, made.probe)
    np.testing.assert_array_equal(scan.good, (np.eye(H, W) + np.eye(H, W)[::-1]) == 0)
    np.testing.assert_array_equal(scan.flat, 0.5)
    assert scan.energy_eV == pytest.approx(7100)
    assert scan.detector_pixel_m == pytest.approx((55e-6, 75e-6))
    np.testing.assert_array_equal(scan.patterns.read(np.array([7])), made.intensity[7:8])


def test_keymap_of_two_files(tmp_path, made):
    data = written(tmp_path / "d.h5", {"entry/data/data": made.counts})
    places = written(tmp_path / "p.h5", {"r": made.metres[:, 0], "c": made.metres[:, 1]})
    keys = {"positions_row": "r", "positions_col": "c"}
    same(keymap_hdf5.read(places, ReadOptions(keys=keys, unit="m", patterns_file=str(data))), made)
    same(keymap_hdf5.read(data, ReadOptions(keys=keys, unit="m", positions_file=str(places))), made)
    pp = written(tmp_path / "pp.h5", {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]})
    same(keymap_hdf5.read(data, ReadOptions(positions_file=str(pp))), made)


# -- what an option says ---------------------------------------------------------------------------------------------


def test_the_users_unit_is_taken(tmp_path, made):
    arrays = {"dp": made.counts, "ppX": made.metres[:, 1] * 1e6, "ppY": made.metres[:, 0] * 1e6}
    scan = foldslice.read(written(tmp_path / "a.h5", arrays), ReadOptions(unit="um"))
    assert scan.unit == "um"
    np.testing.assert_allclose(scan.positions, made.metres * 1e6)


@pytest.mark.parametrize(
    "options, match",
    [
        (ReadOptions(axes="yx"), r"data.axes=yx: must be rc \(row first\) or xy"),
        (ReadOptions(unit="inch"), "data.unit=inch: must be one of m, mm, um"),
        (ReadOptions(keys={"positions": "x"}), "data.keys=positions: the format cxi does not need it"),
        (ReadOptions(patterns_file="b.h5"), "data.patterns_file=b.h5: the format cxi does not need it"),
    ],
)
def test_options_without_use_are_refused(tmp_path, made, options, match):
    refused(cxi, written(tmp_path / "a.cxi", cxi_arrays(made)), match, options)


@pytest.mark.parametrize(
    "keys, match",
    [
        ({"pattern": "a"}, "data.keys.pattern: must be one of patterns, positions"),
        (
            {"patterns": "a"},
            "needs either positions, or positions_row and positions_col, or data.positions_file",
        ),
        ({"patterns": "a", "positions_row": "b"}, "needs either positions"),
        ({"patterns": "a", "positions": "c"}, "lacks patterns .a.; it has d, x"),
        ({"patterns": "d", "positions": "c"}, "lacks c; it has d, x"),
        ({"patterns": "d", "positions": "x"}, "x has no units attribute; add data.unit="),
        ({"patterns": "d", "positions": "x", "probe": "nothing/there"}, "lacks probe .nothing/there."),
    ],
)
def test_maps_that_do_not_fit(tmp_path, made, keys, match):
    path = written(tmp_path / "a.h5", {"d": made.counts, "x": made.metres})
    refused(keymap_hdf5, path, match, ReadOptions(keys=keys))


# -- files that cannot be opened -------------------------------------------------------------------------------------


def test_what_is_no_hdf5(tmp_path, made):
    refused(cxi, tmp_path / "none.cxi", "none.cxi: no such file")
    refused(cxi, tmp_path, "not a file")
    refused(cxi, "a\0b", "null")
    (tmp_path / "empty.cxi").touch()
    refused(cxi, tmp_path / "empty.cxi", "it is empty")
    (tmp_path / "text.cxi").write_text("no HDF5 at all " * 99)
    refused(cxi, tmp_path / "text.cxi", "not an HDF5 file$")
    np.savez(tmp_path / "a.npz", a=1)
    refused(cxi, tmp_path / "a.npz", "not an HDF5 file: it is a ZIP archive")
    path = written(tmp_path / "a.cxi", cxi_arrays(made))
    path.write_bytes(path.read_bytes()[:-1000])
    refused(cxi, path, "cut short; copy it again, or wait until it is written")


def test_damage_is_one_line(tmp_path, made):
    """Bytes turned over at many places: an error of one line, or a scan that can be read."""
    content = written(tmp_path / "a.cxi", cxi_arrays(made)).read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 6000, 60):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "b.cxi").write_bytes(damaged)
        try:
            scan = cxi.read(tmp_path / "b.cxi", NO)
            scan.patterns.read(slice(0, J))
            scan.patterns.close()
        except ConfigError as error:
            assert str(error).startswith(str(tmp_path / "b.cxi"))
            assert "\n" not in str(error)


def test_a_chunk_that_cannot_be_unpacked_is_named(tmp_path, made):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("dp", data=made.counts, chunks=(1, H, W), compression="gzip")
        file["dp"].id.write_direct_chunk((6, 0, 0), b"no gzip at all")
        file["ppX"], file["ppY"] = made.metres.T
    scan = foldslice.read(path, NO)
    np.testing.assert_array_equal(scan.patterns.read(np.array([5])), made.counts[5:6])
    with pytest.raises(ConfigError, match=r"a.h5: dp: patterns 6 to 6 cannot be read"):
        scan.patterns.read(np.array([6]))
    with pytest.raises(IndexError, match="pattern 0 or 15 of 15"):
        scan.patterns.read(np.array([0, J]))
    with pytest.raises(IndexError, match="steps of one"):
        scan.patterns.read(slice(0, J, 2))


def test_a_missing_filter_is_named(tmp_path, made):
    path = written(tmp_path / "a.h5", {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]})
    with h5py.File(path, "a") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((1, H, W))
        plist.set_filter(32123, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple(made.counts.shape)
        h5py.h5d.create(file.id, b"dp", h5py.h5t.NATIVE_UINT16, space, plist)
    refused(foldslice, path, "dp is packed by the HDF5 filter 32123, not installed: pip install hdf5plugin")


def test_bitshuffle_as_eiger_packs(tmp_path, made):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("dp", data=made.counts, chunks=(1, H, W), **hdf5plugin.Bitshuffle())
        file["ppX"], file["ppY"] = made.metres[:, 1], made.metres[:, 0]
    same(foldslice.read(tmp_path / "a.h5", NO), made)


# -- files that lack something or hold something else ----------------------------------------------------------------


def changed(made, **changes):
    arrays = {"dp": made.counts, "ppX": made.metres[:, 1], "ppY": made.metres[:, 0]} | changes
    return {key: value for key, value in arrays.items() if value is not None}


def with_nan(values):
    values = values.copy()
    values[7] = np.nan
    return values


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda m: {"dp": None}, "lacks dp; add data.patterns_file=; it has ppX, ppY"),
        (lambda m: {"ppX": None}, "lacks ppX and ppY; add data.positions_file=; it has dp, ppY"),
        (lambda m: {"ppX": m.metres[:9, 1]}, r"ppY \(15,\) and ppX \(9,\) do not fit 15 patterns"),
        (
            lambda m: {"ppX": with_nan(m.metres[:, 1])},
            r"ppX \(15,\) has 1 values that are not finite, .* at \[7\]",
        ),
        (lambda m: {"ppX": np.full(J, b"a")}, "ppX .* is text or references; must be real numbers"),
        (lambda m: {"ppX": np.zeros(J, [("a", "f8"), ("b", "i4")])}, "is a compound of a, b; must be real"),
        (lambda m: {"dp": m.counts[0]}, r"dp has shape \(11, 14\); must be \(patterns, rows, columns\)"),
        (lambda m: {"dp": m.counts[:0]}, "holds no patterns"),
        (lambda m: {"dp": m.counts.astype(complex)}, "dp .* is complex128; must be real numbers"),
        (lambda m: {"dp": h5py.Empty("f4")}, "dp has shape None"),
        (lambda m: {"ppX@units": "cubit"}, "ppX@units=cubit: must be one of m, metre"),
        (lambda m: {"dp": h5py.SoftLink("/nowhere")}, "lacks dp"),
    ],
)
def test_what_does_not_fit(tmp_path, made, change, match):
    path = written(tmp_path / "a.h5", changed(made, **change(made)))
    refused(foldslice, path, match)


def test_all_problems_come_at_once(tmp_path, made):
    changes = {f"{DET}/mask": np.zeros((3, 3), int), f"{SRC}/energy": 6.2, f"{DET}/distance": 5e4}
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **changes))
    refused(cxi, path, "energy=6.2 J: .*; .*distance=50000 m: .*; good has shape")


@pytest.mark.parametrize(
    "energy, units, likely",
    [(6.2, None, "is it in keV[?]"), (6200.0, None, "is it in eV[?]"), (6.2, "eV", "is it in keV[?]")],
)
def test_energies_of_the_wrong_unit(tmp_path, made, energy, units, likely):
    changes = {f"{SRC}/energy": energy} | ({f"{SRC}/energy@units": units} if units else {})
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **changes))
    refused(
        cxi, path, f"photon energy must be from 10 to 500000 eV; {likely} correct it or its units attribute"
    )


def test_joules_taken_for_electronvolts_are_named(tmp_path, made):
    arrays = {
        "entry_1/data/data": made.counts,
        "entry_1/data/x": made.metres[:, 1],
        "entry_1/data/y": made.metres[:, 0],
    }
    path = written(tmp_path / "a.nxs", arrays | {"entry_1/instrument_1/beam_1/energy": 700 * EV})
    refused(nexus, path, "eV: a photon energy must be .*; is it in J[?]")


def test_numbers_that_are_not_set(tmp_path, made):
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **{f"{DET}/distance": 0.0, f"{SRC}/energy": np.nan}))
    scan = cxi.read(path, NO)
    assert scan.distance_m is None and scan.energy_eV is None
    assert [line.split(":")[1].strip() for line in scan.warnings] == [
        "no photon energy; taken as not given",
        "no distance; taken as not given",
    ]


def test_masks_that_look_inverted(tmp_path, made):
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **{f"{DET}/mask": np.ones((H, W), np.int32)}))
    assert any("is it inverted?" in line for line in cxi.read(path, NO).warnings)


def test_a_product_needs_patterns(tmp_path, made):
    path = product(tmp_path / "a.h5", made)
    refused(ptychodus, path, "a product without patterns; add data.patterns_file=")
    odd = written(tmp_path / "b.h5", {"something": made.counts})
    refused(
        ptychodus,
        path,
        "no patterns of a known layout; it has something",
        ReadOptions(patterns_file=str(odd)),
    )
    far = product(
        tmp_path / "c.h5",
        made,
        **{"probe_position_indexes": np.arange(J) + 12, "raw_data/diffraction": made.counts},
    )
    scan = ptychodus.read(far, NO)
    assert scan.patterns.shape[0] == 3
    assert any("12 of 15 positions are left out" in line for line in scan.warnings)
    short = {"probe_position_x_m": made.metres[:4, 1], "raw_data/diffraction": made.counts}
    refused(
        ptychodus, product(tmp_path / "d.h5", made, **short), "x_m has 4 and probe_position_y_m 15 positions"
    )


def test_a_chunk_without_positions(tmp_path, made):
    arrays = {
        "meta/energy": 6.2,
        "chunks/0/data": made.counts,
        "chunks/1/data": made.counts,
        "chunks/0/positions": made.metres,
    }
    refused(ptyd, written(tmp_path / "a.ptyd", arrays), "lacks positions .chunks/1/positions.")
    arrays["chunks/1/positions"] = made.metres[:3]
    refused(
        ptyd,
        written(tmp_path / "b.ptyd", arrays),
        r"chunks/1/positions has shape \(3, 2\); must be \(15, 2\)",
    )
    refused(
        ptyd, written(tmp_path / "c.ptyd", {"meta/a": 1, "chunks/0/data": np.zeros((0, 2, 2))}), "no patterns"
    )


# -- other files ------------------------------------------------------------------------------------------------------


def places_for(folder, made):
    np.save(folder / "p.npy", made.metres)
    return ReadOptions(positions_file=str(folder / "p.npy"), unit="m", axes="rc")


def test_links_to_nowhere(tmp_path, made):
    master, options = eiger_folder(tmp_path, made), places_for(tmp_path, made)
    (tmp_path / "s_data_000002.h5").unlink()
    refused(eiger, master, "data_000002 refers to the file s_data_000002.h5, which is not there", options)
    written(tmp_path / "s_data_000002.h5", {"other": 1})
    refused(
        eiger,
        master,
        "data_000002 refers to /entry/data/data in s_data_000002.h5, which is not there",
        options,
    )
    (tmp_path / "s_data_000002.h5").write_text("text")
    refused(eiger, master, "s_data_000002.h5, and cannot read it: not an HDF5 file", options)
    with h5py.File(master, "a") as file:
        del file["entry/data/data_000002"]
    refused(
        eiger, master, "has entry/data/data_000001 to entry/data/data_000003, but not data_000002", options
    )


@pytest.mark.parametrize("how", ["relative", "absolute", "symlink"])
def test_links_that_lead_away_are_refused(tmp_path, made, how):
    inside = tmp_path / "inside"
    inside.mkdir()
    secret = written(tmp_path / "secret.h5", {"entry/data/data": made.counts})
    if how == "symlink":
        (inside / "near.h5").symlink_to(secret)
    name = {"relative": "../secret.h5", "absolute": str(secret), "symlink": "near.h5"}[how]
    path = written(inside / "m.h5", {"entry/data/data_000001": h5py.ExternalLink(name, "/entry/data/data")})
    refused(eiger, path, f"which is {secret}, outside the folder {inside}", places_for(tmp_path, made))


def test_links_below_and_moved_masters(tmp_path, made):
    """A link may go down; of an absolute one that leads nowhere, the file of that name beside is taken."""
    (tmp_path / "below").mkdir()
    eiger_folder(tmp_path / "below", made)
    links = {f"entry/data/data_{k:06d}": f"below/s_data_{k:06d}.h5" for k in (1, 2, 3)}
    links["entry/data/data_000002"] = "/beamline/gone/s_data_000002.h5"
    shutil.copy(tmp_path / "below/s_data_000002.h5", tmp_path)
    arrays = {key: h5py.ExternalLink(name, "/entry/data/data") for key, name in links.items()}
    same(eiger.read(written(tmp_path / "m.h5", arrays), places_for(tmp_path, made)), made)


def virtual(path, made, sources):
    layout = h5py.VirtualLayout(made.counts.shape, made.counts.dtype)
    for k, (name, shape) in enumerate(sources):
        layout[5 * k : 5 * k + 5] = h5py.VirtualSource(name, "d", shape=shape)[:5]
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("dp", layout)
        file["ppX"], file["ppY"] = made.metres[:, 1], made.metres[:, 0]
    return path


def test_virtual_datasets(tmp_path, made):
    sources = [(f"v{k}.h5", (5, H, W)) for k in range(3)]
    path = virtual(tmp_path / "v.h5", made, sources)
    for k in range(3):
        written(tmp_path / f"v{k}.h5", {"d": made.counts[5 * k : 5 * k + 5]})
    scan = foldslice.read(path, NO)
    assert scan.warnings == ()
    same(scan, made)
    written(tmp_path / "v1.h5", {"d": made.counts[5:8]})
    assert any(
        "dp: 2 of 15 patterns were never written" in line for line in foldslice.read(path, NO).warnings
    )
    written(tmp_path / "v1.h5", {"e": made.counts[5:8]})
    refused(foldslice, path, "the virtual dataset dp refers to d in v1.h5, which is not there")
    (tmp_path / "v1.h5").unlink()
    refused(foldslice, path, "the virtual dataset dp refers to the file v1.h5, which is not there")
    short = virtual(tmp_path / "w.h5", made, sources[:1])
    assert any("10 of 15 patterns were never written" in line for line in foldslice.read(short, NO).warnings)


def test_storage_outside_hdf5_is_refused(tmp_path, made):
    (tmp_path / "raw.bin").write_bytes(made.counts.tobytes())
    path = written(tmp_path / "a.h5", {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]})
    with h5py.File(path, "a") as file:
        external = [(str(tmp_path / "raw.bin"), 0, made.counts.nbytes)]
        file.create_dataset("dp", made.counts.shape, "u2", external=external)
    refused(foldslice, path, "dp keeps its numbers outside HDF5 .*raw.bin.*h5repack")


# -- large and unfinished ---------------------------------------------------------------------------------------------


def test_a_killed_acquisition_is_noticed(tmp_path, made):
    """Chunks of two patterns in two halves each; the last four patterns, and half of another, were not written."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        dp = file.create_dataset("dp", made.counts.shape, "f4", chunks=(2, 6, W))
        dp[:10] = made.counts[:10]
        dp[10, :6] = made.counts[10, :6]
        file["ppX"], file["ppY"] = made.metres[:, 1], made.metres[:, 0]
    scan = foldslice.read(path, NO)
    assert any("dp: 5 of 15 patterns were never written and read as zeros" in line for line in scan.warnings)
    assert scan.domain == "counts"
    with h5py.File(path, "a") as file:
        del file["dp"]
        file.create_dataset("dp", made.counts.shape, "f4")  # contiguous, and nothing in it
    scan = foldslice.read(path, NO)
    assert any("15 of 15 patterns" in line for line in scan.warnings)
    assert any("nothing but zeros" in line for line in scan.warnings)
    assert scan.domain == "intensity"


def test_a_large_file_opens_at_once(tmp_path):
    """Five gigabytes declared; only the patterns that are asked for are read."""
    count, path = 10_000, tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        dp = file.create_dataset("dp", (count, 512, 512), "u2", chunks=(1, 512, 512), compression="gzip")
        dp[4321] = 7
        file["ppX"] = file["ppY"] = np.arange(count) * 1e-8
    assert dp_size(count) > 5e9
    start = time.perf_counter()
    scan = foldslice.read(path, NO)
    assert time.perf_counter() - start < 0.5
    assert scan.patterns.shape == (count, 512, 512)
    assert scan.warnings == (
        f"dp: {count - 1} of {count} patterns were never written and read as zeros; was the acquisition stopped?",
    )
    found = scan.patterns.read(np.array([9000, 4321, 12]))
    np.testing.assert_array_equal(found.mean(axis=(1, 2)), [0, 7, 0])


def dp_size(count):
    return count * 512 * 512 * 2


def test_arrays_too_large_for_memory_are_refused(tmp_path, made):
    path = written(tmp_path / "a.h5", {"dp": made.counts, "ppY": made.metres[:, 0]})
    with h5py.File(path, "a") as file:
        file.create_dataset("ppX", (10**12,), "f8", chunks=(1000,))
    refused(foldslice, path, r"ppX \(1000000000000,\) takes 8000000000000 bytes; at most")
    with h5py.File(path, "a") as file:
        del file["ppX"], file["dp"]
        file["ppX"] = made.metres[:, 1]
        file.create_dataset("dp", (J, 2**16, 2**16), "u2", chunks=(1, 64, 64))
    refused(foldslice, path, "patterns of more than 1073741824 bytes")


def test_domains_are_told_from_a_few_patterns(tmp_path, made):
    for name, values, said, domain in [
        ("a", made.intensity, None, None),
        ("b", made.counts.astype("f8"), None, "counts"),
        ("c", np.sqrt(made.counts), None, "amplitude"),
        ("d", made.intensity / 1e3, "intensity", "intensity"),
    ]:
        with opened(written(tmp_path / f"{name}.h5", {"d": values})) as file:
            assert domain_of(file, patterns(file, "d"), said) == domain
            assert bool(file.warnings) == (name == "d")
            file.close()
