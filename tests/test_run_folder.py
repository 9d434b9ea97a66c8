"""The run folder: atomic, strict, careful with what it did not write; and the figures."""

import csv
import hashlib
import json
import logging
import zipfile

import numpy as np
import pytest
from helpers_cli import files
from matplotlib.image import imread

from ptycho.config import ConfigError
from ptycho.evaluation import figures
from ptycho.evaluation.metrics import Region, score
from ptycho.run.folder import CONTENTS, RunFolder, check_free, environment, weights_hash


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run")


# ---- writing


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(folder):
    folder.text("metrics.json", "old")

    def save(file):
        file.write(b"half of the n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folder.write("metrics.json", save)
    with pytest.raises(KeyboardInterrupt):
        folder.write("pinn/weights.npz", save)
    assert (folder.path / "metrics.json").read_text() == "old"
    assert set(files(folder.path)) == {"metrics.json", "pinn/"}


def test_a_file_appears_under_its_name_only_when_complete(folder):
    seen = []

    def save(file):
        file.write(b"content")
        seen.extend(path.name for path in folder.path.iterdir())

    folder.write("config.yaml", save)
    assert len(seen) == 1 and seen != ["config.yaml"]
    assert files(folder.path) == {"config.yaml": hashlib.sha256(b"content").hexdigest()}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_json_refuses_what_json_cannot_hold(folder, value):
    folder.json("metrics.json", {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.json("metrics.json", {"a": [value]})
    assert json.loads((folder.path / "metrics.json").read_text()) == {"a": 1}
    assert list(files(folder.path)) == ["metrics.json"]


def test_json_keeps_every_digit(folder):
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, None, "π"]
    folder.json("metrics.json", values)
    assert json.loads((folder.path / "metrics.json").read_text()) == values


def test_arrays_hold_no_pickle(folder):
    arrays = {"object": np.arange(6).reshape(2, 3) * 1j, "mask": np.array([True, False])}
    path = folder.arrays("recons/pinn/recon.npz", arrays)
    with np.load(path, allow_pickle=False) as loaded:
        assert set(loaded.files) == {"object", "mask"}
        np.testing.assert_array_equal(loaded["object"], arrays["object"])
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        folder.arrays("recons/pinn/recon.npz", {"object": np.array([None])})
    with np.load(path, allow_pickle=False) as loaded:
        assert set(loaded.files) == {"object", "mask"}


def test_arrays_are_the_same_bytes_every_time(folder):
    arrays = {"object": np.arange(6.0)}
    first = folder.arrays("a.npz", arrays).read_bytes()
    assert first == folder.arrays("b.npz", arrays).read_bytes()
    assert all(not entry.compress_type for entry in zipfile.ZipFile(folder.path / "a.npz").infolist())


def test_model_and_history(folder):
    weights = {"b": np.ones(2, np.float32), "a": np.zeros((1, 2), np.float32)}
    rows = [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}]
    folder.model("pinn", weights, {"best_epoch": 2}, rows)
    description = json.loads((folder.path / "pinn" / "model.json").read_text())
    assert description == {"best_epoch": 2, "weights_sha256": weights_hash(weights)}
    with (folder.path / "pinn" / "history.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{"epoch": "1", "loss": "0.5"}, {"epoch": "2", "loss": "0.25"}]
    folder.model("baseline", weights, {}, [])  # stopped before its first epoch was over
    assert (folder.path / "baseline" / "history.csv").exists()


def test_weights_hash_is_that_of_names_and_bytes_in_the_order_of_names():
    weights = {"b": np.float32([1, 2]), "a": np.float32([3])}
    expected = hashlib.sha256(b"a" + np.float32([3]).tobytes() + b"b" + np.float32([1, 2]).tobytes())
    assert weights_hash(weights) == expected.hexdigest()
    assert weights_hash(dict(reversed(weights.items()))) == expected.hexdigest()
    assert weights_hash(weights | {"a": np.float32([4])}) != expected.hexdigest()


def test_manifest_holds_versions_timings_and_what_is_added(folder):
    for _ in range(2):
        with folder.timed("training"):
            pass
    with pytest.raises(RuntimeError), folder.timed("scoring"):
        raise RuntimeError
    folder.manifest({"seed": 3})
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert set(manifest["timings_s"]) == {"training", "scoring"} and manifest["seed"] == 3
    assert set(environment()) | {"seed", "timings_s"} == set(manifest)
    assert {"python", "tensorflow", "keras", "numpy"} <= set(manifest["versions"])
    assert 10 < manifest["peak_memory_mib"] < 1e6


def test_the_log_is_copied_while_the_block_runs(folder):
    log = logging.getLogger("somewhere")
    log.setLevel(logging.INFO)
    before = list(logging.getLogger().handlers)
    with pytest.raises(RuntimeError), folder.logged():
        log.info("inside")
        raise RuntimeError
    log.info("outside")
    text = (folder.path / "run.log").read_text()
    assert "INFO inside" in text and "outside" not in text
    assert logging.getLogger().handlers == before


# ---- folders


def test_a_folder_is_made_with_its_parents(tmp_path):
    assert RunFolder(tmp_path / "a" / "b" / "c").path.is_dir()
    assert files(tmp_path) == {"a/b/c/": ""}


@pytest.mark.parametrize("name", CONTENTS)
def test_a_folder_that_holds_a_run_is_refused(tmp_path, name):
    (tmp_path / name).mkdir() if "." not in name else (tmp_path / name).write_text("x")
    before = files(tmp_path)
    for use in (RunFolder, lambda path: check_free(path, overwrite=False)):
        with pytest.raises(
            ConfigError, match=rf"output_dir={tmp_path}: holds another run \({name}\); .*over"
        ):
            use(tmp_path)
    assert files(tmp_path) == before


def test_foreign_files_are_no_run_and_stay(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "scan.h5").write_text("mine too")
    before = files(tmp_path)
    RunFolder(tmp_path)
    assert files(tmp_path) == before


def test_overwrite_removes_the_run_and_nothing_else(tmp_path):
    for name in CONTENTS:
        path = tmp_path / name
        if "." in name:
            path.write_text("old")
        else:
            (path / "deep").mkdir(parents=True)
            (path / "deep" / "file").write_text("old")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "metrics.json.bak").write_text("mine")
    assert check_free(tmp_path, overwrite=True) == list(CONTENTS)
    assert len(files(tmp_path)) == len(CONTENTS) + 2
    RunFolder(tmp_path, overwrite=True)
    assert set(files(tmp_path)) == {"notes.txt", "metrics.json.bak"}


def test_what_a_killed_run_was_writing_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "pinn" / "checkpoints").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    stay = [".mine.tmp", "mine/.mine.npz.1.tmp", "config.yaml", "pinn/checkpoints/epoch00001-step0000000.npz"]
    go = [".metrics.json.17.tmp", "pinn/.weights.npz.17.tmp", "pinn/checkpoints/.epoch00001.npz.17.tmp"]
    for name in stay + go:
        (tmp_path / name).write_text("")
    RunFolder(tmp_path, resumed=True)
    assert set(files(tmp_path)) == set(stay)


