"""Interrupted runs: continued to the very same end, from wherever they were stopped or killed."""

import csv
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers_cli import ROOT, SCRIPT, TINY, TINY_UNROLLED, files, fresh
from test_config import composed
from test_training import flat_data, order, poisoned

from ptycho import config as cfg
from ptycho.config import ConfigError, RunConfig, TrainConfig
from ptycho.files.atomic import locked
from ptycho.networks import get_weights
from ptycho.run.folder import RunFolder, weights_hash
from ptycho.training.checkpoint import Checkpoints, load
from ptycho.training.interrupt import Stopped, StopRequest
from ptycho.training.loop import NonFiniteLossError, Trainer, train
from workflows.config import resumed_config
from workflows.grid_lines import restored

# ---- training, continued


class Valley(keras.Model):
    """Two weights and a loss that depends on the order of the batches: each sees its own data."""

    def __init__(self):
        super().__init__(name="valley")
        self.a = self.add_weight(shape=(3,), initializer="zeros", name="a")
        self.b = self.add_weight(shape=(), initializer="ones", name="b")
        self.built = True

    def losses_of(self, batch, probe, normalisation):
        level = tf.reduce_mean(batch["x"]) * self.b
        return {"loss": tf.reduce_mean(tf.abs(self.a - [0.1, 0.2, 0.3] * level)), "level": level}


def uneven(n_groups, seed):
    data = flat_data(9.0, n_groups)
    data.amplitudes[:] = np.random.default_rng(seed).uniform(0.01, 0.1, (n_groups, 1, 1))
    return data


TRAIN, VAL = uneven(13, 0), uneven(9, 1)  # three steps, two validation batches: five pauses in an epoch


class Killed(BaseException):
    """As if by SIGKILL: nothing is saved on the way out."""


def fit(checkpoints=None, stop=None, model=None, data=(TRAIN, VAL), epochs=3, **changes):
    model = model or Valley()
    settings = {"batch_size": 4, "learning_rate": 0.05, "seed": 0, "compile_xla": False} | changes
    settings |= {"epochs": epochs, "checkpoints": checkpoints, "stop": stop}
    tf.config.run_functions_eagerly(isinstance(model, Valley))  # tracing would take most of the time
    try:
        return model, train(model, *data, TrainConfig(), **settings)
    finally:
        tf.config.run_functions_eagerly(False)


def without_times(history):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history.rows]


@pytest.fixture(scope="module")
def uninterrupted():
    model, history = fit()
    assert history.rows[0]["val_loss"] != history.rows[2]["val_loss"]
    return weights_hash(get_weights(model)), without_times(history), history.best_epoch


def interrupt_at(monkeypatch, method, count, action):
    """Call ``action`` when a trainer's ``method`` is called for the ``count``-th time."""
    real, calls = getattr(Trainer, method), []

    def call(self):
        calls.append(1)
        if len(calls) == count:
            action()
        real(self)

    monkeypatch.setattr(Trainer, method, call)


def finished(folder, uninterrupted):
    """Train on from the checkpoints in ``folder``, in what could be another process, and compare."""
    model, history = fit(Checkpoints(folder, {}, 1e9))
    assert (weights_hash(get_weights(model)), without_times(history), history.best_epoch) == uninterrupted
    return history


@pytest.mark.parametrize("pause", range(1, 16))
def test_stopped_at_any_step_or_validation_batch(tmp_path, monkeypatch, uninterrupted, pause):
    stop, epoch, within = StopRequest(), (pause - 1) // 5, (pause - 1) % 5 + 1
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, "_pause", pause, lambda: setattr(stop, "signum", signal.SIGTERM))
        fit(Checkpoints(tmp_path, {}, 1e9), stop)
    newest = sorted(tmp_path.iterdir())[-1]
    assert newest.name == f"epoch{epoch:05d}-step{min(within, 3):07d}.npz"
    history = finished(tmp_path, uninterrupted)
    assert all(row["seconds"] > 0 for row in history.rows) and history.checkpoint_s > 0


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_stopped_at_the_end_of_an_epoch(tmp_path, monkeypatch, uninterrupted, epoch):
    stop = StopRequest()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, "_save", epoch, lambda: setattr(stop, "signum", signal.SIGINT))
        fit(Checkpoints(tmp_path, {}, 1e9), stop)
    assert sorted(tmp_path.iterdir())[-1].name == f"epoch{epoch:05d}-step0000000.npz"
    finished(tmp_path, uninterrupted)


