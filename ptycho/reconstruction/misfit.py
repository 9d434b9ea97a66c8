"""How well objects explain the measured patterns, without knowing the truth: R-factors, deviance, and the
share of the differences between patterns that they miss.

Noise of neighbouring detector pixels is independent, while the far field of a beam narrower than its window
is smooth, so products of neighbours measure what is missed without the noise, with or without counts:

    share missed by pattern j   ⟨R_j(q) R_j(q + 1)⟩ / ⟨V_i(q) V_i(q + 1)⟩, the mean over all patterns i
    R_j = (n_j − |Ψ_j|²) / w,   V_j = (n_j − a_j ⟨n⟩) / w,   w² = ⟨n⟩ + ε,   a_j = Σ_q n_j / Σ_q ⟨n⟩

Zero is a perfect reconstruction; one explains no more than the mean pattern does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import tensorflow as tf
from scipy.special import kl_div
from scipy.stats import median_abs_deviation, norm, poisson

from ptycho import physics
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import probe_support
from ptycho.scan.windows import far_field_ramps, inner_windows


@dataclass(frozen=True, eq=False)
class Misfit:
    """Sums over the measured pixels of some patterns ``(J,)``."""

    residual: np.ndarray  # ``Σ| |Ψ| − √n |``
    measured: np.ndarray  # ``Σ√n``
    pixels: np.ndarray  # how many were measured
    squared: np.ndarray  # ``Σ (|Ψ| − √n)²``
    noise: np.ndarray | None = None  # what photon noise makes of the residual; None: counts are not known
    deviance: np.ndarray | None = None  # Poisson's; None: counts are not known

    @property
    def unexplained(self) -> np.ndarray:
        """Misfit of each pattern per pixel, ``(J,)``: Poisson's deviance; without counts, the squared one."""
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


def misfit(image: np.ndarray, data: Dataset, patterns: np.ndarray | None = None) -> Misfit:
    """Return how an object explains ``patterns`` (indices; None: all) of a dataset of one image.

    ``image``: ``(M, M)`` complex64, or its slices, ``(L, M, M)``.
    """
    chosen = np.arange(len(data.amplitudes)) if patterns is None else patterns
    photons, sums = data.normalisation**-2, []
    for pair in predictions(image, data, chosen):
        x, predicted = (np.asarray(part, float) for part in pair)
        off = predicted - x
        parts = [np.abs(off), x, np.ones_like(x), np.square(off)]
        if data.counts:
            rate = np.square(predicted) * photons
            deviance = 2 * kl_div(np.square(x) * photons, np.maximum(rate, 1e-6))
            parts += [expected_residual(rate) * data.normalisation, deviance]
        sums.append([np.sum(part, axis=(1, 2), where=x >= 0) for part in parts])
    return Misfit(*np.concatenate(sums, axis=1))


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


