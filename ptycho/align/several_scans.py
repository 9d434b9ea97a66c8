"""Several scans of one object (key ``data.shared``): their relative shift, rotation and flux.

    C(s) = |Σ_r a(r)* b(r − s)| / √(Σ_r |a(r)|² m_b(r − s) · Σ_r m_a(r) |b(r − s)|²)

a, b: the objects of two scans, each reconstructed alone, less what is smooth over a few pixels; zero outside
the masks m_a, m_b of what their probes illuminate. The shift s of the largest C·√n, with n the pixels of
overlap, is refined by the patterns: under the first object each pattern of the second scan moves to where it
fits best; the moves of all determine a shift and a rotation by least squares.
Source: Padfield, IEEE Trans. Image Process. 21 (2012) 2706, for the correlation of masked images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import fft
from scipy.ndimage import gaussian_filter

from ptycho.align.aligned import AlignedScan, RunContext
from ptycho.align.initial_probe import guess_probe
from ptycho.evaluation.trust import POSITIONS
from ptycho.preparation.dataset import place_patterns
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.parameters import illuminated, object_illumination
from ptycho.reconstruction.scan_likelihood import ScanLikelihood, likelihood_of
from ptycho.reconstruction.solver import Objective, fit, fit_from_constant
from ptycho.reconstruction.trial import TrialOptions, constant_object
from ptycho.scan.beam import Beam
from ptycho.scan.coarser import downsampled
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.positions import rotation
from ptycho.scan.probe import intensity_of
from ptycho.scan.windows import inner_windows

MOVES = Refine(False, True, object=False)


@dataclass(frozen=True)
class PlaceOptions:
    """Options of placing one scan on another."""

    steps: int = 30  # of a scan's object alone
    probe_steps: int = 60  # and then with the probe
    smooth: float = 4.0  # σ in pixels of what is subtracted from an object before it is correlated
    illuminated: float = 0.1  # of the strongest illumination, above which a pixel belongs to an object
    overlap: float = 0.1  # of the pixels of the smaller object, at least
    clear: float = 6.0  # the largest C·√n over the rms of all; of unrelated images it is below 4
    known: float = 0.75  # of a pattern's intensity on the other object, for the pattern to be shifted
    fewest: int = 5  # such patterns that refine the place; three times as many determine a rotation
    rounds: int = 3  # of the refinement
    move_steps: int = 12  # of the positions in each
    significant: float = 4.0  # standard errors, from which on a rotation is applied
    same_flux: float = 0.02  # a ratio of amplitudes that differs from one by less is taken as one


@dataclass(frozen=True)
class Place:
    """Place of a scan on the object of another."""

    centre: np.ndarray  # ``(2,)`` pixels, about which positions are rotated by ``degrees``, rows to columns
    shift: np.ndarray  # ``(2,)`` pixels, after that
    degrees: float
    flux: float  # factor of the amplitude of its probe
    clear: float  # the largest C·√n over the rms of all
    refined: int  # patterns that determined it; 0: the correlation alone did

    def of(self, positions: np.ndarray) -> np.ndarray:
        """Return positions ``(n, 2)`` of the scan on the other's object."""
        return (positions - self.centre) @ rotation(-self.degrees) + self.centre + self.shift

    def finding(self, name: str, other: str, ratio: float, with_flux: bool) -> Finding:
        """Return the decision about this place; ``ratio``: its pixels in one pixel of the object."""
        row, col = self.shift / ratio
        value = f"shift ({row:.2f}, {col:.2f}) px, rotation {self.degrees:.3g}°"
        value += f", flux × {self.flux**2:.3g}" if with_flux else ""
        why = f"against {other}; correlation {self.clear:.0f} times the rms of others"
        why += f", refined by {self.refined} patterns" if self.refined else ""
        return Finding(f"place of {name}", value, why)


@dataclass(frozen=True, eq=False)
class Placed:
    """Several scans on the object of the largest of them."""

    first: int  # the largest
    places: dict[int, Place | None]  # of the others; None: its object has nothing in common with the first
    probes: dict[int, np.ndarray]  # ``(K, N, N)`` complex64 of each, refined by its patterns alone


