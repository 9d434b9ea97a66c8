"""Measured scans: understand, train on them or take a trained network, reconstruct, judge, draw."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ScanRunConfig
from ptycho.exports import product
from ptycho.exports.from_dataset import product_of
from ptycho.files.file_array import FileArray
from ptycho.preparation.dataset import joined, kept_out, measured_dataset, training_and_validation
from ptycho.preparation.prepare import Finding, Understood, understand
from ptycho.progress import Progress
from ptycho.reconstruction.misfit import refine_while_better
from ptycho.reconstruction.orientation import advice, better, orientations
from ptycho.reconstruction.probe_guess import guessed_probe
from ptycho.reconstruction.stitching import Stitched, stitch
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network import read_network
from ptycho.scan.dataset import Dataset
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.assess import probe_doubts, store_recon
from workflows.device import device_facts, prepare_tensorflow
from workflows.inspect_scan import opened
from workflows.scan_assessment import EXPLAINED, assembled, compared, drawn, half_scans, judged
from workflows.train_network import trained, training_facts

log = logging.getLogger(__name__)

NETWORK = "pinn"


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a run gives: ``metrics.json``, reconstructions by scan and name, and where all was written."""

    metrics: dict[str, Any]
    recons: dict[str, dict[str, Stitched]]
    folder: Path


@dataclass(frozen=True, eq=False)
class Prepared:
    """A scan that is ready to be reconstructed.

    Attributes:
        name: of the scan, unique in its run.
        scan: how its file was understood.
        whole: all usable patterns.
        data: those that are fitted.
        free: those that are kept out to judge the result by, or None.
        found, doubts: what was settled, and flags that the results get.
    """

    name: str
    scan: Understood
    whole: Dataset
    data: Dataset
    free: Dataset | None
    found: list[Finding]
    doubts: list[str]


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
        model, history = network(config, [each.data for each in ready], folder, stop)
        results, recons = {}, {}
        for each in ready:
            place = folder if len(ready) == 1 else folder.inside(f"{names.SCANS}/{each.name}")
            results[each.name], recons[each.name] = reconstructed(each, model, history, config, place)
        rows = results[ready[0].name] if len(ready) == 1 else {"scans": results}
        folder.json(names.METRICS, rows | {"conventions": EXPLAINED})
    facts = {"seed": config.seed, "training": training_facts(history), "resumed": folder.resumed}
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
    data, free = split(whole, config)
    return Prepared(name, scan, whole, data, free, found, doubts)


def split(whole: Dataset, config: ScanRunConfig) -> tuple[Dataset, Dataset | None]:
    """The patterns that are fitted, and those that are kept out of everything to judge the result by."""
    kept, out = kept_out(whole, config.free_fraction, config.seed)
    log.info("%d patterns are fitted, %d are kept out to judge the result by", len(kept), len(out))
    return whole.subset(kept, config.group_size), whole.subset(out, 1) if len(out) else None


def settled(
    scan: Understood, config: ScanRunConfig, folder: RunFolder
) -> tuple[Understood, Dataset, list[Finding], list[str]]:
    """The scan with a probe, if need be a guessed one, read the way that explains it; flags of doubt."""
    data, found = read(scan, config, folder)
    with folder.timed("probe_and_orientation"):
        if scan.probe is None and config.probe is None:
            guess = guessed_probe(data)
            data = replace(data, probe=guess.probe)
            found.append(guess.finding)
            log.info("%s", guess.finding)
        trials = orientations(data)
        clear = better(trials)
    if clear is None:
        return scan, data, found, []
    told = advice(clear, trials, config.data)
    if config.data.orientation != "auto":
        log.warning("%s; or data.orientation=auto", told)
        return replace(scan, warnings=(*scan.warnings, told)), data, found, ["orientation_doubtful"]
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
) -> tuple[LoadedModel, dict[str, History]]:
    """The network of another run as it is, or one that is trained on the scans, from that or from nothing."""
    if not config.nepochs:
        log.info("the network of %s is used; no training", config.run)
        return load_model(str(config.run), NETWORK), {}
    start = None
    if config.run is not None:
        log.info("the network of %s is trained on", config.run)
        start = read_network(Path(config.run), NETWORK).weights
    parts = training_and_validation(joined(scans), config.val_fraction, config.seed)
    _, history = trained(NETWORK, config, parts, parts[0].offsets[0], folder, stop, start)
    return load_model(folder.path, NETWORK), {NETWORK: history}


def reconstructed(
    each: Prepared, model: LoadedModel, history: dict[str, History], config: ScanRunConfig, folder: RunFolder
) -> tuple[dict[str, Any], dict[str, Stitched]]:
    """One scan: its objects by the network and refined, judged, stored and drawn; its metrics."""
    data, free = each.data, each.free
    with folder.timed("inference"):
        recons = {NETWORK: inferred(model, data, config, folder.path)}
    if config.stitch.method == "refined":
        recons["refined"] = refined(recons[NETWORK], data, free, config, folder)
    with folder.timed("judging"):
        fits = {name: judged(recon, data, free) for name, recon in recons.items()}
    with folder.timed("half_scans"):
        halves = half_scans(lambda part: inferred(model, part, config, folder.path), data, config)
    with folder.timed("scoring"):
        truth = {name: compared(recon, each.scan, data) for name, recon in recons.items()}
    doubts = [*each.doubts, *probe_doubts(data.probe, model.probe)]
    result = assembled(each.scan, each.found, data, recons, fits, halves, truth, doubts)
    for name, recon in recons.items():
        store_recon(name, recon, folder)
    last = recons[next(reversed(recons))]
    made = product_of(each.scan, each.whole, last.objects[0], each.scan.pixel.metres, each.name)
    product.write(folder.place(names.PRODUCT), made)
    drawn(each.scan, data, recons, fits, halves, history, result, folder)
    return result, recons


def inferred(model: LoadedModel, data: Dataset, config: ScanRunConfig, scratch: Path) -> Stitched:
    """The network's object, by ``stitch=probe``."""
    view = model.view(data)
    shape = (view.n_groups, view.region_size, view.region_size)
    regions = FileArray.temporary(scratch, shape, np.complex64)
    model.predict_regions(view, regions, config.batch_size)
    return stitch(regions, view, "probe")


def refined(
    start: Stitched, data: Dataset, free: Dataset | None, config: ScanRunConfig, folder: RunFolder
) -> Stitched:
    """The network's object, refined as long as the patterns that were kept out are explained better."""
    passes = config.stitch.passes
    with (
        folder.timed("refinement"),
        closing(Progress("refinement", passes * len(data.amplitudes))) as progress,
    ):
        judge = free if free is not None else data
        objects, course = refine_while_better(start.objects, data, judge, passes, progress.advance)
    log.info("refinement: R of the free patterns %s", " → ".join(f"{value:.4f}" for value in course))
    return replace(start, objects=np.where(start.mask, objects, 0).astype(np.complex64))
