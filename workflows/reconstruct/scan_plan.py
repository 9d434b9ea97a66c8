"""A run of the command line on measured scans, seen through before it begins; TensorFlow is not imported."""

from __future__ import annotations

from pathlib import Path

from ptycho.config import ConfigError, JobConfig, ScanRunConfig
from ptycho.preparation.prepare import Understood, understand
from ptycho.preparation.room import check_disk_for
from ptycho.readers.table import open_raw
from ptycho.run.scan_plan import plan_scans


def understand_scans(config: JobConfig) -> tuple[ScanRunConfig, list[Understood]]:
    """The scans that a configuration names, their patterns still in the files."""
    if not isinstance(config, ScanRunConfig):
        raise ConfigError("resume: is a run of the grid-lines workflow; resume it with its own script")
    scans = []
    for section in config.data.each():
        try:
            raw = open_raw(section)
            if config.output_dir:
                check_disk_for(raw, section, Path(config.output_dir))
            scans.append(understand(raw, section))
        except ConfigError as error:
            if len(config.data.file) == 1 or section.path in str(error):
                raise
            raise ConfigError(f"{section.path}: {error}") from error
    return config, scans


def plan(config: JobConfig) -> ScanRunConfig:
    """The configuration of the run: everything that can be told before it is checked.

    A network that is trained on keeps the build that it was trained with.

    Raises:
        ConfigError: a scan cannot be understood, the scans do not fit one network, the network of ``run``
            cannot be read or does not fit, or the machine has too little memory.
    """
    own, scans = understand_scans(config)
    try:
        return plan_scans(own, scans)
    finally:  # many scans may be planned before the first is read
        for scan in scans:
            scan.raw.patterns.close()
