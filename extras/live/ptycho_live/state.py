"""An object that grows with its scan, and what is known of the patterns on it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

from ptycho.align.initial_probe import guess_probe
from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import ScanGeometry, in_object_pixels, interpret
from ptycho.readers.raw_scan import UNITS, RawScan
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import Objective
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import MARGIN
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import masked, specified_support

log = logging.getLogger(__name__)
PATTERN = np.dtype([("row", "<i8"), ("nominal", "<f8", 2), ("visits", "<i8"), ("held_out", "?")])
"""Row of the store; nominal position in object pixels of the source's origin; how often it was fitted."""
EVERYTHING = np.s_[:, :]


@dataclass(frozen=True)
class LiveOptions:
    """How a live reconstruction goes about it: every number, with its unit."""

    first: int = 50  # patterns from which the first image is reconstructed
    refresh_s: float = 4.0  # between two images
    finish_s: float = 45.0  # for the fit of all patterns together, once all are there
    cycle_s: float = 0.6  # of a cycle, about: what arrives is used in the one after the next
    patience_s: float = 0.3  # that new patterns wait while old ones are fitted again
    pause_s: float = 0.1  # where there is nothing to do
    rate_s: float = 10.0  # over which rates are averaged
    speed: float = 800.0  # pattern-steps per second, of 128 × 128 pixels, before any were timed
    fewest: int = 16  # patterns that are fitted together
    batch_pixels: int = 2**22  # of all of these, at most
    first_steps: tuple[int, int] = (25, 10)  # of the first patterns: of the object, then with the probe
    steps: int = 6  # of a cycle
    hurried_steps: int = 3  # where more new patterns wait than can be fitted so
    regulariser: Prior = field(default_factory=lambda: Prior("edge_preserving", 3.0))  # in a cycle
    dark: float = 1e-3  # of the strongest illumination, below which the object is unknown
    coarse_px: int = 4  # in steps of which the object is filled where it is not illuminated
    holdout: int = 20  # one pattern of so many is held out,
    most_held_out: int = 64  # and so many of them are scored
    least_probe_change: float = 0.1  # of a cycle's change of the probe that is taken at least
    visits: int = 2  # fits of a pattern before its position is refined
    # λ and κ of the last fit, that are mostly selected for counted photons by cross-validation
    final_regulariser: Prior = field(default_factory=lambda: Prior("edge_preserving", 10.0))
    denoiser_weight: float = 2.0
    most_steps: int = 400  # of a stage of that fit
    still_px: float = 0.1  # median of the position corrections below which they are noise
    part_s: float = 5.0  # between two images of a scan too large to be fitted at once
    part_cycle_s: float = 2.0  # of its cycle


