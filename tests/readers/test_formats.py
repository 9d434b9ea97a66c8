"""Readers of measured scans in HDF5 and NPZ: each format against the arrays that were written."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers import scans
from helpers.hdf5 import (
    DET,
    EV,
    MADE,
    NO,
    SRC,
    H,
    J,
    W,
    cxi_arrays,
    eiger_folder,
    product,
    refused,
    same,
    says,
    written,
)

from ptycho.config import ConfigError
from ptycho.preparation.marks import find_marks
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.npz import NpzArchive
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
KINDS = {"HDF5": Hdf5Archive, "NPZ": NpzArchive}


@pytest.fixture
def npz(tmp_path):
    return lambda file="scan.npz", /, **arrays: scans.save_npz(tmp_path / file, **arrays)


def save(kind, path, arrays):
    """A file of arrays by path; ``path@name`` is an attribute, of NPZ an array ``path_name``."""
    if kind == "HDF5":
        return written(path.with_suffix(".h5"), arrays)
    arrays = {key.replace("@", "_").lstrip("_"): value for key, value in arrays.items() if value is not None}
    return scans.save_npz(path.with_suffix(".npz"), **arrays)


@pytest.mark.parametrize("dtype", ["uint16", ">u4", "float64"])
def test_foldslice(tmp_path, dtype):
    arrays = {"dp": MADE.counts.astype(dtype), "ppX": MADE.metres[:, 1:], "ppY": MADE.metres[:, :1].T}
    scan = open_scan(written(tmp_path / "a.hdf5", arrays))
    says(scan, format="foldslice", domain="counts", zero_frequency="centre")
    assert scan.patterns.dtype == np.dtype(dtype).newbyteorder("=")
    same(scan)


def test_foldslice_pair_by_either_name(tmp_path):
    written(tmp_path / "s_dp.hdf5", {"dp": MADE.intensity})
    values = {"probe_position_x_m": MADE.metres[:, 1], "probe_position_y_m": MADE.metres[:, 0]}
    values |= {"probe": MADE.probe[None], "object": MADE.object[None], "object@pixel_height_m": 2e-8}
    written(tmp_path / "s_para.hdf5", values | {"object@pixel_width_m": 3e-8})
    for name in ("s_dp.hdf5", "s_para.hdf5"):
        scan = open_scan(tmp_path / name)
        says(scan, format="foldslice", domain="intensity", probe=MADE.probe, object=MADE.object)
        says(scan, object_pixel_m=(2e-8, 3e-8))
        same(scan, MADE.intensity)


def test_foldslice_of_eight_bits_is_not_taken_for_counts(tmp_path):
    small = np.sqrt(MADE.counts).astype(np.uint8)
    places = {"ppX": MADE.metres[:, 1], "ppY": MADE.metres[:, 0]}
    scan = open_scan(written(tmp_path / "a.h5", {"dp": small} | places))
    assert scan.domain is None and "holoptycho" in scan.warnings[0]
    scan = open_scan(written(tmp_path / "b.h5", {"diffraction/dp": small} | places))
    says(scan, domain="amplitude", zero_frequency=None)
    scan = open_scan(written(tmp_path / "c.h5", {"dp": np.sqrt(MADE.counts)} | places))
    assert scan.domain == "amplitude" and "the format says intensity, but" in scan.warnings[0]


def test_cxi(tmp_path):
    bits = np.zeros((H, W), np.uint32)
    bits[1, 2], bits[3, 4], bits[5, 6] = 0x1000, 0x1, 0x1001
    extra = {f"{DET}/mask": bits, f"{DET}/data_dark": np.stack([np.full((H, W), 2.0), np.full((H, W), 4.0)])}
    extra |= {"entry_1/image_1/data": MADE.object}
    scan = open_scan(written(tmp_path / "a.cxi", cxi_arrays(**extra)))
    says(scan, format="cxi", domain="counts", zero_frequency=None, distance_m=1.25, energy_eV=6200)
    says(scan, detector_pixel_m=(55e-6, 75e-6), probe=MADE.probe, object=MADE.object)
    says(scan, good=(bits & ~np.uint32(0x1000)) == 0, dark=np.full((H, W), 3.0))
    same(scan)


def test_cxi_of_electrons(tmp_path):
    """300 keV are 1.9687 pm, like photons of 629.8 keV; a specified energy is that of photons."""
    changes = {f"{SRC}/energy": 3e5 * EV, f"{SRC}/probe": "electron"}
    path = written(tmp_path / "a.cxi", cxi_arrays(**changes))
    scan = open_scan(path)
    assert scan.energy_eV == pytest.approx(1.239841984e-6 / 1.9687e-12, rel=1e-4)
    assert any("300 keV is theirs" in note for note in scan.notes)
    says(scan, probe=MADE.probe)
    assert open_scan(path, ReadOptions(stated={"energy_eV": 5e5})).energy_eV == 5e5


def test_cxi_sample_moves_against_the_probe(tmp_path):
    """By hand: y is up; the sample goes up, the probe down on it, to a later row; so with x and columns."""
    moves = np.zeros((J, 3))
    moves[1], moves[2] = (1e-6, 0, 0), (0, 1e-6, 0)
    path = written(tmp_path / "a.cxi", cxi_arrays(**{"entry_1/data_1/translation": moves}))
    np.testing.assert_array_equal(open_scan(path).positions[1:3], [[0, 1e-6], [1e-6, 0]])


@pytest.mark.parametrize("turned", [False, True], ids=["(2, 3)", "(3, 2) of cdtools"])
def test_cxi_along_the_detectors_axes(tmp_path, turned):
    """By hand: rows of the detector go along +x, columns along −y; the probe goes against the sample."""
    basis = np.array([[55e-6, 0, 0], [0, -75e-6, 0]])
    arrays = cxi_arrays(**{f"{DET}/basis_vectors": basis.T if turned else basis})
    del arrays[f"{DET}/x_pixel_size"], arrays[f"{DET}/y_pixel_size"]
    scan = open_scan(written(tmp_path / "a.cxi", arrays))
    x, y, _ = arrays["entry_1/data_1/translation"].T
    says(scan, positions=np.stack([-x, y], axis=1), detector_pixel_m=(55e-6, 75e-6))


def test_cxi_patterns_beside_the_product_that_ptychodus_writes(tmp_path):
    """The first image is the probe, the second the object; some patterns have no position."""
    kept = np.array([2, 3, 7, 11, 12])
    arrays = cxi_arrays()
    moves = arrays.pop("entry_1/data_1/translation")[kept]
    data = written(tmp_path / "d.cxi", arrays)
    parts = {"entry_1/sample_1/geometry_1/translation": moves, f"{SRC}/energy": 8000 * EV}
    parts |= {"entry_1/ptychodus/probe_position_indexes": kept, f"{DET}/distance": 1.25}
    parts |= {"entry_1/image_1/data": MADE.probe[None], "entry_1/image_2/data": MADE.object[None]}
    parts |= {f"{SRC}/illumination": h5py.SoftLink("/entry_1/image_1/data")}
    scan = open_scan(data, ReadOptions(positions_file=str(written(tmp_path / "p.cxi", parts))))
    says(scan, energy_eV=8000, probe=MADE.probe, object=MADE.object)
    same(scan, index=kept)


def test_nxcxi_raster(tmp_path):
    """Data (5, 3, H, W); the machine's energy is not the photons'; the beam's centre is a length."""
    numbers = {
        f"{DET}/translation": (np.stack([*MADE.metres.T[::-1], np.zeros(J)], 1) * 1e3, "mm"),
        f"{DET}/distance": (1250.0, "mm"),
        f"{DET}/x_pixel_size": (75.0, "µm"),
        f"{DET}/beam_center_x": (450e-6, "m"),
        f"{DET}/beam_center_y": (4.5, "pixel"),
        "entry_1/instrument_1/beam_1/energy": (9.1, "keV"),
    }
    arrays = {
        "entry_1/definition": "NXcxi_ptycho",
        "cxi_version": 160,
        f"{DET}/data": MADE.counts.reshape(5, 3, H, W),
        f"{SRC}/energy": 3.0,
        f"{SRC}/probe": "x-ray",
        f"{DET}/pixel_mask": np.eye(H, W, dtype=np.uint32) * 4,
    }
    for key, (value, unit) in numbers.items():
        arrays |= {key: value, f"{key}@units": unit}
    scan = open_scan(written(tmp_path / "a.nxs", arrays))
    says(scan, format="nexus", energy_eV=9100, distance_m=1.25, detector_pixel_m=(75e-6, 75e-6))
    says(scan, zero_frequency=(4.5, 6.0), good=np.eye(H, W) == 0)
    same(scan)


