"""Scans of few patterns: limits are lowered to the number of patterns; too few are reported."""

import json

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT
from helpers.datasets import single_patterns
from helpers.reference import random_complex

from ptycho.config import ZonePlateProbe
from ptycho.preparation.dataset import number_held_out
from ptycho.scan.comparison import split_patterns
from workflows.convert.simulate_scan import SimulateConfig, simulate_scan

SCRIPT = ROOT / "scripts" / "scan_workflow.py"


@pytest.fixture(scope="module")
def scan_of(tmp_path_factory):
    """``scan_of(count)``: a file with ``count`` patterns of 32 × 32."""
    folder = tmp_path_factory.mktemp("small")

    def make(count):
        path = folder / f"{count}.h5"
        if not path.exists():
            probe = ZonePlateProbe()
            simulate_scan(SimulateConfig(output=str(path), N=32, n_positions=count, probe=probe))
        return path

    return make


def dataset(count, group_size=3, tiles=True):
    """Patterns 3 px apart on a line, of 16 × 16."""
    rng = np.random.default_rng(count)
    positions = np.stack([np.zeros(count), 3.0 * np.arange(count)], axis=1)
    probe = random_complex(rng, (16, 16))
    patterns = rng.poisson(9, (count, 16, 16))
    return single_patterns(patterns, probe, positions, 16 + 3 * count, tiles=tiles).regrouped(group_size)


@pytest.mark.parametrize("tiles", [False, True])
@pytest.mark.parametrize("count", [3, 8, 60])
def test_group_size_is_an_upper_limit(count, tiles):
    """The default run has tiles of 64."""
    data = dataset(count, 64, tiles)
    kept, _ = split_patterns(data.positions, number_held_out(count, 0.05), 0)
    assert data.group_size == count and data.subset(kept, 64).group_size == len(kept)


@pytest.mark.parametrize(
    ("count", "fraction", "out"),
    [(3, 0.5, 0), (4, 0.5, 1), (5, 0.5, 2), (7, 0.5, 4), (20, 0.05, 1), (60, 0.05, 3), (8, 0, 0)],
)
def test_three_patterns_are_always_fitted(count, fraction, out):
    assert number_held_out(count, fraction) == out
    kept, left = split_patterns(dataset(count).positions, out, 0)
    assert len(left) == out and sorted([*kept, *left]) == list(range(count))


def test_two_patterns_are_refused_before_anything_is_written(scan_of, in_process, tmp_path):
    for overrides in ([f"data.file={scan_of(2)}"], [f"data.file={scan_of(3)}", "data.frames=2"]):
        code, _, error = in_process(SCRIPT, *overrides, f"output_dir={tmp_path / 'run'}")
        assert code == 2 and error.count("error:") == 1
        assert "2 of its patterns can be used; must be at least 3" in error and "data.frames" in error
        assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def finished(scan_of, tmp_path_factory, in_process_once, read_rightly_once):
    """A network trained on 7 patterns in groups of more, in a run that is complete."""
    folder = tmp_path_factory.mktemp("finished")
    overrides = (
        *(f"data.file={scan_of(7)}", "group_size=37", "tiles=true", "nepochs=1", "holdout_fraction=0.1"),
        *("model.stages=1", "model.width=8", "xla.compile=false", "solver.steps=2"),
        *("solver.error_map=false", "solver.regulariser=none", "solver.slices=1", "solver.probe_variation=0"),
    )
    code, _, error = in_process_once(SCRIPT, *overrides, f"output_dir={folder / 'run'}", cwd=folder)
    assert code == 0, error
    assert "group_size=37 is more than there are patterns" in error
    assert "batch_size=8: is more than there are groups; they are one batch" in error
    return folder / "run"


def test_seven_patterns_are_reconstructed(finished):
    metrics = json.loads((finished / "metrics.json").read_text())
    assert metrics["findings"]["groups"][0].endswith("of 7") and metrics["pinn"]["r_factor"] < 1
    assert "few_measurements" in metrics["solver"]["flags"]
    assert yaml.safe_load((finished / "config.yaml").read_text())["group_size"] == 37
