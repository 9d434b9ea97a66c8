"""Sequential registration: extend an object by one pattern after the other, each predicted before its fit.

    share_j(r) = (min_c Σ (√n_j − c √λ(r))² − ν) / V,   λ(r) = Σ_m |F P_m O[r + x]|²

The sum runs over the measured pixels; ν is the part of it that photon noise causes, V the mean of the same
difference over all patterns with the mean pattern in place of λ. So 0 is a pattern that is explained, and 1
one that is explained no better than by the mean pattern. c is fitted, because the intensity varies.

A pattern joins at its nominal position, shifted like its neighbours in time or space, if that explains it;
otherwise at a position within its reach that explains it; otherwise it waits until more of the object around
it is known. So errors that patterns share, an offset behind a jump or a drift, are followed without a model.
Where the object has little contrast, a pattern fits in many places: at the end each pattern is registered to
an object of other patterns alone, and stays with its neighbours where that is as good.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.ndimage import uniform_filter
from scipy.signal import fftconvolve
from scipy.spatial import cKDTree

from ptycho import physics
from ptycho.reconstruction.blocks import block_of, cut
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.scan_likelihood import likelihood_of, side_by_side
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.trial import TrialOptions, constant_object
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter, intensity_of
from ptycho.scan.windows import far_field_ramps


@dataclass(frozen=True)
class RegistrationOptions:
    """Options of the registration. A *share* is what of a pattern's variation is not explained."""

    reach: int = 36  # pixels, within which a pattern is searched for
    coarse_step: int = 3  # pixels, of the first search
    candidates: int = 4  # of these steps, that are searched pixel by pixel
    seed: int = 30  # patterns of a seed
    fewest: int = 12  # and of a smaller one
    at_once: int = 8  # patterns that join in a round, at least
    known: float = 0.75  # of a pattern's intensity on the known object, to join
    illuminated: float = 0.05  # of the usual illumination, above which the object is known
    overlapping: float = 0.5  # as ``known``, of a place that is not the nominal one
    explained: float = 0.25  # shares, between which the limit lies
    misplaced: float = 0.5  # below which a pattern joins
    dark: float = 0.05  # of the mean intensity; a darker pattern is not used
    poor: float = 1.0  # share below which a pattern may stay, if nothing better is found
    better: float = 0.6  # of the share: what another place must come to
    well: float = 0.1  # share below which no better place is searched for
    outlying: float = 3.0  # times the median share of a seed: is no part of it
    lost: float = 0.1  # of the patterns, that fit at no position: positions are not found
    more: float = 0.1  # of what may be known around a pattern: then it is searched for once more
    seed_steps: int = 20  # of a seed's object
    probe_steps: int = 15  # with the probe
    steps: int = 8  # of new patterns
    refining_steps: int = 30  # of positions
    parts: int = 4  # of the patterns, that are taken out one after the other
    least: float = 3.0  # pixels, within which places are equally good
    alike: float = 0.03  # shares, likewise
    rounds: int = 6
    settled: float = 0.2  # pixels, below which positions have converged
    chunk_pixels: int = 2**18  # of the waves that are handled at once


OPTIONS = RegistrationOptions()


class Seed(NamedTuple):
    """Result of a seed."""

    height: float  # the share of its patterns that are explained worst, and for those that were left out
    middle: float  # their middle share, before the last fit
    patterns: np.ndarray  # indices of those that are kept
    estimate: Estimate  # object and modes


