"""Scans written for other programs are read back with the same values and positions; errors are one line."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from helpers.cli import ROOT, files, fresh

from ptycho.config import ConfigError, RunConfig, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.exports import FORMATS, SUFFIXES, cxi, format_of, npz, product
from ptycho.exports.exported_scan import ExportedScan, from_dataset, intensities, product_of
from ptycho.files.atomic import WriteError
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import interpret
from ptycho.preparation.start import find_product
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.record import check_output
from ptycho.scan.patterns import Patterns
from ptycho.scan.reconstruction import Reconstruction

J, N, M = 9, 16, (41, 36)
ENERGY, DISTANCE, PITCH = 8200.0, 1.9, 55e-6
DX = 1.239841984e-6 / ENERGY * DISTANCE / (N * PITCH)
SUFFIX = {kind: suffix for suffix, kind in reversed(SUFFIXES.items())}


def drawn(rng, *shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


@pytest.fixture(scope="module")
def scan():
    """Irregular positions on a non-square object away from the origin, two modes, bad pixels."""
    rng = np.random.default_rng(11)
    good = rng.random((N, N)) > 0.1
    counts = (rng.poisson(30, (J, N, N)) * good).astype(np.uint16)
    origin = (-3.0, 2.5)
    return ExportedScan(
        positions=rng.uniform(0, 1, (J, 2)) * (np.array(M) - N) + origin,
        probe=drawn(rng, 2, N, N) * np.array([1, 3], np.float32)[:, None, None],
        patterns=(counts[:4], counts[4:]),
        dtype=counts.dtype,
        domain="counts",
        object=drawn(rng, *M),
        origin=origin,
        good=good,
        pixel_m=(DX, DX),
        energy_eV=ENERGY,
        distance_m=DISTANCE,
        detector_pixel_m=(PITCH, PITCH),
        name="made up",
        comments="for a test",
    )


def counts_of(scan):
    return np.concatenate(list(scan.patterns))


def read(path, **stated):
    """Read and interpret a file; the detector centre N//2 is specified if the format does not have it."""
    config = DataConfig(file=str(path), N=N, hot_pixels=False, detector_pixel_m=PITCH, **stated)
    raw = open_scan(path, ReadOptions(unit=config.unit, patterns_file=config.patterns_file))
    return interpret(raw, config)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_written_is_what_is_read(kind, scan, tmp_path):
    path = tmp_path / f"scan{SUFFIX[kind]}"
    FORMATS[kind](path, scan)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]  # nothing temporary is left
    found = read(path, **({"zero_frequency": "centre"} if kind == "cxi" else {}))
    assert found.raw.format == {"npz": "ptychopinn"}.get(kind, kind)
    assert found.raw.domain == ("counts" if kind == "cxi" else "amplitude")
    assert (found.N, found.detector.centre) == (N, (N // 2, N // 2))
    seen = found.patterns(slice(0, J)).astype(float) ** 2
    np.testing.assert_allclose(seen, counts_of(scan), rtol=1e-6)
    np.testing.assert_array_equal(found.raw.object, scan.object)
    length = 1 if kind == "npz" else DX
    middles = (found.raw.positions - np.array(found.raw.object_centre_m or (0, 0))) / length
    corners = middles + np.array(found.raw.object.shape) / 2 - N / 2  # of patches in the file's object
    np.testing.assert_allclose(corners, scan.positions - scan.origin, atol=1e-6)
    moved = found.positions - scan.positions  # in object pixels, independent of the unit in the file
    np.testing.assert_allclose(moved, np.tile(moved[0], (J, 1)), atol=1e-6)
    probe = scan.probe[1:] if kind == "npz" else scan.probe
    np.testing.assert_array_equal(found.probe, probe)
    if kind != "npz":
        assert found.raw.energy_eV == pytest.approx(ENERGY, rel=1e-9)
        assert found.raw.distance_m == DISTANCE
        np.testing.assert_allclose(found.pixel.metres, (DX, DX), rtol=1e-9)


def hand_made(**changes):
    """Two positions on an object of 20 × 30 with patterns of 16 × 16: hand-worked places."""
    values = {
        "positions": np.array([[0.0, 0.0], [3.0, 7.5]]),
        "probe": np.ones((1, 16, 16), np.complex64),
        "patterns": (np.ones((2, 16, 16), np.uint16),),
        "dtype": np.dtype(np.uint16),
        "domain": "counts",
        "object": np.ones((20, 30), np.complex64),
        "pixel_m": (1e-8, 2e-8),
        "energy_eV": 8000.0,
        "distance_m": 1.0,
        "detector_pixel_m": (8e-5, 4e-5),
    }
    return ExportedScan(**(values | changes))


def test_places_worked_by_hand(tmp_path):
    """Middle of the first patch: (8, 8); from the object's middle (10, 15): (−2, −7) px; second: (1, 0.5)."""
    scan = hand_made()
    product.write(tmp_path / "a.h5", scan)
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_allclose(file["probe_position_y_m"], [-2e-8, 1e-8])
        np.testing.assert_allclose(file["probe_position_x_m"], [-14e-8, 1e-8])
        np.testing.assert_allclose(file["raw_data/ycoords"], [8, 11])
        np.testing.assert_allclose(file["raw_data/xcoords"], [8, 15.5])
        assert file["object"].attrs["pixel_height_m"] == 1e-8 and file["probe"].attrs["pixel_width_m"] == 2e-8
        assert file["object"].attrs["center_x_m"] == file["object"].attrs["center_y_m"] == 0
    cxi.write(tmp_path / "a.cxi", scan)
    with h5py.File(tmp_path / "a.cxi") as file:
        # down and to the right on the object is reached by moving the sample up (+y) and to the left (+x)
        moves = file["entry_1/sample_1/geometry_1/translation"][()]
        np.testing.assert_allclose(moves, [[-14e-8, -2e-8, 0], [1e-8, 1e-8, 0]])
        detector = file["entry_1/instrument_1/detector_1"]
        np.testing.assert_allclose(detector["basis_vectors"], [[0, -8e-5, 0], [-4e-5, 0, 0]])
        np.testing.assert_allclose(detector["corner_position"], [8.5 * 4e-5, 8.5 * 8e-5, 1.0])
    npz.write(tmp_path / "a.npz", scan)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        np.testing.assert_allclose(arrays["xcoords"], [8, 15.5])
        np.testing.assert_allclose(arrays["ycoords"], [8, 11])


def test_a_product_is_as_ptychodus_wants_it(scan, tmp_path):
    product.write(tmp_path / "scan.h5", scan)
    with h5py.File(tmp_path / "scan.h5") as file:
        required = {"name", "comments", "detector_object_distance_m", "probe_energy_eV", "exposure_time_s"}
        assert required | {"tomography_angle_deg", "probe_photon_count"} <= set(file.attrs)
        assert file.attrs["name"] == "made up" and "for a test" in file.attrs["comments"]
        assert f"{(~scan.good).sum()} detector pixels were not measured" in file.attrs["comments"]
        photons = np.sum(np.abs(scan.probe.astype(complex)) ** 2)
        assert file.attrs["probe_photon_count"] == pytest.approx(photons)
        assert file["tomography_angle_deg"][()] == file.attrs["tomography_angle_deg"] == 0
        for weights in (file["opr_weights"][()], file["probe"].attrs["opr_weights"]):
            np.testing.assert_array_equal(weights, np.ones((J, 1)))
        assert file["object_layer_spacing_m"].shape == file["loss_values"].shape == (0,)
        np.testing.assert_array_equal(file["probe_position_indexes"], np.arange(J))
        assert file["raw_data/diffraction"].attrs["domain"] == "amplitude"


def test_a_product_of_many_positions_has_an_attribute_larger_than_64_kib(tmp_path):
    many = 20_000
    scan = hand_made(positions=np.random.default_rng(0).uniform(0, 4, (many, 2)), patterns=None)
    product.write(tmp_path / "many.h5", scan)
    with h5py.File(tmp_path / "many.h5") as file:
        assert file["probe"].attrs["opr_weights"].shape == (many, 1)


def test_a_viewer_finds_the_image(scan, tmp_path):
    """The chain of defaults follows the NeXus manual: root → NXentry → NXdata → signal and axes."""
    product.write(tmp_path / "product.h5", replace(scan, pixel_m=(2e-8, 3e-8)))
    with h5py.File(tmp_path / "product.h5") as file:
        place, kinds = file, []
        while place.attrs["NX_class"] != "NXdata":
            kinds.append(place.attrs["NX_class"])
            place = place[place.attrs["default"]]
        assert kinds == ["NXroot", "NXentry"]
        signal = place[place.attrs["signal"]]
        np.testing.assert_allclose(signal[:], np.angle(scan.object), atol=1e-6)
        axes = [place[name][:] for name in place.attrs["axes"]]
        assert tuple(map(len, axes)) == signal.shape
        np.testing.assert_allclose(np.diff(axes[1]), 3e-8)
        assert axes[0][0] == pytest.approx(-axes[0][-1]) and place["x"].attrs["units"] == "m"


def test_without_a_pixel_size_lengths_are_in_pixels(scan, tmp_path):
    unknown = replace(scan, pixel_m=None, energy_eV=None, distance_m=None, detector_pixel_m=None)
    product.write(tmp_path / "scan.h5", unknown)
    with h5py.File(tmp_path / "scan.h5") as file:
        assert "all lengths are in object pixels, not in metres" in file.attrs["comments"]
        assert file["probe_position_x_m"].attrs["units"] == "px"
        pixel = file["object"].attrs["pixel_height_m"]
        middle = file["probe_position_y_m"][()] - file["object"].attrs["center_y_m"]
        rows = middle / pixel + M[0] / 2 - N / 2
        np.testing.assert_allclose(rows, scan.positions[:, 0] - scan.origin[0], atol=1e-9)
        assert file.attrs["probe_energy_eV"] == 0
    npz.write(tmp_path / "scan.npz", unknown)
    assert open_scan(tmp_path / "scan.npz").unit == "px"
    missing = "pixel_m, energy_eV, distance_m, detector_pixel_m is not known"
    with pytest.raises(ConfigError, match=f"CXI states lengths in metres, and {missing}"):
        cxi.write(tmp_path / "scan.cxi", unknown)
    assert not (tmp_path / "scan.cxi").exists()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_appears_whole_or_not_at_all(kind, scan, tmp_path):
    path = tmp_path / f"scan{SUFFIX[kind]}"
    FORMATS[kind](path, scan)
    before = files(tmp_path)

    def broken():
        yield counts_of(scan)[:4]
        raise RuntimeError("the detector's file is damaged")

    with pytest.raises(RuntimeError, match="damaged"):
        FORMATS[kind](path, replace(scan, patterns=broken()))
    with pytest.raises(ValueError, match="4 patterns came; must be 9"):
        FORMATS[kind](path, replace(scan, patterns=(counts_of(scan)[:4],)))
    with pytest.raises(ValueError, match=r"shape \(2, 9, 16\); must be of \(9, 16, 16\)"):
        FORMATS[kind](path, replace(scan, patterns=(counts_of(scan)[:2, :9],)))
    assert files(tmp_path) == before
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        FORMATS[kind](tmp_path / "file" / path.name, scan)


def test_what_a_format_needs_and_a_scan_lacks_is_said(scan, tmp_path):
    with pytest.raises(ConfigError, match="made up: has no patterns to write"):
        cxi.write(tmp_path / "scan", replace(scan, patterns=None))
    with pytest.raises(ConfigError, match="a product holds an object, and there is none"):
        product.write(tmp_path / "scan", replace(scan, object=None))


def test_the_name_gives_the_format(tmp_path):
    assert set(SUFFIXES.values()) == set(FORMATS)
    assert [format_of(None, f"a/b{suffix}") for suffix in (".h5", ".CXI", ".npz")] == [*FORMATS]
    assert format_of("cxi", "scan.npz") == "cxi"
    with pytest.raises(ConfigError, match=r"output=a\.tif: has no known ending; add format=ptychodus or"):
        format_of(None, "a.tif")
    with pytest.raises(ConfigError, match="format=nexus: must be one of ptychodus, cxi, npz"):
        format_of("nexus", "a.nxs")
    held = tmp_path / "held.h5"
    held.touch()
    check_output(held, overwrite=True)
    for path, inputs, message in [
        (held, [], "is there already; choose another file, or overwrite=true"),
        (tmp_path, [], "is a folder; name a file"),
        (held / "in.h5", [], "is no folder that can be written"),
        (tmp_path / "." / "held.h5", [held], "is the input file; choose another file"),
    ]:
        with pytest.raises(ConfigError, match=message):
            check_output(path, bool(inputs), inputs)


def test_pixels_of_single_patterns_that_were_not_measured_are_in_the_mask(scan, dataset_of, tmp_path):
    """The reader puts marks in their place; a pixel that is bad in all patterns is a bad one."""
    n, good = np.random.default_rng(3).poisson(50, (2, N, N)), np.ones((N, N), bool)
    good[4, 4] = False
    amplitudes = np.sqrt(n * good).astype(np.float32)
    amplitudes[0, 3, 5], amplitudes[1, 7, 8] = -3, -1e-30
    data = dataset_of([[0, 0], [2, 9]], [[0], [1]], amplitudes=amplitudes, good=good)
    lengths = {key: getattr(scan, key) for key in cxi.NEEDED}
    whole = replace(from_dataset(data, np.ones((64, 64), np.complex64)), **lengths)
    FORMATS["cxi"](tmp_path / "s.cxi", whole)
    found = open_scan(tmp_path / "s.cxi", ReadOptions())
    seen, expected = found.patterns.read(slice(0, 2)), np.where(good, n, 2**16 - 1)
    expected[0, 3, 5] = expected[1, 7, 8] = 2**16 - 1
    np.testing.assert_array_equal(seen, expected)
    np.testing.assert_array_equal(found.good, good)
    assert "hold guesses" in whole.blanked


def test_counts_of_a_dataset_are_whole_again(dataset_of):
    n = np.random.default_rng(3).poisson(50, (2, 16, 16))
    places, groups, truth = [[0, 0], [2, 9]], [[0], [1]], np.ones((64, 64), np.complex64)

    def exported(counts):
        return from_dataset(dataset_of(places, groups, amplitudes=np.sqrt(counts).astype(np.float32)), truth)

    assert exported(n).dtype == np.uint16
    n[1, 3, 4] = 3_000_001
    found = exported(n)
    assert (found.dtype, found.domain, found.shape) == (np.uint32, "counts", (2, 16, 16))
    np.testing.assert_array_equal(counts_of(found), n)
    np.testing.assert_array_equal(found.positions, places)
    data = dataset_of(places, groups)
    np.testing.assert_allclose(from_dataset(data, truth).probe, data.photon_scale * data.probe)
    halves = Patterns(np.sqrt(n / 2).astype(np.float32))
    assert intensities(halves, True).dtype == intensities(data.amplitudes, False).dtype == np.float32
    with pytest.raises(ConfigError, match=r"the object has shape \(9, 9\)"):
        from_dataset(data, np.ones((9, 9)))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    from ptycho.config.mapping import to_dataclass
    from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

    folder = tmp_path_factory.mktemp("simulated")
    path = folder / "scan.cxi"
    values = {"N": 32, "n_positions": 60, "nphotons": 2e5, "seed": 5, "output": str(path)}
    lines = simulate_scan(to_dataclass(SimulateConfig, values | {"bad_pixels": 4, "hot_pixels": 2}))
    assert "60 patterns of 32 × 32, counts (uint32)" in lines[0] and "of 20 nm" in lines[1]
    with h5py.File(path, "r+") as file:
        file["entry_1/instrument_1/detector_1/data"][17] = 0
    config = ScanRunConfig(data=DataConfig(file=str(path), N=32), group_size=2)
    scan = interpret(open_scan(path), config.data)
    scan, data, _ = make_dataset(scan, config, folder)
    return SimpleNamespace(path=path, config=config, scan=scan, data=data)


def test_the_product_of_a_run_places_its_object_as_the_run_did(simulated, tmp_path):
    scan, data = simulated.scan, simulated.data
    object_ = drawn(np.random.default_rng(1), data.object_size, data.object_size)
    made = product_of(scan, data, Reconstruction(object_[None], np.ones((1, *object_.shape), bool)), "run 7")
    product.write(tmp_path / "product.h5", made)
    kept = np.setdiff1d(np.arange(60), [17])
    with h5py.File(tmp_path / "product.h5") as file:
        assert "raw_data" not in file and file.attrs["name"] == "run 7"
        np.testing.assert_array_equal(file["probe_position_indexes"], kept)
    options = ReadOptions(patterns_file=str(simulated.path))
    raw = open_scan(tmp_path / "product.h5", options)
    np.testing.assert_array_equal(raw.object, object_)
    middle = (raw.positions - raw.object_centre_m) / scan.pixel.metres
    places = middle + data.object_size / 2 - 32 / 2
    np.testing.assert_allclose(places, data.positions, atol=1e-6)
    assert raw.patterns.shape == (59, 32, 32) and raw.detector_pixel_m == pytest.approx((75e-6, 75e-6))
    again = interpret(raw, DataConfig(file="-", N=32, zero_frequency="centre"))
    np.testing.assert_array_equal(again.patterns(slice(0, 59)), scan.patterns(slice(0, 59)))
    np.testing.assert_allclose(np.diff(again.positions, axis=0), np.diff(data.positions, axis=0), atol=1e-5)
    np.testing.assert_allclose(again.probe, data.probe)


@pytest.fixture(scope="module")
def runs(simulated, tmp_path_factory):
    """A folder of a run on that scan, ``measured``, and one of a simulated run, ``lines``."""
    root, side = tmp_path_factory.mktemp("runs"), simulated.data.object_size
    rng = np.random.default_rng(2)
    folder = RunFolder(root / "measured")
    folder.config(simulated.config)
    for name in ("pinn", "refined"):
        folder.arrays(names.recon(name), {"object": drawn(rng, 1, side, side)})
    RunFolder(root / "lines").config(RunConfig())
    return SimpleNamespace(root=root)


@pytest.fixture
def script(in_process, tmp_path):
    def run(name, *overrides):
        return in_process(ROOT / "scripts" / f"{name}.py", *overrides, cwd=tmp_path)

    return run


def test_a_measured_run_is_exported_with_its_best_object(runs, simulated, script, tmp_path):
    run = runs.root / "measured"
    code, out, err = script("export_scan", f"run={run}", "output=new/scan.h5")
    assert code == 0, err
    assert "59 patterns of 32 × 32, counts (uint16)" in out and "of 20 nm" in out
    raw = open_scan(tmp_path / "new" / "scan.h5")
    with np.load(run / names.recon("refined")) as stored:
        np.testing.assert_array_equal(raw.object, stored["object"][0])
    seen = raw.patterns.read(slice(0, 59))
    np.testing.assert_allclose(seen, simulated.data.amplitudes[:], atol=1e-6)
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["scan.h5"]


def test_the_product_of_a_run_is_what_its_metrics_say(runs, script, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs.root / "measured", run)
    shutil.copytree(run / "recons" / "pinn", run / "recons" / "solver")
    assert find_product(run) == ("solver", run / names.recon("solver"))
    for named in ("pinn", "solver", "refined"):
        (run / names.METRICS).write_text(json.dumps({"product": named}))
        assert find_product(run)[0] == named
    damaged = run / names.recon("pinn")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    code, _, err = script("export_scan", f"run={run}", "output=c.h5", "recon=pinn")
    assert code == 2 and "has another SHA-256 than files.json says" in err
    shutil.rmtree(run / "recons")
    assert find_product(run) is None
    code, _, err = script("export_scan", f"run={run}", "output=d.h5")
    assert code == 2 and "holds no reconstruction" in err


MISTAKES = [
    ("export_scan", ["output=a.h5"], "run=None: must be the folder of a run"),
    (
        "export_scan",
        ["run=RUNS/lines", "output=a.h5"],
        "is no run on a measured scan; the datasets",
    ),
    (
        "export_scan",
        ["run=RUNS/measured", "output=a.h5", "recon=lsqml"],
        "recon=lsqml: the run has pinn,",
    ),
    ("simulate_scan", ["output=a.cxi", "imperfections.defocus=3"], "did you mean imperfections.defocus_um?"),
]


@pytest.mark.parametrize(("name", "overrides", "message"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line(name, overrides, message, runs, script, tmp_path):
    code, out, err = script(name, *(each.replace("RUNS", str(runs.root)) for each in overrides))
    assert (code, out) == (2, ""), err
    last = err.splitlines()[-1]
    assert last.startswith("error: ") and message in last, err
    assert not files(tmp_path)


FULL_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from ptycho.exports.hdf5_writing import write_tree
from ptycho.files.atomic import WriteError
from ptycho.files.npz import Blocks

blocks = np.random.default_rng(1).integers(0, 999, (20, 10, 64, 64)).astype("f4")
tree = {"object": np.random.default_rng(0).normal(size=(50, 200)), "late": np.ones((100, 100))}
tree["a/b/data"] = Blocks((200, 64, 64), np.dtype("f4"), blocks)

for limit in (0, 100, 5000, 100_000, 1_000_000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        write_tree(Path(sys.argv[1]), tree)
    except WriteError as error:
        print(error)
"""


def test_a_disk_that_fills_is_an_error_and_no_signal(tmp_path):
    """A limit of a file's size stands for the disk's; HDF5 cannot close such a file, and ends the process."""
    target = tmp_path / "product.h5"
    done = fresh(ROOT, "-c", FULL_DISK, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{target}: cannot be written (File too large)"] * 5
    assert list(tmp_path.iterdir()) == []