def predictions(
    image: np.ndarray, data: Dataset, patterns: np.ndarray, pixels: int = 2**20
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Yield amplitudes ``f·A (K, N, N)`` as measured and as an object predicts, in chunks of so many pixels.

    Both have the zero frequency at sample 0; the first is −1 where nothing was measured.
    """
    between = data.between if image.ndim == 3 else None
    whole = between is not None or data.exact  # else the central square that is illuminated
    n = data.N if whole else probe_support(data.probe)
    image = np.pad(image, [(0, 0)] * (image.ndim - 2) + [(0, 1)] * 2)
    count, shifts = max(1, pixels // data.N**2), data.amplitudes.shifts
    for chunk in (patterns[k : k + count] for k in range(0, len(patterns), count)):
        corners = np.floor(data.positions[chunk]).astype(np.int64)
        fractions = (data.positions[chunk] - corners)[:, None].astype(np.float32)
        # the central n × n and a pixel more; a window reaches one pixel beyond the object at most
        windows = inner_windows(image, corners + (data.N - n) // 2, n + 1)
        if shifts is not None:
            windows = physics.shift_far_field(windows, far_field_ramps(shifts[chunk], n + 1, data.N))
        intensity = physics.forward(
            tf.constant(windows),
            tf.constant(fractions - np.float32((data.N - n) / 2)),  # of the whole patch in its window
            tf.constant(data.model_probes(chunk)),
            flux=None if data.beam.steady else tf.constant(data.beam.flux[chunk, None]),
            background=data.model_background,
            point_spread=None if data.beam.point_spread is None else tf.constant(data.beam.point_spread),
            exact=data.exact,
            support=n,
            fresnel=data.fresnel,
            between=between,
        )
        yield physics.uncentre(data.measured(chunk)), tf.sqrt(intensity)[:, 0]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Means of products of neighbours in each pattern, ``(J,)``: of what is missed, and of what varies.

    ``error``: standard errors of ``missed`` by noise, whose products are independent and have no mean.
    """

    missed: np.ndarray
    varied: np.ndarray
    error: np.ndarray

    @property
    def share(self) -> float:
        """Missed share of the mean variation, of the median pattern: one at the rim does not decide."""
        return self._quantile(self.missed, 0.5)

    @property
    def share_error(self) -> float:
        """Standard error of :attr:`share`, the median of normal errors: √(π/2J) times one of them."""
        return float(np.sqrt(np.pi / 2 / max(len(self.error), 1))) * self._quantile(self.error, 0.5)

    @property
    def worst_tenth(self) -> float:
        """Share that a tenth of the patterns exceed, less what a tenth of them exceed by noise."""
        return self._quantile(self.missed - norm.ppf(0.9) * self.error, 0.9)

    def _quantile(self, values: np.ndarray, share: float) -> float:
        """Of some values over the mean variation; NaN where nothing varies."""
        mean = float(self.varied.mean())
        return float(np.quantile(values, share)) / mean if mean > 0 else np.nan

    @property
    def certainty(self) -> float:
        """Variation between patterns in standard errors, of its mean or its median over them.

        The mean shows an object that few patterns see; the median is not dominated by a few bright patterns.
        """
        if len(self.varied) < 2:
            return 0.0
        scatter = median_abs_deviation(self.varied, scale="normal")
        spread = self.varied.std(ddof=1), np.sqrt(np.pi / 2) * scatter
        middle = self.varied.mean(), np.median(self.varied)
        ratios = np.divide(middle, np.maximum(spread, 1e-30))
        return float(np.sqrt(len(self.varied)) * ratios.max())


@dataclass(frozen=True)
class OutlierLimits:
    """Limits of when a pattern counts as an outlier among the others.

    Measured on simulated scans with one position 11 pixels off, refined or not: that pattern misses .07 to
    2.6, and is 6 to 280 and 10 to 43 scatters beyond the others; the worst of clean scans .04, 4 and 8.
    """

    missed: float = 0.05  # share of the variation between patterns that it misses
    # by how many scatters of the patterns it exceeds their median, in that share and in the logarithm of its
    # misfit; their scatter follows from the median absolute deviation
    scatters: float = 5.5
    most: float = 0.1  # share of the patterns; where more of them differ, the whole scan is explained badly


def find_outliers(
    residuals: Residuals, misfits: np.ndarray, limits: OutlierLimits = OutlierLimits()
) -> np.ndarray:
    """Return the indices of single patterns that contradict the others; ``misfits (J,)``: deviances."""
    mean = float(residuals.varied.mean())
    if not mean > 0 or not np.isfinite(misfits).all():
        return np.zeros(0, int)
    missed, logs = residuals.missed / mean, np.log(np.maximum(misfits, np.finfo(float).tiny))
    outlying = missed > limits.missed
    for values in (missed, logs):
        scatter = max(float(median_abs_deviation(values, scale="normal")), np.finfo(float).tiny)
        outlying &= (values - np.median(values)) / scatter > limits.scatters
    (outliers,) = np.nonzero(outlying)
    return outliers if len(outliers) <= limits.most * len(missed) else outliers[:0]


def residuals(
    image: np.ndarray, data: Dataset, mean: np.ndarray, patterns: np.ndarray, dim: float = 0.03
) -> Residuals:
    """Return those of ``patterns (n,)``, indices, under an object ``(M, M)`` complex64 and their beam.

    ``mean``: ``⟨A²⟩`` of the scan, ``(N, N)``, zero frequency in the middle. ``dim``: ε over the mean
    intensity of a pixel, as noisy amplitudes are biased where it is dark.
    """
    known = np.fft.ifftshift(mean) * data.normalisation**2
    weight = 1 / np.sqrt(known + dim * known.mean())
    missed, varied, error = [], [], []
    for x, predicted in predictions(image, data, patterns):
        measured = np.asarray(x) >= 0
        intensity = np.square(np.asarray(x, float))
        flux = np.sum(intensity * measured, axis=(1, 2)) / np.sum(known * measured, axis=(1, 2))
        left = _neighbours(weight * (intensity - np.square(np.asarray(predicted, float))), measured)
        missed.append(left[0])
        error.append(left[1])
        varied.append(_neighbours(weight * (intensity - flux[:, None, None] * known), measured)[0])
    return Residuals(np.concatenate(missed), np.concatenate(varied), np.concatenate(error))


def _neighbours(images: np.ndarray, measured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean product of neighbouring pixels that were both measured, and its standard error.

    Of each image of ``(K, N, N)``; the error is that of products which are independent of each other.
    """
    known = np.where(measured, images, 0)
    products = [known * np.roll(known, 1, axis) for axis in (1, 2)]
    pairs = sum(np.count_nonzero(measured & np.roll(measured, 1, axis), axis=(1, 2)) for axis in (1, 2))
    count = np.maximum(pairs, 1)
    mean = sum(product.sum(axis=(1, 2)) for product in products) / count
    squares = sum(np.square(product).sum(axis=(1, 2)) for product in products) / count
    return mean, np.sqrt(np.maximum(squares - mean**2, 0) / count)