@pytest.mark.parametrize("shape", ["list", "grid", "axes", "flat"])
def test_diamond(tmp_path, shape):
    """The columns are slow: data (5, 3, H, W) with x along the first axis."""
    rows, cols = MADE.metres[:, 0], MADE.metres[:, 1]
    x, y, data = cols, rows, MADE.counts.reshape(5, 3, H, W)
    if shape == "grid":
        x, y = cols.reshape(5, 3, 1), rows.reshape(5, 3, 1)
    if shape == "axes":
        x, y = cols[::3], rows[:3]
    if shape == "flat":
        x, y, data = cols.reshape(J, 1, 1), rows.reshape(J, 1, 1), MADE.counts
    arrays = {"entry_1/data/data": data, "entry_1/data/x": x, "entry_1/data/y": y}
    arrays |= {"entry_1/instrument_1/beam_1/energy": 700.0, "entry_1/instrument_1/monitor/data": np.ones(J)}
    scan = open_scan(written(tmp_path / "a.nxs", arrays))
    says(scan, format="nexus", energy_eV=700)
    assert "the monitor is not applied" in scan.notes
    same(scan)


def test_nxcxi_motors_are_the_samples(tmp_path):
    arrays = {"entry_1/definition": "NXcxi_ptycho", f"{DET}/data": MADE.counts}
    for k, name in enumerate("yx"):
        arrays[f"entry_1/sample_1/transformations/{name}"] = -MADE.metres[:, k] * 1e6
        arrays[f"entry_1/sample_1/transformations/{name}@units"] = "um"
    same(open_scan(written(tmp_path / "a.nxs", arrays)))


