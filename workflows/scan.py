"""Measured scans: understand, train on them or take a trained network, reconstruct, judge, draw."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
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
from ptycho.methods import lsqml, solver
from ptycho.methods.assessment import EXPLAINED, Fit, Halves, half_scans, judge
from ptycho.methods.prepared import Prepared, Surroundings, prepare
from ptycho.methods.solver import SOLVER
from ptycho.preparation.prepare import Understood
from ptycho.reconstruction.denoising import denoised, photon_noise
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.reconstruction.stitching import stitch
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network import read_network
from ptycho.run.network_training import describe_trainings, train_network
from ptycho.run.pretrained import run_folder
from ptycho.run.scan_training import split_scans
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.assess import probe_doubts, store_recon
from workflows.device import device_facts, prepare_tensorflow
from workflows.scan_assessment import draw, metrics_of
from workflows.scan_plan import ITERATIVE, NETWORK

log = logging.getLogger(__name__)

REFINED, DENOISED = "refined", "denoised"


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a run gives: ``metrics.json``, reconstructions by scan and name, and where all was written."""

    metrics: dict[str, Any]
    recons: dict[str, dict[str, Reconstruction]]
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
            _prepare(name, scan, replace(config, data=section), folder)
            for name, scan, section in zip(config.data.names(), scans, config.data.each(), strict=True)
        ]
        solved = [_solve(each, config, folder) for each in ready]
        seen = [each.fitted(_best_beam(each, first)) for each, first in zip(ready, solved, strict=True)]
        model, history, modes = network(config, seen, folder, stop)
        results, recons = {}, {}
        for each, first in zip(ready, solved, strict=True):
            place = folder if len(ready) == 1 else folder.inside(f"{names.SCANS}/{each.name}")
            shown = Network(model, modes, history)
            results[each.name], recons[each.name] = reconstruct(each, first, shown, config, place)
        rows = results[ready[0].name] if len(ready) == 1 else {"scans": results}
        folder.json(names.METRICS, rows | {"conventions": EXPLAINED})
    seconds = {
        name: {key: round(recon.seconds, 2) for key, recon in made.items()} for name, made in recons.items()
    }
    facts = {"seed": config.seed, "training": describe_trainings(history), "resumed": folder.resumed}
    programs = {
        key: recon.program for made in recons.values() for key, recon in made.items() if recon.program
    }
    facts |= {"reconstruction_s": seconds, "programs": programs}
    folder.manifest(device_facts(config.xla) | facts)
    log.info("results: %s", folder.path)
    return ScanResult(rows, recons, folder.path)


@dataclass(frozen=True, eq=False)
class Network:
    """A network for the scans of a run: itself, the modes of the probe that were learned in its training
    ``(K, N, N)``, and the history of that; each if there is one."""

    model: LoadedModel | None
    modes: np.ndarray | None
    history: dict[str, History]


Solution = tuple[Reconstruction, Solved]


def _prepare(name: str, scan: Understood, config: ScanRunConfig, folder: RunFolder) -> Prepared:
    log.info("%s: %s", config.data.path, scan.raw.format)
    for finding in scan.findings:
        log.info("%s", finding)
    for warning in scan.warnings:
        log.warning("%s", warning)
    return prepare(name, scan, config, Surroundings(folder.path, folder.timed))


def _solve(each: Prepared, config: ScanRunConfig, folder: RunFolder) -> Solution | None:
    """What the solver makes of a scan before any network, where it is asked for."""
    if not config.solver.steps:
        return None
    return solver.reconstruct(each, config, Surroundings(folder.path, folder.timed))


def _best_beam(each: Prepared, solved: Solution | None) -> Beam:
    """The solver's, else the one that was told."""
    return each.whole.beam if solved is None or solved[0].beam is None else solved[0].beam


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
    parts = split_scans(scans, config)
    _, history, modes = train_network(NETWORK, config, parts, folder, stop=stop, start=start)
    return load_model(folder.path, NETWORK), {NETWORK: history}, modes


