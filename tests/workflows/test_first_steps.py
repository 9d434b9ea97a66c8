"""The first ten minutes: a sample, the path of a scan, flags of Hydra."""

import re

import pytest
import yaml
from helpers.keys import keys_of

from ptycho.command_line import console
from ptycho.command_line.words import place_words
from workflows import write_conf

# ---- ptycho sample, ptycho scan FILE


@pytest.mark.parametrize(
    "words, read",
    [
        (["scan.cxi", "seed=1"], ["seed=1", 'data.file="scan.cxi"']),
        (["--config-dir", "place", "scan.cxi"], ["--config-dir", "place", 'data.file="scan.cxi"']),
        (["--cfg", "job", "~stitch", "+a/b=c"], ["--cfg", "job", "~stitch", "+a/b=c"]),
        (["scans/*.h5", "-m", "seed=1,2"], ["-m", "seed=1,2", 'data.file="scans/*.h5"']),
        (["data.file=a.cxi"], ["data.file=a.cxi"]),
    ],
)
def test_a_path_is_the_scan(words, read):
    assert place_words("data.file", words) == read


# ---- flags of Hydra in programs that do one thing


@pytest.fixture
def answer(in_process):
    def call(name, *words):
        return in_process(console.folder_of("scripts") / f"{console.PROGRAMS[name].script}.py", *words)

    return call


@pytest.mark.parametrize("name", console.PROGRAMS)
def test_each_program_shows_its_keys(answer, name):
    code, out, errors = answer(name, "--cfg", "job")
    shown = next(yaml.safe_load_all(out))
    _, cls = write_conf.programs()["simulate_scan" if name == "sample" else console.PROGRAMS[name].script]
    known = {key.split(".")[0] for key in keys_of(cls)}
    assert (code, errors) == (0, "") and known <= shown.keys() | {"experiment", "stitch"}  # null


@pytest.mark.parametrize("name", ["doctor", "live", "tune"])
def test_a_sweep_is_for_trainings_and_scans(answer, name):
    code, out, errors = answer(name, "-m", "output_dir=a,b")
    one = "this program does one thing at a time"
    refusal = "ptycho tune tries settings itself" if name == "tune" else one
    assert (code, out) == (2, "") and re.fullmatch(f"error: -m: {refusal}.*\n", errors)