@pytest.mark.parametrize("parts", [False, True])
def test_ptyd(tmp_path, parts):
    weights = np.ones((H, W))
    weights[4, 5] = 0
    arrays = {"meta/energy": 6.2, "meta/distance": 7.0, "meta/psize": [55e-6, 75e-6]}
    arrays |= {"meta/center": [5.0, 6.5], "meta/propagation": "farfield", "info/weight2d": weights}
    for k, part in enumerate([slice(0, 4), slice(4, 12), slice(12, J)]):
        chunk = {"data": MADE.intensity[part], "positions": MADE.metres[part], "weights": np.zeros(0)}
        if parts:
            written(tmp_path / f"s.part{k:03d}.ptyd", {f"chunks/{k}/{name}": v for name, v in chunk.items()})
            arrays[f"chunks/{k}"] = h5py.ExternalLink(f"s.part{k:03d}.ptyd", f"/chunks/{k}")
        else:
            arrays |= {f"chunks/{k}/{name}": value for name, value in chunk.items()}
    scan = open_scan(written(tmp_path / "s.ptyd", arrays))
    says(scan, format="ptyd", domain="intensity", zero_frequency=(5.0, 6.5), distance_m=7, energy_eV=6200)
    says(scan, detector_pixel_m=(55e-6, 75e-6), good=weights > 0)
    same(scan, MADE.intensity)


