"""A run of the version before is read; former keys on the command line mean what they meant."""

import json

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT
from helpers.run_folders import write_run

import ptycho
from ptycho.config.former_names import warn_of
from ptycho.report.gather import gather
from ptycho.run.scan_table import row_of
from ptycho.run.stored_config import read_job
from workflows.command_line.console import main

SCAN, COMPARE, REPORT = (ROOT / "scripts" / f"{name}.py" for name in ("scan_workflow", "compare", "report"))


@pytest.fixture(autouse=True)
def _nothing_was_said():
    warn_of.cache_clear()


def write_former(path, deviance=1.2):
    """A run as the version before wrote it: its keys, scores, flags and arrays by their names then."""
    run = write_run(path, name="a")
    config = yaml.safe_load((run / "config.yaml").read_text())
    del config["holdout_fraction"]
    config["free_fraction"] = 0.05
    config["probe"]["kind"] = "own"
    config["data"] |= {"position_slips": config["data"].pop("position_jumps"), "orientation": "format"}
    for name in ("regulariser", "denoiser_weights", "regularisation_weight"):
        config["solver"].pop(name)
    config["solver"] |= {"prior": "edges", "prior_weights": None, "strength": 3.0, "position_model": "free"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    metrics = {
        "solver": {
            **{"r_factor": 0.08, "r_free": 0.09, "r_noise": 0.07, "deviance": 1.1},
            **{"deviance_free": deviance, "missed": 0.5, "flags": ["patterns_unexplained"]},
        },
        "understood": {"N": ["16", "the whole detector"]},
        "product": "solver",
    }
    (run / "metrics.json").write_text(json.dumps(metrics))
    arrays = dict(np.load(run / "assessment.npz"))
    arrays["given_positions"] = arrays.pop("nominal_positions")
    arrays["kept_out"] = arrays.pop("held_out")
    for name in ("patterns", "deviance"):
        arrays[f"solver_free_{name}"] = arrays.pop(f"solver_holdout_{name}")
    (run / "assessment.npz").unlink()
    np.savez(run / "judged.npz", **arrays)
    return run


def test_a_former_run_is_read_by_report_and_compare(in_process, tmp_path):
    run, other = write_former(tmp_path / "one"), write_former(tmp_path / "two", 1.3)
    record = gather(run)
    assert not any("npz" in line or "config" in line for line in record.missing)
    assert record.metrics["solver"]["unexplained_variance"] == 0.5
    assert set(record.scan.assessment) >= {"nominal_positions", "held_out", "solver_holdout_deviance"}
    assert row_of(run)["flags"] == "poor_fit"
    code, _, err = in_process(REPORT, run)
    assert code == 0 and "is called" not in err, err
    page = (run / "report.html").read_text()
    assert "poor_fit" in page and "patterns_unexplained" not in page and "the whole detector" in page
    code, _, err = in_process(COMPARE, run, other, "output=both.html")
    assert code == 0, err
    assert "deviance_holdout" in (tmp_path / "both.csv").read_text()


def test_a_former_run_is_resumed_with_the_configuration_that_it_had(tmp_path, caplog):
    job = read_job(write_former(tmp_path / "run"))
    assert (job.holdout_fraction, job.probe.kind, job.data.orientation) == (0.05, "from_file", "as_stored")
    solver = job.solver
    assert (solver.regulariser, solver.regularisation_weight) == ("edge_preserving", 3.0)
    assert solver.position_model == "independent" and caplog.records == []


def test_former_keys_of_the_command_line_give_one_warning_each(in_process):
    former = ("free_fraction=0.1", "solver.prior=edges", "probe=own", "solver.strength=2", "data.file=a.cxi")
    today = (
        *("holdout_fraction=0.1", "solver.regulariser=edge_preserving", "probe=from_file"),
        *("solver.regularisation_weight=2", "data.file=a.cxi"),
    )
    code, out, err = in_process(SCAN, "--cfg", "job", *former)
    assert code == 0 and (code, out) == in_process(SCAN, "--cfg", "job", *today)[:2]
    lines = [line for line in err.splitlines() if "is called" in line]
    assert len(lines) == 5  # three keys, and two values
    assert sum("free_fraction is called holdout_fraction now" in line for line in lines) == 1


def test_a_file_with_former_keys_is_taken(in_process, tmp_path):
    """What a study of the version before has left: tuned/best.yaml."""
    (tmp_path / "tuned").mkdir()
    text = "# @package _global_\nsolver: {prior: magic}\nfree_fraction: 0.2\n"
    (tmp_path / "tuned/best.yaml").write_text(text)
    words = (f"--config-dir={tmp_path}", "+tuned=best", "data.file=a.cxi", "output_dir=out")
    code, _, err = in_process(SCAN, *words)
    assert code == 2 and "solver.prior is called solver.regulariser now" in err
    assert "error: solver.regulariser=magic: must be one of none" in err


def test_the_former_command_still_works(monkeypatch, caplog, capsys):
    monkeypatch.setattr("sys.argv", ["ptycho"])
    with pytest.raises(SystemExit) as stop:
        main(["lines", "--cfg", "job"])
    assert stop.value.code == 0 and "gridsize: 2" in capsys.readouterr().out
    assert "ptycho lines is called ptycho grid-lines now" in caplog.text
    with pytest.raises(SystemExit) as stop:
        main(["train-prior", "window=18"])
    assert stop.value.code == 2 and "error: window=18: must be a multiple of 4" in capsys.readouterr().err
    assert "ptycho train-prior is called ptycho pretrain network=denoiser now" in caplog.text


def test_the_former_names_of_python_are_taken(caplog):
    scan = ptycho.simulate(32, 9)
    assert scan.understood is scan.geometry
    with pytest.raises(ptycho.ConfigError, match=r"holdout_fraction=0\.9: must be .* from 0 to 0\.5"):
        ptycho.reconstruct(scan, free_fraction=0.9)
    with pytest.raises(ptycho.ConfigError, match=r"^regulariser=magic: must be one of"):
        ptycho.reconstruct(scan, prior="magic")
    for name in ("Scan.understood", "free_fraction", "prior"):
        assert sum(record.getMessage().startswith(f"{name} is called") for record in caplog.records) == 1
