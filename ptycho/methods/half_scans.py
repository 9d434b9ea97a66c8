"""Two random halves of a scan, reconstructed alike and compared: how far their images agree."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptycho.evaluation import metrics
from ptycho.evaluation.frc import DIRECTIONS, frc, frc_by_direction, frc_crossing, half_bit
from ptycho.preparation.dataset import FEWEST
from ptycho.reconstruction.holdout import coverage
from ptycho.reconstruction.scan_likelihood import fits_of
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import radius
from ptycho.scan.reconstruction import Reconstruction, photon_noise

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Halves:
    """Ring correlation of two reconstructions, each from half of the patterns, and where it falls."""

    # frequency, correlation: ``(K,)``, frequencies as fractions of Nyquist
    frequency: np.ndarray
    correlation: np.ndarray
    by_axis: np.ndarray  # ``(2, K)``, the same of the sectors around the row axis and around the column axis
    # where it falls below the thresholds, in any direction and (``frc50_row``, ``frc50_col``) along the axes;
    # None: never
    crossings: dict[str, float | None]
    # where it would fall below one half by the noise that photons leave in the halves alone
    by_photons: float = 1.0
    # the largest frequency at which there are photons; see :func:`illuminated_frequency`
    illuminated_to: float = 1.0

    @property
    def agree_to(self) -> float:
        """Frequency at which the correlation falls below one half, of Nyquist; 1: never."""
        crossing = self.crossings["frc50"]
        return 1.0 if crossing is None else crossing

    @property
    def curves(self) -> dict[str, np.ndarray]:
        """Correlations ``(n,)`` by the names of their directions, for figures."""
        along = dict(zip(DIRECTIONS.values(), self.by_axis, strict=True))
        return {"all directions": self.correlation} | along


def half_scans(
    infer: Callable[[Dataset], Reconstruction],
    data: Dataset,
    seed: int,
    group_size: int = 1,
    fixed: bool = False,
    together: bool = False,
    pixels: int = 2**22,
    fewest: int = 200,
) -> Halves | None:
    """Return the resolution by two random halves of the scan, each reconstructed by ``infer``.

    None for a tiny scan, and where a half did not converge. ``group_size``: C of the halves; ``fixed``: the
    method takes groups of that size alone, so that a half must hold one; ``together``: two threads may call
    ``infer``. Of a large scan its middle is taken, on its own object: patterns of so many ``pixels``, but
    ``fewest`` at least.
    """
    most = data.held_by(pixels, fewest)
    if len(data.positions) > 2 * most:
        data = data.cut_out(data.central(most), data.group_size)
    rng = np.random.default_rng([seed, 3])
    order = rng.permutation(len(data.positions))
    parts = [np.sort(half) for half in np.array_split(order, 2)]
    region = metrics.Region(*data.tiling.rectangle)
    least = max(FEWEST, data.group_size if fixed else 0)
    if min(len(part) for part in parts) < least or min(region.height, region.width) < 32:
        return None
    halves = [data.subset(part, group_size) for part in parts]
    reconstructions = list(fits_of(infer, halves, data.object_size**2) if together else map(infer, halves))
    if not all(half.converged for half in reconstructions):
        log.warning(
            "half_scan_frc: a half of the scan is explained worse than the whole, so the halves do not "
            "measure its resolution; raise solver.steps, or measure more patterns"
        )
        return None
    images = [region.crop(half.objects[0]) for half in reconstructions]
    noise = [region.crop(photon_noise(data.subset(part, 1))[0]) for part in parts]
    mask = region.crop(reconstructions[0].mask[0]) & region.crop(reconstructions[1].mask[0])
    if not all(np.isfinite(image).all() and image[mask].any() for image in images):
        return None
    first = np.where(mask, images[0], 0)
    second = metrics.align(images[1], first, mask).object
    frequency, (correlation, *by_axis) = frc_by_direction(second, first)
    crossings = {}
    thresholds: dict[str, tuple[np.ndarray, float | np.ndarray]] = {
        "frc50": (correlation, 0.5),
        "frc1over7": (correlation, 1 / 7),
        "frc_half_bit": (correlation, half_bit(frequency, first.shape)),
        "frc50_row": (by_axis[0], 0.5),
        "frc50_col": (by_axis[1], 0.5),
    }
    for name, (curve, threshold) in thresholds.items():
        value, crossed = frc_crossing(frequency, curve, threshold)
        crossings[name] = value if crossed else None
    by_photons = _limit_by_photons((first + second) / 2, noise, mask, rng) if data.counts else 1.0
    limits = by_photons, illuminated_frequency(data)
    return Halves(frequency, correlation, np.array(by_axis), crossings, *limits)


def illuminated_frequency(data: Dataset) -> float:
    """Return the largest spatial frequency, of Nyquist, that the patterns determine.

    It is the radius on the detector up to which all patterns over a point of the object hold one photon in a
    pixel together. Regularisation may fill in what lies beyond, in both halves alike. 1: no far field, or
    photons were not counted.
    """
    if data.fresnel is not None or not data.counts:
        return 1.0
    ring = np.round(radius(data.N)).astype(int).ravel()
    good = np.ones(ring.size) if data.good is None else data.good.ravel().astype(float)
    photons = np.bincount(ring, good * data.amplitudes.statistics.mean_intensity.ravel())
    mean = photons / np.maximum(np.bincount(ring, good), 1)
    illuminated = np.flatnonzero(mean[: data.N // 2 + 1] * max(coverage(data), 1) >= 1)
    return float(illuminated.max(initial=1)) / (data.N / 2)


def _limit_by_photons(
    image: np.ndarray, noise: list[np.ndarray], mask: np.ndarray, rng: np.random.Generator
) -> float:
    """Return where two copies of an image ``(H, W)`` stop to agree that differ by the noise of photons alone.

    ``noise``: of each copy, standard deviation of real and imaginary part, used in ``mask (H, W)``.
    """
    copies = []
    for sigma in noise:
        parts = rng.standard_normal((2, *image.shape))
        copies.append(image + np.where(mask & np.isfinite(sigma), sigma, 0) * (parts[0] + 1j * parts[1]))
    value, crossed = frc_crossing(*frc(*copies), 0.5)
    return value if crossed else 1.0


def resolution(halves: Halves, pixel: tuple[float, float] | None) -> dict[str, Any]:
    """Return where the halves stop to agree: of Nyquist, and as half periods in object pixels and metres.

    ``precision``: the half period of one half, no finer than a pixel, or than there are photons for.
    """
    precision = 1 / max(min(halves.agree_to, halves.illuminated_to), 1e-6)
    lengths: dict[str, float | None] = {"illuminated_to": halves.illuminated_to, "precision_px": precision}
    lengths["precision_m"] = None if pixel is None else precision * max(pixel)
    along = {"frc50_row": 0, "frc50_col": 1}
    for name, value in halves.crossings.items():
        half_period = None if value is None else 1 / max(value, 1e-6)
        lengths[f"{name}_px"] = lengths[f"{name}_m"] = half_period
        if half_period is not None:
            pitch = None if pixel is None else pixel[along[name]] if name in along else max(pixel)
            lengths[f"{name}_m"] = None if pitch is None else half_period * pitch
    return halves.crossings | lengths
