"""A measured scan: understand, train on it or take a trained network, reconstruct, judge, draw."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import binary_erosion

from ptycho.config import ScanRunConfig
from ptycho.evaluation import metrics, scan_figures
from ptycho.evaluation.frc import frc, frc_crossing
from ptycho.evaluation.registration import in_frame
from ptycho.exports import product
from ptycho.exports.from_dataset import product_of
from ptycho.files.file_array import FileArray
from ptycho.preparation.dataset import kept_out, measured_dataset, training_and_validation
from ptycho.preparation.prepare import Finding, Understood, understand
from ptycho.progress import Progress
from ptycho.reconstruction.misfit import CONVENTIONS, Misfit, misfit, refine_while_better
from ptycho.reconstruction.orientation import advice, better, orientations
from ptycho.reconstruction.probe_guess import guessed_probe
from ptycho.reconstruction.stitching import Stitched, stitch
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter
from ptycho.training.history import History
from ptycho.training.interrupt import StopRequest
from workflows.assess import FAR_PROBE, FAR_PROBE_MEANS, probe_doubts, store_recon
from workflows.device import device_facts, prepare_tensorflow
from workflows.inspect_scan import opened
from workflows.train_network import trained, training_facts

log = logging.getLogger(__name__)

NETWORK = "pinn"
PROBE_WRONG = 2.0  # r_free above so many times r_noise is more than photons can explain
OVERFIT = 1.2  # r_free above so many times r_factor
FLAGS = {
    "probe_wrong": f"r_free is above {PROBE_WRONG:g} times r_noise: more than photon noise is wrong, most "
    "often the probe, or positions, or the orientation",
    "overfit": f"r_free is above {OVERFIT:g} times r_factor: the object fits the patterns it was made from "
    "better than the others",
    FAR_PROBE: FAR_PROBE_MEANS,
    "orientation_doubtful": "another orientation of the detector, or sign of the positions, explains the "
    "patterns clearly better; see warnings",
}


@dataclass(frozen=True, eq=False)
class ScanResult:
    """What a run gives: ``metrics.json``, reconstructions by name, and where everything was written."""

    metrics: dict[str, Any]
    recons: dict[str, Stitched]
    folder: Path


def run(
    config: ScanRunConfig, scan: Understood, folder: RunFolder, stop: StopRequest | None = None
) -> ScanResult:
    """Run the workflow, or what is left of it, and write everything into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        log.info("%s: %s", config.data.file, scan.raw.format)
        for finding in scan.findings:
            log.info("%s", finding)
        for warning in scan.warnings:
            log.warning("%s", warning)
        scan, whole, found, doubts = settled(scan, config, folder)
        data, free = split(whole, config)
        model, history = network(config, data, folder, stop)
        with folder.timed("inference"):
            recons = {NETWORK: reconstructed(model, data, config, folder.path)}
        if config.stitch.method == "refined":
            recons["refined"] = refined(recons[NETWORK], data, free, config, folder)
        fits = {name: judged(recon, data, free, folder) for name, recon in recons.items()}
        halves = half_scans(model, data, config, folder)
        doubts += probe_doubts(data.probe, model.probe)
        truth = {name: compared(recon, scan, data, folder) for name, recon in recons.items()}
        result = assembled(scan, found, data, recons, fits, halves, truth, doubts)
        for name, recon in recons.items():
            store_recon(name, recon, folder)
        last = recons[next(reversed(recons))]
        made = product_of(scan, whole, last.objects[0], scan.pixel.metres, folder.path.name)
        product.write(folder.path / names.PRODUCT, made)
        folder.json(names.METRICS, result)
        drawn(scan, data, recons, fits, halves, history, result, folder)
    facts = {"seed": config.seed, "training": training_facts(history), "resumed": folder.resumed}
    folder.manifest(device_facts(config.xla) | facts)
    log.info("results: %s", folder.path)
    return ScanResult(result, recons, folder.path)


def split(whole: Dataset, config: ScanRunConfig) -> tuple[Dataset, Dataset | None]:
    """The patterns that are fitted, and those that are kept out of everything to judge the result by."""
    kept, out = kept_out(whole, config.free_fraction, config.seed)
    log.info("%d patterns are fitted, %d are kept out to judge the result by", len(kept), len(out))
    return whole.subset(kept, config.group_size), whole.subset(out, 1) if len(out) else None


def settled(
    scan: Understood, config: ScanRunConfig, folder: RunFolder
) -> tuple[Understood, Dataset, list[Finding], list[str]]:
    """The scan with a probe, if need be a guessed one, read the way that explains it; flags of doubt."""
    data, found = prepared(scan, config, folder)
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
    data, again = prepared(scan, replace(config, data=turned), folder)
    found = [*again, Finding("orientation", clear.orientation.keys(config.data), told)]
    return scan, data, found, []


