"""A run of the command line on a measured scan, seen through before it begins; without TensorFlow."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ptycho.config import ConfigError, JobConfig, ScanRunConfig
from ptycho.preparation.prepare import ScanGeometry, interpret
from ptycho.preparation.room import check_disk_for
from ptycho.readers.table import open_raw
from ptycho.run.scan_plan import plan_scan


def interpret_scan(config: JobConfig) -> tuple[ScanRunConfig, ScanGeometry]:
    """The scan that a configuration names, its patterns still in the file."""
    if not isinstance(config, ScanRunConfig):
        raise ConfigError("resume: is a run of the grid-lines workflow; resume it with its own script")
    raw = open_raw(config.data)
    if config.output_dir:
        check_disk_for(raw, config.data, Path(config.output_dir))
    return config, interpret(raw, config.data)


def plan(config: JobConfig) -> ScanRunConfig:
    """The configuration of the run: everything that is known before it is checked.

    A network that is trained on keeps the build that it was trained with.

    Raises:
        ConfigError: the scan cannot be read, the network of ``run`` cannot be read or does not fit, or
            the machine has too little memory.
    """
    own, scan = interpret_scan(config)
    with closing(scan.raw.patterns):  # many scans may be planned before the first is read
        return plan_scan(own, scan)
