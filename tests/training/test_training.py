"""Training, inference and progress: stored results, compilation, random numbers."""

import json
import random
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.cli import ROOT, fresh
from helpers.datasets import single_patterns

from conftest import small_run
from ptycho.config import TrainConfig, UnrolledModel
from ptycho.files.atomic import digest
from ptycho.networks import build_baseline, build_pinn
from ptycho.networks.layers import get_weights
from ptycho.simulation.simulate import simulate
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.competitors import geometry_of
from ptycho.training.fitting import FitSettings, learning_rate_schedule, train
from ptycho.training.loop import NonFiniteLossError
from workflows.reconstruct.grid_lines import predict_regions

MODEL = UnrolledModel(stages=1, width=8, blocks=1)
CONFIG = small_run(size=64, max_groups_train=13, train=TrainConfig(val_groups=5), model=MODEL)
CONSTANT_RATE = TrainConfig(warmup_fraction=0.0, final_learning_rate_fraction=1.0)


@pytest.fixture(scope="module")
def data():
    return simulate(CONFIG)[0]


def fit(model, train_data, val, epochs=1, config=CONFIG.train, compile_xla=False, **changes):
    values = {"batch_size": CONFIG.batch_size, "learning_rate": 1e-3, "seed": 0} | changes
    settings = FitSettings(adam=config, epochs=epochs, compile_xla=compile_xla, **values)
    return train(model, train_data, val, settings, standard_callbacks(patience=config.patience))


def trained_pinn(data, compile_xla=False, **changes):
    geometry = geometry_of(data["train"])
    model = build_pinn(CONFIG.model, geometry, CONFIG.xla, CONFIG.loss_weights, CONFIG.seed)
    return model, fit(model, data["train"], data["val"], epochs=3, compile_xla=compile_xla, **changes)


@pytest.fixture(scope="module")
def pinn(data):
    """A PINN trained for three epochs, its history, and the state of the global generators."""
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002
    model, history = trained_pinn(data)
    predict_regions(model, data["test"], CONFIG.batch_size, compile_xla=False)
    after = (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002
    return model, history, before, after


class Follower(keras.Model):
    """One weight w, loss |w − f| + 0·Σx, with f the normalisation of the data: Adam moves w by its rate."""

    def __init__(self, **kwargs):
        super().__init__(name="follower", **kwargs)
        self.w = self.add_weight(shape=(), initializer="zeros", name="w")
        self.built = True
        self.seen = []

    def losses_of(self, batch, probe, normalisation):
        self.seen.append(set(batch))
        return {"loss": tf.abs(self.w - normalisation) + 0.0 * tf.reduce_sum(batch["x"])}


def flat_data(normalisation, n_groups, N=8):
    """Groups of one pattern of constant amplitude ``1/(2f)``, whose normalisation is ``f``."""
    positions, side = np.stack([np.arange(n_groups), np.zeros(n_groups)], 1), N + n_groups
    amplitudes = np.full((n_groups, N, N), 1 / (2 * normalisation))
    truth = np.ones((1, side, side), np.complex64)
    return single_patterns(amplitudes, np.ones((N, N)), positions, side, region_size=N, objects=truth)


def follow(model, train_data, val, epochs, **changes):
    return fit(model, train_data, val, epochs, config=CONSTANT_RATE, learning_rate=0.1, **changes)


def test_the_best_epoch_is_kept_not_the_last():
    model = Follower()
    history = follow(model, flat_data(9.0, 4), flat_data(0.32, 4), epochs=6)
    losses = [row["val_loss"] for row in history.rows]
    np.testing.assert_allclose(losses, [0.22, 0.12, 0.02, 0.08, 0.18, 0.28], atol=1e-5)
    assert history.best_epoch == 3 and history.stopped is None
    np.testing.assert_allclose(model.w.numpy(), 0.3, atol=1e-5)
    assert [row["epoch"] for row in history.rows] == [1, 2, 3, 4, 5, 6]
    assert {"epoch", "loss", "val_loss", "learning_rate", "seconds"} == set(history.rows[0])
    assert history.compile_s > 0 and history.train_s >= 0


def test_patience_ends_a_training_that_no_longer_improves():
    model = Follower()
    patient = TrainConfig(warmup_fraction=0.0, final_learning_rate_fraction=1.0, patience=2)
    history = fit(model, flat_data(9.0, 4), flat_data(0.32, 4), 6, patient, learning_rate=0.1)
    assert [row["epoch"] for row in history.rows] == [1, 2, 3, 4, 5] and history.best_epoch == 3
    assert history.stopped == "no better validation loss in 2 epochs"
    np.testing.assert_allclose(model.w.numpy(), 0.3, atol=1e-5)


def test_losses_are_means_over_the_steps_of_an_epoch():
    model = Follower()
    history = follow(model, flat_data(9.0, 12), flat_data(9.0, 4), epochs=2)
    losses = [np.mean([9.0, 8.9, 8.8]), np.mean([8.7, 8.6, 8.5])]  # before each of the three steps
    np.testing.assert_allclose([row["loss"] for row in history.rows], losses, rtol=1e-5)


def poisoned(n_groups, group):
    """Return data in which the pattern of a group became NaN after it was checked."""
    data = flat_data(9.0, n_groups)
    assert data.normalisation == pytest.approx(9.0)
    data.amplitudes[:][group] = np.nan  # a view
    return data


def order(epoch, n_groups, seed=0):
    return np.random.default_rng([seed, epoch]).permutation(n_groups).tolist()


@pytest.mark.parametrize("compile_xla", [False, True])
def test_a_loss_that_is_not_finite_stops_with_the_last_good_weights(compile_xla):
    """The first epoch omits the bad group as its remainder; the second has it."""
    bad = order(0, 9)[8]
    step = order(1, 9).index(bad) // 4 + 1
    assert step <= 2, "choose another seed"
    model = Follower()
    message = rf"the loss is nan at epoch 2, step {step}; the last good"
    with pytest.raises(NonFiniteLossError, match=message) as caught:
        follow(model, poisoned(9, bad), flat_data(9.0, 4), epochs=3, compile_xla=compile_xla)
    np.testing.assert_allclose(model.w.numpy(), 0.2, atol=1e-5)  # two steps of the first epoch
    history = caught.value.history
    assert len(history.rows) == 1 and history.best_epoch == 1
    assert history.stopped == str(caught.value) and "train.learning_rate" in history.stopped


def test_a_validation_loss_that_is_not_finite_stops_too():
    model = Follower()
    with pytest.raises(NonFiniteLossError, match="the loss is nan at validation after epoch 1"):
        follow(model, flat_data(9.0, 4), poisoned(4, 0), epochs=3)
    assert model.w.numpy() == 0


def test_only_a_supervised_model_is_given_the_truth():
    for supervised, wanted in ((False, {"x", "offsets"}), (True, {"x", "offsets", "target"})):
        model = Follower()
        follow(model, flat_data(9.0, 4), flat_data(9.0, 4), epochs=2, supervised=supervised)
        assert model.seen == [wanted, wanted]  # traced once for training and once for validation


def test_the_baseline_learns(data, within):
    single = {role: part.single_patterns(1) for role, part in data.items()}
    model = build_baseline(CONFIG.baseline, geometry_of(single["train"]), CONFIG.xla, CONFIG.seed)
    history = fit(model, single["train"], single["val"], epochs=3, supervised=True)
    fall = history.rows[-1]["loss"] / history.rows[0]["loss"]
    within("third over first loss of the baseline", fall, below=0.7)


def test_schedule_by_hand():
    config = TrainConfig(warmup_fraction=0.1, final_learning_rate_fraction=0.01)
    rate = learning_rate_schedule(config, peak=2e-3, steps=110)
    values = [float(rate(step)) for step in (0, 1, 10, 11, 60.5, 110, 500)]
    middle = 2e-3 * (0.01 + 0.99 * 0.5)
    expected = [0, 2e-3 / 11, 2e-3 * 10 / 11, 2e-3, middle, 2e-5, 2e-5]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-12)


