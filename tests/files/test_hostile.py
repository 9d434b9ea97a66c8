"""A hostile file, run folder or setting ends in one line, exit code 2, and nothing written.

A fifth of the cases, of each kind some; ``benchmarks/hostile.py`` tries all of them.
"""

import re
import shutil
import sys
from types import SimpleNamespace

import pytest
from helpers.cli import INFER, files
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from benchmarks.hostile_cases import CASES, World
from workflows.command_line import one_shot
from workflows.reconstruct.infer_config import InferConfig, plan


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return World(tmp_path_factory.mktemp("good"))


@pytest.fixture
def world(good, tmp_path):
    fresh = object.__new__(World)
    fresh.folder, fresh.run = tmp_path, tmp_path / "run"
    shutil.copytree(good.run, fresh.run)
    return fresh


def test_the_good_files_are_accepted(world):
    for data in (world.scan(), world.scan(compressed=True), world.published()):
        job = plan(InferConfig(str(world.run), str(data), output_dir="out"), world.folder / "out")
        assert [saved.name for saved in job.networks] == ["pinn"] and job.data.shape == (24, 32, 32)


def hydra_at_once(version_base, config_path, config_name):
    """A replacement of ``hydra.main`` that takes a tenth of its time: one job, known keys alone."""

    def decorate(function):
        def main():
            try:
                words = [word for word in sys.argv[1:] if not word.startswith("hydra")]
                GlobalHydra.instance().clear()
                with initialize_config_dir(version_base="1.3", config_dir=config_path):
                    function(OmegaConf.merge(compose(config_name), OmegaConf.from_dotlist(words)))
            except Exception:
                sys.stderr.write("Error executing job\n")  # as Hydra says of what a job lets out
                raise

        return main

    return decorate


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_refused(in_process, world, case, monkeypatch):
    overrides = case.overrides(world)
    if [text.partition("=")[0] for text in overrides] == ["run", "data"]:
        monkeypatch.setattr("hydra.main", hydra_at_once)
        monkeypatch.setattr(one_shot.HydraConfig, "get", lambda: SimpleNamespace(mode=None))
    if not any(text.startswith("output_dir=") for text in overrides):
        overrides = [*overrides, f"output_dir={world.folder / 'out'}"]
    before = files(world.folder)
    code, out, err = in_process(INFER, *overrides, blocked=["workflows.reconstruct.infer"])
    assert (code, out) == (2, ""), err
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    assert re.search(case.message, err.rstrip()), err
    assert files(world.folder) == before
