"""A hostile scan ends in one line, exit code 2, and nothing written; a doubtful one in a warning.

``benchmarks/hostile.py`` tries them as commands.
"""

import re

import pytest
from helpers.cli import files
from omegaconf import OmegaConf

from benchmarks.hostile_scans import FORMATS, SCAN_CASES, ScanWorld
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.mapping import to_dataclass
from ptycho.preparation.prepare import interpret
from ptycho.readers.table import open_raw
from ptycho.run.scan_plan import plan
from workflows.convert.inspect_scan import InspectConfig, lines, report

REFUSED = [case for case in SCAN_CASES if not case.doubtful]
DOUBTFUL = [case for case in SCAN_CASES if case.doubtful]


@pytest.fixture
def world(tmp_path):
    return ScanWorld(tmp_path)


def config(overrides):
    """The section ``data`` of some overrides, as Hydra would compose it."""
    return to_dataclass(DataConfig, OmegaConf.to_container(OmegaConf.from_dotlist(overrides))["data"])


def warnings_of(scan, data):
    return [line.removeprefix("  ! ") for line in lines(scan, data) if line.startswith("  ! ")]


@pytest.mark.parametrize("form", FORMATS)
def test_the_good_files_are_accepted(world, form):
    data = config(world.made(form))
    scan = interpret(open_raw(data), data)
    assert scan.raw.patterns.shape == (30, 32, 32) and scan.N == 32 and not warnings_of(scan, data)
    scan.raw.patterns.close()
    plan(ScanRunConfig(data=data))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_refused(world, case, caplog):
    data = config(case.make(world))
    before = files(world.folder.parent)
    asked = [lambda: plan(ScanRunConfig(data=data, group_size=4))]
    if not case.message.startswith(r"data\.file"):  # which an inspection shows as it is
        asked.append(lambda: report(InspectConfig(data, str(world.folder / "picture.png"))))
    for ask in asked:
        with pytest.raises(ConfigError, match=case.message) as caught:
            ask()
        message = str(caught.value)
        assert len(message) < 1000 and message.isprintable()
    assert files(world.folder.parent) == before and not caplog.messages


@pytest.mark.parametrize("case", DOUBTFUL, ids=lambda case: case.name)
def test_doubtful(world, case):
    data = config(case.make(world))
    scan = interpret(open_raw(data), data)
    warnings = warnings_of(scan, data)
    scan.raw.patterns.close()
    assert len([line for line in warnings if re.search(case.message, line)]) == 1, warnings
    assert len(warnings) <= 2 and all(line.isprintable() for line in warnings)
    plan(ScanRunConfig(data=data))
