"""Where a probe may be other than zero: in the sample plane, or in its far field, the pupil."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
from scipy.ndimage import binary_dilation, gaussian_filter

from ptycho.config import ProbeConfig
from ptycho.scan.probe import probe_mask


@dataclass(frozen=True, eq=False)
class ProbeSupport:
    """A region, and the orthogonal projection on the waves that are zero outside it.

    Π P = M P,  or  Π P = F⁻¹ M F P  in the far field

    Attributes:
        region: M, ``(N, N)`` bool; in the far field the zero frequency is at ``[0, 0]``.
        far_field: it is a region of the far field.
    """

    region: np.ndarray
    far_field: bool = False

    def project(self, modes: np.ndarray) -> np.ndarray:
        """Return the projection of ``(K, N, N)`` complex64, of the same shape and dtype."""
        if not self.far_field:
            return modes * self.region
        return scipy.fft.ifft2(scipy.fft.fft2(modes) * self.region)


def specified_support(config: ProbeConfig, N: int) -> ProbeSupport | None:
    """Return the disk ``probe.mask_diameter_px`` in the sample plane; None: none is specified."""
    disk = probe_mask(config, N)
    return None if disk is None else ProbeSupport(disk)


def pupil_of(modes: np.ndarray, share: float = 0.01, blur: float = 1.5, margin: int = 2) -> ProbeSupport:
    """Return the pupil of an optic by the far field of the probe ``(K, N, N)`` that it makes.

    It is where Σ_m |F P_m|² is above a ``share`` of its 99th percentile, after a Gaussian blur of σ
    ``blur`` pixels, and so many pixels (``margin``) around. Noise that was fitted is spread over the whole
    far field; what an optic lets through is not.
    """
    intensity = np.sum(np.abs(scipy.fft.fft2(modes)) ** 2, axis=0)
    smooth = gaussian_filter(intensity, blur, mode="wrap")
    inside = np.pad(smooth > share * np.percentile(smooth, 99), margin, mode="wrap")
    grown = binary_dilation(inside, iterations=margin)
    return ProbeSupport(grown[margin:-margin, margin:-margin], far_field=True)
