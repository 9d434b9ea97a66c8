"""Values that one part of the workflow passes to the next: solver and network are stand-ins that record them.

A run of the workflow ends in ``metrics.json``, ``recon.npz`` and ``product.h5``; their content must be that
of the right reconstruction, with the right beam. The network must start from the final object of the solver.
"""

import json

import h5py
import numpy as np
import pytest
from helpers.scans import Frames

import workflows.reconstruct.scan
from conftest import without_pictures
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.sections import OwnProbe
from ptycho.methods import pipeline, solver
from ptycho.preparation.prepare import interpret
from ptycho.readers.raw_scan import RawScan
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel
from ptycho.run.scan_plan import interpret_scan, plan
from ptycho.scan.beam import Beam
from ptycho.scan.ramp import move_ramp
from ptycho.scan.reconstruction import Reconstruction, covered
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

N = 32
pytestmark = pytest.mark.usefixtures("read_rightly_once")

# ---- the stand-ins: all that these tests assume about the functions between the parts of the workflow


class StandIns:
    """A solver with a fixed result, and a network that returns its initial object.

    Attributes:
        begun: result of the solver.
        starts: initial objects of the network, one per batch, in their order.
        trained_on: the data set of a training of the network.
    """

    ramp = 0.0  # phase ramp of the solver's object, along its rows, in detector pixels

    def __init__(self, patch, network=1.0):
        self.network = network  # factor of the network's initial object
        self.starts, self.trained_on = [], None
        patch.setattr(solver, "reconstruct", self.begin)
        patch.setattr(pipeline, "_halves", lambda *arguments: None)
        without_pictures(patch)
        patch.setattr(workflows.reconstruct.scan, "train_network", self.train)
        patch.setattr(pipeline, "move_ramp", self.keep)
        patch.setattr(LoadedModel, "step_for", lambda _, view: self.step(view.region_size))

    def begin(self, each, *_):
        row, col = np.mgrid[: each.whole.object_size, : each.whole.object_size]
        image = 1 + 0.3 * np.sin(row / 3) + 0.2j * np.cos(col / 5)
        image = image * np.exp(2j * np.pi * self.ramp * row / N)
        self.each = each
        beam, objects = another_beam(each.whole.beam, 1), image[None].astype(np.complex64)
        self.solved = Reconstruction(objects, covered(each.fitted(beam)), beam, seconds=0.5)
        return self.solved

    def keep(self, made):
        """Replace the function that passes the object's ramp to the probe: see below."""
        return made

    def step(self, side):
        def regions(x, offsets, probe, start=None):
            self.starts.append(None if start is None else np.array(start))
            return self.network * np.zeros((len(x), side, side)) if start is None else self.network * start

        return regions

    def train(self, name, config, scans, *_, **__):
        self.trained_on = scans.training
        raise Trained


class Trained(Exception):
    """No training is wanted."""


def another_beam(beam, k):
    rows, cols = beam.positions.T
    moves = k * 0.1 * np.stack([np.sin(cols), np.cos(rows)], axis=1)
    flux = 1 + 0.02 * k * np.sin(np.arange(len(rows)) + rows)
    turn = np.exp(0.1j * k * np.arange(beam.N))
    probe = (beam.probe * turn).astype(np.complex64)
    return Beam(probe, (beam.positions + moves).astype(np.float32), flux.astype(np.float32))


# ---- one run


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("scans") / "a.cxi")
    simulate_scan(SimulateConfig(output=path, N=N, n_positions=40, bad_pixels=9, seed=0))
    return path


def run_of(file, folder, patch, network=1.0, **settings):
    """Return the stand-ins after a run of the workflow, its folder and its metrics."""
    found, data = StandIns(patch, network), DataConfig(file=(file,), N=N)
    asked = ScanRunConfig(data=data, run="pretrained", holdout_fraction=0.1, **settings)
    config = plan(asked)
    workflows.reconstruct.scan.run(config, RunFolder(folder))
    return found, folder, json.loads((folder / "metrics.json").read_text())


