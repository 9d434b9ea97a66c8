"""The study of zero-shot reconstruction: its definition, its scans, its cells, what is kept, its report."""

import copy
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT

from ptycho.config import ConfigError, PretrainConfig, UnrolledModel, XlaConfig
from ptycho.config.pretrain_config import BatchConfig, MaterialsConfig
from ptycho.evaluation import metrics
from ptycho.networks import build_pinn
from ptycho.networks.geometry import Geometry
from ptycho.networks.weights import get_weights
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, write_network
from ptycho.simulation.kind_scans import KindScan, kind_scan
from ptycho.simulation.kinds import Entry
from scripts.study import main
from workflows.zero_shot.cells import scored_region
from workflows.zero_shot.definition import BOTH, METHODS, ONE, is_zero_shot, load_definition
from workflows.zero_shot.methods import METHODS as FUNCTIONS

RING = {"kind": "ring", "diameter": [0.4, 0.5], "width": [0.3, 0.4]}
STUDY = {
    "run": "somewhere",
    "group_size": 4,
    "passes": 2,
    "methods": ["zero_shot", "refined", "tuned1", "lsqml"],
    "tuning": {"group_size": 2, "batch_size": 8},
    "probes": {"ring": RING, "disk": {"kind": "disk", "trained": True, "diameter": [0.4, 0.5]}},
    "objects": {"foam": {"kind": "foam", "size": [6, 10]}},
    "materials": {"mixed": {"phase_rad": [0.8, 1.2], "absorption": [0.3, 0.5], "unrelated": 0, "bright": 0}},
    "scans": {"fermat": {"path": "fermat", "overlap": 0.6}},
    "usual": {
        "probes": ["ring", "disk"],
        "objects": ["foam"],
        "materials": ["mixed"],
        "scans": ["fermat"],
        "photons": ["1e6"],
        "N": [32],
        "positions": 40,
    },
    "panels": [{"name": "kinds", "title": "kinds"}, {"name": "rings", "title": "rings", "probes": ["ring"]}],
}


def scan(**changes):
    settings = {
        "probe": Entry("ring", 1.0, {"diameter": (0.4, 0.5), "shift": (0.05, 0.05)}),
        "object": Entry("foam", 1.0, {"size": (6.0, 10.0)}),
        "material": MaterialsConfig((0.8, 1.2), (0.3, 0.5), 0.0, 0.0),
        "path": "fermat",
        "overlap": 0.6,
        "photons": 1e9,
        "N": 32,
        "positions": 20,
        "seed": 3,
    }
    return KindScan(**(settings | changes))


def write(folder, study):
    path = folder / "zero.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return path


# ---- the definition


def test_the_study_of_the_repository():
    study = load_definition(ROOT / "conf/zero_shot.yaml")
    cells = study.cells()
    assert [*cells] == ["kinds", "doses", "materials", "sizes", "large"]
    assert len(cells["kinds"]) == 8 * 5
    trained = yaml.safe_load((ROOT / "conf/pretrain.yaml").read_text())
    for key in ("probes", "objects"):
        for name, one in getattr(study, key).items():
            assert one.trained == (one.entry.kind in trained[key]), name
    assert tuple(study.methods) == METHODS == tuple(FUNCTIONS)
    names = {cell.name: cell.settings for some in cells.values() for cell in some}
    assert all(names[cell.name] == cell.settings for some in cells.values() for cell in some)
    doses = {cell.scan.photons: cell.scan.seed for cell in cells["doses"]}
    assert [*doses] == [1e4, 1e6, 1e8] and len(set(doses.values())) == 1
    assert len({cell.scan.seed for cell in cells["kinds"]}) == 40


def test_what_is_held_out(tmp_path):
    cells = load_definition(write(tmp_path, STUDY)).cells()
    assert [cell.held_out for cell in cells["kinds"]] == [BOTH, ONE]
    assert cells["kinds"][0] == cells["rings"][0]


