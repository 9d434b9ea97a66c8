"""Errors of functions name the arguments of the functions, and change no other word."""

import pytest

import ptycho
from ptycho.config.data import DataConfig
from ptycho.config.messages import name_arguments
from ptycho.config.solver_config import SolverConfig


@name_arguments(SolverConfig, DataConfig, renamed={"probe.modes": "probe_modes"})
def refuse(text):
    raise ptycho.ConfigError(text)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("solver.regulariser=x: must be a or b", "regulariser=x: must be a or b"),
        ("probe.modes=9: must be 1 to 8, or null", "probe_modes=9: must be 1 to 8, or None"),
        ("solver.stepz=3: did you mean solver.steps?", "stepz=3: did you mean steps?"),
        ("set solver.positions=true, or data.hot_pixels=false", "set positions=True, or hot_pixels=False"),
        ("/data.N/data.h5: no such file", "/data.N/data.h5: no such file"),
        ("train.epochs=3: must be one, or null values", "train.epochs=3: must be one, or null values"),
    ],
)
def test_keys_of_the_configuration_become_arguments(text, shown):
    with pytest.raises(ptycho.ConfigError) as caught:
        refuse(text)
    assert str(caught.value) == shown
