"""A run of the version before is read; former keys on the command line mean what they meant."""

import hashlib
import json
import re
import shutil

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT
from helpers.published import N, published, spot
from helpers.run_folders import write_run
from omegaconf import OmegaConf

import ptycho
from ptycho.config.former_names import ARRAYS, FILES, FLAGS, KEYS, SCORES, VALUES, warn_of
from ptycho.config.mapping import flat
from ptycho.report.gather import gather
from ptycho.run.scan_table import row_of
from ptycho.run.stored_config import read_job
from workflows.command_line.console import main
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

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


# ---- a whole run: each command works, or refuses in one line

NAME_OF = {name: former for table in (SCORES, FLAGS, ARRAYS) for former, name in table.items()}
TINY = (
    *("probe.learn=false", "solver.positions=false", "solver.flux=false", "solver.background=false"),
    *("solver.regulariser=edge_preserving", "solver.regularisation_weight=1", "solver.steps=3"),
    *("solver.error_map=false", "nepochs=1", "batch_size=8", "model.stages=1", "model.width=4"),
    *("xla.compile=false", "data.orientation=as_stored", "denoise=false"),
)


def renamed(value):
    """Keys and words of JSON under their former names, wherever they stand."""
    if isinstance(value, dict):
        return {NAME_OF.get(key, key): renamed(entry) for key, entry in value.items()}
    return [renamed(entry) for entry in value] if isinstance(value, list) else NAME_OF.get(value, value)


def renamed_config(config):
    """The configuration under former keys and values."""
    flattened = flat(config)
    for path, words in VALUES.items():
        back = {name: former for former, name in words.items()}
        if path in flattened:  # a group has no key of its own
            flattened[path] = back.get(flattened[path], flattened[path])
    former = {name: key for key, name in KEYS.items()}
    found = OmegaConf.create()
    for path, value in flattened.items():
        OmegaConf.update(found, former.get(path, path), value)
    return OmegaConf.to_container(found)


def to_former(run):
    """Rewrite the files of a run by the table, read backwards."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump(renamed_config(config)))
    (run / "metrics.json").write_text(json.dumps(renamed(json.loads((run / "metrics.json").read_text()))))
    record = json.loads((run / "files.json").read_text())
    ends = re.compile(rf"(?:(?<=_)|^)({'|'.join(ARRAYS.values())})$")
    for name, former in FILES.items():
        arrays = {ends.sub(lambda end: NAME_OF[end[1]], key): one for key, one in np.load(run / name).items()}
        np.savez(run / former, **arrays)
        (run / name).unlink()
        del record[name]
        record[former] = hashlib.sha256((run / former).read_bytes()).hexdigest()
    (run / "files.json").write_text(json.dumps(record))
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory, in_process_once, read_rightly_once):
    """The file of a scan, and a finished run on it with a network, as the version before left it."""
    folder = tmp_path_factory.mktemp("former")
    words = SimulateConfig(output=str(folder / "scan.npz"), N=32, n_positions=64, nphotons=1e6, seed=2)
    simulate_scan(words)
    keys = (f"data.file={folder / 'scan.npz'}", *TINY, f"output_dir={folder / 'run'}")
    code, _, err = in_process_once(SCAN, *keys, cwd=folder)
    assert code == 0, err
    return folder / "scan.npz", to_former(folder / "run")


def test_the_run_has_former_names_alone(whole):
    """Else the tests that follow would try nothing."""
    config, row = (whole[1] / name for name in ("config.yaml", "metrics.json"))
    assert {"free_fraction", "data.position_slips", "solver.prior"} <= set(
        flat(yaml.safe_load(config.read_text()))
    )
    assert {"missed", "deviance_free"} <= set(json.loads(row.read_text())["solver"])
    assert {"solver_free_deviance", "kept_out"} <= set(np.load(whole[1] / "judged.npz").files)


@pytest.mark.parametrize(
    "script, words, made",
    [
        ("report", ["{run}", "output=page.html"], "page.html"),
        ("compare", ["{run}", "{other}", "output=both.html"], "both.csv"),
        ("infer", ["run={run}", "data={data}", "output_dir=new"], "new/recons/pinn/recon.npz"),
        ("export_scan", ["run={run}", "output=out.h5"], "out.h5"),
        ("export_scan", ["run={run}", "output=new.h5", "recon=pinn"], "new.h5"),
    ],
)
def test_a_command_takes_a_former_run(whole, in_process, tmp_path, script, words, made):
    run = whole[1]
    if script == "compare":
        shutil.copytree(run, tmp_path / "other")
    if script == "infer":
        disk = np.hypot(*(np.mgrid[:N, :N] - (N - 1) / 2)) < 8
        np.savez(
            tmp_path / "data.npz", **published([spot(40, 44)], disk.astype(complex), [(20, 20), (24, 28)])
        )
    given = [word.format(run=run, other=tmp_path / "other", data=tmp_path / "data.npz") for word in words]
    code, _, err = in_process(ROOT / "scripts" / f"{script}.py", *given)
    assert code == 0 and "Traceback" not in err, err
    assert (tmp_path / made).exists()


def test_a_former_run_is_resumed(whole, in_process, tmp_path):
    """A finished one says so; of one without scores they are made, under the names of today."""
    run = shutil.copytree(whole[1], tmp_path / "run")
    code, _, err = in_process(SCAN, f"resume={run}")
    assert code == 0 and "is finished; nothing is left to do" in err, err
    (run / "manifest.json").unlink()
    (run / "metrics.json").unlink()
    code, _, err = in_process(SCAN, f"resume={run}")
    assert code == 0, err
    assert "deviance_holdout" in json.loads((run / "metrics.json").read_text())["solver"]


def test_a_scan_takes_probe_and_network_of_a_former_run(whole, in_process, tmp_path):
    scan, run = whole
    keys = (f"data.file={scan}", *TINY[:8], f"run={run}", "probe=run", "output_dir=again", "denoise=false")
    code, _, err = in_process(SCAN, *keys)
    assert code == 0, err
    assert "pinn" in json.loads((tmp_path / "again/metrics.json").read_text())
