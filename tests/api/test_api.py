"""The Python interface: arrays or a file in, an object and its beam out; other simulations, mistakes."""

import runpy
import sys

import h5py
import numpy as np
import pytest
from helpers import reference
from helpers.cli import ROOT, fresh
from helpers.quick import NOTHING_SELECTED

import ptycho

N, STEPS = 32, 12
QUICK = NOTHING_SELECTED | {"learn_probe": False, "steps": STEPS, "half_scans": False, "error_map": False}
QUICK |= {"compile_xla": False, "progress": False}


@pytest.fixture(autouse=True)
def others_are_read_rightly(read_rightly):
    """No other orientation is tried, except for the scan of :func:`result`."""


@pytest.fixture(scope="module")
def arrays():
    """Patterns, positions, probe and truth of a scan that is simulated by NumPy alone; not square.

    The patterns have 10⁵ photons each, and the zero frequency in the middle.
    """
    rng = np.random.default_rng(4)
    x = np.arange(N) - N // 2 + 0.3
    probe = np.exp((-10 + 7j) * (x[:, None] ** 2 + 1.3 * x**2) / N**2).astype(np.complex64)
    grid = 4 * np.stack(np.mgrid[:6, :7], axis=-1).reshape(-1, 2)[:40]
    positions = grid + rng.integers(0, 2, grid.shape)
    row, col = np.mgrid[:58, :62]
    image = (1 - 0.2 * (np.sin(row / 4 + col / 7) > 0)) * np.exp(0.4j * np.cos(row / 3) * np.sin(col / 5))
    waves = [probe * image[row : row + N, col : col + N] for row, col in positions]
    intensity = np.stack([np.abs(reference.far_field(wave)) ** 2 for wave in waves])
    counts = rng.poisson(1e5 * intensity / intensity.sum(axis=(1, 2)).mean()).astype(np.uint32)
    return counts, positions, probe, image


@pytest.fixture(scope="module")
def scan(arrays):
    patterns, positions, probe, image = arrays
    return ptycho.Scan.from_arrays(patterns, positions, probe, counts=True, pixel_m=2e-8, truth=image)


@pytest.fixture(scope="module")
def result(scan):
    return ptycho.reconstruct(scan, **QUICK | {"steps": 60, "error_map": True})


# ---- from arrays to an object


def test_the_object_is_the_one_that_was_simulated(result, arrays, scan):
    """Up to a factor and a plane of phase, in the middle of the scan; the mask and the beam fit it."""
    assert "reference_comparison" in result.scores
    assert result.scores["r_factor"] < 1.3 * result.scores["r_noise"]
    start = np.round(result.beam.positions[0] - arrays[1][0]).astype(int)
    part = np.s_[20:40, 20:40]
    made = result.object[start[0] :, start[1] :][part]
    truth = arrays[3][part]
    factor = np.vdot(truth, made) / np.vdot(truth, truth)
    assert np.linalg.norm(made - factor * truth) < 0.1 * np.linalg.norm(made)
    assert result.mask[start[0] :, start[1] :][part].all() and not result.object[~result.mask].any()


def test_arrays_and_a_file_give_the_same_object(result, arrays, tmp_path):
    patterns, positions, probe, _ = arrays
    path = tmp_path / "scan.npz"
    np.savez(path, data=patterns, places=positions[:, ::-1].astype(float), beam=probe)
    scan = ptycho.open_scan(
        path,
        keys={"patterns": "data", "positions": "places", "probe": "beam"},
        **{"unit": "px", "position_axes": "xy", "zero_frequency": "centre", "N": np.int64(N)},
    )
    made = ptycho.reconstruct(scan, **QUICK | {"steps": 60})
    np.testing.assert_array_equal(made.object, result.object)
    assert made.errors is None and "error_map" not in made.scores
    for name in ("probe", "positions", "flux"):
        np.testing.assert_array_equal(getattr(made.beam, name), getattr(result.beam, name))
    assert made.scores["r_free"] == result.scores["r_free"] is not None


def test_a_missing_probe_is_guessed_and_said_so(arrays):
    scan = ptycho.Scan.from_arrays(arrays[0], arrays[1], counts=True)
    assert scan.probe is None and "none, it will be estimated" in repr(scan)
    made = ptycho.reconstruct(scan, **QUICK)
    assert any("estimated from the mean pattern" in str(finding) for finding in made.decisions)
    assert made.beam.probe.shape == (1, N, N)


def test_the_solver_begins_from_a_saved_result(scan, result, tmp_path):
    again = ptycho.reconstruct(scan, start=result.save(tmp_path / "product.h5"), **QUICK)
    assert any(one.what == "start" for one in again.decisions)
    assert again.scores["r_factor"] < 1.02 * result.scores["r_factor"]


def test_the_pretrained_network_goes_on_from_the_solver(arrays):
    scan = ptycho.Scan.from_arrays(*arrays[:3], counts=True)
    quick = QUICK | {"positions": True, "seed": 7}
    solved = ptycho.reconstruct(scan, **quick)
    made = ptycho.reconstruct(scan, "pinn", **quick)
    assert np.ptp(solved.beam.positions - scan.positions, axis=0).max() > 1e-3
    np.testing.assert_array_equal(made.beam.positions, solved.beam.positions)
    decided = [[one for one in prepared.decisions if one.what != "groups"] for prepared in (made, solved)]
    assert made.reconstruction.general and decided[0] == decided[1]  # groups are those of the network
    assert np.abs(made.object - solved.object)[solved.mask].max() > 1e-3
    with pytest.raises(ptycho.ConfigError, match=r"run=outputs/mine: method=solver needs no network"):
        ptycho.reconstruct(scan, run="outputs/mine")
    with pytest.raises(ptycho.ConfigError, match=r"outputs/none"):
        ptycho.reconstruct(scan, "pinn", run="outputs/none")