@pytest.fixture(scope="module")
def run(file, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        found = run_of(file, tmp_path_factory.mktemp("run") / "out", patch)
    return found


def test_a_network_for_many_scans_begins_with_the_solvers_object(run):
    """Each group has its own part of the object, zero where a region reaches out of it."""
    found, _, _ = run
    data = found.each.fitted(found.solved.beam)
    object_, R = found.solved.object, data.region_size
    assert data.n_groups > 0 and object_.any()
    for g in range(data.n_groups):
        expected = np.zeros((R, R), complex)
        for i in range(R):
            for j in range(R):
                row, col = data.origins[g] + [i, j]
                if 0 <= row < len(object_) and 0 <= col < len(object_):
                    expected[i, j] = object_[row, col]
        assert found.starts[g] is not None
        np.testing.assert_array_equal(found.starts[g][0], expected)


def stored(folder, name):
    with np.load(folder / f"recons/{name}/recon.npz") as file:
        return {key: file[key] for key in file.files}


@pytest.mark.parametrize("name", ["solver", "pinn"])
def test_the_beam_that_is_stored_with_an_object_is_its_own(run, name):
    found, folder, metrics = run
    own = found.solved.beam
    beam, flux = stored(folder, name), own.flux
    for key, value in own.arrays().items():
        np.testing.assert_array_equal(beam[key], value)
    assert len(beam["flux"]) == 40 and np.ptp(flux) > 0.01
    assert metrics[name]["beam"]["flux_rms"] == pytest.approx(np.std(flux.astype(float) ** 2), rel=1e-6)
    assert metrics[name]["beam"]["position_correction_rms_px"] == pytest.approx(0.07, rel=0.3)


def test_the_product_holds_the_solvers_object_under_its_own_beam(run):
    found, folder, _ = run
    beam = stored(folder, "solver")
    with h5py.File(folder / "product.h5") as file:
        probe, object_ = file["probe"][()], file["object"][()]
        pixel = file["object"].attrs.get("pixel_height_m") or file["probe"].attrs.get("pixel_height_m")
        places = np.stack([file[f"probe_position_{axis}_m"][()] for axis in "yx"], axis=1) / pixel
    np.testing.assert_array_equal(probe.reshape(beam["probe"].shape), beam["probe"])
    np.testing.assert_array_equal(object_.squeeze(), found.solved.object)
    steps = np.diff(beam["positions"].astype(float), axis=0)
    np.testing.assert_allclose(np.diff(places, axis=0), steps, atol=1e-4)


def test_the_ramp_of_every_object_is_stored_with_its_probe(file, tmp_path, monkeypatch):
    """All exit waves stay the same, up to a phase each; also those of the product."""
    monkeypatch.setattr(StandIns, "keep", lambda _, made: move_ramp(made))
    monkeypatch.setattr(StandIns, "ramp", 0.4)
    found, folder, metrics = run_of(file, tmp_path / "out", monkeypatch)
    assert metrics["findings"]["phase ramp"][0].endswith(" detector pixels")
    with h5py.File(folder / "product.h5") as file:
        product = {"object": file["object"][()].squeeze()[None], "probe": file["probe"][()].reshape(1, N, N)}
    own = found.solved
    for held in (stored(folder, "solver"), product):
        assert not np.allclose(held["probe"], own.beam.probe, rtol=1e-3)
        for row, col in np.round(own.beam.positions[::7]).astype(int):
            wave, expected = (
                objects[0, row : row + N, col : col + N] * probe[0]
                for objects, probe in ((held["object"], held["probe"]), (own.objects, own.beam.probe))
            )
            turn = np.vdot(wave, expected) / np.vdot(wave, wave).real
            assert abs(turn) == pytest.approx(1, abs=1e-4)
            np.testing.assert_allclose(turn * wave, expected, atol=2e-3 * np.abs(expected).max())


def test_the_ramp_stays_in_the_object_under_a_known_probe(file, tmp_path, monkeypatch):
    monkeypatch.setattr(StandIns, "keep", lambda _, made: move_ramp(made))
    monkeypatch.setattr(StandIns, "ramp", 0.4)
    found, folder, metrics = run_of(file, tmp_path / "out", monkeypatch, probe=OwnProbe(learn=False))
    assert "phase ramp" not in metrics["findings"]
    held, own = stored(folder, "solver"), found.solved
    np.testing.assert_array_equal(held["probe"], own.beam.probe)
    np.testing.assert_array_equal(held["object"], own.objects)


# ---- the flag of a network outside of its training


def test_a_network_is_compared_with_the_solver(run, file, tmp_path, monkeypatch):
    """If the solver does not explain the patterns better, the measurement is wrong, not the network."""
    _, _, worse = run_of(file, tmp_path / "out", monkeypatch, network=1.5)
    for metrics, flagged in ((run[2], False), (worse, True)):
        assert metrics["pinn"]["r_factor"] > 0.2 and metrics["solver"]["r_factor"] > 0.2
        assert ("outside_training" in metrics["pinn"]["flags"]) == flagged


# ---- training


def test_training_is_under_the_solvers_beam_without_any_bad_pixel(file, tmp_path, monkeypatch):
    found = StandIns(monkeypatch)
    config = ScanRunConfig(data=DataConfig(file=(file,), N=N), nepochs=1)
    good = interpret_scan(config.data).detector.good_pixels
    assert not good.all()
    with pytest.raises(Trained):
        workflows.reconstruct.scan.run(config, RunFolder(tmp_path / "out"))
    kept = found.each.kept
    np.testing.assert_array_equal(found.trained_on.beam.flux, found.solved.beam.flux[kept])
    np.testing.assert_array_equal(found.trained_on.positions, found.solved.beam.positions[kept])
    patterns = np.asarray(found.trained_on.normalised(np.arange(3)))
    assert (patterns[:, ~good] == -1).all()


# ---- other seams


@pytest.mark.parametrize("transpose", [False, True])
def test_a_scan_of_an_oblong_detector(transpose):
    """Positions are on the object, whose axes are those of the transposed frames."""
    rng = np.random.default_rng(0)
    row, col = np.mgrid[:24, :36]
    beam = 40 * np.exp(-((row - 12.0) ** 2 + (col - 18.0) ** 2) / 30)
    places = rng.uniform(0, 60, (30, 2))
    frames = Frames(rng.poisson(beam * rng.uniform(0.8, 1.2, (30, 1, 1))).astype(np.uint16))
    raw = RawScan("keymap", frames, "counts", "centre", places, "px")
    config = DataConfig(file=("x",), N=16, transpose=transpose, hot_pixels=False)
    scan = interpret(raw, config)
    height, width = (36, 24) if transpose else (24, 36)
    steps = np.diff(scan.positions, axis=0) / np.diff(places, axis=0)
    np.testing.assert_allclose(steps, np.broadcast_to([16 / height, 16 / width], steps.shape), rtol=1e-6)


def test_the_network_of_grid_lines_gets_groups_as_it_was_trained_with(trained_run):
    data = DataConfig(file=(str(trained_run / "datasets/N32/gs2/test.npz"),))
    planned = plan(ScanRunConfig(data=data, run=str(trained_run)))
    assert (planned.group_size, planned.tiles, planned.models) == (4, False, ("pinn",))
    assert plan(ScanRunConfig(data=data, run=str(trained_run), group_size=1)).group_size == 1
