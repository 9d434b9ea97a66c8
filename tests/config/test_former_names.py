"""Names of the version before: keys and values of a configuration, scores, flags, arrays."""

import pytest
from helpers.cli import ROOT

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.former_names import (
    FLAGS,
    KEYS,
    SCORES,
    accept_former_arguments,
    current_keys,
    current_words,
    warn_of,
)
from ptycho.config.mapping import flat, from_mapping, to_mapping
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


def test_a_former_argument_beside_the_new_one_is_refused():
    with pytest.raises(ConfigError, match=r"^prior and regulariser: are the same argument; remove prior$"):
        accept_former_arguments(dict)(prior="none", regulariser="learned")


def test_the_page_on_migration_has_the_table():
    page = (ROOT / "docs/migration.md").read_text()
    every = KEYS | FLAGS | SCORES
    assert [former for former, name in every.items() if f"| `{former}` | `{name}` |" not in page] == []


def test_new_names_are_those_of_the_program():
    """What the table leads to exists: keys of the schema, flags."""
    values = flat(to_mapping(ScanRunConfig()))
    assert set(KEYS.values()) <= set(values)
    assert set(FLAGS.values()) <= set(trust.FLAGS) and not set(FLAGS) & set(trust.FLAGS)
