"""The grid-lines workflow: simulate, train, infer, stitch, score, draw."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ptycho.config import RunConfig
from ptycho.evaluation.metrics import Region
from ptycho.networks.competitors import COMPETITORS
from ptycho.readers import load_dataset
from ptycho.readers.own import to_arrays
from ptycho.reconstruction.inference import predict_regions
from ptycho.reconstruction.stitching import STITCHINGS, Stitched, stitch_each
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import regular_offsets
from ptycho.scan.dataset import Dataset
from ptycho.simulation.simulate import simulate
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.assess import drawn, probe_doubts, scored, store_recon
from workflows.device import device_facts, prepare_tensorflow
from workflows.train_network import trained, training_facts

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Result:
    """What a run gives: its scores, its reconstructions by name, and where everything was written."""

    metrics: dict[str, Any]
    recons: dict[str, Stitched]
    folder: Path


def run(config: RunConfig, folder: RunFolder, stop: StopRequest | None = None) -> Result:
    """Run the workflow, or what is left of it, and write everything into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        log.info("the run goes on" if folder.resumed else "the run begins")
        log.info("XLA: compile=%s, translate=%s", config.xla.compile, config.xla.translate)
        data = stored_data(config, folder) or simulated(config, folder)
        stitched: dict[str, dict[str, Stitched]] = {}
        histories: dict[str, History] = {}
        test = data["test"]
        for name in config.models:
            view = COMPETITORS[name].view
            scans = view(config, data["train"]), view(config, data["val"])
            offsets = regular_offsets(config, scans[0].group_size)
            model, histories[name], modes = trained(name, config, scans, offsets, folder, stop)
            seen = test if modes is None or config.test_probe is not None else test.under(modes)
            stitched[name] = reconstructed(name, model, config, seen, folder)
        truth, region = _truth(test), Region(*test.tiling.rectangle)
        doubts = probe_doubts(test.probe, data["train"].probe)
        scores = scored(truth, region, stitched, config.stitch.method, folder, doubts)
        recons = {name: by_method[config.stitch.method] for name, by_method in stitched.items()}
        drawn(truth, region, test.probe, recons, histories, scores, folder)
    folder.manifest(provenance(config, histories) | {"resumed": folder.resumed})
    log.info("results: %s", folder.path)
    return Result(scores, recons, folder.path)


def stored_data(config: RunConfig, folder: RunFolder) -> dict[str, Dataset] | None:
    """The three datasets just as this run wrote them; None where one is missing or another."""
    if not folder.resumed:
        return None
    files = {role: names.dataset(config, role) for role in ("train", "val", "test")}
    other = [name for name in files.values() if not folder.holds(name)]
    if other:
        log.warning("%s: missing, changed or damaged; the datasets are simulated again", ", ".join(other))
        return None
    return {role: load_dataset(folder.path / name) for role, name in files.items()}


def simulated(config: RunConfig, folder: RunFolder) -> dict[str, Dataset]:
    """Simulate the three datasets and store them."""
    with folder.timed("simulation"):
        data = simulate(config)
    for role, part in data.items():
        log.info("%s: %d patterns in %d groups", role, len(part.amplitudes), part.n_groups)
    with folder.timed("writing"):
        for role, part in data.items():
            folder.arrays(names.dataset(config, role), to_arrays(part))
    return data


def reconstructed(
    name: str, model: keras.Model, config: RunConfig, test: Dataset, folder: RunFolder
) -> dict[str, Stitched]:
    """Infer on the test scan, stitch by every method, and store the objects of ``stitch.method``."""
    view = COMPETITORS[name].view(config, test)
    with folder.timed(f"{name}_inference"):
        regions = predict_regions(model, view, config.batch_size, config.xla.compile)
    with folder.timed("stitching"):
        stitched = stitch_each(regions, view, STITCHINGS, config.stitch.passes)
    store_recon(name, stitched[config.stitch.method], folder)
    return stitched


def _truth(test: Dataset) -> np.ndarray:
    if test.objects is None:
        raise ValueError("the test dataset has no true objects to score against")
    return test.objects


def provenance(config: RunConfig, histories: dict[str, History]) -> dict[str, Any]:
    """Device, effective switches, seed, and training speed, for the manifest."""
    return device_facts(config.xla) | {"seed": config.seed, "training": training_facts(histories)}
