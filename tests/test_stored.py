"""A stored configuration: read back exactly, and every way in which the file can be wrong."""

import dataclasses

import pytest
import yaml

from ptycho import config as cfg
from ptycho.config import ConfigError, RunConfig
from ptycho.conversion import from_mapping, to_mapping
from ptycho.stored import read_config

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
