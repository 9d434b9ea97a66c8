"""A stored configuration or network: read back exactly, and every way in which the files can be wrong."""

import dataclasses

import numpy as np
import pytest
import yaml

from ptycho import config as cfg
from ptycho.config import ConfigError, RunConfig
from ptycho.config.mapping import from_mapping, to_mapping
from ptycho.run.folder import RunFolder
from ptycho.run.stored_config import read_config, read_model

CONFIGS = [
    RunConfig(),
    RunConfig(
        output_dir="runs/a b", models=("baseline",), max_groups_train=None, nphotons=1e15, seed=2**32 - 1
    ),
    RunConfig(probe=cfg.ZonePlateProbe(defocus_um=-1 / 3), model=cfg.UNetModel(object_big=True)),
    RunConfig(
        test_probe=cfg.IdealDiskProbe(),
        probe=cfg.FileProbe(file="no: 'such' #file.npz", mask_diameter_px=0.1),
    ),
]


def stored(folder, config=None, text=None):
    values = yaml.safe_dump(to_mapping(config or RunConfig()), sort_keys=False)
    (folder / "config.yaml").write_text(values if text is None else text(values))
    return folder


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.probe.KIND)
def test_a_configuration_survives_its_file(tmp_path, config):
    assert read_config(stored(tmp_path, config)) == config
    assert from_mapping(to_mapping(config)) == config


def test_a_key_that_an_older_file_lacks_has_its_default(tmp_path):
    stored(
        tmp_path, text=lambda values: values.replace("  blocks: 1\n", "").replace("test_probe: null\n", "")
    )
    assert read_config(tmp_path) == RunConfig()


WRONG = [
    (lambda values: "", r"is damaged \(it must hold a configuration"),
    (lambda values: "just a text", r"is damaged \(it must hold"),
    (lambda values: values.replace("N: 64", "N: [64"), r"is damaged \(.* line 2"),
    (lambda values: "\x00" + values, r"is damaged \(unacceptable character"),
    (lambda values: "a: 2001-13-01", r"is damaged \(month must be in 1..12"),
    (lambda values: values + "nn: 3\n", r"nn=3: unknown key"),
    (
        lambda values: values.replace("stages:", "stage:"),
        r"model.stage=8: unknown key; did you mean model.st",
    ),
    (lambda values: values.replace("N: 64", "N: 65"), r"N=65: must be a power of two"),
    (lambda values: values.replace("N: 64", "N: abc"), r"N=abc: must be an integer"),
    (lambda values: values.replace("kind: lines", "kind: dots"), r"object.kind=dots: must be one of lines"),
    (lambda values: values[: values.index("stitch:")], r"is incomplete; it lacks stitch"),
    (lambda values: values[: values.index("  method")], r"stitch=null: must be a section of keys"),
    (
        lambda values: values[: values.index("mae_weight")],
        r"is incomplete; it lacks baseline, model, .*",
    ),
]


@pytest.mark.parametrize("text, message", WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_config(stored(tmp_path, text=text))
    assert str(caught.value).startswith(f"{tmp_path / 'config.yaml'}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_or_unreadable_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"holds no run; there is no config.yaml in it"):
        read_config(tmp_path)
    with pytest.raises(ConfigError, match=r"none: holds no run"):
        read_config(tmp_path / "none")
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigError, match=r"config.yaml: cannot be read \(Is a directory\)"):
        read_config(tmp_path)
    (tmp_path / "config.yaml").rmdir()
    (tmp_path / "config.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match=r"is damaged"):
        read_config(tmp_path)


def test_every_key_of_the_configuration_is_stored():
    values = to_mapping(RunConfig())
    assert values.keys() == {field.name for field in dataclasses.fields(RunConfig)}
    assert values["probe"]["kind"] == "ideal_disk" and values["models"] == ["pinn", "baseline"]


# ---- a stored network

WEIGHTS = {"pinn/kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "pinn/bias": np.float32([0.5])}
ROWS = [{"epoch": 1, "loss": 0.25}]


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.model("pinn", WEIGHTS, {"complete": True}, ROWS)
    return folder.path


def test_a_network_survives_its_files(run):
    stored = read_model(run, "pinn")
    assert stored.weights.keys() == WEIGHTS.keys() and stored.rows == ROWS and stored.description["complete"]
    for key, value in WEIGHTS.items():
        assert stored.weights[key].dtype == np.float32
        np.testing.assert_array_equal(stored.weights[key], value)


@pytest.mark.parametrize("file", ["weights.npz", "history.csv", "model.json"])
def test_a_network_that_lacks_a_file_is_not_there(run, file):
    (run / "pinn" / file).unlink()
    assert read_model(run, "pinn") is None


DAMAGED = [
    ("weights.npz", lambda content: content[:-30], r"/weights.npz: not a readable .npz \(it is cut short"),
    ("weights.npz", lambda content: b"", r"/weights.npz: not a readable .npz \(it is empty\)"),
    ("weights.npz", lambda content: content.replace(b"<f4", b"<i4"), r"/weights.npz: pinn/kernel is damaged"),
    ("history.csv", lambda content: content + b"2,none\n", r": is damaged \(could not convert"),
    ("model.json", lambda content: content[:20], r": is damaged \("),
    ("model.json", lambda content: b"{}", r": is damaged \('weights_sha256'\)"),
    ("model.json", lambda content: b'{"weights_sha256": "0"}', r": is damaged \(weights.npz has another SHA"),
]


@pytest.mark.parametrize("file, change, message", DAMAGED)
def test_a_damaged_network_is_refused_in_one_line(run, file, change, message):
    path = run / "pinn" / file
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ConfigError, match=rf"^{run}/pinn{message}.*$"):
        read_model(run, "pinn")


def test_weights_that_are_no_real_numbers_are_refused(run):
    for array, what in ((np.array([{}]), "holds Python objects"), (np.arange(3), "must be real numbers")):
        np.savez(run / "pinn" / "weights.npz", kernel=array)
        with pytest.raises(ConfigError, match=rf"^{run}/pinn/weights.npz: kernel \(\d,\) .*{what}"):
            read_model(run, "pinn")
