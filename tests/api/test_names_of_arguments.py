"""Errors of functions name the arguments of the functions, and change no other word."""

import inspect
import re

import pytest

import ptycho
from ptycho.api import reconstruction
from ptycho.config.data import DataConfig
from ptycho.config.messages import fields_of, name_arguments
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.trust import FLAGS


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


KEY = re.compile(r"\b(?:data|solver|iterative|probe)\.[a-z]\w*")


def test_every_remedy_of_a_flag_names_arguments():
    """No key of the command line is left, and what stands in its place is an argument of a function."""
    functions = (ptycho.reconstruct, ptycho.open_scan)
    known = {name for function in functions for name in inspect.signature(function).parameters}
    known |= {name for cls in (SolverConfig, DataConfig) for name in fields_of(cls)}  # keys of a section
    for name, flag in FLAGS.items():
        keys, translated = KEY.findall(flag.remedy), reconstruction.WORDS(flag.remedy)
        assert not KEY.search(translated), name
        assert all(any(word in translated for word in known) for _ in keys), name
    assert "(learn_probe=False)" in reconstruction.WORDS(FLAGS["few_measurements"].remedy)
