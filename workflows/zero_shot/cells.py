"""A cell of the study: simulated, reconstructed by every method, scored, and stored to be gone on with."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.spatial import Delaunay

from ptycho.config import check
from ptycho.evaluation import metrics
from ptycho.methods.assessment import share_of_noise
from ptycho.reconstruction.misfit import misfit
from ptycho.run.folder import OutputFolder
from ptycho.run.loaded import LoadedModel
from ptycho.run.network import StoredNetwork
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter, light_of
from ptycho.simulation.kind_scans import kind_scan
from workflows.assess import in_its_frame
from workflows.zero_shot.definition import Cell, Definition
from workflows.zero_shot.methods import METHODS, Case, Made
from workflows.zero_shot.store import finished, images_name, scores_name, settings_of, stored_images

log = logging.getLogger("study")

SCORES = ("ssim", "frc50", "phase_rmse_rad", "amplitude_ratio", "uncovered_fraction", "flags")


def perform(
    cell: Cell,
    study: Definition,
    stored: StoredNetwork,
    model: LoadedModel,
    python: str | None,
    folder: OutputFolder,
    methods: Sequence[str],
) -> None:
    """Make the cell by some methods, and write it after each of them, together with what there was before."""
    data = kind_scan(cell.scan)
    assert data.objects is not None
    region = scored_region(data)
    case = Case(study, stored, model, data, python)
    made_with = settings_of(cell, study, stored.sha256)
    before = finished(folder.path, cell)
    known = before if before is not None and before["settings"] == made_with else {}
    record = {"settings": made_with, "facts": facts_of(data, region), "methods": known.get("methods", {})}
    images = {"truth": region.crop(data.objects[0]), "probe": data.probe[0]}
    images |= stored_images(folder.path, cell) if known else {}
    for method in methods:
        made = METHODS[method](case)
        row, images[method] = scored(made, data, region)
        record["methods"][method] = row
        folder.write(images_name(cell), lambda file: np.savez(file, allow_pickle=False, **images))
        folder.json(scores_name(cell), record)
        log.info("    %-9s %s", method, described(row))


def described(row: Mapping[str, Any]) -> str:
    """A line of a method's scores, for the log."""
    amplitude, phase = (number(value, ".4f") for value in row["ssim"])
    misfits = f"R {number(row['r_factor'], '.4f')} (noise {number(row['r_noise'], '.4f')})"
    return f"SSIM amplitude {amplitude}  phase {phase}  {misfits}  {row['seconds']:.1f} s"


def number(value: float | None, style: str) -> str:
    return "–" if value is None else format(value, style)


def scored_region(data: Dataset) -> metrics.Region:
    """A rectangle in the hull of the probes' centres: well lit, without the rim that is half a probe wide.

    The hull's bounding box, cut on all sides until it holds nothing else.

    Raises:
        ConfigError: too few positions, or too close, for a rectangle of the window of SSIM.
    """
    light = light_of(data.probe)
    axis = np.arange(data.N)
    middle = np.array([light.sum(axis=1) @ axis, light.sum(axis=0) @ axis]) / light.sum()
    side = np.arange(data.object_size)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1)
    inside = Delaunay(data.positions + middle).find_simplex(grid) >= 0  # (M, M)
    rows, cols = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    top, bottom, left, right = rows[0], rows[-1] + 1, cols[0], cols[-1] + 1
    while not inside[top:bottom, left:right].all():
        top, bottom, left, right = top + 1, bottom - 1, left + 1, right - 1
    least = min(bottom - top, right - left)
    check(
        least >= metrics.SSIM_WINDOW, "positions", len(data.positions), "more, or farther apart, to be scored"
    )
    return metrics.Region(int(top), int(left), int(bottom - top), int(right - left))


def scored(made: Made, data: Dataset, region: metrics.Region) -> tuple[dict[str, Any], np.ndarray]:
    """Scores of a method, and its object in the region, aligned to the truth, complex64."""
    objects, mask, truth = made.stitched.objects, made.stitched.mask, data.objects
    assert truth is not None
    truth = in_its_frame(truth, made.stitched, region) if made.moved else truth
    found = metrics.score(objects[0], truth[0], mask[0], region)
    finite = bool(np.isfinite(objects).all())
    explained, apart = misfit(objects, made.data) if finite else None, made.stitched.disagreement
    row = {key: found[key] for key in SCORES} | {
        "r_factor": None if explained is None else explained.r_factor,
        "r_noise": None if explained is None else explained.r_noise,
        "noise_share": share_of_noise(made.stitched, made.data, region) if finite else None,
        "disagreement": None if apart is None or not np.isfinite(apart[0]) else float(apart[0]),
        "seconds": made.seconds,
        "compile_s": made.compile_s,
        **made.facts,
    }
    image, known = region.crop(objects[0]), region.crop(mask[0])
    usable = finite and image[known].any()
    aligned = metrics.align(image, region.crop(truth[0]), known).object if usable else np.zeros_like(image)
    return row, aligned.astype(np.complex64)


def facts_of(data: Dataset, region: metrics.Region) -> dict[str, Any]:
    """What may be the cause of a bad score."""
    assert data.objects is not None
    truth = region.crop(data.objects[0])
    phase = metrics.phase(truth)
    return {
        "diameter_px": energy_diameter(data.probe),
        "phase_range_rad": float(np.ptp(phase)),
        "amplitude_range": [float(np.abs(truth).min()), float(np.abs(truth).max())],
        "object_px": data.object_size,
        "region": asdict(region),
    }