def test_overwrite_does_not_follow_links(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "datasets").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "run" / "pinn").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="holds another run"):
        RunFolder(tmp_path / "run")
    RunFolder(tmp_path / "run", overwrite=True)
    assert (tmp_path / "elsewhere" / "precious").read_text() == "mine"
    assert not list((tmp_path / "run").iterdir())


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    before = files(tmp_path)
    for path in (tmp_path / "file", tmp_path / "file" / "a" / "b", tmp_path / ("x" * 300)):
        with pytest.raises(
            ConfigError, match=rf"output_dir={path}: cannot be written .*choose another folder"
        ):
            RunFolder(path)
    assert files(tmp_path) == before


# ---- figures

TRUTH = np.array([[1.0, 2, 3], [4, 5, 6]])[:, :, None, None] * np.ones((8, 8))
TRUTH = TRUTH.transpose(0, 2, 1, 3).reshape(16, 24) / 6 * np.exp(0.5j * np.linspace(-1, 1, 24))
PROBE = np.exp(-0.05 * ((np.arange(9) - 4) ** 2 + (np.arange(9)[:, None] - 4) ** 2)).astype(np.complex64)
WHOLE = Region(0, 0, 16, 24)


def scored(image):
    return score(image, TRUTH, np.ones(TRUTH.shape, bool), WHOLE)


