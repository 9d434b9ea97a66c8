"""The same scan, method and settings give one row of scores, from the command line and from Python."""

import json

import pytest
from helpers.cli import ROOT
from helpers.quick import NOTHING_SELECTED, words_of

import ptycho
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

SETTINGS = NOTHING_SELECTED | {"steps": 6}
pytestmark = pytest.mark.usefixtures("read_rightly_once")


@pytest.fixture(scope="module")
def command_line(tmp_path_factory, in_process_once, read_rightly_once):
    folder = tmp_path_factory.mktemp("both")
    file = folder / "scan.cxi"
    simulate_scan(SimulateConfig(output=str(file), N=32, n_positions=36, nphotons=3e4, seed=2))
    keys = [
        *words_of(SETTINGS),
        f"data.file={file}",
        "data.N=32",
        f"output_dir={folder / 'run'}",
        "run=pretrained",
    ]
    script = ROOT / "scripts/scan_workflow.py"
    code, _, err = in_process_once(script, *keys, "xla.compile=false", cwd=folder)
    assert code == 0, err
    assert not (folder / "run/pinn").exists(), "a network that was not trained was stored"
    return file, json.loads((folder / "run/metrics.json").read_text())


@pytest.mark.parametrize("method", ["solver", "pinn"])
def test_a_method_gives_the_same_row(command_line, method):
    file, metrics = command_line
    scan = ptycho.open_scan(file, N=32)
    settings = SETTINGS | {"error_map": method == metrics["product"], "compile_xla": False}
    made = ptycho.reconstruct(scan, method, progress=False, **settings)
    scores = dict(made.scores)
    assert scores.pop("half_scan_frc") == metrics["half_scan_frc"]
    row = dict(metrics[method])
    assert scores.pop("reference_comparison", None) == row.pop("reference_comparison", None)
    assert json.loads(json.dumps(scores)) == row