@pytest.mark.parametrize(
    "word, centre", [("fftshift", "centre"), ("fft", "corner"), ("geometric", (5.0, 6.5)), ("None", None)]
)
def test_ptyd_centres_and_own_weights(tmp_path, word, centre):
    weights = np.ones((J, H, W))
    weights[:, 1, 1] = 0
    arrays = {"meta/center": word, "meta/energy": "None", "meta/psize": 55e-6, "info/energy": 6.2}
    chunk = {"data": MADE.counts, "positions": MADE.metres, "weights": weights}
    path = written(tmp_path / "s.ptyd", arrays | {f"chunks/0/{key}": value for key, value in chunk.items()})
    scan = open_scan(path)
    says(scan, zero_frequency=centre, detector_pixel_m=(55e-6, 55e-6), energy_eV=6200)
    marks = find_marks(scan.patterns.read(slice(0, J)), scan.patterns.dtype)
    np.testing.assert_array_equal(marks, weights == 0)


@pytest.mark.parametrize("turned", [False, True])
def test_ptylab(tmp_path, turned):
    encoder = MADE.metres.T if turned else MADE.metres
    arrays = {"ptychogram": MADE.counts.astype(np.float32), "encoder": encoder, "wavelength": 632.8e-9}
    arrays |= {"zo": [[0.05]], "dxd": 4.5e-6, "emptyBeam": np.ones((H, W))}
    scan = open_scan(written(tmp_path / "a.hdf5", arrays))
    says(scan, format="ptylab", domain="counts", zero_frequency="centre", distance_m=0.05)
    assert scan.energy_eV == pytest.approx(1.9593, rel=1e-4)  # a helium-neon laser
    says(scan, detector_pixel_m=(4.5e-6, 4.5e-6))
    same(scan)


@pytest.mark.parametrize(
    ("code", "keys"), [(0, None), (1, "data.flip_cols=true"), (6, "data.transpose=true data.flip_rows=true")]
)
def test_ptylab_that_turns_its_patterns(tmp_path, code, keys):
    arrays = {"ptychogram": MADE.counts, "encoder": MADE.metres, "orientation": code}
    warnings = () if keys is None else (f"orientation is {code}: PtyLab turns the patterns; add {keys}",)
    assert open_scan(written(tmp_path / "a.h5", arrays)).warnings == warnings
    lamps = written(tmp_path / "b.h5", arrays | {"zled": 0.1})
    refused(lamps, "zled: Fourier ptychography")


@pytest.mark.parametrize(
    ("kind", "other", "swapped"), [("HDF5", "HDF5", False), ("HDF5", "NPZ", True), ("NPZ", "HDF5", False)]
)
def test_product_and_patterns(tmp_path, kind, other, swapped):
    """Patterns 30, 28, … 2 are in the file; the product has 4, 30, 28 and one that is not there.

    The patterns keep their order.
    """
    bad = np.arange(H * W).reshape(H, W) == 31
    arrays = {"patterns": MADE.counts, "indexes": np.arange(30, 0, -2), "bad_pixels": bad}
    arrays |= {"patterns@detector_pixel_height_m": 55e-6, "patterns@detector_pixel_width_m": 75e-6}
    rows = np.array([13, 0, 1])
    metres = np.concatenate([MADE.metres[rows], [[9.0, 9.0]]])
    changes = {"probe_position_indexes": np.array([4, 30, 28, 5])}
    changes |= {"probe_position_x_m": metres[:, 1], "probe_position_y_m": metres[:, 0]}
    if swapped:  # since version 17
        changes |= {"@probe_energy_eV": None, "@photon_energy_eV": 8000.0}
    own = save(kind, tmp_path / "p", product(None, **changes))
    data = save(other, tmp_path / "d", arrays)
    options = {"positions_file": str(own)} if swapped else {"patterns_file": str(data)}
    scan = open_scan(data if swapped else own, ReadOptions(**options))
    says(scan, format="ptychodus", zero_frequency="centre", domain="counts", energy_eV=8000, distance_m=1.9)
    says(scan, detector_pixel_m=(55e-6, 75e-6), good=~bad, probe=MADE.probe, object=MADE.object)
    says(scan, positions=MADE.metres[np.sort(rows)], object_centre_m=(4e-8, -1e-8))
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 3)), MADE.counts[np.sort(rows)])
    assert "1 of 4 positions are excluded" in scan.warnings[0]
    scan.patterns.close()


