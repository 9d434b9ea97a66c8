"""LSQ-ML in a run: its keys, and the refusal where its optional part is not installed."""

import sys

import pytest

from ptycho.config import ConfigError
from ptycho.config.mapping import from_mapping
from ptycho.run.scan_plan import check_settings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"models": ["x"]}, r"models=\[x\]: must be drawn from \[pinn, lsqml\]"),
        ({"models": [], "solver": {"steps": 0}}, r"solver.steps=0, models=\[\]: nothing would reconstruct"),
        ({"models": ["pinn", "baseline"]}, r"drawn from .* no truth to train a baseline"),
        ({"models": ["lsqml", "lsqml"]}, "each once"),
        ({"iterative": {"epochs": 0}}, "iterative.epochs=0: must be an integer from 1 to"),
        ({"iterative": {"python": ""}}, "iterative.python='': must be the path of a Python"),
    ],
)
def test_what_the_configuration_refuses(values, message):
    with pytest.raises(ConfigError, match=message):
        from_mapping({"data": {"file": "x"}} | values)


def test_without_the_part_it_is_refused_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "ptycho_lsqml", None)
    config = from_mapping({"data": {"file": "x"}, "models": ["lsqml"]})
    with pytest.raises(ConfigError, match=r"^lsqml: .*: pip install -c constraints.txt -e extras/lsqml .*$"):
        check_settings(config)