def prepared(scan: Understood, config: ScanRunConfig, folder: RunFolder) -> tuple[Dataset, list[Finding]]:
    """All patterns of the scan, read once."""
    with folder.timed("reading"), closing(Progress("reading", len(scan.frames))) as progress:
        data, found = measured_dataset(scan, config, folder.path, progress.advance)
    for finding in found:
        log.info("%s", finding)
    return data, found


def network(
    config: ScanRunConfig, data: Dataset, folder: RunFolder, stop: StopRequest | None
) -> tuple[LoadedModel, dict[str, History]]:
    """The network of another run, or one that is trained on the scan itself, for groups of any size."""
    if config.run is not None:
        log.info("the network of %s is used; no training", config.run)
        return load_model(config.run, NETWORK), {}
    scans = training_and_validation(data, config.val_fraction, config.seed)
    _, history = trained(NETWORK, config, scans, data.offsets[0], folder, stop)
    return load_model(folder.path, NETWORK), {NETWORK: history}


def reconstructed(model: LoadedModel, data: Dataset, config: ScanRunConfig, scratch: Path) -> Stitched:
    """The network's object, by ``stitch=probe``."""
    shape = (data.n_groups, data.region_size, data.region_size)
    regions = FileArray.temporary(scratch, shape, np.complex64)
    model.predict_regions(data, regions, config.batch_size)
    return stitch(regions, data, "probe")


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


def judged(
    recon: Stitched, data: Dataset, free: Dataset | None, folder: RunFolder
) -> dict[str, Misfit | None]:
    """How an object explains the patterns that it was made from, and those that were kept out."""
    with folder.timed("judging"):
        return {
            "used": misfit(recon.objects, data),
            "free": None if free is None else misfit(recon.objects, free),
        }


@dataclass(frozen=True, eq=False)
class Halves:
    """Ring correlation of two reconstructions, each from half of the patterns, and where it falls."""

    frequency: np.ndarray
    correlation: np.ndarray
    crossings: dict[str, float | None]


def half_scans(model: LoadedModel, data: Dataset, config: ScanRunConfig, folder: RunFolder) -> Halves | None:
    """The resolution by two random halves of the scan through the same network; None for a tiny scan."""
    rng = np.random.default_rng([config.seed, 3])
    order = rng.permutation(len(data.positions))
    parts = [np.sort(half) for half in np.array_split(order, 2)]
    region = metrics.Region(*data.tiling.rectangle)
    if min(len(part) for part in parts) <= config.group_size or min(region.height, region.width) < 32:
        return None
    with folder.timed("half_scans"):
        made = [
            reconstructed(model, data.subset(part, config.group_size), config, folder.path) for part in parts
        ]
        images = [region.crop(half.objects[0]) for half in made]
        mask = region.crop(made[0].mask[0]) & region.crop(made[1].mask[0])
        if not all(np.isfinite(image).all() and image[mask].any() for image in images):
            return None
        first = np.where(mask, images[0], 0)
        frequency, correlation = frc(metrics.align(images[1], first, mask).object, first)
    crossings = {}
    for name, threshold in (("frc50", 0.5), ("frc1over7", 1 / 7)):
        value, crossed = frc_crossing(frequency, correlation, threshold)
        crossings[name] = value if crossed else None
    return Halves(frequency, correlation, crossings)


def compared(recon: Stitched, scan: Understood, data: Dataset, folder: RunFolder) -> dict[str, Any] | None:
    """Scores against the object that the file brings, registered; None where it brings none of this scale.

    Scored is a rectangle of the covered part, without the rim, half a probe wide, that the scan lit poorly.
    """
    truth, size = scan.raw.object, scan.raw.object_pixel_m
    if truth is None or (scan.pixel.metres and size and not _same(size, scan.pixel.metres)):
        return None
    region = metrics.Region(*data.tiling.rectangle)
    with folder.timed("scoring"):
        image, mask = region.crop(recon.objects[0]), region.crop(recon.mask[0])
        if not np.isfinite(image).all() or not image[mask].any():
            return None
        flat = np.where(mask, np.abs(image) * np.exp(1j * scan_figures.levelled_phase(image, mask)), 0)
        known, there = in_frame(truth, flat, mask)
        rim = round(energy_diameter(data.probe) / 2)
        part = _largest(binary_erosion(there, iterations=rim))
        if part is None:
            return None
        return metrics.score(image[part], known[part], there[part], metrics.Region(0, 0, *known[part].shape))


def _same(one: tuple[float, float], two: tuple[float, float]) -> bool:
    return all(abs(a / b - 1) < 0.01 for a, b in zip(one, two, strict=True))