def join_scans(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Place several scans of one object on the one that has the most patterns."""
    config = aligned.config
    index, names = aligned.scan.scan_index, [Path(file).name for file in config.data.file]
    view = downsampled(aligned.data)
    own: Callable[[Dataset], np.ndarray] | None = None
    if config.data.shared == "object":
        own = (lambda part: guess_probe(part).probe) if aligned.estimated else (lambda part: part.probe)
    placed = place_on_the_largest(view.data, index, config.learns_probe, own)
    first = placed.first
    positions, flux = aligned.data.positions.astype(float), aligned.data.beam.flux.copy()
    findings: list[Finding] = []
    for k, place in placed.places.items():
        if place is None:
            text = (
                f"{names[k]}: its object has nothing in common with that of {names[first]}; it stays where "
                "its file places it; is it of the same sample?"
            )
            findings.append(Finding.warning(text, POSITIONS))
            continue
        positions[index == k] = place.of(positions[index == k] * view.ratio) / view.ratio
        flux[index == k] *= place.flux
        with_flux = own is None  # else probes differ in power
        findings.append(place.finding(names[k], names[first], view.ratio, with_flux))
    scan, data, _ = place_patterns(aligned.scan, aligned.data, positions)
    beam = replace(data.beam, flux=(flux / np.sqrt(np.mean(flux**2))).astype(np.float32))
    if own is not None:
        finer = {k: view.finer_probe(probe) for k, probe in placed.probes.items()}
        beam = with_probe_of_each(beam, index, replace(placed, probes=finer))
    return replace(aligned, scan=scan, data=replace(data, beam=beam)).decided(*findings)


def with_probe_of_each(beam: Beam, index: np.ndarray, placed: Placed) -> Beam:
    """Return a beam in which each scan has the probe of its own, by OPR modes whose weights are 0 or 1.

        P_j = P_first + Σ_k w_jk (P_k − P_first),   w_jk = 1 where pattern j belongs to scan k, else 0

    Args:
        index: ``(J,)`` which scan a pattern belongs to.
    """
    others, first = sorted(placed.places), placed.probes[placed.first]
    return replace(
        beam.with_probe(first),
        opr_modes=np.stack([placed.probes[k][0] - first[0] for k in others]).astype(np.complex64),
        opr_weights=(index[:, None] == np.array(others)).astype(np.complex64),
    )


def place_on_the_largest(
    data: Dataset,
    index: np.ndarray,
    refine_probe: bool,
    own_probe: Callable[[Dataset], np.ndarray] | None = None,
    options: PlaceOptions = PlaceOptions(),
) -> Placed:
    """Place several scans on the one that has the most patterns.

    Args:
        data: the patterns of all scans at their nominal positions, under one probe.
        index: ``(J,)`` which scan a pattern belongs to.
        refine_probe: probes are refined.
        own_probe: initial probe ``(N, N)`` of the patterns of one scan; None: all have that of the first.
    """
    first, *others = np.argsort(-np.bincount(index), kind="stable").tolist()
    parts = {k: data.subset(np.flatnonzero(index == k), 1) for k in (first, *others)}
    if own_probe is not None:
        parts = {k: replace(part, beam=part.beam.with_probe(own_probe(part))) for k, part in parts.items()}
    units, image = likelihood_of(parts[first]), constant_object(parts[first], data.object_size).object
    estimates: dict[int, Estimate] = {}
    places: dict[int, Place | None] = {}
    for k, part in parts.items():
        start = Estimate.of(part, image, normalisation=units.normalisation)
        if own_probe is None and k != first:
            start = replace(start, modes=estimates[first].modes)
        objective = Objective(replace(units, data=part), TrialOptions().prior)
        estimates[k] = fit_from_constant(objective, start, options.steps).estimate
        if refine_probe and (k == first or own_probe is not None):
            estimates[k] = fit(objective, estimates[k], Refine(), options.probe_steps).estimate
        if k != first:
            places[k] = _place_scan(estimates[first], objective.likelihood, estimates[k], options)
    beams = {k: estimate.beam(data.photon_scale, units.normalisation) for k, estimate in estimates.items()}
    return Placed(first, places, {k: beam.probe for k, beam in beams.items()})


def _place_scan(
    known: Estimate, likelihood: ScanLikelihood, own: Estimate, options: PlaceOptions
) -> Place | None:
    """Return where a scan lies on the object of another; None: the objects have nothing in common.

    Args:
        known: object and probe of the other; own: those of this scan, both ``(M, M)`` on one canvas.
        likelihood: of the patterns of this scan at their nominal positions, in the units of both estimates.
    """
    masks = [illuminated(object_illumination(estimate), options.illuminated) for estimate in (known, own)]
    one, two = (_details(s.projection, m, options.smooth) for s, m in zip((known, own), masks, strict=True))
    shift, clear = correlate(one, two, masks[0], masks[1], options.overlap)
    if clear < options.clear:
        return None
    one, two = _overlap(known.projection, own.projection, masks, np.rint(shift).astype(int))
    flux = float(np.sqrt(np.mean(np.abs(two) ** 2) / np.mean(np.abs(one) ** 2)))
    flux = 1.0 if abs(flux - 1) < options.same_flux else flux
    nominal = likelihood.data.positions.astype(float)
    place = Place(nominal.mean(axis=0), shift, 0.0, flux, clear, 0)
    for _ in range(options.rounds):
        place = _refined(replace(known, modes=own.modes), masks[0], likelihood, place, options)
    return place


def correlate(
    one: np.ndarray, two: np.ndarray, mask_one: np.ndarray, mask_two: np.ndarray, overlap: float
) -> tuple[np.ndarray, float]:
    """Return the shift ``(2,)`` of the largest C·√n, to a part of a pixel, and that over the rms of all.

    Args:
        one, two: complex ``(M, M)``, zero outside the masks ``(M, M)`` bool; feature r of ``two`` is feature
            r + shift of ``one``.
        overlap: least n, of the pixels of the smaller mask.
    """
    sides = [fft.next_fast_len(2 * side) for side in one.shape]
    transform = [fft.fft2(part, sides) for part in (one, two, np.abs(one) ** 2, np.abs(two) ** 2)]
    inside = [fft.fft2(mask.astype(float), sides) for mask in (mask_one, mask_two)]
    product = fft.ifft2(transform[0] * transform[1].conj())
    n = fft.ifft2(inside[0] * inside[1].conj()).real
    powers = fft.ifft2(transform[2] * inside[1].conj()).real * fft.ifft2(inside[0] * transform[3].conj()).real
    enough = n > max(overlap * min(mask_one.sum(), mask_two.sum()), 1.0)
    if not enough.any():
        return np.zeros(2), 0.0
    floor = 1e-9 * powers.max()
    score = np.where(enough, np.abs(product) * np.sqrt(np.maximum(n, 0) / np.maximum(powers, floor)), 0.0)
    peak = np.unravel_index(np.argmax(score), score.shape)
    clear = score[peak] / np.sqrt(np.mean(score[enough] ** 2))
    shift = [_summit(np.take(score, peak[1 - axis], axis=1 - axis), int(peak[axis])) for axis in (0, 1)]
    return np.array(shift), float(clear)


def _summit(line: np.ndarray, at: int) -> float:
    """Return the place of the largest of a periodic line ``(n,)``, by a parabola through three samples."""
    below, top, above = line[at - 1], line[at], line[(at + 1) % len(line)]
    bend = below - 2 * top + above
    place = at + (0.0 if bend >= 0 else 0.5 * (below - above) / bend)
    return float(place - len(line) if at > len(line) // 2 else place)


def _details(image: np.ndarray, mask: np.ndarray, sigma: float) -> np.ndarray:
    """Return an image ``(M, M)`` less its smooth part; zero outside the mask."""
    weight = np.maximum(gaussian_filter(mask.astype(float), sigma), 1e-6)
    inside = np.where(mask, image, 0)
    return np.where(mask, inside - gaussian_filter(inside, sigma) / weight, 0)


def _overlap(
    one: np.ndarray, two: np.ndarray, masks: list[np.ndarray], shift: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the illuminated pixels of both images, ``two`` moved by a whole ``shift (2,)``."""
    own = np.argwhere(masks[1])
    there = own + shift
    inside = ((there >= 0) & (there < one.shape)).all(axis=1)
    inside[inside] = masks[0][tuple(there[inside].T)]
    return one[tuple(there[inside].T)], two[tuple(own[inside].T)]


def _refined(
    known: Estimate, mask: np.ndarray, likelihood: ScanLikelihood, place: Place, options: PlaceOptions
) -> Place:
    """Return the place by which the patterns under the probe of ``known`` fit its object best."""
    nominal = likelihood.data.positions.astype(float)
    there, N = place.of(nominal), likelihood.data.N
    corners = np.rint(there).astype(int)
    inside = np.flatnonzero(((corners >= 0) & (corners <= len(mask) - N)).all(axis=1))
    probe = intensity_of(known.modes)
    share = np.einsum("jyx,yx->j", inner_windows(mask, corners[inside], N), probe / probe.sum())
    mine = inside[share > options.known]
    if len(mine) < options.fewest:
        return place
    flux = np.full(len(mine), place.flux, np.float32)
    start = replace(known, positions=there[mine], flux=flux)
    objective = Objective(replace(likelihood, data=likelihood.data.subset(mine, 1)), moves="each")
    fitted = fit(objective, start, MOVES, options.move_steps).estimate
    return _rigid(place, nominal[mine], fitted.positions, options)


def _rigid(place: Place, nominal: np.ndarray, positions: np.ndarray, options: PlaceOptions) -> Place:
    """Return the shift and rotation from nominal positions to those found ``(n, 2)``, without outliers."""
    moves = positions - place.of(nominal)
    off = np.linalg.norm(moves - np.median(moves, axis=0), axis=1)
    kept = off <= 4 * max(float(np.median(off)), 1e-3)
    arms = (place.of(nominal) - place.centre - place.shift)[kept]
    turning = np.stack([-arms[:, 1], arms[:, 0]], axis=1)  # of a move by a small angle
    columns = np.concatenate([np.tile(np.eye(2), (len(arms), 1)), turning.reshape(-1, 1)], axis=1)
    values, *_ = np.linalg.lstsq(columns, moves[kept].reshape(-1), rcond=None)
    rest = moves[kept].reshape(-1) - columns @ values
    freedom = max(rest.size - 3, 1)
    error = np.sqrt(rest @ rest / freedom * np.linalg.pinv(columns.T @ columns)[2, 2])
    if kept.sum() < 3 * options.fewest or abs(values[2]) < options.significant * error:
        return replace(place, shift=place.shift + moves[kept].mean(axis=0), refined=int(kept.sum()))
    degrees = place.degrees + float(np.rad2deg(values[2]))
    return replace(place, shift=place.shift + values[:2], degrees=degrees, refined=int(kept.sum()))
