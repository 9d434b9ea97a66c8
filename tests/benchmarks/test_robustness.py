"""The study of imperfections: its cells, what is run, its table and its figure."""

import re

import pytest
import yaml
from helpers.study import calls, make_scripts, table_rows

from benchmarks.study import processes
from benchmarks.study.__main__ import HERE, KINDS, main
from benchmarks.study.framework import load

STUDY = {
    "kind": "robustness",
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


@pytest.fixture
def bench(tmp_path, monkeypatch):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    make_scripts(tmp_path)
    monkeypatch.setattr(processes, "SCRIPTS", tmp_path)
    return tmp_path


def run(bench, *words):
    return main([str(bench / "study.yaml"), *words, "--output", str(bench / "out")])


def test_the_study_of_the_repository_can_be_composed():
    study = load(HERE / "robustness.yaml", ["run+=models=[pinn]"], KINDS)
    cells = study.cells()
    assert [panel.name for panel in study.panels] == ["probe", "positions", "modes", "detector", "flux"]
    assert len(cells) == 12 and cells[0].groups == ("probe", "positions", "modes", "flux")
    study.check_due(cells)


def test_what_is_run(bench):
    assert run(bench) == 0
    made, out = calls(bench), bench / "out"
    assert [words[0] for words in made] == ["simulate_scan", "scan_workflow"] * 5
    assert made[2][1:] == [
        "imperfections.blob=0.1",
        "imperfections.defocus_um=1",
        "n_positions=50",
        f"output='{out}/probe_0.1/scan.cxi'",
        "overwrite=true",
    ]
    scan = f"data.file='{out}/detector_0/scan.cxi'"
    assert made[7][1:4] == ["solver.background=true", "models=[pinn]", scan]
    (row,) = [row for row in table_rows((out / "results.md").read_text()) if row[:2] == ["", "0.5"]]
    assert row[2:] == ["0.400 / 0.9900", "–", "–", "–", "solver 3, training 41, inference 2"]
    assert (out / "robustness.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "prob"], "--only=prob: must be a cell, a pattern of names .*, or one of probe, detector"),
        (["run+=output_dir=x"], "output_dir=overridden: must be left to the study"),
        (["run+=solver.stps=3"], r"solver.stps=3: unknown key; did you mean solver.steps\?"),
        (
            ["simulate+=imperfections.blob=11"],
            "imperfections.blob=11.0: must be a finite number from 0 to 10",
        ),
        (["run+=models=[lsqml]", "run+=iterative.python=/none"], r"/none: cannot be .*leave it out: run\+="),
    ],
)
def test_what_is_refused_before_anything_runs(bench, capsys, words, message):
    assert run(bench, *words) == 2 and not calls(bench)
    assert re.search(message, capsys.readouterr().err)
