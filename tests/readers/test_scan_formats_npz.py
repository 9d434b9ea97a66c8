"""Measured scans in NPZ: what was written is what is read, with its signs, axes and units."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from helpers.scans import H, J, Made, W, equal, pinn, product, save_npz, tike

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def made():
    return Made()


@pytest.fixture
def save(tmp_path):
    """``save(**arrays)``: the path of an NPZ file with them."""
    return lambda file="scan.npz", /, **arrays: save_npz(tmp_path / file, **arrays)


# ---------------------------------------------------------------- PtychoPINN


def test_ptychopinn(made, save):
    metadata = np.array({"a": 1}, dtype=object)
    scan = open_scan(save(**pinn(made, scan_index=np.arange(J) // 4, _metadata=metadata)))
    assert (scan.format, scan.domain, scan.zero_frequency, scan.unit) == (
        "ptychopinn",
        "counts",
        "centre",
        "px",
    )
    equal(scan.patterns, made.counts)
    np.testing.assert_array_equal(scan.positions, np.stack([made.row, made.col], axis=1))
    np.testing.assert_array_equal(scan.probe, made.probe[:1])
    np.testing.assert_array_equal(scan.scan_index, [0, 0, 0, 0, 1, 1, 1])
    assert scan.object is None and scan.object_centre_m is None
    assert "_metadata is not read" in scan.notes and not scan.warnings


def test_ptychopinn_positions_are_the_probes_centre_from_the_corner_of_the_object(made, save):
    """A probe whose centre is at column 17 and row 15.5 is in the middle of a 31 × 34 object."""
    x, y = np.array([17.0, 20, 17, 0, 1, 2, 3]), np.array([15.5, 15.5, 13.5, 0, 1, 2, 3])
    scan = open_scan(save(**pinn(made, xcoords=x, ycoords=y, objectGuess=made.object)))
    np.testing.assert_array_equal(scan.positions[:3], [[15.5, 17], [15.5, 20], [13.5, 17]])
    np.testing.assert_array_equal(scan.object, made.object)
    assert scan.object_centre_m == (15.5, 17)


@pytest.mark.parametrize(
    ("numbers", "contract", "domain"),
    [
        ("counts", (), "counts"),
        ("roots", (), "amplitude"),
        ("scaled", (), None),
        ("scaled", ("ci_intensity_v2", "count_intensity"), "counts"),
        ("counts", ("legacy_v1", "normalized_amplitude"), "amplitude"),
        ("counts", ("legacy_v1",), "counts"),
    ],
)
def test_ptychopinn_domain(made, save, numbers, contract, domain):
    """By the file's own word, then by the numbers: 0.137 √counts may be an amplitude or an intensity."""
    roots = np.sqrt(made.counts, dtype=np.float32)
    patterns = {"counts": made.counts, "roots": roots, "scaled": roots * np.float32(0.137)}[numbers]
    said = dict(zip(("scale_contract_version", "measurement_domain"), contract, strict=False))
    scan = open_scan(save(**pinn(made, diff3d=patterns, **said)))
    assert scan.domain == domain
    assert any(note.startswith(f"{domain or 'domain unknown'}: ") for note in scan.notes)
    assert len(scan.warnings) == (len(contract) == 1)
    equal(scan.patterns, patterns)


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0)])
def test_ptychopinn_prepared_and_legacy(made, save, axes):
    patterns = np.sqrt(made.counts, dtype=np.float32) * np.float32(0.137)
    scan = open_scan(save(**pinn(made, diff3d=None, diffraction=patterns.transpose(axes))))
    assert scan.domain == "amplitude" and not scan.warnings
    equal(scan.patterns, patterns)


def test_ptychopinn_with_as_many_patterns_as_pixels_takes_patterns_first(made, save):
    cube, places = np.random.default_rng(1).poisson(9, (J, J, J)), {"xcoords": made.col, "ycoords": made.row}
    scan = open_scan(save(diffraction=cube, **places))
    equal(scan.patterns, cube)
    assert "may lie" in scan.warnings[0]


def test_ptychopinn_positions_in_metres_are_told(made, save):
    arrays = pinn(
        made, xcoords=None, ycoords=None, xcoords_start=made.col * 1e-8, ycoords_start=made.row * 1e-8
    )
    scan = open_scan(save(**arrays))
    assert scan.unit == "m" and any("taken as metres" in note for note in scan.notes)
    np.testing.assert_array_equal(scan.positions, np.stack([made.row, made.col], axis=1) * 1e-8)
    assert open_scan(save(**arrays), ReadOptions(unit="px")).unit == "px"


def test_a_probe_beyond_complex64_is_passed_over(made, save):
    scan = open_scan(save(**pinn(made, probeGuess=made.probe[0] * np.complex128(1e300))))
    assert scan.probe is None and "probeGuess (9, 12) has 108 values that are not finite" in "".join(
        scan.warnings
    )


@pytest.mark.parametrize("shape", ["(H, W, 1)", "None"])
def test_ptychopinn_probe(made, save, shape):
    probe = made.probe[0][..., None] if shape == "(H, W, 1)" else np.array(None)
    scan = open_scan(save(**pinn(made, probeGuess=probe, objectGuess=np.array(None))))
    if shape == "None":
        assert scan.probe is None and "skipped: probeGuess () holds Python objects" in "".join(scan.warnings)
    else:
        np.testing.assert_array_equal(scan.probe, made.probe[:1])


# ---------------------------------------------------------------- tike


def test_tike(made, save):
    scan = open_scan(save(**tike(made)))
    assert (scan.format, scan.domain, scan.zero_frequency, scan.unit) == ("tike", "counts", "corner", "px")
    equal(scan.patterns, np.fft.ifftshift(made.counts, axes=(1, 2)))
    np.testing.assert_array_equal(scan.positions, np.stack([made.row, made.col], axis=1).astype(np.float32))
    np.testing.assert_array_equal(scan.probe, made.probe)