def test_numbers_that_repeat(tmp_path):
    def paired(mine, theirs):
        places = MADE.metres[: len(theirs)]
        arrays = {"probe_position_x_m": places[:, 1], "probe_position_y_m": places[:, 0]}
        arrays |= {"probe_position_indexes": np.array(theirs)}
        own = product(tmp_path / "p.h5", **arrays)
        data = {"patterns": MADE.counts[: len(mine)], "indexes": np.array(mine)}
        return open_scan(own, ReadOptions(patterns_file=str(written(tmp_path / "d.h5", data))))

    scan = paired(np.arange(J), [0] * J)
    assert f"repeat, {J - 1} of {J}: they are paired in the order of the files" in scan.warnings[0]
    same(scan)
    scan = paired([4, 5, 6], [5, 4, 5, 6])
    assert scan.warnings == ("1 of 4 positions are of patterns that have another; are they right?",)
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 4)), MADE.counts[[0, 1, 1, 2]])
    np.testing.assert_allclose(scan.positions, MADE.metres[[1, 0, 2, 3]], rtol=1e-12)
    scan.patterns.close()
    with pytest.raises(ConfigError, match=r"3 patterns and 4 positions have numbers that repeat; give each"):
        paired([4, 4, 6], [4, 5, 6, 7])
    with pytest.raises(ConfigError, match=r"no pattern has a position: .* are 0 to 2, those .* 7 to 8"):
        paired([0, 1, 2], [7, 8])


@pytest.mark.parametrize(("kind", "key"), [("HDF5", "probe@opr_weights"), ("NPZ", "opr_weights")])
def test_coherent_modes_and_layers(tmp_path, kind, key):
    """By hand: mean weights (1, 0.5) of two coherent modes."""
    sets, weights = np.stack([MADE.probe, -2j * MADE.probe]), np.stack([np.ones(J), np.linspace(0, 1, J)], 1)
    changes = {"probe": sets, key: weights, "object": np.stack([MADE.object, MADE.object])}
    scan = open_scan(save(kind, tmp_path / "p", product(None, patterns=MADE.counts, **changes)))
    scan.patterns.close()
    np.testing.assert_allclose(scan.probe, (1 - 1j) * MADE.probe, rtol=1e-5)
    np.testing.assert_allclose(scan.object, MADE.object**2, rtol=1e-6)
    assert len(scan.warnings) == 2 and any("mean of" in line for line in scan.warnings)


def test_training_data_of_ptychodus(tmp_path):
    """Pitch by hand: λz/(N·dx) = 1.239841984e-10 m · 2 m/(11 · 20 nm), and 14 · 30 nm along columns."""
    places = MADE.metres / [2e-8, 3e-8]
    arrays = {"patterns": MADE.counts, "bad_pixels": np.zeros((H, W), bool), "probe": MADE.probe}
    arrays |= {"probe_position_y_px": places[:, 0] + 14, "probe_position_x_px": places[:, 1] + 15}
    arrays |= {"object": MADE.object, "object_pixel_height_m": 2e-8, "object_pixel_width_m": 3e-8}
    arrays |= {"photon_energy_eV": 10000.0, "detector_object_distance_m": 2.0}
    scan = open_scan(written(tmp_path / "t.h5", arrays))
    # Of the first of 11 × 14 samples, (5, 6.5) before the probe's middle; the object's is (14, 15).
    says(scan, format="ptychodus", unit="px", object_centre_m=(9, 8.5), distance_m=2)
    np.testing.assert_allclose(scan.positions, places + np.array([14 - 5, 15 - 6.5]), atol=1e-9)
    says(scan, detector_pixel_m=(1.1271290764e-3, 5.9040094476e-4), good=np.ones((H, W), bool))
    says(scan, probe=MADE.probe, object=MADE.object)


def test_eiger(tmp_path):
    master = eiger_folder(tmp_path)
    (tmp_path / "p.csv").write_text("x_m,y_m\n" + "\n".join(f"{c!r},{r!r}" for r, c in MADE.metres.tolist()))
    scan = open_scan(master, ReadOptions(positions_file=str(tmp_path / "p.csv")))
    says(scan, format="eiger", domain="counts", zero_frequency=(5.25, 6.5), energy_eV=9000, distance_m=2.1)
    says(scan, detector_pixel_m=(75e-6, 75e-6))
    assert not scan.good[2, 3] and np.count_nonzero(~scan.good) == 1
    same(scan)


