"""The inference script: on the data set of a run and on published files, with and without the truth."""

import json
import re

import numpy as np
import pytest
import yaml
from helpers.cli import INFER, files
from helpers.published import N, published, spot

from ptycho.config import ZonePlateProbe
from ptycho.datasets import load_dataset, to_arrays
from ptycho.evaluation.metrics import Region, score_images
from ptycho.scan.probe import make_probe

TEST = "datasets/N32/gs2/test.npz"
MODELS = ("pinn", "baseline")


@pytest.fixture
def infer(in_process, tmp_path, monkeypatch):
    """``infer(*overrides)`` runs the script and returns the folder of results and its output.

    Comparisons with the truth are only drawn with ``drawn``, because their layout takes as long as inference.
    """

    def run(*overrides, code=0, out=tmp_path / "out", drawn=False, **settings):
        with monkeypatch.context() as patch:
            if not drawn:
                patch.setattr("workflows.reconstruct.infer.draw_comparison", lambda *_: None)
            found, stdout, err = in_process(INFER, *overrides, f"output_dir={out}", **settings)
        assert (found, stdout) == (code, ""), err
        return out, err

    return run


def strict(path):
    return json.loads(path.read_text(), parse_constant=lambda text: pytest.fail(f"{path} holds {text}"))


@pytest.fixture
def saved(tmp_path):
    def run(arrays, name="data.npz"):
        np.savez_compressed(tmp_path / name, **arrays)
        return tmp_path / name

    return run


def test_a_runs_own_test_scan_gives_its_own_results(infer, trained_run):
    out, err = infer(f"run={trained_run}", f"data={trained_run / TEST}", drawn=True)
    names = {
        *("config.yaml", "files.json", "manifest.json", "metrics.json", "metrics.csv", "run.log"),
        "visuals/compare_amp_phase.png",
        "visuals/frc_curves.png",
        *(f"visuals/{kind}_{name}.png" for name in MODELS for kind in ("amp_phase", "amp_phase_error")),
        *(f"recons/{name}/recon.npz" for name in ("gt", *MODELS)),
    }
    found, theirs = files(out), files(trained_run)
    assert set(found) == names
    for name in MODELS:
        assert found[f"recons/{name}/recon.npz"] == theirs[f"recons/{name}/recon.npz"]
    scores = strict(trained_run / "metrics.json")
    for name in MODELS:
        scores[name]["stitching"] = {"probe": scores[name]["stitching"]["probe"]}  # inference has one
    assert strict(out / "metrics.json") == scores
    assert "the file has the probe that the network was trained with" in err
    manifest = strict(out / "manifest.json")
    assert (manifest["patterns"], manifest["groups"], manifest["flags"]) == (512, 128, [])
    assert set(manifest["patterns_per_s"]) == set(manifest["weights_sha256"]) == set(MODELS)
    assert yaml.safe_load((out / "config.yaml").read_text())["stitch"] == {"method": "probe", "passes": 10}
    assert (out / "run.log").read_text().count("patterns/s, stitching included") == 2


def test_refined_stitching_as_the_run_has_it_and_with_more_passes(infer, trained_run, within):
    asked = (f"run={trained_run}", f"data={trained_run / TEST}", "models=[pinn]", "stitch=refined")
    out, _ = infer(*asked)
    ours, theirs = (strict(folder / "metrics.json")["pinn"]["stitching"] for folder in (out, trained_run))
    assert ours == {"refined": theirs["refined"]}
    within("SSIM gained by refinement", theirs["refined"]["ssim"][0] - theirs["probe"]["ssim"][0], above=0.0)
    out, _ = infer(*asked, "passes=9", "overwrite=true")
    assert strict(out / "metrics.json")["pinn"]["stitching"]["refined"] != theirs["refined"]


def test_without_the_truth_nothing_is_scored(infer, trained_run, saved):
    arrays = to_arrays(load_dataset(trained_run / TEST))
    del arrays["objects"]
    choice = ("models=[pinn]", "stitch=grid", "batch_size=50")
    out, err = infer(f"run={trained_run}", f"data={saved(arrays)}", *choice)
    assert "the file has no true objects: no scores" in err
    assert {"metrics.json", "metrics.csv"}.isdisjoint(files(out))
    with np.load(out / "recons/pinn/recon.npz") as recon:
        assert set(recon.files) == {"YY_pred", "object", "amp", "phase", "mask"}
        assert recon["mask"].sum(axis=(1, 2)).tolist() == [64 * 64] * 2  # 8 × 8 squares of side 8


