"""The whole workflow at the smallest sizes, in a separate working folder.

The first run, which most tests read, is in a separate process; others share this one without pictures.
XLA is off, because it takes most of the time; tests/training/test_training.py tests it.
"""

import csv
import json
import re

import numpy as np
import pytest
from helpers.cli import SCRIPT, TINY, TINY_UNROLLED, files, fresh

from ptycho.evaluation.metrics import SCORES
from ptycho.run.record import read_record
from ptycho.scan.dataset_file import load_dataset

pytestmark = pytest.mark.usefixtures("usual_chunks")
COMMAND = (*TINY, *TINY_UNROLLED, "xla.compile=false")
MODELS = ("pinn", "baseline")


def strict(path):
    def refuse(constant):
        raise AssertionError(f"{path} holds {constant}")

    return json.loads(path.read_text(), parse_constant=refuse)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a run in a fresh process; its working folder must stay empty."""
    folder = tmp_path_factory.mktemp("first")
    cwd = folder / "cwd"
    cwd.mkdir()
    done = fresh(cwd, SCRIPT, *COMMAND, f"output_dir={folder / 'out'}")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "pinn: epoch 1/1 done in" in done.stderr and f"results: {folder / 'out'}" in done.stderr
    assert not list(cwd.iterdir())
    return folder / "out"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory, in_process_once):
    """The folder of a sweep in this process, and its stderr."""
    folder = tmp_path_factory.mktemp("sweep")
    overrides = ("-m", "gridsize=1,2", "models=[pinn]", *COMMAND, f"output_dir={folder / 'out'}")
    code, _, err = in_process_once(SCRIPT, *overrides, cwd=folder)
    assert code == 0, err
    assert [path.name for path in folder.iterdir()] == ["out"]
    return folder / "out", err


# ---- files of a run


def test_all_pictures_are_drawn(first):
    kinds = [f"{kind}_{name}" for name in MODELS for kind in ("amp_phase", "amp_phase_error")]
    drawn = {path.stem for path in (first / "visuals").iterdir() if path.stat().st_size > 0}
    assert drawn == {"compare_amp_phase", "frc_curves", "history", *kinds}


def test_metrics(first, within):
    metrics = strict(first / "metrics.json")
    assert set(metrics) == {*MODELS, "constant", "truth_blurred_1px", "region", "conventions"}
    for name in (*MODELS, "constant", "truth_blurred_1px"):
        assert all(len(metrics[name][score]) == 2 for score in SCORES), name
    for name in MODELS:
        by_method, row = metrics[name]["stitching"], metrics[name]
        assert set(by_method) == {"grid", "probe"}
        assert {key: row[key] for key in by_method["probe"]} == by_method["probe"]
        assert by_method["grid"]["ssim"] != by_method["probe"]["ssim"]
    # 7 × 7 groups, pitch 10, the middle of the first at 18
    assert metrics["region"] == {"top": 13, "left": 13, "height": 70, "width": 70}
    within("SSIM of the amplitude", metrics["pinn"]["ssim"][0], above=0.5)
    within("SSIM of a constant", metrics["constant"]["ssim"][0], below=0.5)


def test_the_datasets_are_those_the_metrics_speak_of(first):
    folder = first / "datasets/N32/gs2"
    train, val, test = (load_dataset(folder / f"{role}.npz") for role in ("train", "val", "test"))
    assert (train.n_groups, val.n_groups, test.n_groups) == (16, 4, 49)
    assert train.photon_scale == val.photon_scale == test.photon_scale
    with np.load(first / "recons/gt/recon.npz") as truth, np.load(first / "recons/pinn/recon.npz") as recon:
        assert set(truth.files) == set(recon.files) == {"YY_pred", "object", "amp", "phase", "mask"}
        np.testing.assert_array_equal(recon["YY_pred"], recon["object"][0])
        np.testing.assert_array_equal(truth["object"], test.objects)
        assert truth["object"].shape == recon["object"].shape == recon["mask"].shape == (1, 96, 96)
        np.testing.assert_allclose(recon["amp"] * np.exp(1j * recon["phase"]), recon["object"], atol=1e-6)


def test_every_file_is_recorded_and_arrays_with_their_hash(first):
    found = files(first)
    del found["report.html"]  # a page that may be made again at any time
    arrays = {name: digest for name, digest in found.items() if name.endswith(".npz")}
    assert read_record(first) == dict.fromkeys(found, "") | arrays and len(arrays) == 3 + 4 + 3
    for name in MODELS:
        description = strict(first / name / "model.json")
        assert description["weights_sha256"] == arrays[f"{name}/weights.npz"]
        assert description["parameters"] > 0 and description["stopped"] is None
        with (first / name / "history.csv").open(newline="") as file:
            (row,) = csv.DictReader(file)
        assert {"epoch", "loss", "val_loss", "learning_rate", "seconds"} <= set(row)


# ---- the same again


def test_a_job_of_a_sweep_gives_what_it_gives_alone(first, sweep):
    """In another process, after another job, and without the baseline, the bits are the same."""
    folder, err = sweep
    jobs = sorted(path.name for path in folder.iterdir())
    assert [name.split("_")[0] for name in jobs] == ["0", "1"] and "job 2 of 2" in err
    assert re.match(r"0_.*gridsize=1(,|$)", jobs[0]) and re.match(r"1_.*gridsize=2(,|$)", jobs[1])
    alone, swept = read_record(first), read_record(folder / jobs[1])
    assert {name for name in alone.items() if "baseline" not in name[0]} == set(swept.items())
    metrics = [strict(out / "metrics.json") for out in (first, folder / jobs[1], folder / jobs[0])]
    assert metrics[0]["pinn"] == metrics[1]["pinn"] != metrics[2]["pinn"]
    assert (folder / jobs[0] / "datasets/N32/gs1/train.npz").exists()


def test_a_diverging_training_ends_with_code_1_and_keeps_its_weights(in_process, tmp_path):
    words = ("models=[pinn]", "train.learning_rate=1e30", "train.warmup_fraction=0", "output_dir=run")
    code, out, err = in_process(SCRIPT, *COMMAND, *words)
    assert (code, out) == (1, "") and "Traceback" not in err
    assert re.search(r"^error: NonFiniteLossError: the loss is \S+ at epoch 1, step \d", err, re.M), err
    run = tmp_path / "run"
    assert strict(run / "pinn" / "model.json")["stopped"].startswith("the loss is")
    with np.load(run / "pinn" / "weights.npz") as weights:
        assert all(np.isfinite(weights[key]).all() for key in weights.files)
    assert not (run / "metrics.json").exists()
