"""Pretraining: its continuation, its result, its configuration and its script."""

import json

import numpy as np
import pytest
from helpers.cli import ROOT
from helpers.pretraining import config_of

import ptycho
from ptycho.config import TrainConfig, UnrolledModel
from ptycho.config.mapping import to_mapping
from ptycho.networks.layers import get_weights
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import Stopped, StopRequest
from ptycho.training.loop import Training
from ptycho_pretrain.config import MaterialsConfig, PretrainConfig
from ptycho_pretrain.pretraining import Pretraining, form_name, object_error

SCRIPT = ROOT / "scripts" / "pretrain.py"


def pretrain(config, checkpoints=None, stop=None):
    training = Pretraining(config)
    return training, Training(training, standard_callbacks(checkpoints, stop), read_s=0.0).run()


def interrupt_after(monkeypatch, steps, config, checkpoints):
    """Send a signal during the step with the number ``steps``, counted from one."""
    stop, count, real = StopRequest(), iter(range(1, 10**6)), Pretraining.step

    def step(training, batch):
        if next(count) == steps:
            stop.signum = 15
        return real(training, batch)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Pretraining, "step", step)
        pretrain(config, checkpoints, stop)


def checkpoints_of(config, folder):
    return Checkpoints(folder, to_mapping(config), 1e9)


def test_an_interrupted_training_ends_as_one_that_was_not(tmp_path, monkeypatch, eagerly):
    """It ends bit for bit alike for any division of its steps into rows, which hold geometric means."""
    config = config_of("group", "single", model=UnrolledModel(stages=1, width=4, misfit=True))
    monkeypatch.setattr(Pretraining, "row", 1)
    through, errors = pretrain(config)
    assert len(errors.rows) == 12
    monkeypatch.setattr(Pretraining, "row", 4)
    interrupt_after(monkeypatch, 6, config, checkpoints_of(config, tmp_path))
    assert max(path.name for path in tmp_path.iterdir()) == "epoch00001-step0000002.npz"
    again, history = pretrain(config, checkpoints_of(config, tmp_path))
    np.testing.assert_equal(get_weights(again.model), get_weights(through.model))
    np.testing.assert_equal(get_weights(again.stored), get_weights(again.model))  # what is kept is trained
    assert [(row["epoch"], row["step"]) for row in history.rows] == [(1, 4), (2, 8), (3, 12)]
    for k, row in enumerate(history.rows):
        for form in config.forms:
            name = form_name(form)
            found = [single[name] for single in errors.rows[4 * k : 4 * k + 4] if name in single]
            assert (name in row) == bool(found), "a form that did not come up has no value"
            if found:
                assert row[name] == pytest.approx(np.prod(found) ** (1 / len(found)), rel=1e-6)


def test_a_training_lowers_the_error_of_examples_that_it_has_not_seen(within):
    """Untrained, the network is the bare iteration."""
    config = config_of(
        "group",
        steps=150,
        train=TrainConfig(learning_rate=6e-3, warmup_fraction=0.05),
        model=UnrolledModel(stages=1, width=8, misfit=True),
        materials=MaterialsConfig(phase_rad=(0.5, 0.6), bright=0.0, unrelated=0.0),
        objects={"grains": {"size": [4, 6]}},
        probes={"zone_plate": {"diameter": [0.5, 0.5], "reach": [0.3, 0.3], "stop": [0.2, 0.2]}},
    )
    training = Pretraining(config)
    (form,) = config.forms
    unseen = [training.examples.draw_batch(form, np.random.default_rng([1, k])) for k in range(8)]

    def errors():
        inputs = ([batch[key] for key in ("x", "offsets", "probe", "start")] for batch in unseen)
        every = [(training.model(*each), batch) for each, batch in zip(inputs, unseen, strict=True)]
        return np.concatenate(
            [object_error(found, batch["target"], batch["illumination"]) for found, batch in every]
        )

    before = errors()
    Training(training).run()
    after = errors()
    within("error after a pretraining, of that before", np.mean(after) / np.mean(before), below=0.95)
    within("errors of new examples", np.abs(training.measure_errors(form, 8) / after - 1).max(), below=1e-3)


TINY = (
    *("steps=3", "maps=2", "map_side=40", "model.stages=1", "model.width=4", "xla.compile=false"),
    *("batches.four.N=16", "batches.four.batch=2", "batches.four.reach=5", "batches.single.N=16"),
    *("~batches.many", "~batches.large", "~batches.large_single", "~batches.modes"),
)


def test_a_pretraining_through_the_command_line(tmp_path, in_process):
    code, _, err = in_process(SCRIPT, *TINY, "output_dir=run")
    assert code == 0, err
    run = tmp_path / "run"
    expected = {"config.yaml", "manifest.json", "metrics.json", "run.log", "pinn"}
    assert expected <= {path.name for path in run.iterdir()}
    model = ptycho.load_model(run)
    assert isinstance(model.config, PretrainConfig) and model.config.steps == 3
    description = json.loads((run / "pinn" / "model.json").read_text())
    assert description["complete"]
    with np.load(run / "pinn" / "weights.npz") as weights:
        assert description["parameters"] == sum(weights[name].size for name in weights)
    rng = np.random.default_rng(0)
    row, col = np.mgrid[:32, :32] - 16
    probe = np.exp(-(row**2 + col**2) / 60 + 0.01j * row * col)
    offsets = np.array([[-3.5, 1.0], [2.0, -2.5]], np.float32)
    regions = model.predict(np.sqrt(rng.poisson(20.0, (3, 2, 32, 32))), offsets, probe, photon_scale=10.0)
    assert regions.shape == (3, 39, 39) and np.isfinite(regions).all() and np.abs(regions).max() > 0
    single = model.predict(np.sqrt(rng.poisson(20.0, (2, 16, 16))), probe=model.probe)
    assert single.shape == (2, 16, 16) and np.isfinite(single).all()
    code, _, err = in_process(SCRIPT, "resume=run")
    assert code == 0 and "is finished; nothing is left to do" in err


@pytest.mark.parametrize(
    "overrides, message",
    [
        ("horizon=9", r"error: horizon=9: must be null, or at least steps = 13000"),
        ("+objects.clouds.blur=[1,2]", r"error: objects.clouds.blur=[1, 2]: must be removed; known are"),
        ("network=denoiser window=18", r"error: window=18: must be a multiple of 4"),
    ],
)
def test_a_bad_value_is_one_line(overrides, message, in_process, tmp_path):
    code, _, err = in_process(SCRIPT, *overrides.split(" "), "output_dir=run")
    assert code == 2 and len(err.splitlines()) == 1 and err.startswith(message)
    assert not (tmp_path / "run").exists()
