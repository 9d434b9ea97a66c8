"""A measured scan from its file to an image; the file is made from a simulated scan."""

import json
from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from helpers.cli import ROOT
from helpers.quick import NOTHING_SELECTED, words_of
from PIL import Image

from conftest import try_no_other_reading
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.run.scan_plan import plan
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

SCRIPT, INSPECT = ROOT / "scripts" / "scan_workflow.py", ROOT / "scripts" / "inspect_scan.py"
KNOWN = (*words_of(NOTHING_SELECTED), "probe.learn=false")
TOLD = (*KNOWN, "solver.steps=8")
SMALL = (
    "group_size=2",
    "nepochs=2",
    "batch_size=8",
    "model.stages=1",
    "model.width=8",
    "xla.compile=false",
    "train.learning_rate=2e-3",
)

QUICK = (*TOLD, *SMALL, "solver.error_map=false")


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    """A file of the published program: 121 patterns off the pixel grid, counts, probe, object."""
    path = tmp_path_factory.mktemp("scan") / "scan.npz"
    sizes = {"N": 32, "n_positions": 121, "step_px64": 8.0, "nphotons": 1e6}
    simulate_scan(SimulateConfig(output=str(path), format="npz", path="jittered", **sizes))
    return path


@pytest.fixture(scope="module")
def finished(scan, tmp_path_factory, in_process_once):
    folder = tmp_path_factory.mktemp("measured")
    words = (f"data.file={scan}", "data.domain=amplitude", *KNOWN, "solver.steps=30", *SMALL)
    with pytest.MonkeyPatch.context() as patch:
        try_no_other_reading(patch)
        words += (f"output_dir={folder / 'run'}",)
        code, _, err = in_process_once(SCRIPT, *words, cwd=folder, pictures=True)
    assert code == 0, err
    return folder / "run"


def test_a_run_is_scored_without_the_truth(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    for row in (metrics["pinn"], metrics["solver"]):
        assert 0 < row["r_factor"] < 0.5 and 0 < row["r_free"] < 0.5
        assert row["uncovered_fraction"] < 0.05
    assert metrics["half_scan_frc"]["frc50"] is None or metrics["half_scan_frc"]["frc50"] > 0.3
    assert metrics["conventions"] == "docs/scores.md"
    assert min(metrics["solver"]["reference_comparison"]["ssim"]) > 0.9  # against the object of the file
    assert metrics["findings"]["groups"][0].endswith("of 2")


def test_a_run_begins_from_an_earlier_one(scan, finished, in_process, tmp_path):
    """It has half of the patterns; nothing is aligned or selected again."""
    words = (f"data.file={scan}", "data.domain=amplitude", f"start={finished}", "data.stride=2")
    quick = (*TOLD, "solver.error_map=false", "xla.compile=false")
    code, _, err = in_process(SCRIPT, *words, *quick, f"output_dir={tmp_path / 'run'}")
    assert code == 0, err
    before, after = (json.loads((run / "metrics.json").read_text()) for run in (finished, tmp_path / "run"))
    assert after["findings"]["start"][0].endswith("positions of 61 of 61 patterns")
    assert after["findings"]["solver: regulariser"] == ["edge_preserving, λ 1", "specified"]
    assert "geometry" not in json.loads((tmp_path / "run/manifest.json").read_text())["timings_s"]
    assert after["solver"]["r_factor"] < 1.1 * before["solver"]["r_factor"]
    code, _, err = in_process(SCRIPT, *words[:2], "start=elsewhere", f"output_dir={tmp_path / 'other'}")
    assert code == 2 and "start=elsewhere: there is no elsewhere" in err and len(err.splitlines()) == 1


def test_the_product_has_an_error_map_and_nothing_else_has(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    product = metrics["product"]
    assert {key for key, row in metrics.items() if "error_map" in (row or {})} == {product}
    assert 0 < metrics[product]["error_map"]["phase_rad"] < 1
    for picture in ("error_map", "quality"):
        assert Image.open(finished / f"visuals/{picture}.png").size[0] > 800
    assert (finished / "report.html").stat().st_size > 50_000
    assert not list(finished.rglob("*.tmp"))
    for path in (finished / "recons").glob("*/recon.npz"):
        with np.load(path) as held:
            assert ("sigma_phase" in held) == (path.parent.name == product)
    with h5py.File(finished / "product.h5") as file:
        assert file["sigma_phase"].shape == file["object"].shape


@pytest.mark.usefixtures("read_rightly")
def test_a_trained_network_is_trained_on(finished, scan, in_process, tmp_path):
    """A further epoch starts from the weights of the other run, not from new ones."""
    code, _, err = in_process(
        SCRIPT,
        f"data.file={scan}",
        "data.domain=amplitude",
        f"run={finished}",
        "nepochs=1",
        *(text for text in QUICK if not text.startswith(("model.", "nepochs="))),
        f"output_dir={tmp_path / 'tuned'}",
    )
    assert code == 0, err
    first, after = (_losses(run) for run in (finished, tmp_path / "tuned"))
    assert after[0] < 0.5 * (first[0] + first[-1])
    stored = (tmp_path / "tuned/config.yaml").read_text()
    assert "stages: 1" in stored and "nepochs: 1" in stored


def _losses(run):
    lines = (run / "pinn/history.csv").read_text().splitlines()
    column = lines[0].split(",").index("loss")
    return [float(line.split(",")[column]) for line in lines[1:]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "data.file='': must be the path"),
        (["data.file=[{scan},b.npz]", "nepochs=1"], "a network is trained on one scan; start a run on one"),
        (["data.file={scan}", "models=[baseline]"], "no truth to train a baseline"),
        (["data.file={scan}", "stitch=grid"], "stitch=grid: unknown key"),
        (["data.file={scan}", "run={run}", "model=unet"], "remove the keys of model"),
        (["data.file={scan}", "data.drop=[100000]"], "data.drop=100000: must be from 0"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(in_process, scan, finished, tmp_path, changes, message):
    given = [change.format(scan=scan, run=finished) for change in changes]
    code, _, err = in_process(SCRIPT, *given, "output_dir=out", blocked=("tensorflow",))
    assert code == 2
    lines = [line for line in err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1 and message in lines[0], err
    assert not (tmp_path / "out").exists()


def test_inspection_prints_findings_and_changes_nothing(in_process, scan, tmp_path):
    before = scan.read_bytes()
    words = (scan, "data.domain=amplitude", "output=look.png")
    code, out, _ = in_process(INSPECT, *words, blocked=("tensorflow",))
    assert code == 0
    assert all(word in out for word in ("ptychopinn", "object pixel: unknown", "picture: look.png"))
    assert Image.open(tmp_path / "look.png").size[0] > 1000
    assert scan.read_bytes() == before
    code, _, err = in_process(INSPECT, tmp_path / "none.h5")
    assert code == 2 and err.count("error:") == 1


def test_a_run_is_planned(scan, monkeypatch):
    """Without run and nepochs the pretrained network is used, in tiles; a disk that is full is refused."""
    asked = ScanRunConfig(data=DataConfig(file=str(scan), domain="amplitude"), models=("pinn",))
    config = plan(asked)
    assert (config.run, config.nepochs, config.tiles) == ("pretrained", 0, True)
    assert config.group_size == 64 and config.model.memory
    monkeypatch.setattr("ptycho.preparation.dataset.shutil.disk_usage", lambda place: SimpleNamespace(free=9))
    with pytest.raises(
        ConfigError, match=r"disk: a copy of the 121 patterns takes .*set output_dir to a folder"
    ):
        plan(replace(asked, output_dir="not/there"))