def test_eiger_marks_and_saturation(tmp_path):
    master = eiger_folder(tmp_path)
    for k in (1, 2, 3):
        with h5py.File(tmp_path / f"s_data_{k:06d}.h5", "a") as file:
            file["entry/data/data"][:, 7, :] = 2**32 - 1
    with h5py.File(master, "a") as file:
        file["entry/instrument/detector/detectorSpecific/saturation_value"] = 5
        file["entry/instrument/detector/detectorSpecific/nimages"] = 16
        file["entry/places"] = MADE.metres
        for axis in "xy":
            file[f"entry/instrument/detector/beam_center_{axis}"][()] = 0
    scan = open_scan(master, ReadOptions(keys={"positions": "entry/places"}, unit="m"))
    assert scan.zero_frequency is None
    marks = find_marks(scan.patterns.read(slice(0, J)), scan.patterns.dtype)
    assert marks[:, 7].all() and np.count_nonzero(marks) == J * W and np.count_nonzero(~scan.good) == 1
    assert scan.saturation == 5
    assert any("announces 16 patterns, and there are 15" in line for line in scan.warnings)


def test_a_mark_of_pilatus_stays_in_its_patterns(tmp_path):
    counts = MADE.counts.astype(np.int32)
    counts[:, 4, :] = -1
    specific = "entry/instrument/detector/detectorSpecific/ntrigger"
    path = written(tmp_path / "m.h5", {"entry/data/data": counts, specific: 1, "p": MADE.metres})
    scan = open_scan(path, ReadOptions(keys={"positions": "p"}, unit="m"))
    assert scan.good is None  # which pixels hold marks is found in preparation, for all formats
    same(scan, counts)


def test_ptychopinn(npz):
    metadata = np.array({"a": 1}, dtype=object)
    scan = open_scan(npz(**scans.pinn(scan_index=np.arange(7) // 4, _metadata=metadata)))
    says(scan, format="ptychopinn", domain="counts", zero_frequency="centre", unit="px", object=None)
    scans.equal(scan.patterns, scans.SMALL.counts)
    says(scan, positions=np.stack([scans.SMALL.row, scans.SMALL.col], axis=1), probe=scans.SMALL.probe[:1])
    says(scan, scan_index=np.array([0, 0, 0, 0, 1, 1, 1]), object_centre_m=None)
    assert "_metadata is not read" in scan.notes and not scan.warnings


def test_values_of_ptychopinn_that_are_python_objects_are_skipped(npz):
    objects = dict.fromkeys(("probeGuess", "objectGuess", "bad_pixels"), np.array([None], object))
    scan = open_scan(npz(**scans.pinn(scan_index=np.arange(7), **objects)))
    says(scan, probe=None, object=None, good=None, scan_index=np.arange(7))
    assert {line.split()[1] for line in scan.warnings} == set(objects) and len(scan.warnings) == 3
    scan = open_scan(npz(**scans.pinn(bad_pixels=scans.SMALL.bad, scan_index=np.array(["a"] * 7))))
    says(scan, good=~scans.SMALL.bad, scan_index=None)


def test_ptychopinn_positions_are_the_probes_centre_from_the_corner_of_the_object(npz):
    """A probe whose centre is at column 17 and row 15.5 is in the middle of a 31 × 34 object."""
    x, y = np.array([17.0, 20, 17, 0, 1, 2, 3]), np.array([15.5, 15.5, 13.5, 0, 1, 2, 3])
    scan = open_scan(npz(**scans.pinn(xcoords=x, ycoords=y, objectGuess=scans.SMALL.object)))
    np.testing.assert_array_equal(scan.positions[:3], [[15.5, 17], [15.5, 20], [13.5, 17]])
    says(scan, object=scans.SMALL.object, object_centre_m=(15.5, 17))


@pytest.mark.parametrize(
    ("numbers", "contract", "domain"),
    [
        ("scaled", (), None),
        ("scaled", ("ci_intensity_v2", "count_intensity"), "counts"),
        ("counts", ("legacy_v1", "normalized_amplitude"), "amplitude"),
        ("counts", ("legacy_v1",), "counts"),
    ],
)
def test_ptychopinn_domain(npz, numbers, contract, domain):
    """The file decides, and then the numbers: 0.137 √counts may be an amplitude or an intensity."""
    scaled = np.sqrt(scans.SMALL.counts, dtype=np.float32) * np.float32(0.137)
    patterns = {"counts": scans.SMALL.counts, "scaled": scaled}[numbers]
    attributes = dict(zip(("scale_contract_version", "measurement_domain"), contract, strict=False))
    scan = open_scan(npz(**scans.pinn(diff3d=patterns, **attributes)))
    assert scan.domain == domain and len(scan.warnings) == (len(contract) == 1)
    assert any(note.startswith(f"{domain or 'domain unknown'}: ") for note in scan.notes)


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0)])
def test_ptychopinn_prepared_and_legacy(npz, axes):
    patterns = np.sqrt(scans.SMALL.counts, dtype=np.float32) * np.float32(0.137)
    arrays = scans.pinn(diff3d=None, diffraction=patterns.transpose(axes), bad_pixels=scans.SMALL.bad)
    scan = open_scan(npz(**arrays))
    says(scan, domain="amplitude", good=~scans.SMALL.bad)
    assert not scan.warnings
    scans.equal(scan.patterns, patterns)


