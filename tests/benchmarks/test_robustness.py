"""The study of imperfections: its cells, what is kept and what is run again, its table and its figure."""

import json
import re

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT

from ptycho.config import ConfigError
from scripts.robustness import main
from workflows.robustness import Outcome, cells_of, check_cells, drawn, load_definition

STUDY = {
    "simulate": ["n_positions=50"],
    "run": ["models=[pinn]"],
    "curves": {"pinn": "network", "lsqml": "LSQ-ML"},
    "panels": [
        {
            "name": "probe",
            "axis": "blob",
            "strengths": [0.1, 0.5],
            "keys": {"imperfections.blob": [0.1, 0.5], "imperfections.defocus_um": [1, 5]},
        },
        {
            "name": "detector",
            "axis": "counts",
            "strengths": [3],
            "keys": {"imperfections.background": [3]},
            "run": ["solver.background=true"],
        },
    ],
}
STUB = """
import json, sys
from pathlib import Path

given = dict(word.replace("'", "").split("=", 1) for word in sys.argv[1:])
here = Path({here!r})
with (here / "calls").open("a") as calls:
    calls.write(" ".join([Path(sys.argv[0]).stem, *sys.argv[1:]]) + "\\n")
if "output" in given:
    Path(given["output"]).write_text("strength " + given.get("imperfections.blob", "0"))
    sys.exit()
if (here / "broken").exists() and "probe_0.5" in given["data.file"]:
    sys.exit("error: it broke")
blob = float(Path(given["data.file"]).read_text().split()[1])
run = Path(given["output_dir"])
run.mkdir(exist_ok=True)
scores = {{"ssim": [0.9 - blob, 0.99]}}
(run / "metrics.json").write_text(json.dumps({{"pinn": {{"against_the_files_object": scores}}}}))
steps = {{"solver": 3.0, "pinn": 2.0}}
manifest = {{"reconstruction_s": {{"scan": steps}}, "timings_s": {{"pinn_training": 41.0}}}}
(run / "manifest.json").write_text(json.dumps(manifest))
"""


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    for name in ("simulate_scan", "scan_workflow"):
        (tmp_path / f"{name}.py").write_text(STUB.format(here=str(tmp_path)))
    return tmp_path


def run(bench, *words):
    return main(
        ["--definition", str(bench / "study.yaml"), "--output", str(bench / "out"), *words], scripts=bench
    )


def calls(bench):
    made = (bench / "calls").read_text().splitlines() if (bench / "calls").exists() else []
    (bench / "calls").unlink(missing_ok=True)
    return made


def test_the_study_of_the_repository_can_be_composed(tmp_path):
    study = load_definition(ROOT / "conf/robustness.yaml")
    cells = cells_of(study, tmp_path, [], ["models=[pinn]"])
    assert [panel.name for panel in study.panels] == ["probe", "positions", "modes", "detector", "flux"]
    assert len(cells) == 15 and len(set(cells.values())) == 12
    assert sum(cell.name == "clean" for cell in cells.values()) == 4, "the detector's runs are others"
    check_cells(list(cells.values()), ROOT / "conf")


def test_what_is_run(bench):
    assert run(bench) == 0
    made = calls(bench)
    assert [line.split()[0] for line in made] == ["simulate_scan", "scan_workflow"] * 5
    out = bench / "out"
    assert made[2].split()[1:] == [
        "n_positions=50",
        "imperfections.blob=0.1",
        "imperfections.defocus_um=1",
        f"output='{out}/probe_0.1/scan.cxi'",
        "overwrite=true",
    ]
    assert made[7].split()[1:4] == [
        "models=[pinn]",
        "solver.background=true",
        f"data.file='{out}/detector_0/scan.cxi'",
    ]
    lines = (out / "results.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("|  | 0.5 |")]
    assert line == "|  | 0.5 | 0.400 / 0.9900 | – | – | – | 3 | 41 | 2 | – | – |"
    assert (out / "robustness.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((out / "results.json").read_text())["probe_0.1"]["ssim"]["pinn"] == [0.8, 0.99]


def test_finished_cells_are_kept_and_a_failure_stops_no_other(bench, capsys):
    (bench / "broken").touch()
    assert run(bench) == 1
    assert len(calls(bench)) == 10
    assert "probe_0.5 is not finished" in (bench / "out/results.md").read_text()
    (bench / "broken").unlink()
    assert run(bench, "--report-only") == 0 and not calls(bench)
    assert run(bench) == 0
    assert all("probe_0.5" in line for line in calls(bench)) and run(bench) == 0 and not calls(bench)
    assert run(bench, "--panels", "detector", "--override", "nepochs=3") == 2
    err = capsys.readouterr().err
    assert "detector_0: holds a finished cell that was made with other overrides; choose another" in err
    assert run(bench, "--panels", "detector", "--override", "nepochs=3", "--overwrite") == 0
    assert len(calls(bench)) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--panels", "prob"], "--panels=prob: must be drawn from probe, detector"),
        (["--override", "output_dir=x"], "output_dir=overridden: must be left to the study"),
        (["--override", "solver.stps=3"], "solver.stps=3: unknown key; did you mean solver.steps?"),
        (
            ["--simulate", "imperfections.blob=11"],
            "imperfections.blob=11.0: must be a finite number from 0 to 10",
        ),
        (
            ["--override", "models=[lsqml]", "iterative.python=/none"],
            "/none: cannot be run .*; or leave it out: --override",
        ),
    ],
)
def test_what_is_refused_before_anything_runs(bench, capsys, words, message):
    assert run(bench, *words) == 2 and not calls(bench)
    assert re.search(message, capsys.readouterr().err)


def test_a_definition_with_a_mistake(bench):
    panel = STUDY["panels"][0]
    for wrong, message in (
        (panel | {"keys": {"imperfections.blob": [1]}}, r"probe: imperfections.blob=\[1\]: must be 2 values"),
        (panel | {"strengths": [0, 1]}, r"strengths=\[0, 1\]: must be numbers above 0"),
        (panel | {"strength": 1}, "unknown key strength"),
    ):
        (bench / "study.yaml").write_text(yaml.safe_dump(STUDY | {"panels": [wrong]}, sort_keys=False))
        with pytest.raises(ConfigError, match=message):
            load_definition(bench / "study.yaml")


def test_the_figure_shows_the_scores(bench):
    study = load_definition(bench / "study.yaml")
    scores = {("probe", 0.0): (0.98, 0.9), ("probe", 0.1): (0.9, 0.8), ("probe", 0.5): None}
    found = {key: Outcome({"pinn": value}, {}, {}, {}) for key, value in scores.items()}
    figure = drawn(study, found | {("detector", 0.0): None, ("detector", 3): None})
    amplitude, phase, *lsqml = figure.axes[0].lines
    np.testing.assert_allclose(amplitude.get_ydata(), [0.02, 0.1, np.nan])
    np.testing.assert_allclose(phase.get_ydata(), [0.1, 0.2, np.nan])
    assert (amplitude.get_linestyle(), phase.get_linestyle()) == ("-", "--")
    assert np.isnan(lsqml[0].get_ydata()).all()
    assert figure.axes[0].get_ylim()[0] > figure.axes[0].get_ylim()[1], "better is higher"
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["0", "0.1", "0.5"]
