"""Inference with the networks of a run: read, predict, stitch, score and draw where the truth is known."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ptycho.evaluation import figures, metrics
from ptycho.evaluation.trust import (
    FLAGS,
    IN_NOISE,
    OUTSIDE,
    amplitude_in_noise,
    doubt_patterns,
    doubt_probe,
    outside_training,
)
from ptycho.files.atomic import WriteError
from ptycho.files.file_array import FileArray
from ptycho.files.lock import locked
from ptycho.methods.assessment import share_of_noise
from ptycho.reconstruction.misfit import misfit
from ptycho.reconstruction.stitching import stitch
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel
from ptycho.run.record import device_facts, prepare_tensorflow
from ptycho.run.replacing import undo
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import described_widths
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.interrupt import StopRequest, remove_traces
from workflows.reconstruct.assess import draw_comparison, score_models, store_recon
from workflows.reconstruct.infer_config import InferJob, describe_probe

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class InferResult:
    """Reconstructions by name, scores if the truth is known, patterns per second, and the folder."""

    recons: dict[str, Reconstruction]
    metrics: dict[str, Any] | None
    patterns_per_s: dict[str, float]
    folder: Path


def run(job: InferJob, stop: StopRequest | None = None) -> InferResult:
    """Do a planned inference; one that fails leaves nothing but the run that it was to replace.

    Raises:
        ConfigError: stored weights are not those of the network that the run's configuration describes, or
            another process writes into the folder; nothing is written then.
        WriteError: the disk is full, or the folder cannot be written.
    """
    prepare_tensorflow()
    models = {stored.name: LoadedModel(stored) for stored in job.networks}

    def clear() -> None:
        undo(job.path)
        remove_traces(job.path)

    with locked(job.path):
        folder = RunFolder(job.path, job.config.overwrite, contents=names.INFERENCE)
        ending = (stop or StopRequest()).end_with(lambda: f"nothing was written to {job.path}", clear)
        with ending, folder.replacing(), _full_disk_explained(job.path):
            result = written(job, models, folder)
    log.info("results: %s", job.path)
    return result


@contextlib.contextmanager
def _full_disk_explained(path: Path) -> Iterator[None]:
    """Report a full disk with the name of the folder, because temporary arrays have no name."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise WriteError(f"{path}: cannot be written ({error.strerror})") from error


def written(job: InferJob, models: dict[str, LoadedModel], folder: RunFolder) -> InferResult:
    """Read, reconstruct, score and draw into ``folder``."""
    with folder.logged(), folder.timed("total"):
        folder.text(names.CONFIG, yaml.safe_dump(described(job), sort_keys=False))
        data = open_data(job, folder)
        recons, speeds = {}, {}
        for name, model in models.items():
            recons[name], speeds[name] = reconstruct(name, model, data, job, folder)
        doubts = {} if job.general else doubt_probe(data.probe, job.networks[0].setup.probe)
        doubts |= doubt_patterns(data.amplitudes.statistics, data.probe)
        if job.general:
            doubts |= general_doubts(recons, data)
        scores = assess(job, data, recons, folder, doubts)
    folder.manifest(facts(job, data, speeds) | {"flags": [*doubts]})
    return InferResult(recons, scores, speeds, job.path)


def described(job: InferJob) -> dict[str, Any]:
    models = [stored.name for stored in job.networks]
    asked = {key: value for key, value in asdict(job.config).items() if key != "passes"}
    values = asked | {"models": models, "stitch": asdict(job.stitch), "batch_size": job.batch_size}
    return values | {"run": str(job.networks[0].run.resolve()), "data": str(job.data.path.resolve())}


def open_data(job: InferJob, folder: RunFolder) -> Dataset:
    """The dataset of a job, its patterns still in a file."""
    setup, measurement = job.networks[0].setup, job.data
    log.info(
        "%s: %d patterns in %d groups",
        measurement.path,
        measurement.shape[0],
        len(measurement.values["groups"]),
    )
    if job.general:
        log.info("the probe of the file is used: %s", described_widths(measurement.values["probe"]))
    else:
        log.info("%s", describe_probe(measurement, setup.probe))
    changes: dict[str, Any] = {}
    if not measurement.counts:
        changes["photon_scale"] = measurement.fitted_photon_scale(setup.transmission)
        log.info(
            "amplitudes are not counts and leave the scale of probe × object open; it is set so that the "
            "mean transmission is that of the training data (photon_scale=%.4g)",
            changes["photon_scale"],
        )
    with folder.timed("reading"):
        data = measurement.dataset(folder.path, **changes)
    if job.group_size is None:
        return data
    return data.tiled(job.group_size) if job.general else data.regrouped(job.group_size)