def reconstruct(
    each: Prepared, solved: Solution | None, network: Network, config: ScanRunConfig, folder: RunFolder
) -> tuple[dict[str, Any], dict[str, Reconstruction]]:
    """One scan: its objects by solver, network and both, judged, stored and drawn; its metrics."""
    where, fits = Surroundings(folder.path, folder.timed), {}
    recons: dict[str, Reconstruction] = {} if solved is None else {SOLVER: solved[0]}
    if ITERATIVE in config.models:
        try:
            recons[ITERATIVE] = lsqml.reconstruct(each, config, where)
        except LsqmlError as error:
            log.warning("%s; the table goes without it", error)
    if network.model is not None:
        with folder.timed("inference"):
            recons[NETWORK] = _infer(each, solved, network, config, folder)
    with folder.timed("judging"):
        fits = {name: judge(made, each) for name, made in recons.items()}
    if config.stitch.method == "refined" and config.solver.steps and NETWORK in recons:
        with folder.timed("refinement"):
            fit = None if solved is None else solved[1]
            recons[REFINED] = solver.continue_from(recons[NETWORK], each, fit, config, where)
        fits[REFINED] = judge(recons[REFINED], each)
    name = choose(fits)
    if config.denoise and each.whole.counts:
        with folder.timed(DENOISED):
            recons[DENOISED] = without_noise(recons[name], each)
            fits[DENOISED] = judge(recons[DENOISED], each)
    with folder.timed("half_scans"):
        halves = _halves(each, solved, network.model, config, folder)
    with folder.timed("scoring"):
        result = metrics_of(each, recons, fits, halves) | {"product": name}
    for key, made in recons.items():
        store_recon(key, replace(made, beam=made.beam or each.whole.beam), folder)
    made, pixel = recons[name], each.scan.pixel.metres
    exported = product_of(each.scan, each.whole, made.object, pixel, each.name, made.beam)
    product.write(folder.place(names.PRODUCT), exported)
    draw(each, recons, fits, halves, network.history, result, folder)
    return result, recons


def choose(fits: dict[str, Fit]) -> str:
    """The reconstruction that is the product: the solver's, unless that from the network's object is clearly
    better by the patterns that were kept out; else the last there is."""
    if SOLVER in fits and REFINED in fits:
        return REFINED if fits[REFINED].clearly_better(fits[SOLVER]) else SOLVER
    ours = [name for name in (SOLVER, REFINED, NETWORK) if name in fits]
    return ours[0] if ours else next(reversed(fits))


def _infer(
    each: Prepared, solved: Solution | None, network: Network, config: ScanRunConfig, folder: RunFolder
) -> Reconstruction:
    """The network's object under the best beam there is; a general one begins with the solver's object."""
    model, beam = network.model, _best_beam(each, solved)
    assert model is not None
    if network.modes is not None:
        beam = beam.with_probe(network.modes).scaled_to(beam.power)
    data, began = each.fitted(beam), time.perf_counter()
    start = solved[0].objects if model.general and solved is not None else None
    made = inferred(model, data, start, config=config, scratch=folder.path)
    doubts = () if model.general else tuple(probe_doubts(data.probe, model.probe))
    seconds = time.perf_counter() - began
    return replace(made, beam=beam, general=model.general, doubts=doubts, seconds=seconds)


def _halves(
    each: Prepared,
    solved: Solution | None,
    model: LoadedModel | None,
    config: ScanRunConfig,
    folder: RunFolder,
) -> Halves | None:
    """The resolution by halves of the scan through the solver, else through the network."""
    infer: Callable[[Dataset], Reconstruction]
    if solved is not None:
        infer = solver.half_object(solved[1], config.solver.steps)
    elif model is not None:
        infer = partial(inferred, model, config=config, scratch=folder.path)
    else:
        return None
    fixed = "group_size" in config.model.FIXED
    data = each.fitted(_best_beam(each, solved))
    return half_scans(infer, data, config.seed, config.patterns_in_group, fixed)


def inferred(
    model: LoadedModel,
    data: Dataset,
    start: np.ndarray | None = None,
    *,
    config: ScanRunConfig,
    scratch: Path,
) -> Reconstruction:
    """The network's object, by ``stitch=probe``; it begins with ``start (1, M, M)``, or with a constant."""
    view = model.view(data)
    shape = (view.n_groups, view.region_size, view.region_size)
    regions = FileArray.temporary(scratch, shape, np.complex64)
    model.predict_regions(view, regions, config.batch_size, start)
    return stitch(regions, view, "probe")


def without_noise(made: Reconstruction, each: Prepared) -> Reconstruction:
    """The object without the noise of photons, with the same beam."""
    began = time.perf_counter()
    data = each.fitted(made.beam or each.whole.beam)
    objects = denoised(made.objects, made.mask, photon_noise(data))
    return replace(made, objects=objects, denoised=True, seconds=time.perf_counter() - began)
