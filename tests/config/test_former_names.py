"""Names of the version before: keys and values of a configuration, scores, flags, arrays."""

import logging

import pytest
from helpers.cli import ROOT

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.former_names import (
    FLAGS,
    KEYS,
    SCORES,
    accept_former_arguments,
    current_arrays,
    current_keys,
    current_scores,
    current_words,
    warn_of,
)
from ptycho.config.mapping import flat, from_mapping, from_stored, to_mapping
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation import trust

FORMER = {
    "free_fraction": 0.1,
    "data": {"file": ["a.cxi"], "position_slips": False, "orientation": "format"},
    "probe": {"kind": "own", "modes": 2},
    "solver": {"prior": "edges", "strength": 2.0, "prior_weights": "w.npz", "position_model": "all"},
}


@pytest.fixture(autouse=True)
def _nothing_was_said():
    warn_of.cache_clear()


def expected():
    solver = SolverConfig(
        regulariser="edge_preserving",
        regularisation_weight=2.0,
        denoiser_weights="w.npz",
        position_model="affine_and_independent",
    )
    data = DataConfig(file=("a.cxi",), position_jumps=False, orientation="as_stored")
    return ScanRunConfig(data=data, holdout_fraction=0.1, solver=solver)


def test_former_keys_make_the_same_configuration_with_one_warning_each(caplog):
    for _ in range(2):
        config = from_mapping(FORMER)
    assert (config.data, config.solver) == (expected().data, expected().solver)
    assert (config.holdout_fraction, config.probe.kind, config.probe.modes) == (0.1, "from_file", 2)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(set(told)) == 9
    assert "free_fraction is called holdout_fraction now; the former name works in this version only" in told
    assert any(line.startswith("solver.regulariser=edges is called solver.reg") for line in told)


def test_what_a_run_has_stored_is_renamed_without_a_warning(caplog):
    assert from_stored(FORMER).solver == expected().solver
    assert caplog.records == []


def test_a_mistake_names_the_key_of_today():
    with pytest.raises(ConfigError, match=r"^solver\.regulariser=magic: must be one of none, quadratic"):
        from_mapping({"data": {"file": ["a"]}, "solver": {"prior": "magic"}})


def test_a_former_key_of_a_file_wins_over_the_default_of_today():
    both = {
        "solver": {"regulariser": "learned", "prior": "none"},
        "space": {"solver": {"prior": ["edges", "none"]}},
    }
    assert current_keys(both) == {
        "solver": {"regulariser": "none"},
        "space": {"solver": {"regulariser": ["edge_preserving", "none"]}},
    }


@pytest.mark.parametrize(
    "word, today",
    [
        ("free_fraction=0.1", "holdout_fraction=0.1"),
        ("+solver.prior=smooth", "+solver.regulariser=quadratic"),
        ("solver.prior=edges,none", "solver.regulariser=edge_preserving,none"),
        (
            "tune.space.solver.prior=[edges,learned]",
            "tune.space.solver.regulariser=[edge_preserving,learned]",
        ),
        ("probe=own", "probe=from_file"),
        ("data.orientation=format", "data.orientation=as_stored"),
        ("data.file=own/free_fraction=1,edges.cxi", "data.file=own/free_fraction=1,edges.cxi"),
        ("--multirun", "--multirun"),
        ("data.file='a b.cxi'", "data.file='a b.cxi'"),
    ],
)
def test_words_of_a_command_line(word, today):
    assert current_words([word]) == [today]


def test_functions_take_the_former_names_of_their_arguments(caplog):
    @accept_former_arguments
    def reconstruct(scan, *, holdout_fraction=0.05, **settings):
        return scan, holdout_fraction, settings

    assert reconstruct("a", free_fraction=0.1, prior="none", steps=2) == (
        "a",
        0.1,
        {"regulariser": "none", "steps": 2},
    )
    assert sorted(record.getMessage().split(" ")[0] for record in caplog.records) == [
        "free_fraction",
        "prior",
    ]
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_a_former_argument_beside_the_new_one_is_refused():
    with pytest.raises(ConfigError, match=r"^prior and regulariser: are the same argument; remove prior$"):
        accept_former_arguments(dict)(prior="none", regulariser="learned")


def test_scores_and_flags_are_renamed_but_no_scan():
    row = {"missed": 0.1, "missed_some": 0.2, "missed_free": 0.3, "deviance_free": 1.0, "r_free": 0.4}
    row |= {"flags": ["patterns_unexplained", "overfit"], "against_the_files_object": {"ssim": [1, 1]}}
    former = {"solver": row, "understood": {"N": ["64", "the file"]}, "product": "solver"}
    today = {
        "solver": {
            "unexplained_variance": 0.1,
            "unexplained_variance_p90": 0.2,
            "unexplained_variance_holdout": 0.3,
            "deviance_holdout": 1.0,
            "r_free": 0.4,
            "flags": ["poor_fit", "overfit"],
            "reference_comparison": {"ssim": [1, 1]},
        },
        "findings": {"N": ["64", "the file"]},
        "product": "solver",
    }
    assert current_scores(former) == today == current_scores(today)


def test_arrays_behind_the_scores_are_renamed():
    former = {
        "given_positions": 1,
        "kept_out": 2,
        "solver_free_patterns": 3,
        "pinn_free_deviance": 4,
        "course": 5,
    }
    assert current_arrays(former) == {
        "nominal_positions": 1,
        "held_out": 2,
        "solver_holdout_patterns": 3,
        "pinn_holdout_deviance": 4,
        "course": 5,
    }


def test_the_page_on_migration_has_the_table():
    page = (ROOT / "docs/migration.md").read_text()
    every = KEYS | FLAGS | SCORES
    assert [former for former, name in every.items() if f"| `{former}` | `{name}` |" not in page] == []


def test_new_names_are_those_of_the_program():
    """What the table leads to exists: keys of the schema, flags."""
    values = flat(to_mapping(ScanRunConfig()))
    assert set(KEYS.values()) <= set(values)
    assert set(FLAGS.values()) <= set(trust.FLAGS) and not set(FLAGS) & set(trust.FLAGS)
