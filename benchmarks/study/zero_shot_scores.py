"""Scores of the reconstruction of a simulated scan against its truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import Delaunay

from ptycho.config import check
from ptycho.evaluation import metrics
from ptycho.methods.assessment import share_of_noise
from ptycho.reconstruction.misfit import misfit
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import intensity_of
from ptycho.scan.reconstruction import Reconstruction

SCORES = ("ssim", "frc50", "phase_rmse_rad", "amplitude_ratio", "uncovered_fraction", "flags")


def find_region(data: Dataset) -> metrics.Region:
    """Return a rectangle in the hull of the probe centres: well illuminated, without a rim of half a probe.

    It is the bounding box of the hull, cut on all sides until it is inside the hull.

    Raises:
        ConfigError: too few positions, or too close, for a rectangle of the window of SSIM.
    """
    intensity = intensity_of(data.probe)
    axis = np.arange(data.N)
    middle = np.array([intensity.sum(axis=1) @ axis, intensity.sum(axis=0) @ axis]) / intensity.sum()
    side = np.arange(data.object_size)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1)
    inside = Delaunay(data.positions + middle).find_simplex(grid) >= 0  # (M, M)
    rows, cols = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    top, bottom, left, right = rows[0], rows[-1] + 1, cols[0], cols[-1] + 1
    while not inside[top:bottom, left:right].all():
        top, bottom, left, right = top + 1, bottom - 1, left + 1, right - 1
    enough = min(bottom - top, right - left) >= metrics.SSIM_WINDOW
    check(enough, "positions", len(data.positions), "more, or farther apart, to be scored")
    return metrics.Region(int(top), int(left), int(bottom - top), int(right - left))


def score(
    stitched: Reconstruction, measured: Dataset, truth: np.ndarray, region: metrics.Region
) -> dict[str, Any]:
    """Return scores in the region.

    Args:
        measured: the patterns with the probe and the positions of the object.
        truth: ``(1, M, M)``.
    """
    objects, mask = stitched.objects, stitched.mask
    scores = metrics.score(objects[0], truth[0], mask[0], region)
    finite = bool(np.isfinite(objects).all())
    explained, apart = misfit(objects[0], measured) if finite else None, stitched.disagreement
    return {key: scores[key] for key in SCORES} | {
        "r_factor": None if explained is None else explained.r_factor,
        "r_noise": None if explained is None else explained.r_noise,
        "noise_share": share_of_noise(stitched, measured, region) if finite else None,
        "disagreement": None if apart is None or not np.isfinite(apart[0]) else float(apart[0]),
    }
