"""Unexplained variance: the share of the differences of patterns that a reconstruction misses, without noise.

Patterns of a scan differ from their mean pattern, because the object varies. A reconstruction misses the part
of these differences that object and beam do not predict. Both contain noise. The noise of neighbouring
detector pixels is independent, while the far field of a beam that is narrower than the window is smooth from
pixel to pixel. So products of neighbours measure both without the noise, whether photons were counted or not:

    share missed by pattern j   ⟨R_j(q) R_j(q + 1)⟩ / ⟨V_i(q) V_i(q + 1)⟩, the mean over all patterns i
    R_j = (n_j − |Ψ_j|²) / w,   V_j = (n_j − a_j ⟨n⟩) / w,   w² = ⟨n⟩ + ε,   a_j = Σ_q n_j / Σ_q ⟨n⟩

with neighbours in rows and in columns. Divided by w, every pixel has about the same photon noise; the noise
of n has mean zero, unlike that of √n at few photons. Zero is a perfect reconstruction; one explains no more
than the mean pattern does. For held-out patterns it is about the square of the object's relative error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import median_abs_deviation, norm

from ptycho.reconstruction.misfit import predictions
from ptycho.scan.dataset import Dataset

MISSED = {
    "unexplained_variance": "fraction of the variation between patterns that object and probe do not "
    "explain, noise excluded (products of neighbouring detector pixels, to which noise does not contribute), "
    "median over the fitted patterns: 0 everything is explained, 1 nothing; unexplained_variance_p90: its "
    "90th percentile; unexplained_variance_holdout: its median over the held-out patterns. It is about the "
    "square of the relative error of the object",
    "variation_certainty": "variation between patterns beyond noise, in standard errors",
}


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
        spread = (
            self.varied.std(ddof=1),
            np.sqrt(np.pi / 2) * median_abs_deviation(self.varied, scale="normal"),
        )
        middle = self.varied.mean(), np.median(self.varied)
        ratios = np.divide(middle, np.maximum(spread, 1e-30))
        return float(np.sqrt(len(self.varied)) * ratios.max())


@dataclass(frozen=True)
class OutlierLimits:
    """Limits of when a pattern counts as an outlier among the others.

    Measured on simulated scans with one position 11 pixels off, refined or not: that pattern misses .07 to
    2.6, and is 6 to 280 and 10 to 43 scatters beyond the others; the worst of clean scans .04, 4 and 8.

    Attributes:
        missed: share of the variation between patterns that it misses.
        scatters: by how many scatters of the patterns it exceeds their median, in that share and in the
            logarithm of its misfit; their scatter follows from the median absolute deviation.
        most: share of the patterns; where more of them differ, the whole scan is explained badly.
    """

    missed: float = 0.05
    scatters: float = 5.5
    most: float = 0.1


def find_outliers(
    residuals: Residuals, misfits: np.ndarray, limits: OutlierLimits | None = None
) -> np.ndarray:
    """Return the indices of single patterns that contradict the others under an object and its beam.

    Args:
        residuals: of all patterns.
        misfits: ``(J,)``, such as the deviance per pixel.
    """
    limits, mean = limits or OutlierLimits(), float(residuals.varied.mean())
    if not mean > 0 or not np.isfinite(misfits).all():
        return np.zeros(0, int)
    missed, logs = residuals.missed / mean, np.log(np.maximum(misfits, np.finfo(float).tiny))
    apart = [_scatters(values) > limits.scatters for values in (missed, logs)]
    (outliers,) = np.nonzero((missed > limits.missed) & apart[0] & apart[1])
    return outliers if len(outliers) <= limits.most * len(missed) else outliers[:0]


def _scatters(values: np.ndarray) -> np.ndarray:
    """Return how many standard deviations, estimated robustly, values ``(J,)`` are above their median."""
    scatter = float(median_abs_deviation(values, scale="normal"))
    return (values - np.median(values)) / max(scatter, np.finfo(float).tiny)


def residuals(
    image: np.ndarray, data: Dataset, mean: np.ndarray, patterns: np.ndarray | None = None, dim: float = 0.03
) -> Residuals:
    """Return those of ``patterns`` (indices; None: all), under an object ``(M, M)`` complex64 and their beam.

    Args:
        image: the object.
        data: the patterns, and the beam that goes with the object.
        mean: ``⟨A²⟩`` of the scan, ``(N, N)``, zero frequency in the middle.
        dim: ε over the mean intensity of a pixel, as noisy amplitudes are biased where it is dark.
    """
    known = np.fft.ifftshift(mean) * data.normalisation**2
    weight = 1 / np.sqrt(known + dim * known.mean())
    missed, varied, error = [], [], []
    chosen = np.arange(len(data.positions)) if patterns is None else patterns
    for x, predicted in predictions(image, data, chosen):
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
