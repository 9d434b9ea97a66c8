"""The training of the denoiser: its scans, examples and windows, its continuation, and its result."""

import json
from functools import partial, partialmethod

import numpy as np
import pytest
import tensorflow as tf

from ptycho.config import XlaConfig
from ptycho.config.mapping import to_mapping
from ptycho.networks import denoiser
from ptycho.networks.layers import get_weights
from ptycho.run.folder import RunFolder
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import Stopped, StopRequest
from ptycho.training.loop import Training
from ptycho_pretrain import denoiser_training
from ptycho_pretrain.config import DenoiserConfig, MaterialsConfig, ScanFormConfig, ScansMeasurementConfig
from ptycho_pretrain.denoiser_examples import Example, Scans, make_example
from ptycho_pretrain.denoiser_training import DenoiserTraining, cut_window
from ptycho_pretrain.run import run

RIGHT = {"photons": (1e5, 1e6), "overlap": (0.6, 0.7), "probe_error_share": 0, "position_error_share": 0}
SHORT = (4, 12)  # steps of a fit
SMALL = partial(denoiser.new_denoiser, features=(4, 6, 8), blocks=(1, 1, 1))  # where its size does not matter


def config_of(**changes):
    values = {
        "steps": 4,
        "second": 2,
        "scans": 6,
        "scans_again": 5,
        "batch": 2,
        "window": 16,
        "probes": {"disk": {"diameter": [0.5, 0.6]}},
        "objects": {"polygons": {"size": [4, 10]}, "clouds": None},
        "materials": MaterialsConfig(phase_rad=(0.3, 1.0), absorption=(0.1, 0.5)),
        "measurement": ScansMeasurementConfig(**RIGHT),
        "forms": {"small": ScanFormConfig(N=16, patterns=(9, 12))},
        "xla": XlaConfig(compile=False),
    }
    return DenoiserConfig(**(values | changes))


@pytest.fixture(autouse=True)
def short_rows(monkeypatch):
    """Use two rows, the second with examples of both kinds; a training may stop after every step.

    Examples are from short fits, and validation has few batches.
    """
    monkeypatch.setattr(DenoiserTraining, "row", 2)
    error = partialmethod(DenoiserTraining.error, batches=3)
    monkeypatch.setattr(DenoiserTraining, "error", error)
    monkeypatch.setattr(denoiser_training, "make_example", partial(make_example, steps=SHORT))


def train(config, folder, checkpoints=None, stop=None):
    task = DenoiserTraining(config, folder)
    return task, Training(task, standard_callbacks(checkpoints, stop), read_s=0.0).run()


def test_object_and_change_are_the_truth_in_some_phase():
    scans = Scans(config_of())
    example, truth = make_example(scans, 1, steps=SHORT), scans.draw(1)[0].objects[0]
    shown = example.inputs[..., 0] + 1j * example.inputs[..., 2]
    there = shown + example.change[..., 0] + 1j * example.change[..., 1]
    illuminated = example.light[..., 0] > 0
    rows, columns = (np.flatnonzero(illuminated.any(axis=axis)) for axis in (1, 0))
    box = there[: rows[-1] + 1, : columns[-1] + 1]
    mask = illuminated[: len(box), : box.shape[1]]
    parts, one = np.lib.stride_tricks.sliding_window_view(truth, box.shape)[..., mask], box[mask]
    along = np.sum(parts.conj() * one, -1, keepdims=True) / np.sum(np.abs(parts) ** 2, -1, keepdims=True)
    misfit = np.abs(one - along * parts).max(axis=-1)
    assert np.count_nonzero(misfit < 1e-3 * np.abs(one).max()) == 1


