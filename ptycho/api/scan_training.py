"""A network trained on a measured scan alone, in a folder of its own that is read back as that of any run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptycho.align.context import RunContext
from ptycho.config import ScanRunConfig
from ptycho.files.lock import locked
from ptycho.methods.network import NETWORK
from ptycho.methods.prepared import prepare
from ptycho.preparation.prepare import ScanGeometry
from ptycho.preparation.room import check_disk_for
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network_training import describe_trainings, split_scan, train_network


def train_on_scan(
    name: str,
    scan: ScanGeometry,
    config: ScanRunConfig,
    path: Path,
    overwrite: bool = False,
    bar: bool | None = None,
    callbacks: Sequence[Any] = (),
) -> LoadedModel:
    """Train the PINN that ``config`` describes, store it in ``path``, and read it back.

    Args:
        name, scan: the name of the scan, and its geometry and patterns as read.
        overwrite: replace a run that the folder holds, once there is a result.
        bar: as for :class:`~ptycho.progress.Progress`.
        callbacks: of Keras or of the loop.
    """
    check_disk_for(scan.raw, config.data, path)
    with locked(path):
        folder = RunFolder(path, overwrite)
        with folder.replacing(), folder.logged():
            folder.config(config)
            prepared = prepare(name, scan, config, RunContext(path, folder.timed, bar))
            parts = split_scan(prepared.fitted(prepared.whole.beam), config.val_fraction, config.seed)
            history = train_network(NETWORK, config, parts, folder, bar=bar, callbacks=callbacks).history
            best = history.rows[history.best_epoch - 1]
            folder.json(names.METRICS, {NETWORK: {key: best[key] for key in ("epoch", "loss", "val_loss")}})
        folder.manifest({"seed": config.seed, "training": describe_trainings({NETWORK: history})})
    return load_model(path, NETWORK)