def test_every_pattern_with_its_nearest_ones(infer, trained_run, within):
    """Overlapping groups of three cover the object better than the groups of four in the file."""
    out, err = infer(f"run={trained_run}", f"data={trained_run / TEST}", "models=[pinn]", "group_size=3")
    manifest = strict(out / "manifest.json")
    assert (manifest["patterns"], manifest["groups"]) == (512, 512) and "512 patterns in 128 groups" in err
    found, theirs = (strict(folder / "metrics.json")["pinn"]["ssim"][0] for folder in (out, trained_run))
    within("SSIM in groups of three, above that of four", found - theirs, above=-0.05)
    assert yaml.safe_load((out / "config.yaml").read_text())["group_size"] == 3


# ---- doubts


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("probe_far_from_training", "far from the training's"),
        ("patterns_unlike_probe", "the patterns do not resemble the far field of the probe (correlation "),
    ],
)
def test_doubts_are_flagged(infer, trained_run, saved, flag, line):
    """Of another probe, and of noise in place of patterns."""
    data = load_dataset(trained_run / TEST)
    mean = np.full(data.amplitudes.shape, data.amplitudes.statistics.mean_energy / N**2)
    noise = np.sqrt(np.random.default_rng(0).poisson(mean))
    other = {"probe": make_probe(ZonePlateProbe(), N)} if "probe_far" in flag else {"amplitudes": noise}
    out, err = infer(f"run={trained_run}", f"data={saved(to_arrays(data) | other)}", "models=[pinn]")
    metrics, manifest = strict(out / "metrics.json"), strict(out / "manifest.json")
    assert line in err and flag in metrics["pinn"]["flags"] and flag in manifest["flags"]
    assert set(manifest["flags"]) <= set(metrics["conventions"])


# ---- files of the published program


@pytest.fixture(scope="module")
def files_of_others():
    """Arrays of published files with two images: 6 × 6 groups, 8 pixels apart."""
    starts = [(row, col) for row in range(10, 51, 8) for col in range(10, 51, 8)]
    objects = [spot(30, 60), spot(55, 40)]
    axis = np.arange(N) - N // 2
    disk = np.exp(-((np.hypot(axis[:, None], axis) / 7) ** 4))
    return published(objects, disk, starts), objects


def test_a_part_of_the_truth_is_scored(infer, trained_run, saved, files_of_others):
    arrays, objects = files_of_others
    part = objects[0][24:72, 24:72, None]
    out, err = infer(
        f"run={trained_run}", f"data={saved(arrays | {'YY_ground_truth': part})}", "models=[pinn]"
    )
    assert "the truth of part of the first object" in err and "amplitudes are not counts" in err
    metrics = strict(out / "metrics.json")
    assert metrics["region"] == {"top": 0, "left": 0, "height": 48, "width": 48}
    assert len(metrics["pinn"]["per_image"]) == 1
    with np.load(out / "recons/gt/recon.npz") as truth:
        np.testing.assert_allclose(truth["object"][0], part[..., 0], atol=1e-6)
    with np.load(out / "recons/pinn/recon.npz") as recon:
        assert recon["object"].shape == (2, 86, 86)  # the last patches end at 50 + 4 + 32


def test_scores_are_of_the_part_that_has_patterns(infer, trained_run):
    """Validation groups are drawn at random and leave holes, whose values change no score."""
    out, err = infer(
        f"run={trained_run}", f"data={trained_run / TEST.replace('test', 'val')}", "models=[pinn]"
    )
    stored = strict(out / "metrics.json")
    region = Region(**stored["region"])
    recon, truth = (np.load(out / f"recons/{name}/recon.npz") for name in ("pinn", "gt"))
    objects, mask = recon["object"], recon["mask"]
    holes = ~region.crop(mask)
    assert 0.02 < holes.mean() < 0.98
    assert stored["pinn"]["uncovered_fraction"] == pytest.approx(holes.mean(), abs=1e-12)
    share = re.search(r"pinn: ([\d.]+) % of the region has no pattern, and is not scored", err)
    assert float(share[1]) == pytest.approx(100 * holes.mean(), abs=0.051)
    noise = np.random.default_rng(0).normal(size=(2, *objects.shape))
    spoilt = np.where(mask, objects, 50 * (noise[0] + 1j * noise[1]))
    row = score_images(spoilt, truth["object"], mask, region)
    assert row["ssim"] == pytest.approx(stored["pinn"]["ssim"], abs=1e-6)
    assert (
        score_images(spoilt, truth["object"], np.ones_like(mask), region)["ssim"][0] < row["ssim"][0] - 0.05
    )