@dataclass(frozen=True, eq=False)
class LiveState:
    """Estimate of the object and of the patterns so far, and what the first patterns have determined."""

    estimate: Estimate  # object (H, W), modes, and positions (J, 2) on the object
    origin: np.ndarray  # (row, col) of the object's first sample in object pixels of the source's origin
    illumination: np.ndarray  # Σ_j Σ_m |P_m|² of the patterns that were fitted, (H, W) float32
    patterns: np.ndarray  # (J,) of PATTERN
    scan: ScanGeometry  # how the first patterns were interpreted
    matrix: np.ndarray  # (2, 2), from positions as the source has them to object pixels
    objective: Objective  # of the first patterns, whose units, noise, normalisation and support are kept
    refined: Refine  # parameters that are refined besides the object
    frames: Callable[[np.ndarray], np.ndarray]  # of rows (n,) of a store: (n, H, W)
    options: LiveOptions

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.scan.N

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels in metres; None: unknown."""
        return self.scan.pixel.metres

    @property
    def nominal(self) -> np.ndarray:
        """Nominal positions ``(J, 2)`` on the object."""
        return self.patterns["nominal"] - self.origin

    @property
    def moves(self) -> np.ndarray:
        """Corrections of the positions ``(J, 2)`` in object pixels."""
        return self.estimate.positions - self.nominal

    @property
    def waiting(self) -> np.ndarray:
        """Indices ``(n,)`` of the patterns that were not used yet."""
        return np.flatnonzero((self.patterns["visits"] == 0) & ~self.patterns["held_out"])

    @property
    def used(self) -> int:
        """Number of patterns that were fitted."""
        return int(np.count_nonzero(self.patterns["visits"]))

    def unknown(self, rows: np.ndarray) -> np.ndarray:
        """Return those of some ``rows (n,)`` of the store that have no pattern here."""
        return rows[~np.isin(rows, self.patterns["row"])]

    def filled(self, window: tuple[slice, slice] = EVERYTHING) -> np.ndarray:
        """Return the object on a window, its unilluminated part as the mean of what is illuminated near it.

        Near: by a normal distribution of an eighth of a pattern, else of wider ones; 1 where nothing is.
        """
        image, illumination = self.estimate.object[window], self.illumination[window]
        N, coarse = self.N, self.options.coarse_px
        illuminated = illumination > self.options.dark * illumination.max(initial=0)
        if illuminated.all() or not illuminated.any():
            return image.copy() if illuminated.any() else np.ones(image.shape, np.complex64)
        some = slice(None, None, coarse), slice(None, None, coarse)
        known, weight = np.where(illuminated, image, 0)[some], illuminated[some].astype(np.float32)
        mean = np.full(known.shape, image[illuminated].mean(), np.complex64)
        for width in (N / 2, N / 4, N / 8):
            share, *parts = (
                gaussian_filter(part, width / coarse, truncate=2) for part in (weight, known.real, known.imag)
            )
            near = share > 0.01
            mean[near] = (parts[0][near] + 1j * parts[1][near]) / share[near]
        rows, columns = (np.arange(side) // coarse for side in image.shape)
        return np.where(illuminated, image, mean[np.ix_(rows, columns)]).astype(np.complex64)

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return amplitudes ``(n, N, N)`` of some rows of the store."""
        return self.scan.detector.amplitudes(self.frames(rows), self.scan.limits)

    def objective_of(self, amplitudes: np.ndarray, estimate: Estimate) -> Objective:
        """Return that of patterns ``(n, N, N)``, in the places of an estimate."""
        likelihood, count = self.objective.likelihood, len(amplitudes)
        data = replace(
            likelihood.data,
            amplitudes=Patterns(amplitudes),
            beam=Beam(likelihood.data.probe, estimate.positions.astype(np.float32)),
            image=np.zeros(count, np.int32),
            groups=np.arange(count, dtype=np.int32)[:, None],
            region_size=self.N + 2,
            object_size=max(estimate.object.shape),
            exact=True,
            tiles=False,
            stated_tiling=None,
        )
        return replace(self.objective, likelihood=replace(likelihood, data=data))


def begin(
    raw: RawScan,  # the scan so far; its file is closed in the end
    config: ScanRunConfig,  # its section data says which frames of the file have a position
    scratch: Path,  # a folder for patterns in a nameless file
    frames: Callable[[np.ndarray], np.ndarray],
    options: LiveOptions,
) -> LiveState:
    """Interpret the first patterns, and estimate the probe where none is known; the state of no patterns.

    ConfigError: a value cannot be determined; the message names the key to set.
    """
    with contextlib.closing(raw.patterns):
        scan = interpret(raw, config.data)
        _, data, findings = make_dataset(scan, replace(config, group_size=1, tiles=False), scratch)
    if scan.probe is None and isinstance(config.probe, OwnProbe):
        guess = guess_probe(data)
        data = replace(data, beam=data.beam.with_probe(masked(guess.probe, config.probe)))
        findings.append(guess.finding)
    for finding in (*scan.findings, *findings):
        log.info("%s", finding)
    if data.amplitudes.shifts is not None:
        log.warning("data.pattern_shift: used after the last frame alone, not while the scan is measured")
    likelihood = replace(likelihood_of(data), compile_xla=config.xla.compile)
    modes = Estimate.of(data, np.ones((1, 1)), config.probe.modes).modes
    dark = np.zeros((scan.N, scan.N), np.float32)
    return LiveState(
        estimate=Estimate(dark.astype(np.complex64), modes, np.zeros((0, 2)), np.zeros(0, np.float32), dark),
        origin=np.zeros(2, np.int64),
        illumination=dark,
        patterns=np.zeros(0, PATTERN),
        scan=scan,
        matrix=_matrix(scan, config.data),
        objective=Objective(likelihood, support=specified_support(config.probe, scan.N)),
        refined=Refine(config.learns_probe, config.solver.positions is not False),
        frames=frames,
        options=options,
    )


