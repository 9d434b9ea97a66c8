"""Process a measured scan: interpret it, train or load a network, reconstruct, assess, draw."""

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
from ptycho.methods.assessment import EXPLAINED, assessment_arrays
from ptycho.methods.pipeline import assess
from ptycho.methods.prepared import Prepared, prepare
from ptycho.methods.table import LSQML, METHODS, NETWORK, SOLVER, MethodInputs
from ptycho.preparation.prepare import ScanGeometry
from ptycho.reconstruction.blocks import Executor, serial
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
    scan: ScanGeometry,
    folder: RunFolder,
    stop: StopRequest | None = None,
    executor: Executor | None = None,
) -> ScanResult:
    """Run the workflow, or what is left of it, and write everything into ``folder``.

    ``executor`` fits the blocks of a large scan.
    """
    cache = FileCache(folder.path / names.BLOCKS)
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        around = RunContext(folder.path, folder.timed, executor=executor or serial, cache=cache)
        prepared, inputs = _prepare(scan, config, around), MethodInputs(config, around)
        reconstructions = {SOLVER: METHODS[SOLVER](prepared, {}, inputs)} if config.solver.steps else {}
        data = prepared.fitted(prepared.beam_under(reconstructions.get(SOLVER)))
        model, history, modes = network(config, data, folder, stop)
        inputs = replace(inputs, network=model, modes=modes)
        result, recons = reconstruct(prepared, reconstructions, inputs, history, folder)
        rows = result | {"conventions": EXPLAINED}
        folder.json(names.METRICS, rows)
    seconds = {name: round(recon.seconds, 2) for name, recon in recons.items()}
    facts = {
        "seed": config.seed,
        "training": describe_trainings(history),
        "resumed": folder.resumed,
        "scans": {prepared.name: {"patterns": len(prepared.whole.positions), "N": prepared.whole.N}},
        "reconstruction_s": {prepared.name: seconds},
        "programs": {name: recon.program for name, recon in recons.items() if recon.program},
    }
    folder.manifest(device_facts(config.xla) | facts)
    cache.remove()
    if not FLAGS.keys() & set(result[result["product"]]["flags"]):
        log.info("%s: verdict: no problem found", prepared.name)
    log.info("results: %s", folder.path)
    return ScanResult(rows, recons, folder.path)


def _prepare(scan: ScanGeometry, config: ScanRunConfig, context: RunContext) -> Prepared:
    log.info("%s: %s", config.data.paths, scan.raw.format)
    report(scan.decisions, log)
    return prepare(config.data.name, scan, config, context)


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
    parts = split_scan(scan, config.val_fraction, config.seed)
    _, history, modes = train_network(NETWORK, config, parts, folder, stop=stop, start=start)
    return load_model(folder.path, NETWORK), {NETWORK: history}, modes


def reconstruct(
    prepared: Prepared,
    reconstructions: dict[str, Reconstruction],
    inputs: MethodInputs,
    history: dict[str, History],
    folder: RunFolder,
) -> tuple[dict[str, Any], dict[str, Reconstruction]]:
    """Reconstruct one scan by its methods; assess, store and draw the objects; return metrics and objects.

    ``reconstructions``: by the solver before any network, if it is specified.
    """
    config, reconstructions = inputs.config, dict(reconstructions)
    wanted: list[str] = [LSQML] if LSQML in config.models else []
    wanted += [] if inputs.network is None else [NETWORK]
    for name in wanted:
        with folder.timed("inference" if name == NETWORK else name):
            try:
                reconstructions[name] = METHODS[name](prepared, reconstructions, inputs)
            except LsqmlError as error:
                log.warning("%s; the table goes without it", error)
    done = assess(prepared, reconstructions, inputs)
    result = metrics_of(prepared, done)
    reconstructions = done.reconstructions
    for name, reconstruction in reconstructions.items():
        folder.arrays(names.recon(name), reconstruction.arrays())
    folder.arrays(
        names.ASSESSMENT, assessment_arrays(prepared, reconstructions, done.fits, done.halves, done.caustic)
    )
    best, pixel = reconstructions[done.product], prepared.scan.pixel.metres
    exported = product_of(prepared.scan, prepared.whole, best.object, pixel, prepared.name, best.beam)
    target, *_ = [folder.place(name) for name in (names.PRODUCT, *names.IMAGES)]
    thickness = prepared.slice_thickness_m(best)
    exported = replace(exported, errors=best.errors, slices=best.slices, slice_thickness_m=thickness)
    product.write(target, exported)
    tiff.write(target, exported)
    draw(prepared, done, history, result, folder)
    return result, reconstructions
