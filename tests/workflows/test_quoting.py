"""Names of files with special characters: the error shows quotes, and Hydra reads the quoted names."""

import shlex

import pytest
from helpers.cli import ROOT
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException

from workflows.command_line.config import explained


def composed(override):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose("scan", [override]).data.file


@pytest.mark.parametrize("name", ["a(1).cxi", "a=b.cxi", "ü b[1]/a,b.cxi", "it's.cxi"])
def test_the_quotes_that_are_shown_work(name):
    with pytest.raises(HydraException) as caught:
        composed(f"data.file={name}")
    message = explained(caught.value)
    assert message.startswith(f"data.file={name}: must be key=value, with quotes") and "\n" not in message
    shown = message.split("characters: ")[1].rsplit(" (", 1)[0]
    (override,) = shlex.split(shown)
    assert composed(override) == name


def test_lists_and_commas():
    with pytest.raises(HydraException) as caught:
        composed("data.file=[ü.cxi,b.cxi]")
    assert "\"data.file=['ü.cxi','b.cxi']\"" in explained(caught.value)
    ambiguous = HydraException(
        "Ambiguous value for argument 'data.file=a,b.cxi'\n1. To use it as a list, use"
    )
    assert "\"data.file='a,b.cxi'\"" in explained(ambiguous)
