"""``ptycho.train``: a network of a scan alone, stored, read back and used on this scan and on others."""

import json
import re
import shutil

import numpy as np
import pytest

import ptycho

TINY = {"epochs": 2, "batch_size": 4, "stages": 1, "width": 4, "neighbours": 1, "compile_xla": False}
RATE = 3e-3
pytestmark = pytest.mark.usefixtures("read_rightly_once")


@pytest.fixture(scope="module")
def scan():
    return ptycho.simulate(32, 40, 1e5, step_px64=6.0, seed=1)


@pytest.fixture(scope="module")
def model(scan, tmp_path_factory):
    return ptycho.train(scan, tmp_path_factory.mktemp("trained") / "mine", learning_rate=RATE, **TINY)


@pytest.fixture
def run(model):
    return model._stored.run


def test_what_is_given_is_what_the_folder_holds(model, run, scan):
    kept = {"setup.npz", "weights.npz", "model.json", "history.csv"}
    assert {path.name for path in (run / "pinn").iterdir()} == kept
    assert len((run / "pinn" / "history.csv").read_text().splitlines()) == 3
    assert json.loads((run / "metrics.json").read_text())["pinn"]["epoch"] in (1, 2)
    again = ptycho.load_model(run)
    one, two = (network.reconstruct(scan) for network in (model, again))
    np.testing.assert_array_equal(one.objects, two.objects)
    config = again.config
    assert (config.train.learning_rate, config.model.stages, config.model.width) == (RATE, 1, 4)
    assert (config.nepochs, config.batch_size, config.patterns_in_group) == (2, 4, 1)


def test_it_reconstructs_this_scan_and_another_of_other_size(model, scan):
    for other in (scan, ptycho.simulate(64, 30, 1e5, seed=3)):
        made = model.reconstruct(other)
        M = made.object.shape[0]
        assert made.objects.shape == (1, M, M) and made.objects.dtype == np.complex64
        assert np.isfinite(made.objects).all() and made.covered.any()
        assert not made.objects[~made.mask].any()
        assert made.beam.positions.shape == (len(other), 2)
        assert (made.beam.positions + other.N <= M).all() and (made.beam.positions >= 0).all()


def test_the_network_that_comes_with_the_program_reconstructs_a_scan(scan, within):
    """Better than the constant that it begins with, by the patterns."""
    made = ptycho.load_model("pretrained").reconstruct(scan)
    assert made.general and made.objects.shape[0] == 1
    rows, cols = (np.round(axis).astype(int) for axis in made.beam.positions.T)
    patches = np.stack([made.object[r : r + 32, c : c + 32] for r, c in zip(rows, cols, strict=True)])
    measured = np.sqrt(scan.patterns())

    def misfit(objects):
        waves = np.fft.fftshift(np.fft.fft2(made.beam.probe[0] * objects, norm="ortho"), axes=(-2, -1))
        return np.abs(np.abs(waves) - measured).sum() / measured.sum()

    within("misfit, of a constant's", misfit(patches) / misfit(np.ones_like(patches)), below=0.8)


def test_training_lowers_the_loss_without_the_truth(scan, tmp_path, within):
    blind = ptycho.Scan.from_arrays(scan.patterns(), scan.positions, scan.probe, counts=False)
    assert blind.truth is None
    ptycho.train(blind, tmp_path / "run", **TINY | {"epochs": 25, "learning_rate": 5e-3})
    losses = np.genfromtxt(tmp_path / "run/pinn/history.csv", delimiter=",", names=True)["loss"]
    within("last loss, of the first", losses[-1] / losses[0], below=0.97)


@pytest.fixture(scope="module")
def replaced(model, scan, tmp_path_factory):
    """A copy of the run, over which a network of another seed was trained."""
    run = tmp_path_factory.mktemp("replaced") / "run"
    shutil.copytree(model._stored.run, run)
    with pytest.raises(ptycho.ConfigError, match=r"^folder=.*run: holds another run"):
        ptycho.train(scan, run, **TINY)
    np.testing.assert_equal(ptycho.load_model(run)._stored.weights, model._stored.weights)
    return ptycho.train(scan, run, overwrite=True, seed=1, learning_rate=RATE, **TINY)


def test_the_seed_makes_the_weights(model, replaced, scan, tmp_path):
    again = ptycho.train(scan, tmp_path / "again", seed=0, learning_rate=RATE, **TINY)
    one, same, other = (trained._stored.weights for trained in (model, again, replaced))
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert any(not np.array_equal(one[name], other[name]) for name in one)


def test_a_network_of_groups_with_a_probe_of_its_own(scan, tmp_path):
    second = ptycho.simulate(32, 24, 1e5, step_px64=6.0, seed=2)
    model = ptycho.train(scan, tmp_path / "run", group_size=3, learn_probe=True, model="unrolled", **TINY)
    assert model.setup.group_size == 3 and (tmp_path / "run/pinn/probe.npz").is_file()
    assert model.probe.shape == (32, 32)
    made = model.reconstruct(second)
    assert np.isfinite(made.objects).all()


def test_a_run_is_replaced_only_where_that_is_asked_for(replaced):
    run = replaced._stored.run
    assert replaced.config.seed == ptycho.load_model(run).config.seed == 1 and not list(run.glob(".*"))


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"stage": 3}, "stage=3: unknown key; did you mean stages?"),
        ({"model": "resnet"}, "model=resnet: must be one of unrolled, unrolled_fast, unet"),
        ({"model": "unet"}, "stages=1: unknown key"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_before_anything_is_written(scan, tmp_path, wrong, message):
    with pytest.raises(ptycho.ConfigError, match=f"^{re.escape(message)}") as caught:
        ptycho.train(scan, tmp_path / "run", **TINY | wrong)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


def test_several_scans_are_refused(scan, tmp_path):
    with pytest.raises(
        ptycho.ConfigError, match=r"^scan: is a list of 2; a network is trained on one scan: tra"
    ):
        ptycho.train([scan, scan], tmp_path / "run", **TINY)
    assert not (tmp_path / "run").exists()
