"""``ptycho.train``: a network of a scan alone, stored, read back and used on this scan and on others."""

import json
import re

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
    """The object explains the patterns better than the initial constant."""
    made = ptycho.load_model("pretrained").reconstruct(scan)
    assert made.general and made.objects.shape[0] == 1
    rows, cols = (np.round(axis).astype(int) for axis in made.beam.positions.T)
    patches = np.stack([made.object[r : r + 32, c : c + 32] for r, c in zip(rows, cols, strict=True)])
    measured = np.sqrt(scan.patterns())

    def misfit(objects):
        waves = np.fft.fftshift(np.fft.fft2(made.beam.probe[0] * objects, norm="ortho"), axes=(-2, -1))
        return np.abs(np.abs(waves) - measured).sum() / measured.sum()

    within("misfit, of a constant's", misfit(patches) / misfit(np.ones_like(patches)), below=0.8)


def test_a_network_of_groups_with_a_probe_of_its_own(scan, tmp_path):
    second = ptycho.simulate(32, 24, 1e5, step_px64=6.0, seed=2)
    model = ptycho.train(scan, tmp_path / "run", group_size=3, learn_probe=True, model="unrolled", **TINY)
    assert model.setup.group_size == 3 and (tmp_path / "run/pinn/probe.npz").is_file()
    assert model.probe.shape == (32, 32)
    made = model.reconstruct(second)
    assert np.isfinite(made.objects).all()


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"stage": 3}, "stage=3: unknown key; did you mean stages?"),
        ({"model": "resnet"}, "model=resnet: must be one of unrolled, unrolled_fast, unet"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_before_anything_is_written(scan, tmp_path, wrong, message):
    with pytest.raises(ptycho.ConfigError, match=f"^{re.escape(message)}") as caught:
        ptycho.train(scan, tmp_path / "run", **TINY | wrong)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()
