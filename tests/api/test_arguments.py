"""Errors of functions name the functions' own arguments, and leave all other words alone."""

import inspect
from typing import get_type_hints

import pytest

import ptycho
from ptycho.api.arguments import name_arguments
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig


@name_arguments(SolverConfig, DataConfig, renamed={"probe.modes": "probe_modes"})
def refuse(text):
    raise ptycho.ConfigError(text)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("solver.regulariser=x: must be a or b", "regulariser=x: must be a or b"),
        ("probe.modes=9: must be 1 to 8, or null", "probe_modes=9: must be 1 to 8, or None"),
        (
            "solver.stepz=3: unknown key; did you mean solver.steps?",
            "stepz=3: unknown key; did you mean steps?",
        ),
        ("memory: exclude them, data.drop=[14,15]", "memory: exclude them, drop=[14,15]"),
        ("/data.N/data.h5: no such file", "/data.N/data.h5: no such file"),
        ("x.h5: it has solver.h5 and data.other", "x.h5: it has solver.h5 and data.other"),
        ("train.epochs=3: must be one, or null values", "train.epochs=3: must be one, or null values"),
    ],
)
def test_keys_of_the_configuration_become_arguments(text, shown):
    with pytest.raises(ptycho.ConfigError) as caught:
        refuse(text)
    assert str(caught.value) == shown


def test_other_errors_and_signatures_stay():
    with pytest.raises(TypeError, match="unexpected keyword"):
        refuse(word="solver.regulariser")
    assert list(inspect.signature(refuse).parameters) == ["text"]
    assert list(inspect.signature(ptycho.Scan.from_arrays).parameters)[:3] == [
        "patterns",
        "positions",
        "probe",
    ]


def test_fixed_choices_are_declared_as_they_are():
    """The types that an editor completes list exactly what is taken."""
    from ptycho.api import reconstruction, training

    assert reconstruction.Method.__args__ == tuple(reconstruction.SECTIONS)
    assert set(reconstruction.Regulariser.__args__) == set(SolverConfig.REGULARISERS)
    assert training.Model.__args__ == tuple(training.MODELS)
    hints = get_type_hints(ptycho.simulate)
    for name in ("path", "sample"):
        for choice in hints[name].__args__:
            assert len(ptycho.simulate(32, 9, **{name: choice})) == 9
