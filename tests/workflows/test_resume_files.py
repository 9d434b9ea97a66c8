"""A resumed run makes files again that differ from those that were written, and no others."""

import json
import shutil

import numpy as np
import pytest
from helpers.cli import SCRIPT, files

from conftest import small_run
from ptycho.scan.dataset_file import to_arrays
from ptycho.simulation.simulate import simulate

DATA = "datasets/N32/gs2"


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run, tmp_path / "run")


def made(folder):
    """Return the files of a run that do not hold times of day."""
    timed = ("run.log", "manifest.json", "model.json", "history.csv", "history.png")
    return {name: digest for name, digest in files(folder).items() if not name.endswith(timed)}


def resume(in_process, run, *blocked):
    code, out, err = in_process(SCRIPT, f"resume={run}", blocked=blocked)
    assert (code, out) == (0, ""), err
    return err


def test_what_is_damaged_in_a_finished_run_is_made_again(in_process, run, trained_run):
    """A changed reconstruction, one of two networks cut short, and the valid data set of another seed.

    The network would be trained on that data set; only its hash shows the difference.
    """
    with (run / DATA / "train.npz").open("wb") as file:
        np.savez(file, **to_arrays(simulate(small_run(seed=1))[0]["train"]))
    recon = run / "recons/pinn/recon.npz"
    recon.write_bytes(recon.read_bytes()[:-1] + b"x")
    weights = run / "baseline/weights.npz"
    weights.write_bytes(weights.read_bytes()[:-9])
    err = resume(in_process, run)
    assert f"{run}: is finished, but " in err and "this is made again" in err
    for name in (f"{DATA}/train.npz", "recons/pinn/recon.npz", "baseline/weights.npz"):
        assert f"{name}: has another SHA-256 than files.json says" in err
    assert "the datasets are simulated again" in err and "pinn: is trained; its weights are loaded" in err
    assert "baseline: weights.npz: not a readable .npz" in err.replace(f"{run}/", "")
    assert made(run) == made(trained_run)
    theirs, ours = (json.loads((one / "baseline/model.json").read_text()) for one in (trained_run, run))
    assert ours["weights_sha256"] == theirs["weights_sha256"]