def test_windows_turn_all_arrays_alike():
    rng = np.random.default_rng(0)
    change = rng.normal(size=(20, 12, 2)).astype("f")
    illumination = rng.uniform(0.1, 1, (20, 12, 1)).astype("f")
    doubled = np.stack([change[..., 0], 2 * change[..., 0], change[..., 1], 2 * change[..., 1]], axis=-1)
    example, drawn = Example(doubled, 3 * illumination, change, illumination), set()
    for _ in range(40):
        inputs, relative, cut, illuminated = cut_window(example, 16, rng)
        assert illuminated.shape == (16, 16, 1) and np.count_nonzero(illuminated) == 16 * 12
        np.testing.assert_array_equal(relative, 3 * illuminated)
        np.testing.assert_array_equal(inputs[..., [0, 2]], cut)
        np.testing.assert_array_equal(inputs[..., [1, 3]], 2 * cut)
        values = set(np.round(np.abs(cut[illuminated[..., 0] > 0]).ravel(), 5))
        assert values <= set(np.round(np.abs(change).ravel(), 5))
        drawn.add((float(np.sign(cut[..., 1].sum())), illuminated[0, 0, 0] > 0, illuminated[-1, -1, 0] > 0))
    assert len(drawn) > 3


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(denoiser_training, "make_example", partial(make_example, steps=SHORT))
        DenoiserTraining(config_of(), folder).make_examples(0)
    return folder


def copied(examples, folder):
    folder.mkdir()
    for path in examples.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


class Eager:
    """TensorFlow without tracing of functions."""

    function = staticmethod(lambda **_: lambda function: function)

    def __getattr__(self, name):
        return getattr(tf, name)


@pytest.fixture
def eagerly(monkeypatch):
    """Run without tracing, which would take most of the time for each training and each size.

    The fits of examples stay graphs, which they share.
    """
    monkeypatch.setattr(denoiser_training, "tf", Eager())
    monkeypatch.setattr(denoiser_training, "compiled", lambda model: lambda x, nu: model([x, nu]))


def test_an_interrupted_training_ends_as_one_that_was_not(examples, tmp_path, eagerly, monkeypatch):
    """It ends bit for bit alike, even if it was stopped while examples of the second kind were made."""
    monkeypatch.setattr(denoiser_training, "new_denoiser", SMALL)
    monkeypatch.setattr(denoiser_training, "cores", lambda: 1)  # the last example is not begun at the stop
    config = config_of()
    through, history = train(config, copied(examples, tmp_path / "through"))
    assert [(row["epoch"], row["step"]) for row in history.rows] == [(1, 2), (2, 4)]
    assert all(row["error"] > 0 and row["val_error"] > 0 for row in history.rows)
    folder, checkpoints = copied(examples, tmp_path / "again"), tmp_path / "checkpoints"
    stop = StopRequest()

    def pause():
        if (folder / "1-1.npz").exists():
            raise Stopped(15)

    with pytest.raises(Stopped):
        task = DenoiserTraining(config, folder, pause)
        store = Checkpoints(checkpoints, to_mapping(config), 1e9)
        Training(task, standard_callbacks(store, stop), read_s=0.0).run()
    assert not (folder / "1-4.npz").exists()
    again, _ = train(config, folder, Checkpoints(checkpoints, to_mapping(config), 1e9))
    np.testing.assert_equal(get_weights(again.model), get_weights(through.model))
    for number in range(config.scans_again):
        one, other = (Example.load(path / f"1-{number}.npz") for path in (folder, tmp_path / "through"))
        np.testing.assert_array_equal(one.inputs, other.inputs)


def test_the_workflow_writes_weights_and_a_card(examples, tmp_path, eagerly, monkeypatch):
    """The training may end before it has fits of its first version; the card then says so."""
    for module in (denoiser, denoiser_training):
        monkeypatch.setattr(module, "new_denoiser", SMALL)
    config, path = config_of(output_dir=str(tmp_path / "run"), second=99), tmp_path / "run"
    folder = RunFolder(path)
    folder.config(config)
    copied(examples, path / "examples")
    run(config, folder, StopRequest())
    card = (path / "card.md").read_text()
    count = denoiser.load_denoiser(path / "prior" / "weights.npz").count_params()
    assert f"{count:,} parameters (float32), 4 steps from seed 0" in card
    assert "photons [100000.0, 1000000.0]" in card
    assert json.loads((path / "metrics.json").read_text())["error_left"]["learned"] > 0
    assert not (path / "examples").exists() and not (path / "prior" / "checkpoints").exists()
