"""A damaged folder of a run is refused in one line, and nothing in it changes."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.cli import files

from conftest import small_run
from ptycho.config import ConfigError, UnrolledModel
from ptycho.files.atomic import sha256
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, read_network, regular_offsets, write_network
from ptycho.run.stored_run import run_folder
from ptycho.scan.probe import make_probe

CONFIG = small_run(models=("pinn",), model=UnrolledModel(stages=2, width=8))
SETUP = Setup(
    probe=make_probe(CONFIG.probe, CONFIG.N),
    photon_scale=30.0,
    normalisation=0.01,
    region_size=CONFIG.region_size,
    group_size=CONFIG.group_size,
    offsets=regular_offsets(CONFIG.offset, CONFIG.group_size),
    support=CONFIG.N,
)
WEIGHTS = {"pinn/generator/level": np.ones((), np.float32), "pinn/generator/a/b": np.ones(3, np.float32)}
OBJECTS = np.empty((2, 2), object)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    run = RunFolder(tmp_path_factory.mktemp("good") / "run")
    run.config(CONFIG)
    write_network(run, "pinn", WEIGHTS, {}, [])
    run.arrays("pinn/setup.npz", SETUP.arrays())
    return run.path


def written(name, content):
    data = content.encode() if isinstance(content, str) else content
    return lambda run: (run / name).write_bytes(data)


def removed(name):
    return lambda run: (run / name).unlink()


def cut(name):
    return lambda run: (run / name).write_bytes((run / name).read_bytes()[: (run / name).stat().st_size // 2])


def config_with(old, new):
    def spoil(run):
        text = (run / "config.yaml").read_text()
        assert old in text
        (run / "config.yaml").write_text(text.replace(old, new, 1))

    return spoil


def recorded(run):
    """Write the hashes of the present files into ``files.json`` and ``model.json``."""
    record = {f"pinn/{name}": sha256(run / "pinn" / name) for name in ("weights.npz", "setup.npz")}
    (run / "files.json").write_text(json.dumps(record))
    (run / "pinn" / "model.json").write_text(json.dumps({"weights_sha256": record["pinn/weights.npz"]}))


def weights_with(rehash=True, **changes):
    def spoil(run):
        weights = WEIGHTS | {key.replace("__", "/"): value for key, value in changes.items()}
        np.savez(run / "pinn" / "weights.npz", **weights)
        if rehash:
            recorded(run)

    return spoil


def setup_with(rehash=True, **changes):
    def spoil(run):
        np.savez(run / "pinn" / "setup.npz", **replace(SETUP, **changes).arrays())
        if rehash:
            recorded(run)

    return spoil


LEVEL = "pinn__generator__level"
CASES = {
    "no config.yaml": (removed("config.yaml"), r"holds no run; there is no config.yaml in it"),
    "config.yaml is no YAML": (written("config.yaml", "a: [1"), r"config.yaml: is damaged"),
    "config.yaml is binary": (written("config.yaml", b"\x00\xff\xfe"), r"config.yaml: is damaged"),
    "config.yaml runs code": (
        written("config.yaml", "!!python/object/apply:os.abort []"),
        r"config.yaml: is damaged",
    ),
    "config.yaml cut short": (cut("config.yaml"), r"config.yaml: .*(incomplete|damaged|must be)"),
    "config.yaml of 2 MB": (written("config.yaml", "#" * 2**21), r"is damaged .it has more than 1048576"),
    "another key": (config_with("N: 32", "N: 32\nnn: 3"), r"config.yaml: nn=3: unknown key"),
    "another N": (config_with("N: 32", "N: 64"), r"setup.npz: probe has shape \(32, 32\); must"),
    "N=1000": (config_with("N: 32", "N: 1000"), r"config.yaml: N=1000: must be a power"),
    "no network": (lambda run: shutil.rmtree(run / "pinn"), r"holds no trained network"),
    "no weights": (removed("pinn/weights.npz"), r"pinn: weights.npz: no such file"),
    "weights cut short": (cut("pinn/weights.npz"), r"weights.npz: not a readable .npz"),
    "weights are text": (written("pinn/weights.npz", "weights"), r"weights.npz: not a readable .npz"),
    "NaN weights": (weights_with(**{LEVEL: np.float32(np.nan)}), r"level holds NaN or infinity"),
    "other weights": (weights_with(False, **{LEVEL: np.float32(2)}), r"weights.npz: has another SHA-256"),
    "weights are objects": (weights_with(False, pinn__x=OBJECTS), r"pinn/x .* Python objects"),
    "model.json is garbage": (written("pinn/model.json", "{"), r"model.json: is damaged"),
    "model.json without hash": (written("pinn/model.json", "{}"), r"model.json: is damaged .*no weights_sha"),
    "model.json of another network": (
        written("pinn/model.json", '{"weights_sha256": "0"}'),
        r"model.json: speaks of other weights than weights.npz holds",
    ),
    "model.json of brackets": (written("pinn/model.json", "[" * 99999), r"model.json: is damaged"),
    "files.json is garbage": (written("files.json", "{"), r"files.json: is damaged"),
    "files.json of numbers": (written("files.json", '{"a": 1}'), r"is damaged .*names and hashes"),
    "no setup": (removed("pinn/setup.npz"), r"setup.npz: no such file"),
    "setup cut short": (cut("pinn/setup.npz"), r"setup.npz: not a readable .npz"),
    "changed setup": (setup_with(False, photon_scale=31.0), r"setup.npz: has another SHA-256"),
    "setup with NaN": (setup_with(photon_scale=np.nan), r"setup.npz: photon_scale, normalisation = \(nan"),
    "odd support": (setup_with(support=31), r"setup.npz: support=31; must be even and at most"),
    "another group": (setup_with(group_size=9), r"setup.npz: group_size=9, .* config.yaml makes"),
    "no groups": (setup_with(offsets=np.zeros((0, 2))), r"setup.npz: group_size=4, .* 0 offsets"),
}


def test_the_good_folder_is_read(good):
    assert read_network(run_folder(str(good)), "pinn").setup.group_size == CONFIG.group_size


@pytest.mark.parametrize("name", CASES)
def test_refused(good, tmp_path, name):
    spoil, message = CASES[name]
    run = shutil.copytree(good, tmp_path / "run")
    spoil(run)
    before = files(run)
    with pytest.raises(ConfigError, match=message) as caught:
        read_network(run_folder(str(run)), "pinn")
    assert str(caught.value).isprintable() and files(run) == before
