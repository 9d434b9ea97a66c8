"""The first ten minutes: a sample, a configuration to edit, help by level, flags of Hydra."""

import re

import pytest
import yaml
from helpers.configuration import composed
from helpers.keys import keys_of
from omegaconf import OmegaConf

from ptycho.command_line import console
from ptycho.command_line.words import place_words
from ptycho.config import ConfigError
from workflows import write_conf
from workflows.convert.init_scan import InitConfig, write_settings


def leaves(values):
    return sum(leaves(value) if isinstance(value, dict) and value else 1 for value in values.values())


# ---- ptycho init


@pytest.mark.parametrize("size, most", [("short", 20), ("usual", 45), ("all", 10**6)])
def test_settings_change_nothing_until_they_are_edited(tmp_path, monkeypatch, size, most):
    """Hydra composes the same configuration with and without the file, apart from the specified scan."""
    monkeypatch.chdir(tmp_path)
    lines = write_settings(InitConfig(file="my scan.cxi", size=size, output="settings/mine.yaml"))
    values = yaml.safe_load((tmp_path / "settings" / "mine.yaml").read_text())
    values.pop("defaults")
    assert leaves(values) <= most
    assert lines[1] == "edit it, then: ptycho scan --config-dir=. +settings=mine"
    plain = composed("data.file=['my scan.cxi']", "output_dir=x", name="scan")
    words = (f"hydra.searchpath=[file://{tmp_path}]", "+settings=mine", "output_dir=x")
    assert OmegaConf.to_container(composed(*words, name="scan")) == OmegaConf.to_container(plain)
    if size == "all":
        assert leaves(values) > 80


@pytest.mark.parametrize(
    "words, message",
    [
        ({"output": "scan.yaml"}, r"^output=scan\.yaml: must be FOLDER/NAME\.yaml"),
        ({"output": "a/b.yaml"}, r"^output=a/b\.yaml: is there already; .* overwrite=true"),
        ({"size": "long"}, "^size=long: must be one of short, usual, all"),
    ],
)
def test_settings_that_cannot_be_written(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.yaml").touch()
    with pytest.raises(ConfigError, match=message):
        write_settings(InitConfig(**words))


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