def test_tike_positions_are_the_probes_first_sample(made, save):
    """A 9 × 12 probe in the middle, (15.5, 17), of the 31 × 34 object has its first sample at (11.5, 11)."""
    scan = open_scan(save(**tike(made, scan=np.array([[4, 6.0]] * J), psi=made.object)))
    np.testing.assert_array_equal(scan.positions[0], [4, 6])
    assert scan.object_centre_m == (11.5, 11)
    np.testing.assert_array_equal(scan.object, made.object)


def test_tike_without_batch_and_of_intensities(made, save):
    arrays = tike(
        made, data=made.counts * np.float32(0.7), scan=np.zeros((J, 2)), probe=made.probe[None, None]
    )
    scan = open_scan(save(**arrays))
    assert scan.domain == "intensity" and scan.probe.shape == (2, H, W)


def test_pinn_bad_pixels(made, save):
    """As ptychodus exports them; of another shape they are of no use."""
    np.testing.assert_array_equal(open_scan(save(**pinn(made, bad_pixels=made.bad))).good, ~made.bad)
    scan = open_scan(save(**pinn(made, bad_pixels=made.bad[1:])))
    assert scan.good is None and any("bad_pixels" in note for note in scan.notes)


# ---------------------------------------------------------------- ptychodus


def test_ptychodus_product_of_version_17(made, save):
    """The energy has another name since. Pitch by hand: λz/(N·dx), λ = 1.239841984e-10 m, z = 1.5 m."""
    arrays = product(made, probe_energy_eV=None, photon_energy_eV=10000.0)
    scan = open_scan(save(**arrays, patterns=made.counts))
    assert scan.energy_eV == 10000
    length = 1.859762976e-10
    assert scan.detector_pixel_m == pytest.approx((length / (H * 2e-8), length / (W * 3e-8)))
    arrays["probe"] = made.probe[:, :-1]
    assert open_scan(save(**arrays, patterns=made.counts)).detector_pixel_m is None


def test_ptychodus_patterns_with_a_table_and_with_an_hdf5_product(made, save, tmp_path):
    patterns = save("patterns.npz", patterns=made.counts, indexes=np.arange(J))
    np.savetxt(tmp_path / "p.csv", np.stack([made.col, made.row], axis=1), header="x_nm,y_nm", delimiter=",")
    with h5py.File(tmp_path / "product.h5", "w") as file:
        file["probe_position_x_m"], file["probe_position_y_m"] = made.col * 1e-9, made.row * 1e-9
    wanted = np.stack([made.row, made.col], axis=1)
    for name, scale in (("p.csv", 1), ("product.h5", 1e-9)):
        scan = open_scan(patterns, ReadOptions(positions_file=str(tmp_path / name)))
        np.testing.assert_allclose(scan.positions, wanted * scale)


# ---------------------------------------------------------------- by a map of keys


def test_key_map_says_its_guess_of_axes(made, save):
    path = save(a=made.counts, b=np.stack([made.row, made.col], axis=1), r=made.row, c=made.col)
    wanted = np.stack([made.row, made.col], axis=1)
    scan = open_scan(path, ReadOptions(keys={"patterns": "a", "positions": "b"}, unit="px"))
    assert any("taken as (row, col); data.position_axes=xy" in note for note in scan.notes)
    np.testing.assert_array_equal(scan.positions, wanted)
    keys = {"patterns": "a", "positions_row": "r", "positions_col": "c"}
    np.testing.assert_array_equal(open_scan(path, ReadOptions(keys=keys, unit="px")).positions, wanted)


def test_key_map_of_two_files_and_a_raster(made, save, tmp_path):
    path, other = (
        save(p=made.row[:6], q=made.col[:6]),
        save("b.npz", diffamp=made.counts[:6].reshape(2, 3, H, W)),
    )
    keys = {"patterns": "diffamp", "positions_row": "p", "positions_col": "q"}
    scan = open_scan(path, ReadOptions(keys=keys, unit="px", patterns_file=str(other)))
    equal(scan.patterns, made.counts[:6])
    assert scan.domain == "amplitude"
    np.save(tmp_path / "p.npy", np.stack([made.col[:6], made.row[:6]]))
    table = ReadOptions(
        keys={"patterns": "diffamp"}, unit="px", axes="xy", positions_file=str(tmp_path / "p.npy")
    )
    np.testing.assert_array_equal(open_scan(other, table).positions, scan.positions)


# ---------------------------------------------------------------- the table, and real files


def test_hdf5_goes_to_its_readers(made, tmp_path):
    path = tmp_path / "scan.npz"  # the content decides, after a block of the user's
    with h5py.File(path, "w", userblock_size=512) as file:
        file["a"], file["b"] = made.counts, np.stack([made.row, made.col], axis=1)
    scan = open_scan(path, ReadOptions(keys={"patterns": "a", "positions": "b"}, unit="um"))
    assert scan.format == "hdf5"
    equal(scan.patterns, made.counts)
    with pytest.raises(
        ConfigError,
        match=r"has none of the layouts ptychodus, .*; it holds a \(7, 9, 12\) uint16, b \(7, 2\) float64",
    ):
        open_scan(path)
    with h5py.File(path, "a") as file:
        file["dp"], file["ppX"], file["ppY"] = made.counts, made.col, made.row
    assert open_scan(path).format == "foldslice"


@pytest.mark.shared
def test_siemens_star():
    scan = open_scan(SHARED / "siemens_star.npz")
    assert (scan.format, scan.domain, scan.zero_frequency, scan.unit) == ("tike", "counts", "corner", "px")
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
