"""Memory is estimated before anything is made: by hand, against the arrays that are made, and in words."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from conftest import NETWORKS, small_run
from helpers.cli import ROOT
from hydra import compose, initialize_config_dir

from ptycho.config import ConfigError, LinesObject, RunConfig, TrainConfig, UnrolledModel
from ptycho.config.memory import (
    PROCESS,
    Part,
    check_disk,
    check_memory,
    in_words,
    inference_memory,
    network_parts,
    physical_memory,
    run_memory,
    solver_parts,
)
from ptycho.training import fitting
from workflows.command_line.config import run_config

GB = 10**9


def sizes(config):
    """Bytes of every part, by name."""
    return {part.name: part.size for part in run_memory(config)}


def test_the_parts_of_a_small_run_by_hand():
    """2 × 2 patterns of 32 × 32 in groups 16 pixels apart: 5 groups an axis."""
    config = RunConfig(
        N=32,
        size=100,
        nimgs_train=3,
        nimgs_test=2,
        outer_offset_train=32,
        outer_offset_test=32,
        max_groups_train=7,
        batch_size=4,
        train=TrainConfig(val_groups=5),
        model=UnrolledModel(neighbours=6),
    )
    pattern, groups = 8 * 32**2, 5**2
    assert sizes(config) == {
        "the train patterns": 7 * 4 * pattern + 3 * groups * 4 * 32,
        "the val patterns": 5 * 4 * pattern + groups * 4 * 32,
        "the test patterns": 2 * groups * 4 * pattern + 2 * groups * 4 * 32,
        "the objects": 2 * 6 * 100**2 * 8,
        "the lines of an object": 64 * 400,
        "the stitched objects": 8 * 2 * groups * 36**2 + 100 * 2 * 100**2,
        "the canvas of an object, scores and figures": 560 * 100**2,
        "a batch": 60 * 4 * (4 + 6) * 32**2,
    }


@pytest.mark.parametrize(
    "changes", [{}, {"gridsize": 3, "nimgs_test": 4}, {"gridsize": 1, "max_groups_train": None}]
)
def test_what_simulation_takes(changes):
    """By the peak of NumPy's arrays."""
    from ptycho.simulation.simulate import simulate

    config = small_run(**{"size": 160, "max_groups_train": 40, "object": LinesObject(60)} | changes)
    tracemalloc.start()
    try:
        simulate(config)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < sum(sizes(config).values()) < 3 * peak


def test_positions_that_groups_share_are_counted_once():
    """Groups at every pixel share nearly all: there are no more positions than pixels to start at."""
    config = RunConfig(outer_offset_test=2, offset=1, gridsize=4, nimgs_test=1)
    assert sizes(config)["the test patterns"] == pytest.approx(2 * (392 - 64 + 1) ** 2 * 64**2 * 4, rel=0.02)


EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml"))


def test_the_runs_of_the_study_fit_into_four_gigabytes():
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
        for name in EXPERIMENTS:
            composed = compose("grid_lines", [f"experiment={name}"])
            check_memory(run_memory(run_config(composed, [], {})), available=4 * GB)


WIDE = {"outer_offset_train": 128, "outer_offset_test": 128}
TOO_MUCH = [
    (
        {"nimgs_test": 10**6},
        "the test patterns, .* TB: lower nimgs_test or size, or raise outer_offset_test",
    ),
    ({"size": 16384, "nimgs_train": 1, "nimgs_test": 1} | WIDE, "the canvas .*, 150 GB: lower size"),
    (
        {"nimgs_train": 500, "max_groups_train": None},
        "the train patterns, .*: lower max_groups_train or nimgs_train",
    ),
    (
        {"batch_size": 2000, "model": UnrolledModel(neighbours=500)},
        "a batch, .*: lower batch_size or gridsize",
    ),
]