@pytest.mark.parametrize("seconds", [0, 1e9], ids=["saved every step", "saved every epoch"])
@pytest.mark.parametrize("pause", [1, 2, 4, 6, 9, 13, 15])
def test_killed(tmp_path, monkeypatch, uninterrupted, pause, seconds):
    def die():
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        interrupt_at(patch, "_pause", pause, die)
        fit(Checkpoints(tmp_path, {}, seconds))
    finished(tmp_path, uninterrupted)


def test_killed_again_and_again(tmp_path, monkeypatch, uninterrupted):
    def die():
        raise Killed

    for pause in (4, 3, 2, 5, 1):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            interrupt_at(patch, "_pause", pause, die)
            fit(Checkpoints(tmp_path, {}, 0))
    finished(tmp_path, uninterrupted)


def test_a_damaged_checkpoint_costs_steps_not_the_result(tmp_path, monkeypatch, uninterrupted):
    stop = StopRequest()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        interrupt_at(patch, "_pause", 8, lambda: setattr(stop, "signum", signal.SIGINT))
        fit(Checkpoints(tmp_path, {}, 0), stop)
    _, two = sorted(tmp_path.iterdir())
    two.write_bytes(two.read_bytes()[:-100])
    finished(tmp_path, uninterrupted)
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    finished(tmp_path, uninterrupted)


def test_checkpoints_of_another_network_or_length_are_passed_over(tmp_path, uninterrupted, caplog):
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


def test_a_full_disk_does_not_stop_the_training(tmp_path, uninterrupted, caplog):
    (tmp_path / "file").write_text("")
    model, history = fit(Checkpoints(tmp_path / "file" / "below", {}, 0))
    assert (weights_hash(get_weights(model)), without_times(history)) == uninterrupted[:2]
    assert "training goes on" in caplog.text


def test_nan_leaves_the_last_good_checkpoint(tmp_path):
    """The bad group is the remainder of the first epoch, and comes up in the second."""
    bad = order(0, 9)[8]
    data = (poisoned(9, bad), flat_data(9.0, 4))
    for _ in range(2):  # the second time from the checkpoint: the same end
        with pytest.raises(NonFiniteLossError, match=r"the loss is nan at epoch 2, step [12]") as caught:
            fit(Checkpoints(tmp_path, {}, 0), data=data)
        assert len(caught.value.history.rows) == 1
        for path in tmp_path.iterdir():
            assert load(path)[0].is_finite()


# ---- the lock


def test_a_folder_is_held_by_one(tmp_path):
    run = tmp_path / "a" / "b"
    with locked(run):
        with pytest.raises(ConfigError, match=rf"{run}: process {os.getpid()} is writing a run"), locked(run):
            pass
        with locked(tmp_path / "other"):
            pass
    assert not list(run.iterdir())
    with locked(run):
        pass


