"""A hostile scan ends in one line, exit code 2, and nothing written; a doubtful one in a warning.

``benchmarks/hostile.py`` tries them as commands.
"""

import re
from collections import Counter

import pytest
from helpers.cli import ROOT, files, fresh
from omegaconf import OmegaConf

from benchmarks.hostile_scans import FORMATS, OVERRIDDEN, SCAN_CASES, ScanWorld
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.mapping import to_dataclass
from ptycho.preparation.prepare import interpret
from ptycho.readers.table import open_raw
from ptycho.run.scan_plan import plan
from workflows.convert.inspect_scan import InspectConfig, lines, report

SCRIPT, INSPECT = ROOT / "scripts" / "scan_workflow.py", ROOT / "scripts" / "inspect_scan.py"
REFUSED = [case for case in SCAN_CASES if not case.doubtful]
DOUBTFUL = [case for case in SCAN_CASES if case.doubtful]


@pytest.fixture
def world(tmp_path):
    return ScanWorld(tmp_path)


def config(overrides):
    """The section ``data`` of some overrides, as Hydra would compose it."""
    return to_dataclass(DataConfig, OmegaConf.to_container(OmegaConf.from_dotlist(overrides))["data"])


def told(scan, data):
    """The warnings of a scan, as they are printed."""
    return [line.removeprefix("  ! ") for line in lines(scan, data) if line.startswith("  ! ")]


def test_there_are_enough_cases_and_not_too_many_of_a_kind():
    assert len(SCAN_CASES) >= 60 and len({case.name for case in SCAN_CASES}) == len(SCAN_CASES)
    kinds = Counter(case.name.split(": ")[-1] for case in SCAN_CASES)
    assert max(kinds.values()) <= 6
    assert all(any(case.name.startswith(f"{form}: ") for case in SCAN_CASES) for form in FORMATS)


@pytest.mark.parametrize("form", FORMATS)
def test_the_good_files_are_accepted(world, form):
    data = config(world.made(form))
    scan = interpret(open_raw(data), data)
    assert scan.raw.patterns.shape == (30, 32, 32) and scan.N == 32 and not told(scan, data)
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
    warnings = told(scan, data)
    scan.raw.patterns.close()
    assert len([line for line in warnings if re.search(case.message, line)]) == 1, warnings
    assert len(warnings) <= 2 and all(line.isprintable() for line in warnings)
    plan(ScanRunConfig(data=data))


def test_refused_as_a_command(world):
    case = REFUSED[len(REFUSED) // 3]
    overrides = case.make(world)
    before = files(world.folder.parent)
    done = fresh(world.folder, SCRIPT, *overrides, "output_dir=out")
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
    assert re.search(case.message, done.stderr.rstrip())
    assert files(world.folder.parent) == before


@pytest.mark.parametrize("form", OVERRIDDEN)
def test_what_the_user_states_stands_above_the_file(world, form):
    changes, said = OVERRIDDEN[form]
    with pytest.raises(ConfigError):
        plan(ScanRunConfig(data=config([text for text in world.made(form, changes) if text not in said])))
    data = config(world.made(form, changes, *said))
    scan = interpret(open_raw(data), data)
    assert (scan.raw.energy_eV, scan.raw.distance_m) == (data.energy_eV, data.distance_m)
    scan.raw.patterns.close()
