"""A hostile file, run folder or setting of an inference is refused in one line, and nothing is written.

A fifth of the cases, of each kind some; ``benchmarks/hostile.py`` tries all of them as commands.
"""

import shutil
from pathlib import Path

import pytest
from helpers.cli import files
from omegaconf import OmegaConf

from benchmarks.hostile_cases import CASES, World
from ptycho.config import ConfigError
from ptycho.config.mapping import to_dataclass
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


def planned(world, overrides):
    values = OmegaConf.to_container(
        OmegaConf.from_dotlist([f"output_dir={world.folder / 'out'}", *overrides])
    )
    config = to_dataclass(InferConfig, values)
    return plan(config, Path(config.output_dir))


def test_the_good_files_are_accepted(world):
    for data in (world.scan(), world.scan(compressed=True), world.published()):
        job = planned(world, [f"run={world.run}", f"data={data}"])
        assert [saved.name for saved in job.networks] == ["pinn"] and job.data.shape == (24, 32, 32)


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_refused(world, case):
    overrides = case.overrides(world)
    before = files(world.folder)
    with pytest.raises(ConfigError, match=case.message) as caught:
        planned(world, overrides)
    assert str(caught.value).isprintable() and files(world.folder) == before
