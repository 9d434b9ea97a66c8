"""Find from the patterns, without a probe, how a scan is rotated, or where those of a near field lie.

**Centres of mass.**

    q_j = Σ q A_j²(q) / Σ A_j²(q),   (∂q_a/∂r_b)_j by a plane through a position's nearest ones

Of a phase object, ``q(r) = const + ∇(|P|² ⋆ φ)(r) / 2π``, whatever the probe: a gradient, and so without curl
(absorption in a round beam out of focus adds a gradient, too). If the positions are
stated in axes that are rotated against the detector's, ``r = R(−φ) r'``, it has one:

    curl' = curl cos φ + div sin φ,   div' = div cos φ − curl sin φ,   curl = ∂q_0/∂r_1 − ∂q_1/∂r_0

and φ is where Σ curl'² is least. A turn by 180° changes the sign of both and remains open. Patterns that are
mirrored against the positions have their least curl elsewhere, and more of it.
Source: Savitzky et al., Ultramicroscopy 189 (2018) 46, and Ophus, Microsc. Microanal. 25 (2019) 563, section
on phase-contrast imaging, for scans on a raster.

**Parallax of a defocused beam.** A feature that lies Δr further in the beam appears Δq further in the
pattern, where the far field has the phase ``c q²``: in pixels of the pattern and of the object

    Δq = m R(φ) Δr,   m = ±π N / c

So patterns of neighbours j, k resemble each other after a shift by M (r_k − r_j), M the same of all pairs:
the estimate is the m and φ at which the sum of the pairs' correlations is largest. φ of one sign
of c is φ + 180° of the other. The patterns are divided by their mean, where that is bright. This is what tcBF
imaging of electron microscopy aligns (Varnavides et al., arXiv:2309.05250, section on parallax imaging), here
in the detector's pixels.

**Near fields** are images of the sample that move with it: those of j and k resemble each other after a shift
by r_k − r_j, whatever the beam, once they are divided by their mean. So every position follows from the
shifts between neighbours, by least squares, but for a common translation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve
from scipy.spatial import Delaunay, cKDTree
from skimage.registration import phase_cross_correlation
from skimage.transform import downscale_local_mean

from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import middle
from ptycho.scan.dataset import Dataset
from ptycho.scan.positions import rotation


class ScanRotation(NamedTuple):
    """Rotation of the positions, from rows to columns, −90° to 90°, that the centres of mass show."""

    degrees: float
    error: float  # its standard error, in degrees
    curl: float  # what is left of Σ curl², of Σ div²: 0 of a gradient, 1 where nothing is determined


class Parallax(NamedTuple):
    """The parallax of the patterns as they are, or transposed."""

    degrees: float  # that positions must be rotated by, −90 to 90
    magnification: float  # |m|, pixels of the pattern for one of the object
    height: float  # of the sum of correlations, in standard deviations over all angles and lengths
    lead: float  # of the height over the next best angle's


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
    """Return the rotation that leaves slopes ``(J, 2, 2)`` the least curl, up to their mean.

    Patterns that shift on the detector with the position have a mean slope, with any curl.
    ``overlap``: factor of the error, as neighbouring planes have patterns in common.
    """
    slopes = slopes - slopes.mean(axis=0)
    curl, div = slopes[:, 0, 1] - slopes[:, 1, 0], slopes[:, 0, 0] + slopes[:, 1, 1]
    both, more = np.sum(curl * div), np.sum(div**2) - np.sum(curl**2)
    angle = 0.5 * np.arctan2(-2 * both, more)
    least, most = (np.cos(angle) * u + np.sin(angle) * v for u, v in ((curl, div), (div, -curl)))
    certain = max(np.sum(most**2) - np.sum(least**2), 1e-30)
    error = overlap * np.sqrt(np.sum((least * most) ** 2)) / certain
    share = np.sum(least**2) / max(np.sum(most**2), 1e-30)
    return ScanRotation(float(np.rad2deg(angle)), float(np.rad2deg(min(error, np.pi / 2))), float(share))


def parallax(data: Dataset, patterns: int = 120) -> tuple[Parallax, Parallax]:
    """Return the parallax of so many central ``patterns`` of one object as they are, and transposed."""
    some = middle(data, patterns)
    steps, likeness = _pairs(some)
    return _best_parallax(steps, likeness), _best_parallax(steps, np.swapaxes(likeness, 1, 2))


def _pairs(data: Dataset, nearest: int = 6, bright: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Return steps ``(K, 2)`` to the ``nearest`` positions, and correlations ``(K, N, N)``, no shift at N//2.

    Patterns are correlated where their mean is ``bright``, in units of its 99.5th percentile.
    """
    counts = np.square(data.amplitudes[:].astype(float))
    mean = counts.mean(axis=0)
    inside = mean > bright * np.percentile(mean, 99.5)
    contrast = np.where(inside, counts / np.maximum(mean, 1e-30) - 1, 0.0)
    contrast = np.where(inside, contrast - contrast[:, inside].mean(axis=1)[:, None, None], 0.0)
    count = min(nearest + 1, len(counts))
    near = cKDTree(data.positions).query(data.positions, k=count)[1]
    one, other = np.repeat(np.arange(len(counts)), count - 1), near[:, 1:].ravel()
    far = np.fft.fft2(contrast)
    likeness = np.fft.fftshift(np.fft.ifft2(far[one].conj() * far[other]).real, axes=(1, 2))
    return (data.positions[other] - data.positions[one]).astype(float), likeness


