"""Measured scans: understand, train on them or take a trained network, reconstruct, judge, draw."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.evaluation.trust import ORIENTATION, SCALE
from ptycho.exports import product
from ptycho.exports.from_dataset import product_of
from ptycho.files.file_array import FileArray
from ptycho.iterative import lsqml
from ptycho.preparation.dataset import joined, kept_out, measured_dataset, training_and_validation
from ptycho.preparation.finding import Finding
from ptycho.preparation.prepare import Understood, understand
from ptycho.progress import Progress
from ptycho.reconstruction.denoising import denoised, photon_noise
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.reconstruction.orientation import advice, better, orientations
from ptycho.reconstruction.probe_guess import guessed_probe
from ptycho.reconstruction.scale import PATTERNS, better_scale
from ptycho.reconstruction.stitching import Stitched, covered, stitch
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network import read_network
from ptycho.run.pretrained import run_folder
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import masked
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.assess import probe_doubts, store_recon
from workflows.device import device_facts, prepare_tensorflow
from workflows.inspect_scan import opened
from workflows.scan_assessment import (
    EXPLAINED,
    SOLVER,
    Fit,
    Recon,
    assembled,
    compared,
    drawn,
    half_scans,
    judged,
    measurement_doubts,
)
from workflows.scan_plan import ITERATIVE, NETWORK
from workflows.scan_solver import continue_from, half_object, reconstruct
from workflows.train_network import trained, training_facts

log = logging.getLogger(__name__)

REFINED, DENOISED = "refined", "denoised"


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a run gives: ``metrics.json``, reconstructions by scan and name, and where all was written."""

    metrics: dict[str, Any]
    recons: dict[str, dict[str, Recon]]
    folder: Path


@dataclass(frozen=True, eq=False)
class Prepared:
    """A scan that is ready to be reconstructed.

    Attributes:
        name: of the scan, unique in its run.
        scan: how its file was understood.
        whole: all usable patterns, as the file describes them.
        kept, out: indices of those that are fitted, and of those that are kept out to judge the result by.
        data, free: the same with the probe, positions, … that explain them; free is None where none are out.
        solved: what the solver made of them before any network; None: it was not asked to.
        solution: how it came to it.
        learned: modes of the probe that were found in the training, ``(K, N, N)``; None: those of ``data``.
        found, doubts: what was settled, and flags that the results get.
    """

    name: str
    scan: Understood
    whole: Dataset
    kept: np.ndarray
    out: np.ndarray
    data: Dataset
    free: Dataset | None
    found: list[Finding]
    doubts: list[str]
    solved: Recon | None = None
    solution: Solved | None = None
    learned: np.ndarray | None = None

    def for_network(self) -> tuple[Dataset, Dataset | None]:
        """``data`` and ``free`` with the probe that the network was trained with."""
        if self.learned is None:
            return self.data, self.free
        return self.data.under(self.learned), None if self.free is None else self.free.under(self.learned)


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
    """The patterns read, a probe and an orientation settled, and some patterns kept out."""
    log.info("%s: %s", config.data.path, scan.raw.format)
    for finding in scan.findings:
        log.info("%s", finding)
    for warning in scan.warnings:
        log.warning("%s", warning)
    scan, whole, found, doubts = settled(scan, config, folder)
    kept, out = kept_out(whole, config.free_fraction, config.seed)
    log.info("%d patterns are fitted, %d are kept out to judge the result by", len(kept), len(out))
    data = whole.subset(kept, config.patterns_in_group)
    free = whole.subset(out, 1) if len(out) else None
    doubts = doubts + measurement_doubts(data, config)
    ready = Prepared(name, scan, whole, kept, out, data, free, found, doubts)
    return solve_first(ready, config, folder) if config.solver.steps else ready


def solve_first(each: Prepared, config: ScanRunConfig, folder: RunFolder) -> Prepared:
    """The scan with the probe, positions, … that the solver finds, and its object."""
    with folder.timed(SOLVER):
        recon, solution, decisions = reconstruct(each.whole, each.kept, each.out, config)
    with folder.timed("scale"):
        warned, doubts = scale_doubts(each.whole, solution)
    return replace(
        each,
        scan=replace(each.scan, warnings=(*each.scan.warnings, *warned)),
        data=recon.data,
        free=recon.free,
        solved=recon,
        solution=solution,
        found=[*each.found, *decisions],
        doubts=[*each.doubts, *doubts],
    )