@pytest.mark.parametrize("changes, most", TOO_MUCH, ids=lambda value: str(value)[:40])
def test_what_a_machine_of_eight_gigabytes_cannot_do(changes, most):
    with pytest.raises(ConfigError, match=f"GB, .* too little; most of it for {most}"):
        check_memory(run_memory(replace(RunConfig(), **changes)), 8 * GB)


def test_the_limit_and_what_is_said_at_it():
    parts = [Part("small", 1.0, "lower a"), Part("large", 3e9 - 1, "lower b")]
    check_memory(parts, 3 * GB + PROCESS)
    with pytest.raises(ConfigError) as caught:
        check_memory(parts, 3 * GB + PROCESS - 1)
    assert str(caught.value) == (
        "memory: needs about 4.07 GB, and the machine has 4.07 GB, 1e-06 MB too little; "
        "most of it for large, 3 GB: lower b"
    )
    assert [in_words(size) for size in (1, 2.5e8, 1e12, 1e18)] == ["1e-06 MB", "250 MB", "1 TB", "1e+06 TB"]
    assert GB / 2 < physical_memory() < 10**15


@pytest.mark.parametrize("name", [*NETWORKS, "baseline"])
def test_a_built_network_is_asked_for_its_size(name, datasets, build_network, monkeypatch):
    """Its operations are traced once, as they are run."""
    model, view = build_network(name)
    asked = []
    monkeypatch.setattr(fitting, "network_parts", lambda *given: asked.append(given) or network_parts(*given))
    settings = fitting.FitSettings(
        adam=TrainConfig(),
        epochs=1,
        batch_size=4,
        learning_rate=1e-3,
        compile_xla=False,
        supervised=name == "baseline",
    )
    fit = fitting.Fit(model, view, view, settings)
    fit.compile()
    assert fit._eval_step.func.experimental_get_tracing_count() == 1
    ((parameters, given),) = asked
    assert parameters == sum(int(np.prod(weight.shape)) for weight in model.trainable_variables)
    patterns = 4 * 4 * view.group_size * view.N**2  # bytes: each is given many times, by layer after layer
    assert 10 * patterns < given < 2000 * patterns
    monkeypatch.setattr("ptycho.config.memory.physical_memory", lambda: PROCESS + 10 * parameters)
    with pytest.raises(ConfigError, match=r"memory: needs about .*smaller model"):
        fitting.Fit(model, view, view, settings).compile()


def test_what_an_inference_needs():
    check_memory(inference_memory(16, 4, 32, 1, 4096, True), 9 * GB)
    for scan in ((1, 16384, False), (1, 16384, True), (64, 2048, False)):
        with pytest.raises(ConfigError, match=r"give data of a smaller object_size"):
            check_memory(inference_memory(16, 4, 32, *scan), 20 * GB)
    with pytest.raises(ConfigError, match=r"for a batch, .*: lower batch_size or group_size"):
        check_memory(inference_memory(65536, 64, 32, 1, 96, False), 20 * GB)


def test_a_solver_in_blocks_needs_no_more_for_more_patterns():
    """By hand: of 64² patterns 8192 are a block's; beyond, only the object grows."""
    few, many = (solver_parts(count, 64, 1, 2000, None) for count in (50_000, 800_000))
    assert few[0].size == pytest.approx(1.3 * 4 * 64**2 * 50_000 / 7)
    assert many[0].size <= 1.3 * 4 * 8192 * 64**2 and many[0].name == "the patterns of a block"
    assert many[1].size < few[1].size and many[3].size == few[3].size
    whole = solver_parts(8192, 64, 1, 2000, None)
    assert whole[1].size > few[1].size  # one block has the whole object
    assert solver_parts(8192, 64, 1, 2000, 1024)[1].size < whole[1].size


def test_patterns_that_the_disk_cannot_hold_are_refused(tmp_path):
    check_disk(10, 64, tmp_path / "not" / "there")
    with pytest.raises(
        ConfigError, match=r"^disk: a copy of the 1000000000 patterns takes 16.4 TB in .*stride"
    ):
        check_disk(10**9, 64, tmp_path / "not" / "there")