def test_tike_positions_are_the_probes_first_sample(npz):
    """A 9 × 12 probe in the middle, (15.5, 17), of the 31 × 34 object has its first sample at (11.5, 11)."""
    changes = {"scan": np.array([[4, 6.0]] * 7), "psi": scans.SMALL.object}
    changes |= {"probe": scans.SMALL.probe[None, None]}
    scan = open_scan(npz(**scans.tike(**changes, data=scans.SMALL.counts[None] * np.float32(0.7))))
    says(scan, positions=np.array([[4, 6.0]] * 7), object_centre_m=(11.5, 11), object=scans.SMALL.object)
    says(scan, format="tike", domain="intensity", zero_frequency="corner", unit="px", probe=scans.SMALL.probe)
    scans.equal(scan.patterns, scans.SMALL.counts * np.float32(0.7))


@pytest.mark.parametrize("arrays", [scans.pinn, scans.tike])
@pytest.mark.parametrize("second", ["table", "product"])
def test_other_positions_take_the_place_of_the_files(tmp_path, npz, arrays, second):
    path = npz("a.npz", **arrays())
    wanted = np.random.default_rng(0).uniform(0, 1e-6, (7, 2))
    if second == "table":
        np.save(tmp_path / "t.npy", wanted)
        options = ReadOptions(positions_file=str(tmp_path / "t.npy"), axes="rc", unit="m")
    else:
        places = {"probe_position_x_m": wanted[:, 1], "probe_position_y_m": wanted[:, 0]}
        own = product(tmp_path / "p.h5", probe_position_indexes=np.arange(7), **places)
        options = ReadOptions(positions_file=str(own))
    scan = open_scan(path, options)
    says(scan, positions=wanted, unit="m")
    assert (scan.object is None) == (second == "table")