# ---- mistakes


def changed(array, index, value):
    array = np.array(array, float)
    array[index] = value
    return array


WRONG = {
    r"patterns has shape \(40, 32, 30\); must be \(J, N, N\)": lambda p, r, b: {"patterns": p[..., 1:-1]},
    r"patterns\[2, 3, 4\] is nan": lambda p, r, b: {"patterns": changed(p, (2, 3, 4), np.nan)},
    r"patterns\[5, 0, 1\] is -2; must be from 0": lambda p, r, b: {"patterns": changed(p, (5, 0, 1), -2)},
    r"patterns\[0, 0, 0\] is 0.5; must be whole": lambda p, r, b: {"patterns": changed(p, (0, 0, 0), 0.5)},
    "patterns has dtype complex128; must be real .*abs": lambda p, r, b: {"patterns": p + 0j},
    r"positions has shape \(39, 2\); must be \(40, 2\)": lambda p, r, b: {"positions": r[1:]},
    r"probe has shape \(31, 32\); must be \(32, 32\)": lambda p, r, b: {"probe": b[1:]},
    "probe is zero everywhere; must": lambda p, r, b: {"probe": 0 * b},
    r"good has shape \(32, 32\) and dtype float64; .* bool": lambda p, r, b: {"good": np.ones((N, N))},
}


@pytest.mark.parametrize("message", WRONG)
def test_arrays_that_cannot_be_are_named(arrays, message):
    values = dict(zip(("patterns", "positions", "probe"), arrays, strict=False))
    with pytest.raises(ptycho.ConfigError, match=message):
        ptycho.Scan.from_arrays(**values | WRONG[message](*arrays[:3]), counts=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "pie"}, "method=pie: must be one of solver, pinn, lsqml"),
        ({"method": "refined"}, "^method=refined: must be one of solver, "),
        ({"method": "lsqml", "regulariser": "none"}, "regulariser=none: method=lsqml has no such argument"),
        ({"energy_eV": 8800}, r"^energy_eV: says how a file is read; pass it to ptycho.open_scan"),
    ],
)
def test_settings_that_cannot_be_are_named(scan, settings, message):
    with pytest.raises(ptycho.ConfigError, match=message):
        ptycho.reconstruct(scan, **settings)


def test_a_path_stands_for_the_scan_in_its_file(arrays, tmp_path, monkeypatch):
    """It is read by ``open_scan`` with the same settings; no other value is taken for a scan."""
    from ptycho.align import cached
    from ptycho.api import methods

    path = tmp_path / "scan.npz"
    np.savez(path, data=arrays[0], places=arrays[1].astype(float))
    monkeypatch.setattr(cached, "align", lambda *_: None)
    monkeypatch.setattr(methods, "reconstruct_and_assess", lambda method, scan, *others: scan)
    settings = {"keys": {"patterns": "data", "positions": "places"}, "unit": "px", "position_axes": "rc"}
    for name in (path, str(path)):
        scan = ptycho.reconstruct(name, steps=3, **settings)
        np.testing.assert_array_equal(np.diff(scan.positions, axis=0), np.diff(arrays[1], axis=0))
        assert scan.name == "scan"
    with pytest.raises(ptycho.ConfigError, match=r"^scan=ndarray: must be a ptycho.Scan, or the path"):
        ptycho.reconstruct(arrays[0])
    with pytest.raises(ptycho.ConfigError, match=r"no.cxi: no such file"):
        ptycho.reconstruct(tmp_path / "no.cxi")


def test_the_python_interface_starts_without_tensorflow_and_knows_its_names(tmp_path):
    """A scan is interpreted without TensorFlow; the error of a wrong name lists the right ones."""
    words = (
        "import sys, ptycho; assert not {'numpy', 'tensorflow'} & set(sys.modules); "
        "ptycho.simulate(32, 20).findings; assert 'tensorflow' not in sys.modules; "
        "assert dir(ptycho) == sorted(ptycho.__all__); "
        "[getattr(ptycho, name) for name in ptycho.__all__]; assert 'tensorflow' not in sys.modules"
    )
    done = fresh(tmp_path, "-c", words)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match=r"no attribute 'opne_scan'; it has Beam, .*open_scan"):
        _ = ptycho.opne_scan


# ---- the examples


def example(name):
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"]


def test_example_from_a_measured_file(arrays, tmp_path):
    path = tmp_path / "scan.npz"
    middle = arrays[1] + N / 2
    np.savez(path, diff3d=arrays[0], xcoords=middle[:, 1], ycoords=middle[:, 0], probeGuess=arrays[2])
    example("measured_file")(path, tmp_path, **QUICK)
    assert (tmp_path / "object.png").stat().st_size > 10000 and h5py.is_hdf5(tmp_path / "product.h5")


def test_example_from_arrays():
    made = example("from_arrays")(N=N, side=8, **QUICK | {"steps": 30})
    assert made.scores["r_factor"] < 1.5 * made.scores["r_noise"]


def test_example_of_a_network(tmp_path):
    tiny = {"epochs": 1, "stages": 1, "width": 4, "compile_xla": False}
    objects = example("train_network")(tmp_path / "run", 32, 30, **tiny)
    assert len(objects) == 1 and np.isfinite(objects).all() and objects.any()


def test_example_beside_lsqml(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ptycho_lsqml", None)
    made = example("compare_lsqml")(N, 40, 3, **QUICK)
    assert list(made) == ["solver"]
    assert "without LSQ-ML: lsqml: " in capsys.readouterr().out