def _best_parallax(
    steps: np.ndarray,
    likeness: np.ndarray,
    shifts: tuple[float, float] = (0.7, 8.0),
    angles: int = 90,
    sizes: int = 24,
    apart: float = 25.0,
) -> Parallax:
    """Return the parallax of the largest sum of correlations, over a grid of angles and of ``shifts``.

    ``shifts`` are of neighbours, in pixels of the pattern; the next best angle is ``apart`` degrees off.
    """
    typical = float(np.median(np.linalg.norm(steps, axis=1)))
    magnifications = np.geomspace(*shifts, sizes) / max(typical, 1e-9)
    degrees = np.linspace(-180, 180, angles, endpoint=False)
    centre = likeness.shape[-1] // 2
    total = np.zeros((angles, sizes))
    pair = np.arange(len(steps))[:, None]
    for k, angle in enumerate(degrees):
        turned = steps @ rotation(angle).T
        places = centre + turned[:, :, None] * magnifications  # (K, 2, sizes)
        coordinates = np.stack(np.broadcast_arrays(pair, places[:, 0], places[:, 1]))
        total[k] = map_coordinates(likeness, coordinates, order=1, mode="grid-wrap").sum(axis=0)
    score = (total - total.mean(axis=0)) / total.std()
    angle, size = np.unravel_index(score.argmax(), score.shape)
    off = np.abs((degrees - degrees[angle] + 180) % 360 - 180)
    height, rest = float(score.max()), float(score[off > apart].max())
    rotated = float((degrees[angle] + 90) % 180 - 90)
    return Parallax(rotated, float(magnifications[size]), height, height / max(rest, 1e-9))


class MeasuredPositions(NamedTuple):
    """Positions by the shifts between near fields, ``(J, 2)``, and what these differ by from the shifts."""

    positions: np.ndarray
    error: float  # median, in pixels


def positions_of_near_fields(
    data: Dataset, nearest: int = 6, overlap: float = 0.5, side: int = 256
) -> MeasuredPositions:
    """Return the positions that the near fields of one object show, their mean that of the nominal ones.

    Unless pairs of neighbours connect all patterns, the nominal ones are returned, with an infinite error.
    ``nearest``: neighbours that a pattern is compared with, if their windows share the ``overlap`` of a side.
    Larger patterns than ``side`` are binned. Weights that hardly count wrong shifts are those of Holland &
    Welsch, Commun. Stat. A 6 (1977) 813, after Cauchy.
    """
    nominal, count = data.positions.astype(float), len(data.positions)
    binning = -(-data.N // side)
    near = cKDTree(nominal).query(nominal, k=min(nearest + 1, count))[1]
    edges = [(j, k) for j in range(count) for k in near[j, 1:]]
    if count > 3:  # and all around, where those lie in a row
        triangles = Delaunay(nominal, qhull_options="QJ").simplices
        edges += [*triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)]
    pairs = np.unique(np.sort(edges, axis=1), axis=0)
    steps = nominal[pairs[:, 1]] - nominal[pairs[:, 0]]
    together = (np.abs(steps).max(axis=1) < (1 - overlap) * data.N) & (pairs[:, 0] != pairs[:, 1])
    pairs, steps = pairs[together], steps[together]
    ends = np.repeat(np.arange(len(pairs)), 2), pairs.ravel()
    difference = coo_array((np.tile([-1.0, 1.0], len(pairs)), ends), shape=(len(pairs), count)).tocsr()
    images = _tapered_contrast(data, binning)
    if images is None or connected_components(difference.T @ difference)[0] > 1:
        return MeasuredPositions(nominal, np.inf)
    shifts = side_by_side(
        lambda pair: phase_cross_correlation(
            images[pair[0]], images[pair[1]], upsample_factor=10 * binning, normalization=None
        )[0],
        pairs,
    )
    left = binning * np.array(list(shifts)) - steps
    weights = np.ones(len(pairs))
    for _ in range(10):
        normal = difference.T @ diags_array(weights) @ difference
        normal += 1e-6 * diags_array(np.ones(count))  # which sets their mean
        moves = spsolve(normal.tocsc(), difference.T @ (weights[:, None] * left))
        rest = np.linalg.norm(left - difference @ moves, axis=1)
        weights = 1 / (1 + (rest / 0.5) ** 2)
    return MeasuredPositions(nominal + moves - moves.mean(axis=0), float(np.median(rest)))


def _tapered_contrast(data: Dataset, binning: int, least: float = 0.5) -> np.ndarray | None:
    """Return binned patterns ``(J, n, n)`` over their mean, less one; zero at the edges and on bad pixels.

    A bin counts if at least this share of it is measured. None: there is no such bin.
    """
    good = np.ones((data.N,) * 2, bool) if data.good is None else data.good
    share = downscale_local_mean(good.astype(np.float32), (binning, binning))
    blocks = (downscale_local_mean(block * good, (1, binning, binning)) for block in data.amplitudes.blocks())
    images = np.concatenate([block.astype(np.float32) for block in blocks])
    mean = images.mean(axis=0)
    known = (share >= least) & (mean > 0)
    if not known.any():
        return None
    taper = np.ones(known.shape, np.float32)
    for axis in (0, 1):
        inside, window = np.flatnonzero(known.any(axis=1 - axis)), np.zeros(len(known), np.float32)
        window[inside[0] : inside[-1] + 1] = np.sqrt(np.hanning(inside[-1] - inside[0] + 3)[1:-1])
        taper *= np.expand_dims(window, 1 - axis)
    images *= mean[known].mean() / np.maximum(images[:, known].mean(axis=1), 1e-30)[:, None, None]
    mean = images.mean(axis=0)
    images -= mean
    images *= np.where(known, taper / np.where(known, mean, 1), 0)
    return images
