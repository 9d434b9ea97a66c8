"""Find how a scan is rotated against the detector, from the patterns' centres of mass, without a probe.

    q_j = Σ q A_j²(q) / Σ A_j²(q),   (∂q_a/∂r_b)_j by a plane through a position's nearest ones

Of a phase object, ``q(r) = const + ∇(|P|² ⋆ φ)(r) / 2π``, whatever the probe: a gradient, and so without curl
(absorption in a round beam out of focus adds a gradient, too). If the positions are
stated in axes that are rotated against the detector's, ``r = R(−φ) r'``, it has one:

    curl' = curl cos φ + div sin φ,   div' = div cos φ − curl sin φ,   curl = ∂q_0/∂r_1 − ∂q_1/∂r_0

and φ is where Σ curl'² is least. A turn by 180° changes the sign of both and remains open. Patterns that are
mirrored against the positions have their least curl elsewhere, and more of it.

Source: Savitzky et al., Ultramicroscopy 189 (2018) 46, and Ophus, Microsc. Microanal. 25 (2019) 563, section
on phase-contrast imaging, for scans on a raster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from ptycho.scan.dataset import Dataset


class ScanRotation(NamedTuple):
    """Rotation of the positions in degrees, from rows to columns; −90 to 90.

    Attributes:
        degrees: of the positions.
        error: its standard error.
        curl: what is left of Σ curl², of Σ div²: 0 of a gradient, 1 where nothing is determined.
    """

    degrees: float
    error: float
    curl: float


def scan_rotations(data: Dataset) -> tuple[ScanRotation, ScanRotation]:
    """Return the rotation of a scan of one object for the patterns as they are, and transposed."""
    slopes = slopes_of(centres_of_mass(data), data.positions.astype(float))
    return rotation_of(slopes), rotation_of(slopes[:, ::-1])


def centres_of_mass(data: Dataset) -> np.ndarray:
    """Return ⟨q⟩ of all patterns ``(J, 2)``, (row, col) in pixels from zero frequency, on good pixels."""
    axis, centres = np.arange(data.N) - data.N // 2, []
    for amplitudes in data.amplitudes.blocks():
        counts = np.square(amplitudes.astype(float)) * (1 if data.good is None else data.good)
        total = np.maximum(counts.sum(axis=(1, 2)), 1e-30)
        sides = counts.sum(axis=2) @ axis, counts.sum(axis=1) @ axis
        centres.append(np.stack(sides, axis=1) / total[:, None])
    return np.concatenate(centres)


def slopes_of(values: np.ndarray, positions: np.ndarray, nearest: int = 8) -> np.ndarray:
    """Return ``∂values_a/∂r_b`` ``(J, 2, 2)`` of ``values (J, 2)``, by planes through ``nearest`` others."""
    count = min(nearest + 1, len(positions))
    near = cKDTree(positions).query(positions, k=count)[1].reshape(len(positions), count)
    places, heights = positions[near], values[near]  # (J, K, 2)
    places = places - places.mean(axis=1, keepdims=True)
    return np.swapaxes(np.linalg.pinv(places, rcond=1e-6) @ heights, 1, 2)


def rotation_of(slopes: np.ndarray, overlap: float = 2.0) -> ScanRotation:
    """Return the rotation that leaves slopes ``(J, 2, 2)`` the least curl.

    ``overlap``: factor of the error, as neighbouring planes have patterns in common.
    """
    curl, div = slopes[:, 0, 1] - slopes[:, 1, 0], slopes[:, 0, 0] + slopes[:, 1, 1]
    both, more = np.sum(curl * div), np.sum(div**2) - np.sum(curl**2)
    angle = 0.5 * np.arctan2(-2 * both, more)
    least, most = (np.cos(angle) * u + np.sin(angle) * v for u, v in ((curl, div), (div, -curl)))
    certain = max(np.sum(most**2) - np.sum(least**2), 1e-30)
    error = overlap * np.sqrt(np.sum((least * most) ** 2)) / certain
    share = np.sum(least**2) / max(np.sum(most**2), 1e-30)
    return ScanRotation(float(np.rad2deg(angle)), float(np.rad2deg(min(error, np.pi / 2))), float(share))
