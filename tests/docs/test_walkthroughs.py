"""The walkthroughs: scans are simulated and read as the page says; their long runs are not repeated."""

import re
import shlex

import pytest
from helpers.cli import ROOT

from ptycho.command_line.console import PROGRAMS, folder_of

PAGE = (ROOT / "docs" / "walkthroughs.md").read_text()
SECTIONS = re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE)
OWN_FILE = {"Electrons"}


@pytest.fixture(scope="module")
def findings(tmp_path_factory, in_process_once):
    place, answers = tmp_path_factory.mktemp("user"), {}
    for title, text in SECTIONS:
        for line in re.findall(r"(?m)^ptycho (?:simulate|inspect) .*$", text):
            _, name, *words = shlex.split(line)
            if title not in OWN_FILE:
                script = folder_of("scripts") / f"{PROGRAMS[name].script}.py"
                code, out, err = in_process_once(script, *words, cwd=place)
                assert code == 0, f"{line}: {err}"
                answers[title] = answers.get(title, "") + out + err
    return answers


def test_every_walkthrough_has_its_scan(findings):
    assert {title for title, _ in SECTIONS} == {*findings, *OWN_FILE}
    assert all(re.search(r"\d+ patterns of \d+ × \d+", answer) for answer in findings.values())


def test_what_is_found_is_what_the_page_says(findings):
    assert "10 hot in the data, 42 % of the intensity" in findings["Bad pixels"]
    assert "λz/dx² = 20" in findings["Near field"]
    (key,) = set(re.findall(r"data\.source_distance_m=[\d.]+", PAGE))
    assert key in findings["Near field"]