def scale_doubts(told: Dataset, solution: Solved) -> tuple[list[str], list[str]]:
    """A warning and a flag where positions of another scale explain the patterns better; or none.

    Where neither probe nor positions were found, a wrong scale cannot hide.
    """
    if not (solution.free.probe or solution.free.positions):
        return [], []
    scale = better_scale(told, solution.terms, solution.state)
    if not scale.clear:
        return [], []
    after = scale.before * np.exp(-scale.gain.gain)
    warning = (
        f"positions {scale.factor:.3f} times as far apart explain {PATTERNS} patterns better under the "
        f"probe as it was told: deviance {scale.before:.4f} → {after:.4f} ± {after * scale.gain.error:.4f}"
    )
    log.warning("%s", warning)
    return [warning], [SCALE]


def settled(
    scan: Understood, config: ScanRunConfig, folder: RunFolder
) -> tuple[Understood, Dataset, list[Finding], list[str]]:
    """The scan with a probe, if need be a guessed one, read the way that explains it; flags of doubt."""
    data, found = read(scan, config, folder)
    with folder.timed("probe_and_orientation"):
        if scan.probe is None and isinstance(config.probe, OwnProbe):
            guess = guessed_probe(data)
            data = replace(data, probe=masked(guess.probe, config.probe), weaker_modes=None)
            found.append(guess.finding)
            log.info("%s", guess.finding)
        trials = orientations(replace(data, weaker_modes=None))
        clear = better(trials)
    if clear is None:
        return scan, data, found, []
    told = advice(clear, trials, config.data)
    if config.data.orientation != "auto":
        log.warning("%s; or data.orientation=auto", told)
        return replace(scan, warnings=(*scan.warnings, told)), data, found, [ORIENTATION]
    log.info("data.orientation=auto: %s", told)
    turned = clear.orientation.on(config.data)
    scan = understand(opened(turned), turned)
    data, again = read(scan, replace(config, data=turned), folder)
    found = [*again, Finding("orientation", clear.orientation.keys(config.data), told)]
    return scan, data, found, []


def read(scan: Understood, config: ScanRunConfig, folder: RunFolder) -> tuple[Dataset, list[Finding]]:
    """All patterns of the scan, read once."""
    with folder.timed("reading"), closing(Progress("reading", len(scan.frames))) as progress:
        data, found = measured_dataset(scan, config, folder.path, progress.advance)
    for finding in found:
        log.info("%s", finding)
    return data, found


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
            recons[ITERATIVE] = iterative(each, config, folder)
        except lsqml.LsqmlError as error:
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
            recons[REFINED] = continue_from(recons[NETWORK], each.solution, config)
        fits[REFINED] = judged(recons[REFINED])
    product_name = chosen(fits)
    if config.denoise and recons[product_name].data.counts:
        with folder.timed(DENOISED):
            recons[DENOISED] = without_noise(recons[product_name])
            fits[DENOISED] = judged(recons[DENOISED])
    with folder.timed("half_scans"):
        if each.solved is not None and each.solution is not None:
            halves = half_scans(half_object(each.solution, config.solver.steps), each.solved.data, config)
        elif model is not None:
            halves = half_scans(
                partial(inferred, model, config=config, scratch=folder.path), each.data, config
            )
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


def iterative(each: Prepared, config: ScanRunConfig, folder: RunFolder) -> Recon:
    """pty-chi's LSQ-ML on the same patterns, from the file's probe and positions."""
    data = each.whole.subset(each.kept, 1)
    free = each.whole.subset(each.out, 1) if len(each.out) else None
    patterns = config.iterative.epochs * len(data.positions)
    with folder.timed(ITERATIVE), closing(Progress(ITERATIVE, patterns)) as progress:
        found = lsqml.reconstruct(data, config.iterative, config.seed, progress.advance, folder.path)
    program, epochs, r_factor = f"pty-chi {found.version}", len(found.r_factors), found.r_factors[-1]
    log.info("lsqml: %s, %d epochs, R %.4f, %.1f s", program, epochs, r_factor, found.seconds)
    seen, judging = found.explained(data), None if free is None else found.unfitted(free)
    mask = covered(seen)
    image = Stitched(np.where(mask, found.object, 0), mask)
    return Recon(image, seen, judging, found.seconds, program)


def beam_of(recon: Recon, each: Prepared) -> dict[str, np.ndarray]:
    """The probe ``(K, N, N)``, the positions ``(J, 2)`` of all usable patterns, and their flux ``(J,)``."""
    data = recon.data
    positions, flux = each.whole.positions.copy(), np.ones(len(each.whole.positions), np.float32)
    for part, where in ((data, each.kept), (recon.free, each.out)):
        if part is not None:
            positions[where] = part.positions
            flux[where] = 1 if part.flux is None else part.flux
    found = {"probe": data.modes, "positions": positions, "flux": flux}
    return found if data.background is None else found | {"background": data.background}


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