def test_the_lock_of_a_killed_process_is_no_lock(tmp_path):
    code = (
        f"import sys, time; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path; from ptycho.files.atomic import locked\n"
        f"with locked(Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    with pytest.raises(ConfigError, match=f"process {process.pid} is writing"), locked(tmp_path):
        pass
    process.kill()
    process.communicate()
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


# ---- signals


READY = "print('ready', flush=True)"


def heard(*lines):
    """Start a program that hears signals, and wait until it says that it is ready."""
    code = [
        f"import sys, time, hashlib; sys.path.insert(0, {str(ROOT)!r})",
        "from ptycho.training.interrupt import StopRequest, Stopped",
        "stop = StopRequest(); stop.farewell = 'farewell'",
        "try:",
        "  with stop:",
        *(f"    {line}" for line in lines),
        "except Stopped as stopped: print(stopped); sys.exit(stopped.exit_code)",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "\n".join(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_outside_training_a_signal_stops_at_once(number, code):
    process = heard(READY, "time.sleep(60)")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code and out == f"stopped by {number.name}\n"
    assert err == "stopping; a second signal stops at once\n"


def test_where_it_is_deferred_the_block_decides():
    process = heard(
        "with stop.deferred():",
        f"  {READY}",
        "  while stop.signum is None: time.sleep(0.01)",
        "  print('finishing', flush=True)",
        "print('never')",
    )
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 143 and out == "finishing\nstopped by SIGTERM\n"


def test_a_second_signal_ends_the_process_inside_compiled_code():
    """The hash runs for minutes without returning to Python, as a compilation does."""
    process = heard(
        "with stop.deferred():", f"  {READY}", "  hashlib.pbkdf2_hmac('sha512', b'', b'', 2_000_000_000)"
    )
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "stopping; a second signal stops at once\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130 and err == "farewell\n"


# ---- what the command line may say beside resume=


def resumed(run, *overrides, **environment):
    command = (f"resume='{run}'", *overrides)
    return resumed_config(run, composed(*command), composed(), list(command), environment)


STORED = RunConfig(
    nepochs=7,
    size=500,
    set_phi=True,
    probe=cfg.ZonePlateProbe(),
    model=cfg.UnrolledModel(stages=3),
    output_dir="elsewhere",
    overwrite=True,
    models=("pinn",),
)
AGREE = [
    (),
    ("nepochs=7", "set_phi=true", "model.stages=3"),
    ("model=unrolled_fast",),
    ("probe=zone_plate", "probe.energy_keV=8"),
    ("experiment=gs2_curved_phase", "nepochs=7"),
    ("output_dir=elsewhere",),
    ("train.learning_rate=0.001", "models=[pinn]", "max_groups_train=2048"),
]
DIFFER = [
    (("nepochs=8",), r"\(nepochs: 7 -> 8\)"),
    (("seed=1", "train.learning_rate=0.1"), r"\(seed: 0 -> 1; train.learning_rate: 0.001 -> 0.1\)"),
    (("experiment=gs2_curved_phase",), r"\(nepochs: 7 -> 3\)"),
    (("model=unrolled",), r"\(model.stages: 3 -> 8\)"),
    (("probe=ideal_disk",), r"probe.kind: zone_plate -> ideal_disk; .*probe.diameter_px64: absent -> 22.0"),
    (("output_dir=out",), r"\(output_dir: elsewhere -> out\)"),
    (("max_groups_train=null",), r"\(max_groups_train: 2048 -> null\)"),
    (("+nn=3",), r"nn=3: unknown key"),
    (("N=65",), r"N=65: must be a power of two"),
    (("probe.diameter_px64=3",), r"probe.diameter_px64"),
]


@pytest.fixture
def stored_run(tmp_path):
    run = tmp_path / "0_gridsize=1,seed=0"
    RunFolder(run).config(STORED)
    return run


@pytest.mark.parametrize("overrides", AGREE, ids=" ".join)
def test_overrides_that_agree_are_accepted(stored_run, overrides):
    assert resumed(stored_run, *overrides) == STORED
    assert resumed(stored_run, f"output_dir='{stored_run}'") == STORED  # moved, or named again
    assert resumed(stored_run, USE_XLA_COMPILE="1") == STORED


@pytest.mark.parametrize("overrides, message", DIFFER[:-1], ids=str)
def test_overrides_that_differ_are_refused(stored_run, overrides, message):
    with pytest.raises(ConfigError, match=message):
        resumed(stored_run, *overrides)


def test_the_environment_is_compared_too(stored_run):
    with pytest.raises(ConfigError, match=r"\(xla.compile: true -> false\)"):
        resumed(stored_run, USE_XLA_COMPILE="0")


def test_a_model_that_does_not_say_whether_it_is_complete_is_trained_again(tmp_path):
    """Early versions stored it so."""
    folder = RunFolder(tmp_path / "run")
    folder.model("pinn", get_weights(Valley()), {"class": "Valley"}, [{"epoch": 1}])
    again = RunFolder(tmp_path / "run", resumed=True)
    assert restored("pinn", Valley(), {}, again) is None


# ---- whole runs

COMMAND = (*TINY, *TINY_UNROLLED, "nepochs=2", "xla.compile=false", "train.checkpoint_seconds=0")


def results(run):
    """Everything that a resumed run must share with one that was left alone."""
    found = {"metrics": (run / "metrics.json").read_bytes()}
    for name in ("pinn", "baseline"):
        found[f"{name} weights"] = json.loads((run / name / "model.json").read_text())["weights_sha256"]
        with (run / name / "history.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found[f"{name} history"] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return found | {name: digest for name, digest in files(run).items() if name.endswith("recon.npz")}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    done = fresh(folder, SCRIPT, *COMMAND, "output_dir=run")
    assert done.returncode == 0, done.stderr
    assert set(files(folder / "run" / "pinn")) == {"setup.npz", "weights.npz", "model.json", "history.csv"}
    return results(folder / "run")


def start(cwd, *arguments, **options):
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "HYDRA_FULL_ERROR": "0"}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.PIPE, text=True, **options)


def wait_for(process, found):
    limit = time.monotonic() + 120
    while not found():
        assert process.poll() is None and time.monotonic() < limit, process.communicate()
        time.sleep(0.01)


def test_a_run_through_everything(tmp_path, reference):
    """A full disk, kill -9, a damaged dataset, SIGTERM in training: the end is that of the reference."""
    run, size = tmp_path / "run", 200_000

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    process = start(tmp_path, *COMMAND, "output_dir=run", preexec_fn=small_disk)
    _, err = process.communicate(timeout=120)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert process.returncode == 1 and len(errors) == 1 and "Traceback" not in err, err
    assert ".npz: cannot be written (File too large); make room, then go on with: " in errors[0]
    assert not list(run.rglob("*.tmp"))

    command = shlex.split(errors[0].rpartition("go on with: ")[2])
    assert command[1:] == [str(SCRIPT), "resume=run"]
    process = start(tmp_path, *command[2:])
    wait_for(process, lambda: list(run.glob("pinn/checkpoints/epoch00000-step000000[23].npz")))
    busy = fresh(tmp_path, SCRIPT, "resume=run")
    assert busy.returncode == 2 and f"run: process {process.pid} is writing a run" in busy.stderr
    assert len(busy.stderr.splitlines()) == 1
    process.kill()
    process.communicate()
    (run / "datasets" / ".old.npz.1.tmp").write_text("left by a killed process")
    dataset = run / "datasets/N32/gs2/test.npz"
    data = bytearray(dataset.read_bytes())
    data[len(data) // 2] ^= 1
    dataset.write_bytes(data)

    process = start(tmp_path, "resume=run", *COMMAND)
    wait_for(process, lambda: list(run.glob("baseline/checkpoints/epoch00001*.npz")))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143 and "is damaged" in err, err
    assert err.splitlines()[-3:-1] == ["stopped by SIGTERM", "go on with:"]
    assert err.splitlines()[-1].endswith(f"{SCRIPT} resume=run")
    assert not (run / "pinn" / "checkpoints").exists() and not list(run.rglob("*.tmp"))

    done = fresh(tmp_path, SCRIPT, "resume=run")
    assert done.returncode == 0, done.stderr
    assert "pinn: is trained; its weights are loaded" in done.stderr
    assert results(run) == reference
    log = (run / "run.log").read_text()
    assert log.count("the run goes on") == 3 and "baseline: stopping after epoch" in log
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["resumed"] and manifest["training"]["baseline"]["checkpoint_s"] > 0

    before = files(run)
    again = fresh(tmp_path, SCRIPT, "resume=run")
    assert again.returncode == 0 and "run: is finished; nothing is left to do" in again.stderr
    assert files(run) == before


def test_a_stopped_sweep_names_how_to_go_on(tmp_path):
    process = start(tmp_path, "-m", "seed=0,1,2", *COMMAND, "output_dir=sweep")
    wait_for(process, lambda: list(tmp_path.glob("sweep/0_*/config.yaml")))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    lines = err.splitlines()
    commands = [shlex.split(line)[2:] for line in lines if str(SCRIPT) in line]
    (job,) = (tmp_path / "sweep").iterdir()
    assert commands[0] == [f"resume=sweep/{job.name}"]
    assert "then, for the 2 jobs of the sweep that had not started:" in lines
    for seed, command in enumerate(commands[1:], start=1):
        assert {f"seed={seed}", "N=32", "nepochs=2", "model.width=8", "xla.compile=False"} <= set(command)
        assert command[-1].startswith(f'output_dir="sweep/{seed}_') and "-m" not in command