@pytest.mark.parametrize(
    "keys, value, message",
    [
        (("probes", "ring", "kind"), "square", r"probes\.ring\.kind=square: must be one of zone_plate, "),
        (("probes", "ring", "radius"), [1, 2], r"probes\.ring\.ring\.radius=.*left out; known are .*width"),
        (("probes", "ring", "width"), [0.1, 0.2], r"probes\.ring\.ring\.width=.*within \[0\.15, 0\.5\]"),
        (("probes", "ring", "weight"), 2, r"probes\.ring\.weight=2: must be left out"),
        (("objects", "foam", "trained"), "yes", r"objects\.foam\.trained=yes: must be true or false"),
        (("objects",), ["foam"], r"objects=.*: must be a section of named entries"),
        (("probes", "a/b"), RING, r"probes=a/b: must be named by letters"),
        (
            ("materials", "mixed", "phase_rad"),
            1.0,
            r"materials\.mixed\.phase_rad=1\.0: must be \[low, high\]",
        ),
        (("materials", "mixed", "colour"), 1.0, r"materials\.mixed\.colour=1\.0: must be \[low, high\]"),
        (("materials", "mixed", "bright"), 2, r"materials\.bright=2: must be a finite number from 0 to 1"),
        (("scans", "fermat", "path"), "walk", r"panels\.kinds: path=walk: must be one of fermat, "),
        (("scans", "fermat", "overlap"), 1.5, r"panels\.kinds: overlap=1\.5: must be from 0 to 0\.98"),
        (("scans", "fermat", "step"), 1, r"scans\.fermat: unknown key step; known are path, overlap"),
        (("usual", "photons"), ["many"], r"usual\.photons=.*must be numbers"),
        (("usual", "probes"), ["square"], r"usual\.probes=square: must be one of ring, disk"),
        (("usual", "positions"), 12, r"positions=12: must be at least 16"),
        (("panels",), [], r"panels=\[\]: must be a non-empty list"),
        (("methods",), ["magic"], r"methods=magic: must be drawn from zero_shot"),
        (("tuning", "learning_rate"), 2, r"tuning\.learning_rate=2: must be between 0 and 1"),
        (("colour",), 1, r"unknown key colour; known are run"),
    ],
)
def test_a_wrong_definition_is_named(tmp_path, capsys, keys, value, message):
    study = copy.deepcopy(STUDY)
    section = study
    for key in keys[:-1]:
        section = section[key]
    section[keys[-1]] = value
    path = write(tmp_path, study)
    with pytest.raises(ConfigError, match=message):
        load_definition(path)
    assert main(["--definition", str(path), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1 and not (tmp_path / "out").exists()


def test_which_studies_are_of_this_kind(tmp_path):
    kinds = {name: is_zero_shot(ROOT / f"conf/{name}.yaml") for name in ("zero_shot", "study", "robustness")}
    assert kinds == {"zero_shot": True, "study": False, "robustness": False}
    assert not is_zero_shot(tmp_path / "nothing.yaml")


def test_mistakes_are_answered_without_tensorflow(tmp_path):
    path = write(tmp_path, STUDY)
    code = (
        "import sys; from scripts.study import main; "
        f"code = main(['--definition', {str(path)!r}, '--output', {str(tmp_path / 'out')!r}]); "
        "assert code == 2 and 'tensorflow' not in sys.modules, code"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "somewhere" in done.stderr


@pytest.mark.parametrize(
    "words, message",
    [
        (["--methods", "magic"], "--methods=magic: must be drawn from zero_shot"),
        (["--panels", "none"], "--panels=none: must be drawn from kinds, rings"),
        (["--methods", "lsqml"], "--methods=lsqml: needs --ptychi"),
    ],
)
def test_wrong_options(tmp_path, capsys, words, message):
    path = write(tmp_path, STUDY)
    assert main(["--definition", str(path), "--output", str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err


# ---- the scan


def test_a_scan_against_a_slow_loop():
    data = kind_scan(scan())
    N, axis = data.N, np.arange(data.N)
    dft = np.exp(-2j * np.pi * np.outer(axis - N // 2, axis) / N) / np.sqrt(N)  # zero frequency at N//2
    shares = []
    for j in (0, 7, 19):
        row, col = data.positions[j].astype(float)
        top, left = round(row), round(col)
        far = dft @ data.probe[0].astype(complex) @ dft.T
        ramp = np.exp(-2j * np.pi * (axis - N // 2) / N)
        far = far * ramp[:, None] ** (row - top) * ramp[None, :] ** (col - left)
        probe = dft.conj().T @ far @ dft.conj()
        wave = probe * data.objects[0, top : top + N, left : left + N]
        expected = data.photon_scale**2 * np.abs(dft @ wave @ dft.T) ** 2
        counted = data.amplitudes[j].astype(float) ** 2
        assert np.abs(counted - np.rint(counted)).max() < 1e-2 * np.sqrt(counted.max())
        many = expected > 100
        shares.append(np.mean((counted[many] - expected[many]) ** 2 / expected[many]))
    assert np.allclose(shares, 1, atol=0.2), "Poisson's variance is its mean"
    assert abs(np.sum(data.amplitudes[:].astype(float) ** 2) / (20 * 1e9) - 1) < 1e-3


def test_a_scan_is_decided_by_its_settings():
    one, same, noisier = kind_scan(scan()), kind_scan(scan()), kind_scan(scan(photons=1e4))
    assert np.array_equal(one.amplitudes[:], same.amplitudes[:])
    assert np.array_equal(one.objects, noisier.objects) and np.array_equal(one.probe, noisier.probe)
    assert not np.array_equal(one.objects[:, :60, :60], kind_scan(scan(seed=4)).objects[:, :60, :60])
    assert one.exact and one.objects.shape == (1, one.object_size, one.object_size)
    with pytest.raises(ConfigError, match=r"photons=0: must be from 1 to 1e12"):
        scan(photons=0)


def test_the_scored_region_lies_between_the_probes():
    data = kind_scan(scan(path="snake", positions=36))
    region = scored_region(data)
    assert min(region.height, region.width) >= metrics.SSIM_WINDOW
    centres = data.positions + data.N / 2
    for place, length, axis in ((region.top, region.height, 0), (region.left, region.width, 1)):
        assert centres[:, axis].min() - 3 < place < place + length < centres[:, axis].max() + 3
    with pytest.raises(ConfigError, match="positions=4: must be more, or farther apart"):
        scored_region(kind_scan(scan(positions=4, overlap=0.9)))


# ---- the study


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder with a network that nobody has trained."""
    folder = RunFolder(tmp_path_factory.mktemp("run") / "net")
    model = UnrolledModel(stages=1, width=4, blocks=0, misfit=True)
    config = PretrainConfig(
        model=model,
        xla=XlaConfig(compile=False),
        probes={"disk": {}},
        objects={"lines": {}},
        batches={"one": BatchConfig(N=32, C=1, batch=1, reach=1)},
    )
    network = build_pinn(config, Geometry(32, 34, 1, 32))
    setup = Setup(kind_scan(scan()).probe[0], 1.0, 1.0, 32, 1, np.zeros((1, 2), np.float32), 32)
    folder.config(config)
    folder.arrays("pinn/setup.npz", setup.arrays())
    write_network(folder, "pinn", get_weights(network), {"complete": True}, [{"epoch": 1, "loss": 1.0}])
    return folder.path


def test_a_study_from_its_first_cell_to_its_report(run, tmp_path, capsys, caplog, within):
    caplog.set_level("INFO")
    words = [
        "--definition",
        str(write(tmp_path, STUDY)),
        "--output",
        str(tmp_path / "out"),
        "--run",
        str(run),
    ]
    assert main([*words, "--panels", "rings", "--methods", "zero_shot"]) == 0
    assert main(words) == 0
    assert "lsqml is left out; --ptychi names a Python" in caplog.text
    out = tmp_path / "out"
    cells = {path.stem: json.loads(path.read_text()) for path in (out / "cells").glob("*.json")}
    assert sorted(cells) == [f"{p}-foam-mixed-fermat-1e06-N32-J40" for p in ("disk", "ring")]
    for name, cell in cells.items():
        assert [*cell["methods"]] == ["zero_shot", "refined", "tuned1"], name
        zero, refined = cell["methods"]["zero_shot"], cell["methods"]["refined"]
        within("SSIM gained by refinement", refined["ssim"][0] - zero["ssim"][0], above=0.0)
        within("R refined over R", refined["r_factor"] / zero["r_factor"], below=1.0)
        assert 0 < zero["r_noise"] < zero["r_factor"]
        assert cell["methods"]["tuned1"]["epochs"] == 1
        with np.load(out / f"cells/{name}.npz") as images:
            assert images["truth"].shape == images["refined"].shape == images["tuned1"].shape
    report = (out / "results.md").read_text()
    assert f"## All cells, {BOTH}" in report and "## rings" in report and "not done" not in report
    (line,) = [
        line for line in report.splitlines() if line.startswith("| `refined` | 1 |") and "ring-" in line
    ]
    shown = cells["ring-foam-mixed-fermat-1e06-N32-J40"]["methods"]["refined"]["ssim"]
    assert line.split(" | ")[2:6] == [f"{shown[0]:.4f}"] * 2 + [f"{shown[1]:.4f}"] * 2
    assert json.loads((out / "results.json").read_text())["summary"][BOTH]["refined"]["cells"] == 1
    for name in ("heat_map", "worst"):
        assert (out / f"{name}.png").read_bytes()[:4] == b"\x89PNG"

    caplog.clear()
    assert main(words) == 0 and "2 cells: 0 to do" in caplog.text
    (out / "cells/disk-foam-mixed-fermat-1e06-N32-J40.json").unlink()
    assert main([*words, "--report-only"]) == 0 and "not done" in (out / "results.md").read_text()

    capsys.readouterr()
    other = shutil.copy(write(tmp_path, STUDY | {"passes": 3}), tmp_path / "other.yaml")
    changed = ["--definition", str(other), *words[2:]]
    assert main(changed) == 2
    assert "was made with other settings (study); choose another --output" in capsys.readouterr().err
    assert main([*changed, "--overwrite", "--panels", "rings", "--methods", "zero_shot"]) == 0
    remade = json.loads((out / "cells/ring-foam-mixed-fermat-1e06-N32-J40.json").read_text())
    assert remade["settings"]["study"]["passes"] == 3 and [*remade["methods"]] == ["zero_shot"]