def _matrix(scan: ScanGeometry, config: DataConfig) -> np.ndarray:
    """Return the linear map ``(2, 2)`` from positions of the source to object pixels."""
    step = 1e-6 / (UNITS[scan.raw.unit] or 1e-6)
    corners = step * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    pixels, _ = in_object_pixels(corners, scan.raw, config, scan.pixel, scan.N * config.bin)
    return ((pixels[1:] - pixels[0]) / step).T


def extend(state: LiveState, rows: np.ndarray, indices: np.ndarray, positions: np.ndarray) -> LiveState:
    """Return the state with more rows ``(n,)`` of the store, of frames ``indices (n,)``, in object pixels.

    Those that lie farther than a window from all others are left out: the object would grow for nothing.
    """
    holdout = state.options.holdout
    new = _connected(positions, state.patterns["nominal"], state.N)
    if not len(new):
        return state
    state, added = _enlarged(state, positions[new]), np.zeros(len(new), PATTERN)
    added["row"], added["nominal"] = rows[new], positions[new]
    enough = len(rows) + len(state.patterns) >= holdout
    added["held_out"] = (indices[new] % holdout == holdout // 2) & enough
    places = np.concatenate([state.estimate.positions, positions[new] - state.origin])
    estimate = replace(state.estimate, positions=places, flux=np.ones(len(places), np.float32))
    return replace(state, estimate=estimate, patterns=np.concatenate([state.patterns, added]))


def _connected(new: np.ndarray, known: np.ndarray, reach: float) -> np.ndarray:
    """Indices of the new positions ``(n, 2)`` that hang together with known ones, or with most of the new."""
    near = np.zeros(len(new), bool)
    if len(new) and not len(known):
        near[np.argmin(np.linalg.norm(new - np.median(new, axis=0), axis=1))] = True
    while not near.all():
        reached = cKDTree(np.concatenate([known, new[near]])).query(new)[0] <= reach
        if not (reached & ~near).any():
            break
        near |= reached
    return np.flatnonzero(near)


def _enlarged(state: LiveState, positions: np.ndarray) -> LiveState:
    """The state with room for windows at positions ``(n, 2)``, in steps of half a window."""
    N, old, origin = state.N, state.estimate, state.origin
    low, high = np.floor(positions.min(axis=0)).astype(int), np.ceil(positions.max(axis=0)).astype(int)
    if not len(state.patterns):  # nothing is there: the object begins with twice the margin
        origin, shape = low - 2 * MARGIN, tuple(high - low + N + 4 * MARGIN)
        estimate = replace(old, object=np.zeros(shape, np.complex64))
        return replace(state, estimate=estimate, origin=origin, illumination=np.zeros(shape, np.float32))
    ends = origin + state.illumination.shape
    needed = np.maximum([origin - (low - MARGIN), high + N + MARGIN - ends], 0)
    pads = (-(-needed // (N // 2)) * (N // 2)).T  # (rows, columns) × (before, after)
    if not pads.any():
        return state
    image, illumination = np.pad(old.object, pads), np.pad(state.illumination, pads)
    estimate = replace(old, object=image, positions=old.positions + pads[:, 0])
    return replace(state, estimate=estimate, illumination=illumination, origin=origin - pads[:, 0])
