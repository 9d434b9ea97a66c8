"""Variants are tables: each name of a configuration has an entry in the library and a file in ``conf/``."""

import pytest
import yaml
from helpers.cli import ROOT

from ptycho import config, networks
from ptycho.config import StitchConfig
from ptycho.reconstruction.stitching import STITCHINGS
from ptycho.scan import probe

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
