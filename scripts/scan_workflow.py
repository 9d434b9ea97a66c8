#!/usr/bin/env python
"""Reconstruct a measured scan; ``--help`` lists keys, groups and defaults.

python scripts/scan_workflow.py data.file=scan.cxi output_dir=outputs/mine
python scripts/scan_workflow.py data.file=scan.cxi run=outputs/other output_dir=outputs/quick
python scripts/scan_workflow.py resume=outputs/mine
"""

from __future__ import annotations

from ptycho.config import ConfigError, NetworkConfig, ScanRunConfig
from ptycho.preparation.dataset import chosen_probe
from ptycho.preparation.prepare import Understood, understand
from ptycho.run.folder import RunFolder
from ptycho.run.network import read_network
from ptycho.training.interrupt import StopRequest
from workflows.command_line import leave
from workflows.inspect_scan import opened
from workflows.training_jobs import Workflow, main


def understood(config: NetworkConfig) -> tuple[ScanRunConfig, Understood]:
    if not isinstance(config, ScanRunConfig):
        raise ConfigError("resume: is a run of the grid-lines workflow; go on with its own script")
    return config, understand(opened(config.data), config.data)


def check(config: NetworkConfig) -> None:
    """Understand the scan, and see that it has a probe and that the network it names can be read."""
    own, scan = understood(config)
    chosen_probe(scan, own)
    if own.run is not None:
        from pathlib import Path

        read_network(Path(own.run), "pinn")


def run(config: NetworkConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Run it; TensorFlow is imported only now."""
    own, scan = understood(config)
    from workflows import scan as workflow

    workflow.run(own, scan, folder, stop)


if __name__ == "__main__":
    leave(lambda: main(Workflow("scan", check, run)))