def panels(figure):
    """Title → axes, for all axes that show an image with a title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.images and axes.get_title()}


@pytest.fixture(scope="module")
def comparison():
    recons = {"pinn": TRUTH * 1.1 * np.exp(1j), "baseline": np.ones_like(TRUTH)}
    scores = {name: scored(image) for name, image in recons.items()}
    return figures.compare(TRUTH, recons, scores, PROBE), scores


def test_comparison_shows_every_column_with_its_ssim(comparison):
    figure, scores = comparison
    assert list(panels(figure)) == [
        "truth, amplitude",
        f"pinn, amplitude: SSIM {scores['pinn']['ssim'][0]:.4f}",
        f"baseline, amplitude: SSIM {scores['baseline']['ssim'][0]:.4f}\n! collapsed, collapsed_phase",
        "probe, amplitude",
        "truth, phase",
        f"pinn, phase: SSIM {scores['pinn']['ssim'][1]:.4f}",
        f"baseline, phase: SSIM {scores['baseline']['ssim'][1]:.4f}\n! collapsed, collapsed_phase",
        "probe, phase",
    ]


def test_the_titles_of_a_failed_reconstruction_are_red(comparison):
    colours = {title.split(",")[0]: set() for title in panels(comparison[0])}
    for title, axes in panels(comparison[0]).items():
        colours[title.split(",")[0]].add(axes.title.get_color())
    assert colours == {"truth": {"black"}, "pinn": {"black"}, "baseline": {"red"}, "probe": {"black"}}


def test_comparison_shares_colour_limits_and_has_colour_bars(comparison):
    figure, _ = comparison
    shown = panels(figure)
    for kind in ("amplitude", "phase"):
        limits = {
            axes.images[0].get_clim()
            for title, axes in shown.items()
            if title.split(":")[0].endswith(kind) and not title.startswith("probe")
        }
        assert len(limits) == 1, kind
    assert shown["truth, amplitude"].images[0].get_clim() == (0, 1)
    low, high = shown["truth, phase"].images[0].get_clim()
    assert -low == high == pytest.approx(0.5, abs=0.01)
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert len(bars) == len(shown)
    assert sorted({bar.get_ylabel() for bar in bars}) == ["amplitude", "phase / rad"]


def test_comparison_shows_the_arrays_it_was_given(comparison):
    shown = panels(comparison[0])
    np.testing.assert_allclose(shown["truth, amplitude"].images[0].get_array(), np.abs(TRUTH))
    np.testing.assert_allclose(shown["truth, phase"].images[0].get_array(), np.angle(TRUTH))
    np.testing.assert_allclose(shown["probe, amplitude"].images[0].get_array(), np.abs(PROBE))
    pinn = next(axes for title, axes in shown.items() if title.startswith("pinn, amplitude"))
    np.testing.assert_allclose(pinn.images[0].get_array(), 1.1 * np.abs(TRUTH))


def test_a_reconstruction_that_is_nan_is_flagged_and_drawn():
    scores = {"pinn": scored(np.full_like(TRUTH, np.nan))}
    figure = figures.compare(TRUTH, {"pinn": np.zeros_like(TRUTH)}, scores, PROBE)
    assert "pinn, amplitude: SSIM none\n! nan" in panels(figure)
    assert "pinn, phase: SSIM none\n! nan" in panels(figure)


def test_a_flat_phase_is_not_blown_up():
    assert figures.phase_limits(np.ones((4, 4)) * np.exp(1e-7j)) == (-0.1, 0.1)


def test_error_map_is_signed_and_wraps_the_phase():
    aligned = 1.5 * TRUTH * np.exp(1j * (2 * np.pi - 0.2))
    figure = figures.amp_phase_error("pinn", aligned, TRUTH)
    amplitude, phase = (axes.images[0] for axes in panels(figure).values())
    np.testing.assert_allclose(amplitude.get_array(), 0.5 * np.abs(TRUTH))
    np.testing.assert_allclose(phase.get_array(), -0.2, atol=1e-12)
    for image in (amplitude, phase):
        low, high = image.get_clim()
        assert low == -high
    assert "phase error / rad, RMS 0.2" in list(panels(figure))[1]


def test_reconstruction_outlines_the_scored_region():
    figure = figures.amp_phase("pinn", TRUTH, Region(2, 3, 10, 12))
    for axes in panels(figure).values():
        (box,) = axes.patches
        assert (box.get_y(), box.get_x(), box.get_height(), box.get_width()) == (2, 3, 10, 12)


def test_history_has_a_panel_for_each_model_and_both_losses():
    rows = [{"epoch": k, "loss": 1 / k, "val_loss": 2 / k} for k in (1, 2, 3)]
    figure = figures.history({"pinn": rows, "baseline": rows[:1]})
    assert [axes.get_title() for axes in figure.axes] == ["pinn", "baseline"]
    training, validation = figure.axes[0].lines
    np.testing.assert_allclose(training.get_ydata(), [1, 1 / 2, 1 / 3])
    np.testing.assert_allclose(validation.get_ydata(), [2, 1, 2 / 3])


def test_ring_correlations_say_when_they_are_not_defined():
    axis = np.linspace(0, 1, 5)
    figure = figures.frc_curves({"pinn": ((axis, 1 - axis), None)})
    amplitude, phase = figure.axes
    np.testing.assert_allclose(amplitude.lines[0].get_ydata(), 1 - axis)
    assert {line.get_ydata()[0] for line in amplitude.lines[1:]} == {0.5, 1 / 7}
    assert [text.get_text() for text in phase.texts] == ["not defined: a constant image"]


def test_a_figure_is_written_as_png(folder, comparison):
    path = folder.figure("visuals/compare_amp_phase.png", comparison[0])
    image = imread(path)
    assert image.ndim == 3 and image.std() > 0.05
