"""Configuration, networks and hashes of a run: exact round trip, and every fault of a file."""

import json

import numpy as np
import pytest
import yaml

from ptycho import config as cfg
from ptycho.config import ConfigError, RunConfig
from ptycho.config.mapping import from_mapping, to_mapping
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, read_history, read_network, write_network
from ptycho.run.record import damaged, problem, read_record
from ptycho.run.stored_run import is_finished, read_config
from ptycho.scan.probe import make_probe

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


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.probe.kind)
def test_a_configuration_survives_its_file(tmp_path, config):
    assert read_config(stored(tmp_path, config)) == config
    assert from_mapping(to_mapping(config)) == config


def test_a_key_that_is_gone_may_have_had_no_effect(tmp_path):
    def former(kind):
        return lambda values: values.replace("object:\n", f"object:\n  kind: {kind}\n")

    assert read_config(stored(tmp_path, text=former("lines"))) == RunConfig()
    with pytest.raises(ConfigError, match=r"config\.yaml: object\.kind=blobs: unknown key"):
        read_config(stored(tmp_path, text=former("blobs")))

    def stitched(method):
        by = f"stitch:\n  passes: 7\n  method: {method}\n"
        return lambda values: values.replace("stitch:\n  method: probe\n", by)

    for method, now in (("grid", "grid"), ("refined", "probe")):
        assert read_config(stored(tmp_path, text=stitched(method))).stitch.method == now


WRONG = [
    (lambda values: "", r"is damaged \(it must hold a configuration"),
    (lambda values: values.replace("N: 64", "N: [64"), r"is damaged \(.* line \d"),
    (
        lambda values: values.replace("stages:", "stage:"),
        r"model.stage=8: unknown key; did you mean model.st",
    ),
    (lambda values: values.replace("N: 64", "N: 65"), r"N=65: must be a power of two"),
    (lambda values: "N: 64\n", r"is incomplete; it lacks baseline, imperf"),
    (lambda values: values[: values.index("stitch:")] + "stitch:\n", r"stitch=null: must be a section"),
]


@pytest.mark.parametrize("text, message", WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_configuration_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        read_config(stored(tmp_path, text=text))
    assert str(caught.value).startswith(f"{tmp_path / 'config.yaml'}: ")
    assert "\n" not in str(caught.value)


def test_a_missing_or_unreadable_configuration_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=rf"{tmp_path}: holds no run; there is no config.yaml in it"):
        read_config(tmp_path)
    (tmp_path / "config.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match=r"is damaged"):
        read_config(tmp_path)


@pytest.mark.parametrize("metrics, manifest, finished", [("{}", "{}", False), ('{"a": 1}', '{"b": 2}', True)])
def test_a_run_is_finished_when_its_last_files_can_be_read(tmp_path, metrics, manifest, finished):
    assert not is_finished(tmp_path)
    (tmp_path / "metrics.json").write_text(metrics)
    assert not is_finished(tmp_path)
    (tmp_path / "manifest.json").write_text(manifest)
    assert is_finished(tmp_path) == finished
    (tmp_path / "metrics.json").write_text('{"a": 1')
    assert not is_finished(tmp_path)


CONFIG = RunConfig(N=32, size=96, offset=6)
WEIGHTS = {"pinn/kernel": np.arange(6, dtype=np.float32).reshape(2, 3), "pinn/bias": np.float32([0.5])}
ROWS = [{"epoch": 1, "loss": 0.25}, {"epoch": 2, "loss": 1e-30}]
SETUP = Setup(
    probe=make_probe(cfg.ZonePlateProbe(), 32),
    photon_scale=1 / 3,
    normalisation=0.7,
    region_size=41,
    group_size=4,
    offsets=np.float32([[-3, -3], [-3, 3], [3, -3], [3, 3]]),
    support=30,
)


@pytest.fixture
def run(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.config(CONFIG)
    write_network(folder, "pinn", WEIGHTS, {"complete": True}, ROWS)
    folder.arrays("pinn/setup.npz", SETUP.arrays())
    return folder.path


def test_a_network_survives_its_files(run):
    stored = read_network(run, "pinn")
    assert (stored.name, stored.config, stored.run) == ("pinn", CONFIG, run)
    assert stored.description["complete"] and read_history(run, "pinn") == ROWS
    assert stored.weights.keys() == WEIGHTS.keys()
    for key, value in WEIGHTS.items():
        assert stored.weights[key].dtype == np.float32
        np.testing.assert_array_equal(stored.weights[key], value)
    for key, value in SETUP.arrays().items():
        np.testing.assert_array_equal(getattr(stored.setup, key), value, err_msg=key)


DAMAGED = [
    ("weights.npz", lambda content: content[:-30], r"weights.npz: not a readable .npz \(it is cut short"),
    ("weights.npz", lambda content: content.replace(b"<f4", b"<i4"), r"weights.npz: pinn/kernel is damaged"),
    ("weights.npz", lambda content: content + b"x", r"weights.npz: has another SHA-256 than files.json says"),
    ("setup.npz", lambda content: content[:300], r"setup.npz: not a readable .npz"),
    ("model.json", lambda content: b"{}", r"model.json: is damaged \(it states no weights_sha256\)"),
    (
        "model.json",
        lambda content: b'{"weights_sha256": "0"}',
        r"model.json: speaks of other weights than weights.npz holds",
    ),
]


@pytest.mark.parametrize(
    "file, change, message", DAMAGED, ids=lambda value: value if "npz" in str(value) else ""
)
def test_a_damaged_network_is_refused_in_one_line(run, file, change, message):
    path = run / "pinn" / file
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ConfigError, match=rf"^{run}/pinn: {message}.*$"):
        read_network(run, "pinn")


def test_a_damaged_history_is_refused(run):
    path = run / "pinn" / "history.csv"
    path.write_text(path.read_text() + "3,none\n")
    with pytest.raises(ConfigError, match=rf"^{path}: is damaged \(could not convert"):
        read_history(run, "pinn")
    path.unlink()
    with pytest.raises(ConfigError, match=rf"^{path}: is damaged \(.*No such file"):
        read_history(run, "pinn")


def test_what_is_wrong_with_recorded_files(run):
    folder = RunFolder(run, resumed=True)
    folder.arrays("datasets/N32/gs2/test.npz", {"a": np.ones(3)})
    record = read_record(run)
    hashed = {name for name, digest in record.items() if digest}
    assert hashed == {"pinn/weights.npz", "pinn/setup.npz", "datasets/N32/gs2/test.npz"}
    assert damaged(run) == [] and problem(run, "not/recorded.npz", record) is None
    (run / "pinn" / "setup.npz").unlink()
    (run / "datasets/N32/gs2/test.npz").write_bytes(b"")
    changed = "datasets/N32/gs2/test.npz: has another SHA-256 than files.json says; it was changed or damaged"
    assert sorted(damaged(run)) == [changed, "pinn/setup.npz: no such file"]


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}', " " * (2**20 + 1)], ids=["", "", "", "large"])
def test_a_damaged_record_is_refused(tmp_path, content):
    assert read_record(tmp_path) == {}
    (tmp_path / "files.json").write_text(content)
    with pytest.raises(ConfigError, match=r"files.json: is damaged \(.*\); remove it to go on without"):
        read_record(tmp_path)
    (tmp_path / "files.json").write_text(json.dumps({"a": "b"}))
    assert read_record(tmp_path) == {"a": "b"}
