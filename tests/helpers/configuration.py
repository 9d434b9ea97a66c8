"""The configuration that Hydra composes from a command line."""

import functools

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from helpers.cli import ROOT


@functools.cache
def composed(*overrides, name="grid_lines"):
    GlobalHydra.instance().clear()
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
        return compose(name, list(overrides))
