"""How well objects explain the measured patterns, without knowing the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tensorflow as tf
from scipy.special import kl_div
from scipy.stats import poisson

from ptycho import physics
from ptycho.progress import Advance
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import probe_support
from ptycho.scan.windows import inner_windows

CONVENTIONS = {
    "r_factor": "Σ| |Ψ| − √n | / Σ√n over the measured pixels of all patterns, Ψ predicted from the stitched "
    "object and the probe, as both are",
    "r_noise": "the r_factor that photon noise alone would give, Σ E|√n − √λ| / Σ√n with λ = |Ψ|² as "
    "predicted; null where amplitudes are not those of counts",
    "deviance": "mean over the measured pixels of Poisson's deviance 2[λ − n + n·log(n/λ)]: about 1 where "
    "photon noise is all that is left and photons are many, less where they are few; deviance_holdout: of "
    "the held-out patterns",
}


@dataclass(frozen=True, eq=False)
class Misfit:
    """Sums over the measured pixels of some patterns ``(J,)``.

    Attributes:
        residual: ``Σ| |Ψ| − √n |``; measured: ``Σ√n``.
        noise: what photon noise makes of the residual; deviance: Poisson's. None where counts are not known.
        pixels: how many were measured.
        squared: ``Σ (|Ψ| − √n)²``.
    """

    residual: np.ndarray
    measured: np.ndarray
    noise: np.ndarray | None
    deviance: np.ndarray | None
    pixels: np.ndarray
    squared: np.ndarray

    @property
    def unexplained(self) -> np.ndarray:
        """Misfit of each pattern per pixel, ``(J,)``: Poisson's deviance, or the squared misfit without
        counts.
        """
        total = self.squared if self.deviance is None else self.deviance
        return total / np.maximum(self.pixels, 1)

    @property
    def r_factor(self) -> float:
        """``Σ| |Ψ| − √n | / Σ√n``."""
        return float(self.residual.sum() / self.measured.sum())

    @property
    def r_noise(self) -> float | None:
        """The same, were photon noise all that is left; None where counts are not known."""
        return None if self.noise is None else float(self.noise.sum() / self.measured.sum())

    @property
    def mean_deviance(self) -> float | None:
        """``⟨2[λ − n + n·log(n/λ)]⟩``, λ = |Ψ|²; None where counts are not known."""
        return None if self.deviance is None else float(self.deviance.sum() / max(self.pixels.sum(), 1))


def misfit(
    objects: np.ndarray, data: Dataset, patterns: np.ndarray | None = None, advance: Advance = lambda n: None
) -> Misfit:
    """Return how objects explain ``patterns`` (indices; None: all) of a dataset.

    ``objects``: ``(I, M, M)`` complex64, or the slices of each, ``(I, L, M, M)``.
    """
    chosen = np.arange(len(data.amplitudes)) if patterns is None else np.asarray(patterns)
    residual, measured, noise, deviance, pixels, squared = (np.zeros(len(chosen)) for _ in range(6))
    photons = data.normalisation**-2
    for i in np.unique(data.image[chosen]):
        mine = np.flatnonzero(data.image[chosen] == i)
        done = 0
        for x, predicted in predictions(objects[i], data, chosen[mine]):
            part = mine[done : done + len(x)]
            done += len(part)
            valid = x >= 0
            residual[part] = _sums(tf.where(valid, tf.abs(predicted - x), 0.0))
            squared[part] = _sums(tf.where(valid, tf.square(predicted - x), 0.0))
            measured[part] = _sums(tf.where(valid, x, 0.0))
            pixels[part] = np.count_nonzero(valid, axis=(1, 2))
            if data.counts:
                rate = np.square(predicted.numpy().astype(float)) * photons
                counted = np.square(x.numpy().astype(float)) * photons
                by_pixel = 2 * kl_div(counted, np.maximum(rate, 1e-6))
                deviance[part] = np.where(valid, by_pixel, 0).sum(axis=(1, 2))
                expected = expected_residual(rate) * data.normalisation
                noise[part] = _sums(tf.where(valid, tf.constant(expected, tf.float32), 0.0))
            advance(len(part))
    if not data.counts:
        return Misfit(residual, measured, None, None, pixels, squared)
    return Misfit(residual, measured, noise, deviance, pixels, squared)


def expected_residual(rate: np.ndarray, many: float = 60.0) -> np.ndarray:
    """Return ``E|√n − √λ|`` for ``n ~ Poisson(λ)``, λ ``(…)``: exact sums, interpolated.

    Above ``many`` photons √n − √λ is normal with the variance ¼: ``√(2/π)/2``.
    """
    rates, values = _table(many)
    return np.where(rate > many, (2 / np.pi) ** 0.5 / 2, np.interp(np.sqrt(rate), np.sqrt(rates), values))


@lru_cache(1)
def _table(many: float) -> tuple[np.ndarray, np.ndarray]:
    rates = np.linspace(0, many**0.5, 400) ** 2  # evenly in √λ: few counts need close points
    n = np.arange(200)
    weights = poisson.pmf(n[None], rates[:, None])
    return rates, (weights * abs(np.sqrt(n)[None] - np.sqrt(rates)[:, None])).sum(axis=1)


def _sums(images: tf.Tensor) -> np.ndarray:
    return tf.reduce_sum(tf.cast(images, tf.float64), axis=(-2, -1)).numpy().ravel()


def predictions(
    image: np.ndarray, data: Dataset, patterns: np.ndarray
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yield amplitudes ``f·A (K, N, N)`` as measured and as an object or its slices predict, by chunks.

    Both have the zero frequency at sample 0; the first is −1 where nothing was measured.
    """
    between = data.between if image.ndim == 3 else None
    whole = between is not None or data.exact  # else the central square that is illuminated
    n = data.N if whole else probe_support(data.probe)
    image = np.pad(image, [(0, 0)] * (image.ndim - 2) + [(0, 1)] * 2)
    for chunk in _chunks(patterns, data.N):
        corners, fractions = _windows(data, chunk, n)
        windows = tf.constant(inner_windows(image, corners, n + 1))
        intensity = physics.forward(
            windows,
            tf.constant(fractions - np.float32((data.N - n) / 2)),  # of the whole patch in its window
            tf.constant(data.model_probes(chunk)),
            flux=None if data.beam.steady else tf.constant(data.beam.flux[chunk, None]),
            background=data.model_background,
            exact=data.exact,
            support=n,
            fresnel=data.fresnel,
            between=between,
        )
        yield physics.uncentre(data.measured(chunk)), tf.sqrt(intensity)[:, 0]


def _chunks(patterns: np.ndarray, N: int, pixels: int = 2**20) -> list[np.ndarray]:
    count = max(1, pixels // N**2)
    return [patterns[k : k + count] for k in range(0, len(patterns), count)]


def _windows(data: Dataset, patterns: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole-pixel corners ``(K, 2)`` of windows that hold the central ``n × n`` of the patches and one pixel
    more, and where in them those lie, ``(K, 1, 2)`` float32 from 0 to 1.

    A patch lies inside its object, so that a window reaches one pixel beyond it at most.
    """
    corners = np.floor(data.positions[patterns]).astype(np.int64)
    fractions = (data.positions[patterns] - corners)[:, None].astype(np.float32)
    return corners + (data.N - n) // 2, fractions
