"""Measured scans: understand, train on them or take a trained network, reconstruct, judge, draw."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ScanRunConfig
from ptycho.exports import product
from ptycho.exports.from_dataset import product_of
from ptycho.files.file_array import FileArray
from ptycho.iterative.lsqml import LsqmlError
from ptycho.methods.assessment import (
    EXPLAINED,
    SOLVER,
    Fit,
    Recon,
    compared,
    half_scans,
    judged,
)
from ptycho.methods.lsqml import reconstruct as iterative
from ptycho.methods.prepared import Prepared, Surroundings, beam_of, prepare, settings_of, solve_first
from ptycho.methods.solver import continue_from, half_object
from ptycho.preparation.dataset import joined, training_and_validation
from ptycho.preparation.prepare import Understood
from ptycho.reconstruction.denoising import denoised, photon_noise
from ptycho.reconstruction.stitching import Stitched, stitch
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network import read_network
from ptycho.run.pretrained import run_folder
from ptycho.scan.dataset import Dataset
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.assess import probe_doubts, store_recon
from workflows.device import device_facts, prepare_tensorflow
from workflows.scan_assessment import assembled, drawn
from workflows.scan_plan import ITERATIVE, NETWORK
from workflows.train_network import trained, training_facts

log = logging.getLogger(__name__)

REFINED, DENOISED = "refined", "denoised"


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a run gives: ``metrics.json``, reconstructions by scan and name, and where all was written."""

    metrics: dict[str, Any]
    recons: dict[str, dict[str, Recon]]
    folder: Path


def run(
    config: ScanRunConfig, scans: list[Understood], folder: RunFolder, stop: StopRequest | None = None
) -> ScanResult:
    """Run the workflow, or what is left of it, and write everything into ``folder``.

    One scan is written into the folder itself; of several, each into ``scans/<name>``.
    """
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        ready = [
            prepared(name, scan, replace(config, data=section), folder)
            for name, scan, section in zip(config.data.names(), scans, config.data.each(), strict=True)
        ]
        model, history, modes = network(config, [each.data for each in ready], folder, stop)
        results, recons = {}, {}
        for each in ready:
            place = folder if len(ready) == 1 else folder.inside(f"{names.SCANS}/{each.name}")
            learned = each if modes is None else replace(each, learned=modes)
            results[each.name], recons[each.name] = reconstructed(learned, model, history, config, place)
        rows = results[ready[0].name] if len(ready) == 1 else {"scans": results}
        folder.json(names.METRICS, rows | {"conventions": EXPLAINED})
    seconds = {
        name: {key: round(recon.seconds, 2) for key, recon in made.items()} for name, made in recons.items()
    }
    facts = {"seed": config.seed, "training": training_facts(history), "resumed": folder.resumed}
    programs = {
        key: recon.program for made in recons.values() for key, recon in made.items() if recon.program
    }
    facts |= {"reconstruction_s": seconds, "programs": programs}
    folder.manifest(device_facts(config.xla) | facts)
    log.info("results: %s", folder.path)
    return ScanResult(rows, recons, folder.path)


def prepared(name: str, scan: Understood, config: ScanRunConfig, folder: RunFolder) -> Prepared:
    """A scan made ready, and solved where that is asked for."""
    log.info("%s: %s", config.data.path, scan.raw.format)
    for finding in scan.findings:
        log.info("%s", finding)
    for warning in scan.warnings:
        log.warning("%s", warning)
    where = Surroundings(folder.path, folder.timed)
    ready = prepare(name, scan, config, where)
    return solve_first(ready, config, where) if config.solver.steps else ready


