"""Variants are tables: each name of a configuration has an entry in the library and a file in ``conf/``."""

from dataclasses import replace

import pytest
import yaml
from helpers.cli import ROOT

from ptycho import config, networks
from ptycho.config import FourierModel, RunConfig, StitchConfig, UNetModel
from ptycho.config.sections import NAMED
from ptycho.reconstruction.stitching import STITCHINGS
from ptycho.scan import probe
from ptycho.training.competitors import COMPETITORS

CONF = ROOT / "conf"
TABLES = {
    "model": (networks.GENERATORS, config.GENERATORS),
    "probe": (probe.PROBES, config.PROBES),
    "stitch": (STITCHINGS, StitchConfig.METHODS),
}


@pytest.mark.parametrize("group", TABLES)
def test_a_group_of_the_configuration_is_a_table_of_the_library(group):
    built, named = TABLES[group]
    assert [*built] == [*named]
    key = "method" if group == "stitch" else "kind"
    files = [yaml.safe_load(path.read_text()) for path in (CONF / group).glob("*.yaml")]
    measured = set(config.MEASURED_PROBES) if group == "probe" else set()
    stated = {values[key] for values in files if key in values}  # a preset has its kind from another
    assert set(named) | measured == stated
    assert set(named) <= {path.stem for path in (CONF / group).glob("*.yaml")}


def test_models_of_a_run_are_in_the_table():
    assert {*COMPETITORS} == {*config.MODELS, *NAMED}


def test_a_network_named_by_a_generator_has_its_settings():
    """They are those of ``model`` if it has this kind, or else the defaults; the others do not change."""
    wide = RunConfig(model=UNetModel(filters_scale=4), models=("unet", "fno", "baseline"))
    assert wide.of("unet") == wide.of("pinn") == wide.of("baseline") == wide
    assert wide.of("fno") == replace(wide, model=FourierModel())
    assert wide.networks == wide.models
    assert RunConfig().fixed_sizes("unet") == UNetModel.FIXED  # beside another model