def reconstruct(
    name: str, model: LoadedModel, data: Dataset, job: InferJob, folder: RunFolder
) -> tuple[Reconstruction, float]:
    """Predict all regions into a temporary file, stitch and store; the objects, and patterns per second."""
    view = model.view(data)
    with folder.timed("compilation"):
        first = np.zeros(job.batch_size, int)
        model.step_for(view)(view.normalised(view.groups[first]), view.offsets[first], view.model_probe)
    regions = FileArray.temporary(
        folder.path, (view.n_groups, view.region_size, view.region_size), np.complex64
    )
    before = sum(folder.timings.get(phase, 0.0) for phase in WORK)
    with folder.timed("inference"):
        model.predict_regions(view, regions, job.batch_size)
    with folder.timed("stitching"):
        stitched = stitch(regions, view, job.stitch.method, job.stitch.passes)
    seconds = sum(folder.timings[phase] for phase in WORK) - before
    with folder.timed("writing"):
        store_recon(name, stitched, folder)
    speed = view.groups.size / seconds
    log.info("%s: %d patterns, %.0f patterns/s, stitching included", name, view.groups.size, speed)
    return stitched, speed


WORK = ("inference", "stitching")


def general_doubts(recons: dict[str, Reconstruction], data: Dataset) -> dict[str, str]:
    """The flags of a network for many scans that meets one unlike those, or few photons, with warnings."""
    flags = []
    for recon in recons.values():
        fit = misfit(recon.objects, data)
        apart = None if recon.disagreement is None else float(np.nan_to_num(recon.disagreement).max())
        log.info("R-factor %.4f, disagreement of overlapping regions %.3f", fit.r_factor, apart or 0.0)
        if outside_training(fit.r_factor, fit.r_noise, apart):
            flags.append(OUTSIDE)
        whole = metrics.Region(0, 0, data.object_size, data.object_size)
        if amplitude_in_noise(share_of_noise(recon, data, whole)):
            flags.append(IN_NOISE)
    for flag in dict.fromkeys(flags):
        log.warning("%s: %s", flag, FLAGS[flag].remedy)
    return {flag: FLAGS[flag].means for flag in flags}


def assess(
    job: InferJob,
    data: Dataset,
    recons: dict[str, Reconstruction],
    folder: RunFolder,
    doubts: Mapping[str, str],
) -> dict[str, Any] | None:
    """Score and draw against the truth where it is known; otherwise draw the reconstructions."""
    rectangle = data.tiling.rectangle
    if data.objects is None or min(rectangle[2:]) < metrics.SSIM_WINDOW:
        why = "no true objects" if data.objects is None else "a scan too small to be scored"
        log.info("the file has %s: no scores", why)
        whole = metrics.Region(0, 0, data.object_size, data.object_size)
        region = metrics.Region(*rectangle) if min(rectangle[2:]) > 0 else whole
        for name, recon in recons.items():
            figure = figures.amp_phase(name, recon.objects[0], region, recon.mask[0])
            figure.suptitle(f"image 1 of {len(recon.objects)}")
            folder.figure(names.figure(f"amp_phase_{name}"), figure)
        return None
    truth, region = data.objects, metrics.Region(*rectangle)
    if job.data.truth is not None:
        log.info("the file has the truth of part of the first object; that part is scored")
        truth, region, recons = _part(truth, metrics.Region(*job.data.truth), recons)
    method: str = job.stitch.method
    by_method = {name: {method: recon} for name, recon in recons.items()}
    scores = score_models(truth, region, by_method, job.stitch.method, folder, doubts)
    draw_comparison(truth, region, data.probe, recons, {}, scores, folder)
    return scores


def _part(
    truth: np.ndarray, known: metrics.Region, recons: dict[str, Reconstruction]
) -> tuple[np.ndarray, metrics.Region, dict[str, Reconstruction]]:
    """The known rectangle of the first object alone."""
    cut = {
        name: Reconstruction(known.crop(recon.objects[:1]), known.crop(recon.mask[:1]))
        for name, recon in recons.items()
    }
    return known.crop(truth[:1]), metrics.Region(0, 0, known.height, known.width), cut


def facts(job: InferJob, data: Dataset, speeds: dict[str, float]) -> dict[str, Any]:
    """What the manifest states besides environment and times."""
    return device_facts(job.run.xla) | {
        "seed": job.run.seed,
        "run": str(job.networks[0].run.resolve()),
        "data": str(job.data.path.resolve()),
        "patterns": len(data.amplitudes),
        "groups": data.n_groups,
        "weights_sha256": {stored.name: stored.sha256 for stored in job.networks},
        "patterns_per_s": {name: round(speed, 1) for name, speed in speeds.items()},
    }
