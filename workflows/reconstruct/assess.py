"""Reconstructions stored, scored and drawn, in one way for every workflow."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ptycho.config import ITERATIVE
from ptycho.evaluation import figures, metrics
from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.trust import FLAGS
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.checkpoint import History

log = logging.getLogger(__name__)

STITCHING_SCORES = ("ssim", "frc50", "phase_rmse_rad", "uncovered_fraction", "flags")


def store_recon(name: str, reconstruction: Reconstruction, folder: RunFolder) -> None:
    """Write a reconstruction of a test image; the first object also by its name in the published program."""
    folder.arrays(names.recon(name), {"YY_pred": reconstruction.object} | reconstruction.arrays())


def score_models(
    truth: np.ndarray,
    region: metrics.Region,
    stitched: dict[str, dict[str, Reconstruction]],
    chosen: str,
    folder: RunFolder,
    doubts: Iterable[str],  # flags that every network gets
    moved: Mapping[str, np.ndarray] | None = None,  # truth in the frame of a model's objects, if another
    more: Mapping[str, Any] | None = None,  # entries of metrics.json besides the scores
) -> dict[str, Any]:
    """Score every model's objects, by stitching method, against the truth ``(I, M, M)``.

    Writes ``metrics.json``, where what stands under a model's name is by the ``chosen`` method, and
    ``metrics.csv`` with a row for each image.
    """
    store_recon("gt", Reconstruction(truth, np.ones(truth.shape, bool)), folder)
    with folder.timed("scoring"):
        scores_by_method: dict[str, dict[str, dict[str, Any]]] = {}
        for name, by_method in stitched.items():
            true = (moved or {}).get(name, truth)
            scores_by_method[name] = {
                method: metrics.score_images(recon.objects, true, recon.mask, region)
                for method, recon in by_method.items()
            }
        folder.table(names.SCORES, list(score_rows(scores_by_method)))
        scores: dict[str, dict[str, Any]] = {}
        for name, of_method in scores_by_method.items():
            main = {method: {key: row[key] for key in STITCHING_SCORES} for method, row in of_method.items()}
            scores[name] = of_method[chosen] | {"stitching": main}
        scores.get(ITERATIVE, {}).pop("stitching", None)  # it is not stitched
        for values in scores.values():
            values["flags"] += doubts
        every = [by_method[chosen].mask for by_method in stitched.values() if chosen in by_method]
        scores |= metrics.reference_rows(truth, region, np.all(every, axis=0) if every else None)
    rest = {"region": asdict(region), **(more or {})}
    folder.json(names.METRICS, scores | rest | names.CONVENTIONS)
    for name, values in scores.items():
        if name in stitched and (lacking := values["uncovered_fraction"]):
            log.warning("%s: %.1f %% of the region has no pattern, and is not scored", name, 100 * lacking)
        amplitude, phase = values["ssim"]
        alarms = [flag for flag in values["flags"] if flag in FLAGS]
        note = f"  ! {', '.join(alarms)}" if alarms and name in stitched else ""
        level = logging.WARNING if note else logging.INFO
        log.log(level, "%-18s SSIM amplitude %s  phase %s%s", name, _number(amplitude), _number(phase), note)
    return scores


def score_rows(scores: Mapping[str, Mapping[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each model, stitching, image and channel; scores that are None stay empty."""
    for model, by_method in scores.items():
        for method, of_method in by_method.items():
            for image, values in enumerate(of_method["per_image"]):
                for number, channel in enumerate(metrics.CHANNELS):
                    place = {"model": model, "stitching": method, "image": image, "channel": channel}
                    yield place | {name: values[name][number] for name in metrics.SCORES}


def in_its_frame(truth: np.ndarray, reconstruction: Reconstruction, region: metrics.Region) -> np.ndarray:
    """Return the truth ``(I, M, M)``, each image shifted in the region to where a reconstruction has it.

    A reconstruction with refined, or with wrong, probe and positions may shift the whole object.
    """
    moved = truth.copy()
    for image, mask, target in zip(
        region.crop(reconstruction.objects), region.crop(reconstruction.mask), moved, strict=True
    ):
        if np.isfinite(image).all() and image[mask].any():
            inside = region.crop(target)  # a view
            placed, known = in_frame(target.copy(), metrics.align(image, inside, mask).object, mask)
            inside[known] = placed[known]
    return moved


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4f}"


def draw_comparison(
    truths: np.ndarray,
    region: metrics.Region,
    probe: np.ndarray,
    recons: dict[str, Reconstruction],
    histories: dict[str, History],
    scores: dict[str, Any],
    folder: RunFolder,
    moved: Mapping[str, np.ndarray] | None = None,  # as for score_models
) -> None:
    """Draw the first image: comparison, reconstructions, errors, ring correlations; and histories, if any.

    Every figure says which image it shows: ``metrics.json`` and the log have means over all images.
    """
    truth, means = region.crop(truths[0]), "; scores of this image (the log has the means over all)"

    def store(name: str, figure: Figure) -> None:
        figure.suptitle(f"image 1 of {len(truths)}{means * (len(truths) > 1)}")
        folder.figure(names.figure(name), figure)

    with folder.timed("drawing"):
        aligned, curves = {}, {}
        for name, recon in recons.items():
            image, mask = region.crop(recon.objects[0]), region.crop(recon.mask[0])
            usable = np.isfinite(image).all() and image[mask].any()
            known = region.crop((moved or {}).get(name, truths)[0])
            aligned[name] = metrics.align(image, known, mask).object if usable else np.zeros_like(known)
            curves[name] = metrics.frc_curves(aligned[name], known, None if mask.all() else mask)
            store(f"amp_phase_{name}", figures.amp_phase(name, recon.objects[0], region, recon.mask[0]))
            error = figures.amp_phase_error(name, aligned[name], known, mask)
            store(f"amp_phase_error_{name}", error)
        first = {name: scores[name]["per_image"][0] for name in recons}
        masks = {name: region.crop(recon.mask[0]) for name, recon in recons.items()}
        comparison = figures.compare(truth, aligned, first, probe[0], masks)
        store("compare_amp_phase", comparison)
        store("frc_curves", figures.frc_curves(curves))
        if histories:
            rows = {name: history.rows for name, history in histories.items()}
            folder.figure(names.figure("history"), figures.history(rows))
