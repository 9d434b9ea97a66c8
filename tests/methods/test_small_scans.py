"""Scans of few patterns: limits are lowered to the number of patterns; too few are reported."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from helpers.cli import ROOT
from helpers.datasets import single_patterns
from helpers.reference import random_complex

from ptycho.config import ConfigError, OwnProbe, ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.methods.prepared import measurement_doubts
from ptycho.preparation.dataset import number_held_out, training_and_validation
from ptycho.run.scan_plan import plan
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


def test_a_network_bound_to_larger_groups_is_refused(scan_of, finished, monkeypatch):
    """Weights of ``unet`` are; those of ``unrolled`` work with groups of any size."""

    def plan_of(count):
        return plan(ScanRunConfig(data=DataConfig(file=str(scan_of(count))), run=str(finished)))

    found = plan_of(3)
    assert found.patterns_in_group == 37
    monkeypatch.setattr(type(found.model), "FIXED", ("N", "group_size"))
    assert plan_of(12).patterns_in_group == 7
    with pytest.raises(ConfigError, match=r"bound to group_size=7, and 3 patterns of the scan are fitted"):
        plan_of(3)


def test_one_group_both_trains_and_validates():
    data = dataset(4, 64)
    one = replace(data, groups=data.groups[:1])
    training, validation = training_and_validation(one, 0.05, seed=0)
    assert training.n_groups == validation.n_groups == 1


def test_few_measured_numbers_are_flagged():
    """16² values per pattern; unknown are two modes of 16² and the object, each with two real numbers."""
    probe = OwnProbe()
    (doubt,) = measurement_doubts(dataset(4), probe)
    assert doubt.flags == ("few_measurements",) and doubt.warns
    assert str(doubt).startswith("few_measurements: 4 patterns have")
    assert measurement_doubts(dataset(60), probe) == []
    known = OwnProbe(learn=False)
    assert measurement_doubts(dataset(20), probe) and not measurement_doubts(dataset(20), known)


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
