"""Interrupted runs continue to the same end, wherever they were stopped or killed."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers.cli import SCRIPT, TINY, files, small_disk
from helpers.datasets import single_patterns

from ptycho.command_line.config import resumed_config
from ptycho.config import ConfigError, RunConfig, TrainConfig
from ptycho.files.atomic import digest
from ptycho.networks.layers import get_weights
from ptycho.run.folder import RunFolder
from ptycho.training import fitting
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.checkpoint import Checkpoints, load
from ptycho.training.fitting import FitSettings, train
from ptycho.training.interrupt import Stopped, StopRequest
from ptycho.training.loop import NonFiniteLossError, Training

pytestmark = pytest.mark.usefixtures("usual_chunks")

# ---- training, continued


class Valley(keras.Model):
    """Two weights and a loss that depends on the order of the batches, which have different data."""

    def __init__(self):
        super().__init__(name="valley")
        self.a = self.add_weight(shape=(3,), initializer="zeros", name="a")
        self.b = self.add_weight(shape=(), initializer="ones", name="b")
        self.built = True

    def losses_of(self, batch, probe, normalisation):
        level = tf.reduce_mean(batch["x"]) * self.b
        return {"loss": tf.reduce_mean(tf.abs(self.a - [0.1, 0.2, 0.3] * level)), "level": level}


def uneven(n_groups, seed, N=8):
    levels = np.random.default_rng(seed).uniform(0.01, 0.1, (n_groups, 1, 1)).astype(np.float32)
    amplitudes = np.broadcast_to(levels, (n_groups, N, N)).copy()
    positions = np.stack([np.arange(n_groups), np.zeros(n_groups)], 1)
    return single_patterns(amplitudes, np.ones((N, N)), positions, N + n_groups, region_size=N)


TRAIN, VAL = uneven(13, 0), uneven(9, 1)  # three steps, two validation batches: five pauses in an epoch


class Killed(BaseException):
    """An end like that by SIGKILL: nothing is saved."""


@pytest.fixture(autouse=True)
def at_every_step(monkeypatch):
    """Read losses after every step, so that a training may stop there; prepare no batch ahead."""
    monkeypatch.setattr(fitting, "Training", partial(Training, read_s=0.0))
    monkeypatch.setattr(fitting, "prefetched", iter)


def fit(checkpoints=None, stop=None, model=None, data=(TRAIN, VAL), epochs=3, **changes):
    model = model or Valley()
    values = {"batch_size": 4, "learning_rate": 0.05, "seed": 0, "compile_xla": False} | changes
    settings = FitSettings(adam=TrainConfig(), epochs=epochs, **values)
    tf.config.run_functions_eagerly(isinstance(model, Valley))  # tracing would take most of the time
    try:
        return model, train(model, *data, settings, standard_callbacks(checkpoints, stop))
    finally:
        tf.config.run_functions_eagerly(False)


def without_times(history):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history.rows]


@pytest.fixture(scope="module")
def uninterrupted():
    """A training with default settings: losses are read from time to time, and batches are prepared ahead."""
    model, history = fit()
    assert history.rows[0]["val_loss"] != history.rows[2]["val_loss"]
    return digest(get_weights(model)), without_times(history), history.best_epoch


def interrupt_at(monkeypatch, owner, method, count, action):
    """Call ``action`` when a ``method`` of the training is called for the ``count``-th time."""
    real, calls = getattr(owner, method), []

    def call(*given):
        calls.append(1)
        if len(calls) == count:
            action()
        real(*given)

    monkeypatch.setattr(owner, method, call)


def finished(folder, uninterrupted):
    """Continue the training from the checkpoints in ``folder``, as in another process, and compare."""
    model, history = fit(Checkpoints(folder, {}, 1e9))
    assert (digest(get_weights(model)), without_times(history), history.best_epoch) == uninterrupted
    return history


@pytest.mark.parametrize("pause", [4, 15])
def test_stopped_at_any_step_or_validation_batch(tmp_path, monkeypatch, uninterrupted, pause):
    stop, epoch, within = StopRequest(), (pause - 1) // 5, (pause - 1) % 5 + 1
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, Training, "_pause", pause, lambda: setattr(stop, "signum", signal.SIGTERM))
        fit(Checkpoints(tmp_path, {}, 1e9), stop)
    newest = sorted(tmp_path.iterdir())[-1]
    assert newest.name == f"epoch{epoch:05d}-step{min(within, 3):07d}.npz"
    history = finished(tmp_path, uninterrupted)
    assert all(row["seconds"] > 0 for row in history.rows) and history.checkpoint_s > 0


@pytest.mark.parametrize("seconds", [0, 1e9], ids=["saved every step", "saved every epoch"])
@pytest.mark.parametrize("pause", [7, 15])
def test_killed(tmp_path, monkeypatch, uninterrupted, pause, seconds):
    def die():
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        interrupt_at(patch, Training, "_pause", pause, die)
        fit(Checkpoints(tmp_path, {}, seconds))
    finished(tmp_path, uninterrupted)


def test_a_damaged_checkpoint_costs_steps_not_the_result(tmp_path, monkeypatch, uninterrupted):
    stop = StopRequest()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, Training, "_pause", 8, lambda: setattr(stop, "signum", signal.SIGINT))
        fit(Checkpoints(tmp_path, {}, 0), stop)
    _, two = sorted(tmp_path.iterdir())
    two.write_bytes(two.read_bytes()[:-100])
    finished(tmp_path, uninterrupted)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    finished(tmp_path, uninterrupted)


def test_checkpoints_of_another_network_or_length_are_skipped(tmp_path, uninterrupted, caplog):
    fit(Checkpoints(tmp_path, {}, 1e9), epochs=5)
    finished(tmp_path, uninterrupted)  # five epochs are more than three
    assert "is beyond the end of the training" in caplog.text

    class Hill(Valley):
        def __init__(self):
            super().__init__()
            self.c = self.add_weight(shape=(), initializer="ones", trainable=False, name="c")

    fit(Checkpoints(tmp_path, {}, 1e9), model=Hill())
    caplog.clear()
    finished(tmp_path, uninterrupted)
    assert "weights do not belong to this network" in caplog.text


def test_nan_leaves_the_last_good_checkpoint(tmp_path):
    """The bad group is the remainder of the first epoch, and is used in the second."""
    data = (uneven(9, 0), uneven(4, 1))
    last = np.random.default_rng([0, 0]).permutation(9)[8]
    data[0].amplitudes[:][last] = np.nan  # after it was checked
    for _ in range(2):  # the second time from the checkpoint: the same end
        with pytest.raises(NonFiniteLossError, match=r"the loss is nan at epoch 2, step [12]") as caught:
            fit(Checkpoints(tmp_path, {}, 0), data=data)
        assert len(caught.value.history.rows) == 1
        for path in tmp_path.iterdir():
            assert load(path)[0].is_finite()


# ---- keys that are allowed with resume=


def test_a_run_is_resumed_with_its_own_configuration(tmp_path):
    stored = RunConfig(nepochs=7, output_dir="elsewhere", overwrite=True, loss="mine:loss")
    run = tmp_path / "0_gridsize=1,seed=0"
    RunFolder(run).config(stored)
    own = [f"resume='{run}'", 'loss="mine:loss"']
    assert resumed_config(run, own, {"USE_XLA_COMPILE": "1"}) == stored
    for more, environment, message in (
        ("nepochs=7", {}, "remove nepochs=7"),
        ("+nn=3", {}, r"remove \+nn=3"),
        ("loss=other:loss", {}, "remove loss=other:loss"),
        ("", {"USE_XLA_COMPILE": "0"}, "remove xla.compile: true -> false"),
    ):
        with pytest.raises(ConfigError, match=message):
            resumed_config(run, [*own, *filter(None, [more])], environment)


# ---- whole runs

COMMAND = (
    *(*TINY, "nepochs=1", "gridsize=1", "xla.compile=false", "train.checkpoint_seconds=0"),
    *("model.stages=1", "model.width=8", "model.blocks=1", "model.neighbours=0"),
    *("probe.learn=true", "probe.rate=10"),
)


def results(run):
    found = {"metrics": (run / "metrics.json").read_bytes()}
    for name in ("pinn", "baseline"):
        found[f"{name} weights"] = json.loads((run / name / "model.json").read_text())["weights_sha256"]
        with (run / name / "history.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found[f"{name} history"] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return found | {
        name: digest for name, digest in files(run).items() if name.endswith(("recon.npz", "probe.npz"))
    }


def start(cwd, script, *arguments):
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "HYDRA_FULL_ERROR": "0"}
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for(process, found):
    limit = time.monotonic() + 120
    while not found():
        assert process.poll() is None and time.monotonic() < limit, process.communicate()
        time.sleep(0.01)


def stopped(process, number):
    """Return the lines on stderr of a process that gets a signal."""
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "Traceback" not in err and "Exception ignored" not in err
    return err.splitlines()


def test_a_run_through_everything(tmp_path, in_process, monkeypatch):
    """A full disk, kill -9, a damaged data set, SIGTERM in training: the end is that of an undisturbed run.

    Pictures are excepted; they are drawn at the end.
    """
    monkeypatch.setattr("workflows.reconstruct.grid_lines.draw_comparison", lambda *_: None)
    code, _, err = in_process(SCRIPT, *COMMAND, "output_dir=reference")
    assert code == 0, err
    reference = tmp_path / "reference"
    kept = {"setup.npz", "weights.npz", "model.json", "history.csv", "probe.npz"}
    assert set(files(reference / "pinn")) == kept

    run = tmp_path / "run"
    with small_disk(20_000):
        code, _, err = in_process(SCRIPT, *COMMAND, "output_dir=run")
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert code == 1 and len(errors) == 1 and "Traceback" not in err, err
    assert ".npz: cannot be written (File too large); make room, then resume with: " in errors[0]
    assert not list(run.rglob("*.tmp"))

    command = shlex.split(errors[0].rpartition("resume with: ")[2])
    assert command[1:] == [str(SCRIPT), "resume=run"]
    process = start(tmp_path, *command[1:])
    wait_for(process, lambda: list(run.glob("pinn/checkpoints/epoch00000-step000000[23].npz")))
    code, _, err = in_process(SCRIPT, "resume=run")
    assert code == 2 and f"run: process {process.pid} is writing a run" in err
    assert len(err.splitlines()) == 1
    process.kill()
    process.communicate()
    (run / "datasets" / ".old.npz.1.tmp").write_text("left by a killed process")
    dataset = run / "datasets/N32/gs1/test.npz"
    data = bytearray(dataset.read_bytes())
    data[len(data) // 2] ^= 1
    dataset.write_bytes(data)

    process = start(tmp_path, SCRIPT, "resume=run")
    wait_for(process, lambda: list(run.glob("baseline/checkpoints/*step0000002.npz")))
    lines = stopped(process, signal.SIGTERM)
    assert any("test.npz: missing, changed or damaged" in line for line in lines)
    assert "stopping after this step; a second signal stops at once" in lines
    assert lines[-3:-1] == ["stopped by SIGTERM", "resume with:"]
    assert lines[-1].endswith(f"{SCRIPT} resume=run")
    assert not (run / "pinn" / "checkpoints").exists()
    assert not list(run.rglob("*.tmp")) and not (run / ".lock").exists()

    code, _, err = in_process(SCRIPT, "resume=run")
    assert code == 0 and "pinn: is trained; its weights are loaded" in err, err
    assert results(run) == results(reference)
    log = (run / "run.log").read_text()
    assert log.count("the run is resumed") == 3 and "baseline: stopping after epoch" in log
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["resumed"] and manifest["training"]["baseline"]["checkpoint_s"] > 0

    before = files(run)
    code, _, err = in_process(SCRIPT, "resume=run")
    assert code == 0 and "run: is finished; nothing is left to do" in err
    assert files(run) == before


def test_a_sweep_stopped_outside_training_ends_at_once_and_names_its_own_command(tmp_path, in_process):
    words = ("-m", "seed=0,1,2", *COMMAND, "output_dir=sweep")
    process = start(tmp_path, SCRIPT, *words)
    wait_for(process, lambda: list(tmp_path.glob("sweep/0_*/config.yaml")))
    lines = stopped(process, signal.SIGINT)
    assert "stopped by SIGINT" in lines and not any("a second signal" in line for line in lines)
    assert lines[-2] == "resume with:" and set(shlex.split(lines[-1])[2:]) == set(words)
    (job,) = (tmp_path / "sweep").iterdir()
    assert set(files(job)) <= {"config.yaml", "files.json", "run.log"}
    code, _, err = in_process(SCRIPT, *words, "nimgs_test=2")
    assert code == 2 and f"holds the run {job.name} with another configuration (nimgs_test: " in err