@dataclass(eq=False)
class Registration:
    """An object, and the patterns that have joined it."""

    data: Dataset  # the scan on an object that is wider by ``options.reach`` on all sides
    refined: Refine
    measured: np.ndarray  # √n ``(J, N²)`` float32, zero where nothing was measured, as good
    good: np.ndarray  # ``(N²,)`` float32, one at measured pixels; both with zero frequency at sample 0
    noise: float  # ν
    variation: float  # V
    estimate: Estimate  # object and modes; its positions and flux are the nominal ones
    placed: np.ndarray  # ``(J,)`` bool, the patterns that have joined
    moves: np.ndarray  # ``(J, 2)`` pixels, shifts of the patterns from their nominal positions
    # Share of a pattern's intensity that falls on the known object, by the corner of the pattern.
    cover: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    options: RegistrationOptions = OPTIONS

    @classmethod
    def of(cls, data: Dataset, refine: Refine, options: RegistrationOptions = OPTIONS) -> Registration:
        """Return a registration in which nothing is placed and the object is a constant."""
        beam = replace(data.beam, positions=data.positions + np.float32(options.reach))
        side, count, N = data.object_size + 2 * options.reach, len(data.positions), data.N
        data = replace(data, beam=beam, object_size=side, objects=None, stated_tiling=None)
        good = np.ones((N, N), bool) if data.good is None else np.fft.ifftshift(data.good)
        root = np.where(good, np.fft.ifftshift(np.abs(data.amplitudes[:]), axes=(1, 2)), 0).astype(np.float32)
        root = root.reshape(count, N * N)
        mean = np.sqrt(np.mean(root**2, axis=0, dtype=float))
        noise = float(np.minimum(mean**2, 0.25).sum()) if data.counts else 0.0
        left = np.sum(root**2, axis=1) - (root @ mean) ** 2 / np.sum(mean**2)
        flat, variation = good.ravel().astype(np.float32), max(float(left.mean()) - noise, 1e-30)
        estimate, placed, moves = constant_object(data, side), np.zeros(count, bool), np.zeros((count, 2))
        return cls(data, refine, root, flat, noise, variation, estimate, placed, moves, options=options)

    @property
    def nominal(self) -> np.ndarray:
        """Positions ``(J, 2)`` float64."""
        return self.estimate.positions

    def begin(self) -> None:
        """Start from the best of some seeds, without the patterns in it that contradict the others."""
        start, tried, well = self.estimate, list[Seed](), self.options.well
        for neighbours in seeds(self.nominal, self.options):
            for seed in neighbours:
                tried.append(self._grow_seed(seed, start))
                if tried[-1].height < well:
                    break
            if tried[-1].height < well or min(grown.middle for grown in tried) > well:
                break  # what the beam does not explain in the middle, it does not elsewhere
        best = min(tried, key=lambda grown: grown.height)
        self.placed, self.estimate = np.isin(np.arange(len(self.nominal)), best.patterns), best.estimate

    def _grow_seed(self, seed: np.ndarray, start: Estimate) -> Seed:
        """An object from some patterns (indices), and those of them that it explains."""
        self.estimate, count = start, len(seed)
        self.fit(seed, OBJECT_ALONE, self.options.seed_steps)
        for _ in range(2):
            shares = self.own_shares(seed)
            seed = seed[shares <= max(self.options.outlying * np.median(shares), self.options.well)]
            self.fit(seed, self.refined, self.options.probe_steps)
        height = float(np.quantile(self.own_shares(seed), 0.9)) + count / len(seed) - 1
        return Seed(height, float(np.median(shares)), seed, self.estimate)

    @property
    def vague(self) -> bool:
        """Whether the beam does not even explain the seed, so that shares do not depend on positions."""
        return bool(np.median(self.own_shares(np.flatnonzero(self.placed))) > self.options.well)

    def extend(self) -> None:
        """Place patterns until every one is placed, or explained at no position.

        A pattern that is not explained waits until more is known around it. Where nothing else is left, those
        join that are explained best, if at all.
        """
        known = np.full(len(self.nominal), -np.inf)  # around each pattern, at its last search
        best, lowest = self.moves.copy(), np.full(len(self.nominal), np.inf)  # its move and share, then
        reach = energy_diameter(self.estimate.modes) / 2
        while not (self.placed | np.isnan(known)).all():
            ring, guesses, around = self._next(known)
            joining = ring
            if ring.size:
                limit = self._limit(ring, guesses)
                cases = [(int(j), moves, limit) for j, moves in zip(ring, guesses, strict=True)]
                best[ring], lowest[ring] = zip(*side_by_side(self._place, cases), strict=True)
                known[ring], joining = around, ring[lowest[ring] <= limit]
            if not joining.size:
                waiting = np.flatnonzero(~self.placed & np.isfinite(known))
                joining = waiting[lowest[waiting] <= min(self.options.poor, np.median(lowest[waiting]))]
                if not joining.size:
                    known[waiting] = np.nan
            if np.mean(np.isnan(known)) > self.options.lost:
                return
            if not joining.size:
                continue
            self.placed[joining], self.moves[joining] = True, best[joining]
            places = self.nominal + self.moves
            near = cKDTree(places[joining]).query(places)[0] < reach
            if (around := np.flatnonzero(self.placed & near)).size:
                self.fit(around, self.refined, self.options.steps)

    def refine(self) -> None:
        """Refine positions by gradients; then put each pattern where the others say that it belongs, and look
        once more for those that are not explained there. Repeat this a few times, as long as positions move
        less each time: else a few patterns go back and forth.
        """
        unsure, options, moved = True, self.options, np.inf
        for _ in range(options.rounds):
            before, placed = self.moves, np.flatnonzero(self.placed)
            for model in ("affine", "each"):  # what all have in common is slow where each moves by itself
                self.fit(placed, replace(self.refined, positions=True), options.refining_steps, model)
            unsure = unsure and self._place_again()
            shares = self.own_shares(np.arange(len(self.nominal)))
            wrong = ~self.placed | (shares > max(options.well, options.outlying * np.median(shares)))
            if wrong.any():
                self.placed = ~wrong
                self.fit(np.flatnonzero(self.placed), self.refined, options.steps)
                self.extend()
            change, moved_before = np.abs(self.moves - before), moved
            moved = float(change.sum())
            if self.lost or change.max() < options.settled or moved >= moved_before:
                return

    def _place_again(self) -> bool:
        """Part by part, patterns by an object of the others alone: what grew in a wrong place upholds itself
        by what it has left in the object. Whether any is moved."""
        before, golden = self.moves, (5**0.5 - 1) / 2  # whose multiples are spread evenly over [0, 1)
        parts = np.arange(len(self.nominal)) * golden % 1 * self.options.parts // 1
        for k in range(self.options.parts):
            part, others = (np.flatnonzero(self.placed & chosen) for chosen in (parts == k, parts != k))
            if not (part.size and others.size):
                continue
            self.fit(others, self.refined, self.options.steps)
            cases = [(int(j), moves) for j, moves in zip(part, self._guesses(part, others), strict=True)]
            self.cover_of(others)
            moves = self.moves.copy()
            moves[part] = list(side_by_side(self._where, cases))
            self.moves = moves
        return bool((self.moves != before).any())

    def _where(self, case: tuple[int, np.ndarray]) -> np.ndarray:
        """The move of a pattern ``(2,)``: as its neighbours', unless its own, or another that is found,
        explains it clearly better.

        ``case``: the pattern, and moves ``(n, 2)`` of its neighbours.
        """
        pattern, guesses = case
        own, alike, least = self.moves[pattern], self.options.alike, self.options.least
        _, share = self.best_place(pattern, own + square(1))
        near, lower = self.best_place(pattern, np.concatenate([move + square(2) for move in guesses]))
        if lower < share + alike and np.abs(near - own).max() >= least:
            own, share = near, lower
        there, lower = self.search(pattern, own)
        return there if lower < share - alike and np.abs(there - own).max() >= least else own

    @property
    def lost(self) -> bool:
        """Whether so many patterns are explained at no position that positions are not found."""
        return bool(np.mean(~self.placed) > self.options.lost)

    def fit(self, patterns: np.ndarray, refine: Refine, steps: int, moves: str = "independent") -> None:
        """Fit object and refined parts to ``patterns (n,)``: positions by a model, or at whole pixels.

        At whole pixels the object's window under these patterns is fitted; it is small at the beginning.
        """
        places, farthest = self.nominal + self.moves, self.data.object_size - self.data.N
        places = np.clip(places if refine.positions else np.rint(places), 0, farthest)
        placed = replace(self.estimate, positions=places)
        block = block_of(placed, patterns)
        if refine.positions:  # which may move beyond a window
            block = block._replace(corner=(0, 0), shape=placed.object.shape)
        part = likelihood_of(self.data.subset(block.patterns, 1))
        likelihood = replace(part, normalisation=self.data.normalisation)
        start = cut(placed, block)
        fitted = fit(Objective(likelihood, TrialOptions().prior, moves), start, refine, steps).estimate
        image = placed.object.copy()
        image[block.window] = fitted.object
        self.estimate = replace(self.estimate, object=image, modes=fitted.modes)
        if refine.positions:
            change = fitted.positions - start.positions
            self.moves = self.moves.copy()
            self.moves[block.patterns] += change - change.mean(axis=0)

    def shares(self, pattern: int, moves: np.ndarray) -> np.ndarray:
        """Return the share of a pattern after each of some moves ``(S, 2)``; see the module's text."""
        return self._shares_and_flux(pattern, moves)[0]

    def _shares_and_flux(self, pattern: int, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shares of a pattern after moves ``(S, 2)``, and the c of each."""
        N, root, left, flux = self.data.N, self.measured[pattern], [], []
        if root @ root < self.options.dark * (N / 2 / self.data.normalisation) ** 2:
            return np.full(len(moves), np.inf), np.zeros(len(moves))
        windows = np.lib.stride_tricks.sliding_window_view(self.estimate.object, (N, N))
        shifts = self.data.amplitudes.shifts
        ramps = None if shifts is None else far_field_ramps(shifts[pattern][None], N, N)
        chunk = max(1, self.options.chunk_pixels // self.estimate.modes.size)
        for k in range(0, len(moves), chunk):
            rows, columns = self.corners(pattern, moves[k : k + chunk]).T
            cut = windows[rows, columns]
            cut = cut if ramps is None else physics.shift_far_field(cut, ramps)
            waves = cut[:, None] * self.estimate.modes  # (S, K, N, N)
            far = fft.fft2(waves, overwrite_x=True)
            expected = np.sum(far.real**2 + far.imag**2, axis=1).reshape(-1, N * N) * self.good
            along, energy = np.sqrt(expected) @ root, np.maximum(expected.sum(axis=1), 1e-30)
            left.append(root @ root - along**2 / energy)
            flux.append(along / energy)
        return (np.concatenate(left) - self.noise) / self.variation, np.concatenate(flux)

    def own_shares(self, patterns: np.ndarray) -> np.ndarray:
        """Return the shares ``(n,)`` of patterns where they lie."""
        return self.own_shares_and_flux(patterns)[0]

    def own_shares_and_flux(self, patterns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the shares ``(n,)`` of patterns where they lie, and the flux c ``(n,)`` of each there."""
        found = [self._shares_and_flux(j, self.moves[j][None]) for j in patterns]
        shares, flux = np.array(found).reshape(len(patterns), 2).T
        return shares, flux

    def search(self, pattern: int, around: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the best of all moves within the reach of one ``(2,)``, and its share."""
        step = self.options.coarse_step
        moves = around + square(self.options.reach, step)
        moves = moves[self.cover[tuple(self.corners(pattern, moves).T)] >= self.options.overlapping]
        if not len(moves):
            return around, np.inf
        first = np.argsort(self.shares(pattern, moves))[: self.options.candidates]
        return self.best_place(pattern, np.concatenate([moves[k] + square(step - 1) for k in first]))

    def best_place(self, pattern: int, moves: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the one of some moves ``(S, 2)`` that explains a pattern best, and its share."""
        shares = self.shares(pattern, moves)
        return moves[shares.argmin()], float(shares.min())

    def _limit(self, ring: np.ndarray, guesses: np.ndarray) -> float:
        """The share below which a pattern of a ring is explained: more, where the beam is not well known."""
        shares = np.array([self.best_place(j, moves)[1] for j, moves in zip(ring, guesses, strict=True)])
        bright = shares[np.isfinite(shares)]
        middle = np.quantile(bright, 0.25) if bright.size else np.inf
        return float(np.clip(2 * middle, self.options.explained, self.options.misplaced))

    def _place(self, case: tuple[int, np.ndarray, float]) -> tuple[np.ndarray, float]:
        """The move of a pattern ``(2,)`` that explains it best, and its share.

        ``case``: the pattern, moves ``(n, 2)`` that it may have, and the share below which one is right.
        """
        pattern, guesses, limit = case
        move, share = self.best_place(pattern, guesses)
        if share > self.options.well:
            near, lower = self.best_place(pattern, move + square(2))
            if lower < self.options.better * share:
                move, share = near, lower
        if share <= limit:
            return move, share
        there, lower = self.search(pattern, guesses[-1])
        return (there, lower) if lower < self.options.better * share else (move, share)

    def _next(self, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the patterns whose illumination is mostly where the object is known, and around which more
        is known than before; their possible shifts; and how much is known around them.

        ``known``: how much was known around each pattern at its last search; −∞: none yet, NaN: no further.
        """
        left, placed = np.flatnonzero(~self.placed & ~np.isnan(known)), np.flatnonzero(self.placed)
        guesses, cover = self._guesses(left, placed), self.cover_of(placed)
        spread = uniform_filter(cover, 2 * self.options.reach + 1)
        around = spread[tuple(self.corners(left, guesses[:, -1]).T)]
        share = np.stack([cover[tuple(self.corners(left, guesses[:, k]).T)] for k in range(3)]).max(axis=0)
        fresh = around > known[left] + self.options.more
        least = np.sort(share[fresh])[-self.options.at_once :].min(initial=self.options.known)
        ring = fresh & (share >= (least if fresh.all() else max(least, self.options.overlapping)))
        return left[ring], guesses[ring], around[ring]

    def _guesses(self, left: np.ndarray, placed: np.ndarray) -> np.ndarray:
        """Moves ``(L, 3, 2)``: of the placed ones before and behind in time, and the middle of close ones."""
        behind = np.minimum(np.searchsorted(placed, left), len(placed) - 1)
        tree, count = cKDTree(self.nominal[placed]), min(5, len(placed))
        near = tree.query(self.nominal[left], k=count)[1].reshape(len(left), -1)
        around = np.rint(np.median(self.moves[placed[near]], axis=1))
        before = self.moves[placed[np.maximum(behind - 1, 0)]]
        return np.stack([before, self.moves[placed[behind]], around], axis=1)

    def cover_of(self, placed: np.ndarray) -> np.ndarray:
        """Return by corner, ``(M − N + 1, …)``, the share of a pattern's intensity on the known object."""
        places = self.corners(placed, self.moves[placed]).astype(float)
        there = replace(self.estimate, positions=places, flux=self.estimate.flux[placed])
        illumination = object_illumination(there)
        usual = np.median(illumination[illumination > 0.1 * illumination.max()])
        known = (illumination > self.options.illuminated * usual).astype(np.float32)
        window = intensity_of(self.estimate.modes)
        self.cover = fftconvolve(known, window[::-1, ::-1] / window.sum(), "valid")
        return self.cover

    def corners(self, patterns: np.ndarray | int, moves: np.ndarray) -> np.ndarray:
        """Return the whole pixels ``(…, 2)`` where patterns lie after moves."""
        farthest = self.data.object_size - self.data.N
        return np.clip(np.rint(self.nominal[patterns] + moves), 0, farthest).astype(int)


def seeds(nominal: np.ndarray, options: RegistrationOptions = OPTIONS) -> list[list[np.ndarray]]:
    """Return indices of neighbours at three places, in the middle of ``nominal (J, 2)`` and off it: all, and,
    of a scan back and forth, those of one direction, which share a backlash.
    """
    steps = np.gradient(nominal, axis=0)
    forward = steps @ np.linalg.svd(steps, full_matrices=False)[2][0] > 0
    ways = [np.ones(len(nominal), bool)]
    if 0.25 < forward.mean() < 0.75:
        ways += [forward, ~forward]
    centre, off = np.median(nominal, axis=0), np.ptp(nominal, axis=0) / 4
    neighbourhoods = []
    for place in (centre, centre - off, centre + off):
        order = np.argsort(np.linalg.norm(nominal - place, axis=1), kind="stable")
        near = [np.sort(order[way[order]][: options.seed]) for way in ways]
        neighbourhoods.append([seed for seed in near if len(seed) >= options.fewest])
    return neighbourhoods


def square(reach: int, step: int = 1) -> np.ndarray:
    """Return moves ``(n, 2)`` by at most ``reach`` along rows and columns, in steps."""
    axis = np.arange(-reach, reach + 1, step)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
