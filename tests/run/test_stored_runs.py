"""Configuration, networks and hashes of a run: read back as written; each fault is refused in one line."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import yaml
from helpers.cli import files

from ptycho import config as cfg
from ptycho.config import ConfigError, RunConfig
from ptycho.config.mapping import from_mapping, to_mapping
from ptycho.files.atomic import sha256
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, read_history, read_network, write_network
from ptycho.run.record import damaged, problem, read_record
from ptycho.run.stored_run import FOLDER, is_finished, read_config
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


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.probe.kind)
def test_a_configuration_survives_its_file(tmp_path, config):
    RunFolder(tmp_path).config(config)
    assert read_config(tmp_path) == config
    assert from_mapping(to_mapping(config)) == config


@pytest.mark.parametrize(
    "former, now",
    [
        ({"object": {"kind": "lines"}}, RunConfig()),
        ({"stitch": {"passes": 7, "method": "grid"}}, RunConfig(stitch=cfg.StitchConfig(method="grid"))),
        ({"train": {"tensorboard": True}}, RunConfig()),
        ({"object": {"kind": "blobs"}}, r"config\.yaml: object\.kind=blobs: unknown key"),
    ],
    ids=str,
)
def test_a_key_that_is_gone_may_have_had_no_effect(tmp_path, former, now):
    values = to_mapping(RunConfig())
    values |= {section: values[section] | keys for section, keys in former.items()}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    if isinstance(now, RunConfig):
        assert read_config(tmp_path) == now
    else:
        with pytest.raises(ConfigError, match=now):
            read_config(tmp_path)


def test_the_pretrained_network_is_read_without_the_part_that_trains_it(monkeypatch):
    full = read_config(FOLDER)
    monkeypatch.setitem(sys.modules, "ptycho_pretrain.config", None)
    alone = read_config(FOLDER)
    assert type(alone) is cfg.GeneralConfig and alone.networks == full.networks == ("pinn",)
    stored, known = to_mapping(full), to_mapping(alone)
    assert stored["steps"] == 13000 and known == {key: stored[key] for key in known}


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


def changed(name, change):
    """Return a function that changes the bytes of a file of the run; None removes it."""

    def spoil(run):
        content = change and change((run / name).read_bytes())
        (run / name).write_bytes(content) if content is not None else (run / name).unlink()

    return spoil


def removed(name):
    return changed(name, None)


def config_with(old, new):
    def replace_once(text):
        assert old in text
        return text.replace(old, new, 1)

    return changed("config.yaml", replace_once)


def arrays_with(name, arrays, recorded=True):
    """Write other arrays; ``recorded``: with their hashes, as if the run had written them."""

    def spoil(run):
        np.savez(run / "pinn" / name, **arrays)
        if recorded:
            hashes = {f"pinn/{file}": sha256(run / "pinn" / file) for file in ("weights.npz", "setup.npz")}
            (run / "files.json").write_text(json.dumps(hashes))
            (run / "pinn/model.json").write_text(json.dumps({"weights_sha256": hashes["pinn/weights.npz"]}))

    return spoil


def weights_with(recorded=True, **changes):
    return arrays_with("weights.npz", WEIGHTS | {f"pinn/{key}": w for key, w in changes.items()}, recorded)


def setup_with(recorded=True, **changes):
    return arrays_with("setup.npz", replace(SETUP, **changes).arrays(), recorded)


OBJECTS = np.empty((2, 2), object)
CASES = {
    "no config.yaml": (removed("config.yaml"), r": holds no run; there is no config.yaml in it"),
    "config.yaml is no YAML": (config_with(b"N: 32", b"N: [32"), r"config.yaml: is damaged \(.* line \d"),
    "config.yaml cut short": (changed("config.yaml", lambda _: b"N: 32\n"), r"is incomplete; it lacks basel"),
    "another key": (config_with(b"stages:", b"stage:"), r"model.stage=8: unknown key; did you mean model.st"),
    "no network": (lambda run: shutil.rmtree(run / "pinn"), r"holds no trained network"),
    "weights cut short": (
        changed("pinn/weights.npz", lambda content: content[: len(content) // 2]),
        r"weights.npz: not a readable .npz \(it is cut short",
    ),
    "other type": (
        changed("pinn/weights.npz", lambda content: content.replace(b"<f4", b"<i4")),
        r"weights.npz: pinn/kernel is damaged",
    ),
    "NaN weights": (weights_with(bias=np.float32([np.nan])), r"pinn/bias holds NaN or infinity"),
    "other weights": (weights_with(False, bias=np.float32([2])), r"has another SHA-256 than files.json says"),
    "weights are objects": (weights_with(False, x=OBJECTS), r"pinn/x .* Python objects"),
    "model.json of another network": (
        changed("pinn/model.json", lambda _: b'{"weights_sha256": "0"}'),
        r"model.json: speaks of other weights than weights.npz holds",
    ),
    "files.json is garbage": (changed("files.json", lambda _: b"{"), r"files.json: is damaged"),
    "setup with NaN": (setup_with(photon_scale=np.nan), r"setup.npz: photon_scale, normalisation = \(nan"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_run_is_refused_in_one_line_and_not_changed(run, name):
    spoil, message = CASES[name]
    spoil(run)
    before = files(run)
    with pytest.raises(ConfigError, match=rf"^{run}.*{message}") as caught:
        read_network(run, "pinn")
    assert str(caught.value).isprintable() and files(run) == before


def test_what_is_wrong_with_recorded_files(run):
    folder = RunFolder(run, resumed=True)
    folder.arrays("datasets/N32/gs2/test.npz", {"a": np.ones(3)})
    record = read_record(run)
    hashed = {name for name, digest in record.items() if digest}
    assert hashed == {"pinn/weights.npz", "pinn/setup.npz", "datasets/N32/gs2/test.npz"}
    assert damaged(run) == [] and problem(run, "not/recorded.npz", record) is None
    (run / "pinn" / "setup.npz").unlink()
    (run / "datasets/N32/gs2/test.npz").write_bytes(b"")
    changed, gone = sorted(damaged(run))
    assert changed.startswith("datasets/N32/gs2/test.npz: has another SHA-256 than files.json says; it was")
    assert gone == "pinn/setup.npz: no such file"


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}', " " * (2**20 + 1)], ids=["", "", "", "large"])
def test_a_damaged_record_is_refused(tmp_path, content):
    assert read_record(tmp_path) == {}
    (tmp_path / "files.json").write_text(content)
    with pytest.raises(ConfigError, match=r"files.json: is damaged \(.*\); remove it to go on without"):
        read_record(tmp_path)
    (tmp_path / "files.json").write_text(json.dumps({"a": "b"}))
    assert read_record(tmp_path) == {"a": "b"}
