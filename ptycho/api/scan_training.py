"""A network trained on measured scans alone, in a folder of its own that is read back as that of any run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.files.lock import locked
from ptycho.methods.network import NETWORK
from ptycho.methods.prepared import Surroundings, prepare
from ptycho.preparation.prepare import Understood
from ptycho.preparation.room import check_disk_for
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network_training import describe_trainings, split_scans, train_network


def train_on_scans(
    scans: Sequence[tuple[str, Understood, DataConfig]],
    config: ScanRunConfig,
    path: Path,
    overwrite: bool = False,
    bar: bool | None = None,
    callbacks: Sequence[Any] = (),
) -> LoadedModel:
    """Train the PINN that ``config`` describes, store it in ``path``, and read it back.

    Args:
        scans: name, how it was understood, and the settings that it was read with.
        overwrite: replace a run that the folder holds, once there is a result.
        bar: as for :class:`~ptycho.progress.Progress`.
        callbacks: of Keras or of the loop.
    """
    for _, scan, data in scans:
        check_disk_for(scan.raw, data, path)
    with locked(path):
        folder = RunFolder(path, overwrite)
        with folder.replacing(), folder.logged():
            folder.config(config)
            where = Surroundings(path, folder.timed, bar)
            ready = [prepare(name, scan, replace(config, data=data), where) for name, scan, data in scans]
            parts = split_scans([each.fitted(each.whole.beam) for each in ready], config)
            history = train_network(NETWORK, config, parts, folder, bar=bar, callbacks=callbacks).history
            best = history.rows[history.best_epoch - 1]
            folder.json(names.METRICS, {NETWORK: {key: best[key] for key in ("epoch", "loss", "val_loss")}})
        folder.manifest({"seed": config.seed, "training": describe_trainings({NETWORK: history})})
    return load_model(path, NETWORK)
