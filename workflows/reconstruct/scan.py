"""A measured scan: understand, train on it or take a trained network, reconstruct, judge, draw."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.align.context import RunContext
from ptycho.config import ScanRunConfig
from ptycho.evaluation.trust import FLAGS
from ptycho.exports import product, tiff
from ptycho.exports.from_dataset import product_of
from ptycho.iterative.lsqml import LsqmlError
from ptycho.methods.assessment import EXPLAINED, judged_arrays
from ptycho.methods.pipeline import assess
from ptycho.methods.prepared import Prepared, prepare
from ptycho.methods.table import LSQML, METHODS, NETWORK, SOLVER, Means
from ptycho.preparation.prepare import Understood
from ptycho.reconstruction.blocks import Crew, alone
from ptycho.run import names
from ptycho.run.file_cache import FileCache
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network import read_network
from ptycho.run.network_training import describe_trainings, split_scan, train_network
from ptycho.run.pretrained import run_folder
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import report
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.command_line.device import device_facts, prepare_tensorflow
from workflows.reconstruct.scan_assessment import draw, metrics_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a run gives: ``metrics.json``, reconstructions by name, and where all was written."""

    metrics: dict[str, Any]
    recons: dict[str, Reconstruction]
    folder: Path


def run(
    config: ScanRunConfig,
    scan: Understood,
    folder: RunFolder,
    stop: StopRequest | None = None,
    crew: Crew | None = None,
) -> ScanResult:
    """Run the workflow, or what is left of it, and write everything into ``folder``.

    ``crew`` fits the blocks of a large scan.
    """
    cache = FileCache(folder.path / names.BLOCKS)
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        around = RunContext(folder.path, folder.timed, crew=crew or alone, cache=cache)
        each, means = _prepare(scan, config, around), Means(config, around)
        made = {SOLVER: METHODS[SOLVER](each, {}, means)} if config.solver.steps else {}
        data = each.fitted(each.beam_under(made.get(SOLVER)))
        model, history, modes = network(config, data, folder, stop)
        means = replace(means, network=model, modes=modes)
        result, recons = reconstruct(each, made, means, history, folder)
        rows = result | {"conventions": EXPLAINED}
        folder.json(names.METRICS, rows)
    seconds = {name: round(recon.seconds, 2) for name, recon in recons.items()}
    facts = {
        "seed": config.seed,
        "training": describe_trainings(history),
        "resumed": folder.resumed,
        "scans": {each.name: {"patterns": len(each.whole.positions), "N": each.whole.N}},
        "reconstruction_s": {each.name: seconds},
        "programs": {name: recon.program for name, recon in recons.items() if recon.program},
    }
    folder.manifest(device_facts(config.xla) | facts)
    cache.remove()
    if not FLAGS.keys() & set(result[result["product"]]["flags"]):
        log.info("%s: verdict: no problem found", each.name)
    log.info("results: %s", folder.path)
    return ScanResult(rows, recons, folder.path)


def _prepare(scan: Understood, config: ScanRunConfig, where: RunContext) -> Prepared:
    log.info("%s: %s", config.data.path, scan.raw.format)
    report(scan.decisions, log)
    return prepare(config.data.name, scan, config, where)


def network(
    config: ScanRunConfig, scan: Dataset, folder: RunFolder, stop: StopRequest | None
) -> tuple[LoadedModel | None, dict[str, History], np.ndarray | None]:
    """The network of another run as it is, or one that is trained on the scan, from that or from nothing.

    The third is the probe that was learned in the training, if it was.
    """
    if NETWORK not in config.models:
        return None, {}, None
    if not config.nepochs:
        log.info("the network of %s is used; no training", config.run)
        return load_model(str(config.run), NETWORK), {}, None
    start = None
    if config.run is not None:
        log.info("the network of %s is trained on", config.run)
        start = read_network(run_folder(config.run), NETWORK).weights
    parts = split_scan(scan, config)
    _, history, modes = train_network(NETWORK, config, parts, folder, stop=stop, start=start)
    return load_model(folder.path, NETWORK), {NETWORK: history}, modes


def reconstruct(
    each: Prepared,
    made: dict[str, Reconstruction],
    means: Means,
    history: dict[str, History],
    folder: RunFolder,
) -> tuple[dict[str, Any], dict[str, Reconstruction]]:
    """One scan: its objects by solver and network, judged, stored and drawn; its metrics.

    ``made``: by the solver before any network, where it is asked for.
    """
    config, made = means.config, dict(made)
    wanted: list[str] = [LSQML] if LSQML in config.models else []
    wanted += [] if means.network is None else [NETWORK]
    for name in wanted:
        with folder.timed("inference" if name == NETWORK else name):
            try:
                made[name] = METHODS[name](each, made, means)
            except LsqmlError as error:
                log.warning("%s; the table goes without it", error)
    done = assess(each, made, means)
    result = metrics_of(each, done)
    made = done.reconstructions
    for name, one in made.items():
        folder.arrays(names.recon(name), one.arrays())
    folder.arrays(names.ASSESSMENT, judged_arrays(each, made, done.fits, done.halves))
    best, pixel = made[done.product], each.scan.pixel.metres
    exported = product_of(each.scan, each.whole, best.object, pixel, each.name, best.beam)
    target, *_ = [folder.place(name) for name in (names.PRODUCT, *names.IMAGES)]
    product.write(target, replace(exported, errors=best.errors))
    tiff.write(target, exported)
    draw(each, done, history, result, folder)
    return result, made