def _largest(known: np.ndarray) -> tuple[slice, slice] | None:
    """A rectangle of known pixels: the bounding box, cut on all sides until it holds nothing else."""
    rows, cols = (np.flatnonzero(known.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return None
    top, bottom, left, right = rows[0], rows[-1] + 1, cols[0], cols[-1] + 1
    while not known[top:bottom, left:right].all():
        top, bottom, left, right = top + 1, bottom - 1, left + 1, right - 1
        if min(bottom - top, right - left) < metrics.SSIM_WINDOW:
            return None
    return slice(top, bottom), slice(left, right)


def assembled(
    scan: Understood,
    found: list[Finding],
    data: Dataset,
    recons: dict[str, Stitched],
    fits: dict[str, dict[str, Misfit | None]],
    halves: Halves | None,
    truth: dict[str, dict[str, Any] | None],
    doubts: list[str],
) -> dict[str, Any]:
    """``metrics.json``: how far the result can be trusted, and how the file was understood."""
    rows = {name: _row(fits[name], recons[name], data) for name in recons}
    for name, row in rows.items():
        row["flags"] += doubts
        if (scores := truth[name]) is not None:
            row["against_the_files_object"] = scores
            log.info("%-8s SSIM amplitude %s  phase %s", name, *(_number(score) for score in scores["ssim"]))
        log.info(
            "%-8s r_factor %s  r_free %s  (photon noise alone %s)%s",
            name,
            *(_number(row[key]) for key in ("r_factor", "r_free", "r_noise")),
            f"  ! {', '.join(row['flags'])}" if row["flags"] else "",
        )
    pixel = scan.pixel.metres
    resolution = None if halves is None else _resolution(halves, pixel)
    return rows | {
        "half_scan_frc": resolution,
        "pixel_m": None if pixel is None else list(pixel),
        "understood": {finding.what: [finding.value, finding.why] for finding in (*scan.findings, *found)},
        "warnings": list(scan.warnings),
        "conventions": CONVENTIONS
        | {
            "r_free": "r_factor of the patterns that were kept out of training, stitching and refinement",
            "half_scan_frc": "Fourier ring correlation of two objects, each from a random half of the "
            "patterns through the same network, without refinement, aligned by one scale and one phase "
            "plane; crossings as fractions of Nyquist, and as half periods in metres; null: never crossed",
        }
        | FLAGS,
    }


def _row(fit: dict[str, Misfit | None], recon: Stitched, data: Dataset) -> dict[str, Any]:
    used, free = fit["used"], fit["free"]
    assert used is not None
    judge = used if free is None else free
    region = metrics.Region(*data.tiling.rectangle)
    flags = []
    if judge.r_noise is not None and judge.r_factor > PROBE_WRONG * judge.r_noise:
        flags.append("probe_wrong")
    if free is not None and free.r_factor > OVERFIT * used.r_factor:
        flags.append("overfit")
    return {
        "r_factor": used.r_factor,
        "r_free": None if free is None else free.r_factor,
        "r_noise": used.r_noise,
        "uncovered_fraction": float(1 - region.crop(recon.mask[0]).mean()),
        "flags": flags,
    }


def _resolution(halves: Halves, pixel: tuple[float, float] | None) -> dict[str, Any]:
    lengths = {
        f"{name}_m": None if value is None or pixel is None else max(pixel) / value
        for name, value in halves.crossings.items()
    }
    return halves.crossings | lengths


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def drawn(
    scan: Understood,
    data: Dataset,
    recons: dict[str, Stitched],
    fits: dict[str, dict[str, Misfit | None]],
    halves: Halves | None,
    histories: dict[str, History],
    result: dict[str, Any],
    folder: RunFolder,
) -> None:
    """The objects with a scale bar, the probe, the misfit over the scan, the half-scan FRC and the losses."""
    pixel = None if scan.pixel.metres is None else scan.pixel.metres
    with folder.timed("drawing"):
        for name, recon in recons.items():
            shown = _title(name, result[name])
            image = scan_figures.reconstructed(recon.objects[0], recon.mask[0], data.probe, pixel, shown)
            folder.figure(names.figure(f"amp_phase_{name}"), image)
        last = next(reversed(recons))
        used = fits[last]["used"]
        assert used is not None
        each = used.residual / np.maximum(used.measured, 1e-30)
        curve = None if halves is None else (halves.frequency, halves.correlation)
        rows = {name: history.rows for name, history in histories.items()}
        folder.figure(names.figure("quality"), scan_figures.quality(data.positions, each, curve, rows))


def _title(name: str, row: dict[str, Any]) -> str:
    text = f"{name}: R {row['r_factor']:.3f}, free {_number(row['r_free'])}, noise {_number(row['r_noise'])}"
    return text + (f"   ! {', '.join(row['flags'])}" if row["flags"] else "")