def network(
    config: ScanRunConfig, scans: list[Dataset], folder: RunFolder, stop: StopRequest | None
) -> tuple[LoadedModel | None, dict[str, History], np.ndarray | None]:
    """The network of another run as it is, or one that is trained on the scans, from that or from nothing.

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
    parts = training_and_validation(joined(scans), config.val_fraction, config.seed)
    _, history, modes = trained(NETWORK, config, parts, parts[0].offsets[0], folder, stop, start)
    return load_model(folder.path, NETWORK), {NETWORK: history}, modes


def reconstructed(
    each: Prepared,
    model: LoadedModel | None,
    history: dict[str, History],
    config: ScanRunConfig,
    folder: RunFolder,
) -> tuple[dict[str, Any], dict[str, Recon]]:
    """One scan: its objects by solver, network and both, judged, stored and drawn; its metrics."""
    recons, halves, doubts = {}, None, list(each.doubts)
    if each.solved is not None:
        recons[SOLVER] = each.solved
    if ITERATIVE in config.models:
        try:
            recons[ITERATIVE] = iterative(each, config, Surroundings(folder.path, folder.timed))
        except LsqmlError as error:
            log.warning("%s; the table goes without it", error)
    if model is not None:
        infer = partial(inferred, model, config=config, scratch=folder.path)
        data, free = each.for_network()
        with folder.timed("inference"):
            began = time.perf_counter()
            begun = each.solved.object.objects if model.general and each.solved is not None else None
            image = infer(data, begun)
            took = time.perf_counter() - began
            recons[NETWORK] = Recon(image, data, free, took, general=model.general)
        doubts += [] if model.general else probe_doubts(data.probe, model.probe)
    with folder.timed("judging"):
        fits = {name: judged(recon) for name, recon in recons.items()}
    if config.stitch.method == "refined" and config.solver.steps and NETWORK in recons:
        with folder.timed("refinement"):
            recons[REFINED] = continue_from(recons[NETWORK], each.solution, settings_of(config, each.whole.N))
        fits[REFINED] = judged(recons[REFINED])
    product_name = chosen(fits)
    if config.denoise and recons[product_name].data.counts:
        with folder.timed(DENOISED):
            recons[DENOISED] = without_noise(recons[product_name])
            fits[DENOISED] = judged(recons[DENOISED])
    halved = partial(
        half_scans,
        seed=config.seed,
        group_size=config.patterns_in_group,
        fixed="group_size" in config.model.FIXED,
    )
    with folder.timed("half_scans"):
        if each.solved is not None and each.solution is not None:
            halves = halved(half_object(each.solution, config.solver.steps), each.solved.data)
        elif model is not None:
            halves = halved(partial(inferred, model, config=config, scratch=folder.path), each.data)
    with folder.timed("scoring"):
        truth = {name: compared(recon, each.scan) for name, recon in recons.items()}
    beams = {name: beam_of(recon, each) for name, recon in recons.items()}
    result = assembled(
        each.scan, each.found, recons, fits, halves, truth, doubts, beams, each.whole.positions
    )
    result["product"] = product_name
    for name, recon in recons.items():
        store_recon(name, recon.object, folder, beams[name])
    image, pixel = recons[product_name].object.objects[0], each.scan.pixel.metres
    made = product_of(each.scan, each.whole, image, pixel, each.name, beams[product_name])
    product.write(folder.place(names.PRODUCT), made)
    drawn(each.scan, recons, fits, halves, history, result, folder)
    return result, recons


def chosen(fits: dict[str, Fit]) -> str:
    """The reconstruction that is the product: the solver's, unless that from the network's object is clearly
    better by the patterns that were kept out; else the last there is."""
    if SOLVER in fits and REFINED in fits:
        return REFINED if fits[REFINED].clearly_better(fits[SOLVER]) else SOLVER
    ours = [name for name in (SOLVER, REFINED, NETWORK) if name in fits]
    return ours[0] if ours else next(reversed(fits))


def inferred(
    model: LoadedModel,
    data: Dataset,
    start: np.ndarray | None = None,
    *,
    config: ScanRunConfig,
    scratch: Path,
) -> Stitched:
    """The network's object, by ``stitch=probe``; it begins with ``start (1, M, M)``, or with a constant."""
    view = model.view(data)
    shape = (view.n_groups, view.region_size, view.region_size)
    regions = FileArray.temporary(scratch, shape, np.complex64)
    model.predict_regions(view, regions, config.batch_size, start)
    return stitch(regions, view, "probe")


def without_noise(recon: Recon) -> Recon:
    """The object without the noise of photons, with the same beam."""
    began, made = time.perf_counter(), recon.object
    objects = denoised(made.objects, made.mask, photon_noise(recon.data))
    seconds = time.perf_counter() - began
    return replace(recon, object=replace(made, objects=objects), seconds=seconds, denoised=True)