def test_the_global_generators_are_untouched(pinn):
    _, _, before, after = pinn
    assert before == after


FRESH = f"""
import json, sys
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}, {str(ROOT / "tests" / "training")!r}]
from test_training import CONFIG, digest, get_weights, predict_regions, simulate, trained_pinn

data = simulate(CONFIG)[0]
def modules():
    return sorted({{".".join(path.name.split(".")[:2]) for path in Path("dump").glob("module_*")}})
def work(compile_xla):
    model, history = trained_pinn(data, compile_xla=compile_xla)
    predict_regions(model, data["test"], CONFIG.batch_size, compile_xla)
    return digest(get_weights(model)), [row["loss"] for row in history.rows]
Path("dump").mkdir()
plain = work(False)
without = modules()
_, compiled = work(True)
print(json.dumps([without, modules(), *plain, compiled]))
"""


@pytest.fixture(scope="module")
def fresh_process(tmp_path_factory):
    """Modules that XLA compiled without and with ``compile_xla``; the weights' hash and the losses without;
    the losses with it."""
    folder = tmp_path_factory.mktemp("fresh")
    done = fresh(folder, "-c", FRESH, XLA_FLAGS="--xla_dump_to=dump --xla_dump_hlo_as_text")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_each_stage_is_compiled_exactly_once_and_nothing_without_xla(fresh_process):
    without, compiled = fresh_process[:2]
    steps = sorted(re.findall(r"_(train|eval|predict)_step_", " ".join(compiled)))
    assert without == [] and steps == ["eval", "predict", "train"], compiled


def test_a_fresh_process_gives_the_same_weights_and_losses(fresh_process, pinn):
    assert fresh_process[2] == digest(get_weights(pinn[0]))
    assert fresh_process[3] == [row["loss"] for row in pinn[1].rows]


def test_xla_changes_nothing_but_rounding(fresh_process, within):
    for epoch, (compiled, plain) in enumerate(zip(fresh_process[4], fresh_process[3], strict=True), start=1):
        within(f"loss under XLA, epoch {epoch}", abs(compiled / plain - 1), below=1e-3)