@pytest.mark.parametrize("kind", KINDS)
def test_keymap(tmp_path, kind):
    probe = MADE.probe
    if kind == "HDF5":
        probe = np.zeros(MADE.probe.shape, [("real", "f8"), ("imag", "f8")])  # as MATLAB writes it
        probe["real"], probe["imag"] = MADE.probe.real, MADE.probe.imag
    eye = np.eye(H, W)
    arrays = {"a/d": MADE.intensity, "a/xy": MADE.metres[:, ::-1].T * 1e6, "p": probe, "E": 7.1, "z": 1.5}
    arrays |= {"b": eye, "g": 1 - eye[::-1].astype(int), "E@units": "keV", "o": MADE.object}
    arrays |= {"a@pitch": [55e-6, 75e-6], "f": np.full((H, W), 0.5)}
    keys = {"patterns": "a/d", "positions": "a/xy", "probe": "p", "bad": "b", "good": "g", "energy_eV": "E"}
    keys |= {"detector_pixel_m": "a@pitch", "distance_m": "z", "flat": "f", "dark": "f", "object": "o"}
    scan = open_scan(save(kind, tmp_path / "a", arrays), ReadOptions(keys=keys, unit="um", axes="xy"))
    says(scan, format=kind.lower(), domain=None, zero_frequency=None, unit="um", distance_m=1.5)
    says(scan, positions=MADE.metres * 1e6, probe=MADE.probe, object=MADE.object, energy_eV=7100)
    says(scan, good=(eye + eye[::-1]) == 0, flat=np.full((H, W), 0.5), dark=np.full((H, W), 0.5))
    says(scan, detector_pixel_m=(55e-6, 75e-6))
    np.testing.assert_array_equal(scan.patterns.read(np.array([7])), MADE.intensity[7:8])
    scan.patterns.close()


def test_keymap_of_two_files(tmp_path):
    data = written(tmp_path / "d.h5", {"entry/data/data": MADE.counts})
    places = written(tmp_path / "p.h5", {"r": MADE.metres[:, 0], "c": MADE.metres[:, 1], "e": 9000.0})
    keys = {"positions_row": "r", "positions_col": "c"}
    described = ReadOptions(keys=keys | {"energy_eV": "e"}, unit="m", patterns_file=str(data))
    scan = open_scan(places, described)
    assert scan.energy_eV == 9000
    same(scan)
    same(open_scan(data, ReadOptions(keys=keys, unit="m", positions_file=str(places))))
    pp = written(tmp_path / "pp.h5", {"ppX": MADE.metres[:, 1], "ppY": MADE.metres[:, 0]})
    same(open_scan(data, ReadOptions(positions_file=str(pp))))


def test_the_content_decides_not_the_name(tmp_path):
    path = tmp_path / "scan.npz"  # HDF5, after a block of the user's
    with h5py.File(path, "w", userblock_size=512) as file:
        file["a"], file["b"] = scans.SMALL.counts, np.stack([scans.SMALL.row, scans.SMALL.col], axis=1)
    scan = open_scan(path, ReadOptions(keys={"patterns": "a", "positions": "b"}, unit="um"))
    assert scan.format == "hdf5"
    scans.equal(scan.patterns, scans.SMALL.counts)
    refused(path, r"none of the layouts ptychodus, .*; it holds a \(7, 9, 12\) uint16, b \(7, 2\) float64")
    with h5py.File(path, "a") as file:
        file["dp"], file["ppX"], file["ppY"] = scans.SMALL.counts, scans.SMALL.col, scans.SMALL.row
    assert open_scan(path, NO).format == "foldslice"


@pytest.mark.shared
def test_siemens_star():
    scan = open_scan(SHARED / "siemens_star.npz")
    says(scan, format="tike", domain="counts", zero_frequency="corner", unit="px")
    assert scan.patterns.shape == (516, 128, 128) and scan.probe.shape == (1, 128, 128)
    np.testing.assert_allclose(scan.positions[0], [167.57964, -159.73396], atol=1e-4)
    mean = scan.patterns.read(slice(0, 516)).mean(axis=0)
    assert mean[:4, :4].sum() > 100 * mean[62:66, 62:66].sum()


@pytest.mark.shared
def test_tungsten_pattern():
    keys = {"patterns": "reciprocal", "positions": "position"}
    scan = open_scan(SHARED / "w_pattern_20.npz", ReadOptions(keys=keys, unit="m"))
    assert (scan.format, scan.domain, scan.patterns.shape) == ("npz", "counts", (20, 512, 512))
    np.testing.assert_allclose(scan.positions[0], [-4.09478504e-07, 1.09923959e-06])
    assert scan.patterns.read(np.array([7]))[0].sum() > 0
