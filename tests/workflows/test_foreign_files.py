"""Untrusted files of a folder cannot set programs, or settings of Hydra."""

import pytest
from helpers.cli import ROOT
from helpers.configuration import composed

from ptycho.command_line.config import check_folder, resumed_config, run_config
from ptycho.command_line.training_jobs import Job
from ptycho.config import ConfigError, LsqmlConfig, RunConfig
from ptycho.run.folder import RunFolder

CONF = ROOT / "conf"


@pytest.fixture
def given_run(tmp_path):
    config = RunConfig(iterative=LsqmlConfig(python=str(tmp_path / "evil.sh")))
    RunFolder(tmp_path).config(config)
    return tmp_path, config


def resumed(run, *overrides):
    return resumed_config(run, [f"resume='{run}'", *overrides], {})


def test_the_program_that_a_run_names_is_refused(given_run):
    run, _ = given_run
    with pytest.raises(ConfigError, match=rf"^iterative\.python={run}/evil\.sh: .*add iterative\.python="):
        resumed(run)


def test_the_command_that_goes_on_names_the_program_again(given_run):
    run, config = given_run
    words = Job(config, run, (), resumed=True).resuming
    assert words == [f"resume={run}", f'iterative.python="{run}/evil.sh"']
    assert resumed(run, *words[1:]) == config


def option(folder, text, name="tuned/best"):
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if name.startswith("sub/") else f"# @package _global_\n{text}\n")


def test_the_program_that_an_option_names_is_refused():
    values = composed().copy()  # tests share the composed configuration
    values.iterative.python = "/tmp/evil.sh"
    with pytest.raises(ConfigError, match=r"^iterative\.python=/tmp/evil\.sh: is a program"):
        run_config(values, ["+tuned=best"], {})
    assert run_config(values, ["iterative.python=/tmp/evil.sh"], {}).iterative.python == "/tmp/evil.sh"


@pytest.mark.parametrize(
    "text, key",
    [
        ("hydra: {callbacks: {a: {_target_: subprocess.Popen}}}", r"hydra\.callbacks\.a\._target_"),
        ("hydra: {job: {env_set: {LD_PRELOAD: evil.so}}}", r"hydra\.job\.env_set\.LD_PRELOAD"),
        ("hydra: {run: {dir: /home/victim}}", r"hydra\.run\.dir"),
        ("defaults: [{/sub@hydra.callbacks.a: evil}]", r"hydra\.callbacks\.a\._target_"),
    ],
)
def test_settings_of_hydra_in_a_folder_are_refused(tmp_path, text, key):
    option(tmp_path, text)
    option(tmp_path, "_target_: subprocess.Popen", "sub/evil")
    with pytest.raises(ConfigError, match=rf"^{key}: is set by a file of {tmp_path}"):
        check_folder("scan", [f"--config-dir={tmp_path}", "+tuned=best", "data.file=x"], CONF)


@pytest.mark.parametrize("words", [["-m", "--config-dir=x", "+tuned=a,b"], ["--config-path=x"], ["-cn", "x"]])
def test_files_of_settings_are_given_in_one_way(words):
    with pytest.raises(ConfigError, match="--config-dir"):
        check_folder("scan", words, CONF)


def test_settings_of_a_run_in_a_folder_and_of_hydra_on_the_command_line_are_taken(tmp_path):
    option(tmp_path, "solver: {block: 300}")
    words = ["+tuned=best", "hydra/job_logging=disabled", "data.file=x"]
    check_folder("scan", [f"--config-dir={tmp_path}", *words], CONF)
    check_folder("scan", words, CONF)
