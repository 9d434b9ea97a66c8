"""The commands on the pages: each program and each of its keys exists."""

import re
import shlex

import pytest
from helpers.cli import ROOT
from helpers.keys import keys_of

from ptycho.command_line.console import PROGRAMS
from workflows import write_conf

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
KEYS = {script: {*keys_of(cls), "resume", "experiment"} for script, (_, cls) in write_conf.programs().items()}
COMMAND = re.compile(r"(?:^ *|&& |python |-n \d )(?:ptycho ([a-z][\w-]+)|scripts/(\w+)\.py)([^&|;]*)")
OF_HYDRA = re.compile(r"hydra[./]|--|\+")


def commands_of(text):
    """Return the programs in the code of a page: script, and arguments."""
    blocks = re.findall(r"(?m)^ {4}.*$", text) + re.findall(r"(?ms)^```bash\n(.*?)^```$", text)
    inline = re.findall(r"`((?:ptycho|python) [^`]+)`", text)
    for line in [*"\n".join(blocks).replace("\\\n", " ").splitlines(), *inline]:
        for name, script, words in COMMAND.findall(line):
            known = PROGRAMS[name].script if name in PROGRAMS else name
            yield script or known, shlex.split(words, comments=True)


def unknown_keys(script, words):
    """Return keys that a program does not have; ``tune`` also has those of ``scan``."""
    if script not in KEYS:
        return []
    known = KEYS[script] | (KEYS["scan_workflow"] if script == "tune" else set())
    keys = [word.partition("=")[0] for word in words if "=" in word and not OF_HYDRA.match(word)]
    return [key for key in keys if key.removeprefix("tune.space.") not in known]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_has_keys_that_exist(page):
    for script, words in commands_of((ROOT / page).read_text()):
        assert (ROOT / "scripts" / f"{script}.py").exists(), f"{page}: {script}"
        assert unknown_keys(script, words) == [], f"{page}: {script} {words}"


def test_the_pages_have_commands():
    found = [script for page in PAGES for script, _ in commands_of((ROOT / page).read_text())]
    assert len(found) > 60
    assert {program.script for program in PROGRAMS.values()} <= set(found)
