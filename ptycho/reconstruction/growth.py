"""An object that grows from pattern to pattern, each predicted before it is fitted.

    share_j(r) = (min_c Σ (√n_j − c √λ(r))² − ν) / V,   λ(r) = Σ_m |F P_m O[r + x]|²

over the measured pixels; ν is what the noise of photons leaves of the sum, V its mean over all patterns with
the mean pattern in place of λ. So 0 is explained, and 1 explains no more than the mean pattern does. c is
free, as the light of a pattern is.

A pattern joins where it is told to be, moved as its neighbours in time or space are, if that explains it;
else where it is explained within ``REACH``, if anywhere. So what patterns have in common, an offset behind a
jump or a drift, is followed without a model of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import fft
from scipy.signal import fftconvolve
from scipy.spatial import cKDTree

from ptycho.reconstruction.refinement import likelihood_of
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.short_fit import PRIOR, constant_object
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.reconstruction.state import Freedom, State
from ptycho.reconstruction.unknowns import object_light
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import energy_diameter, light_of

REACH, COARSE = 36, 3  # pixels: how far a pattern is looked for, and in which steps first
CANDIDATES = 4  # of these steps, that are looked at pixel by pixel
SEED, FEWEST = 30, 12  # patterns
AT_ONCE = 8  # patterns that join in a round, at least
KNOWN, LIT = 0.75, 0.05  # of a pattern's light, where the object is known: by so much of the usual light
OVERLAPPING = 0.5  # the same of a place that is not where the pattern is told to be
EXPLAINED, MISPLACED = 0.25, 0.5  # shares, below which a pattern joins, above which it does nowhere
DARK = 0.05  # of the mean light: a pattern that has less says nothing
POOR = 1.0  # share below which a pattern may stay where it is, if nothing better is found
CLEARLY = 0.6  # of the share: what another place must come to
WELL = 0.1  # a share below which nothing better is looked for
OUTLYING = 3.0  # times the middle share of a seed: is no part of it
LOST = 0.1  # of the patterns, explained nowhere: positions are not found
TRIES = 3  # rounds in which a pattern may join
BEGINNING, TOGETHER, GROWING, SETTLING = 20, 15, 8, 30  # steps
ROUNDS, SETTLED = 4, 1.0  # until positions move by less, in pixels
CHUNK_PIXELS = 2**18  # of the waves that are handled at once


@dataclass(eq=False)
class Growth:
    """An object, and the patterns that it has grown from.

    Attributes:
        data: the scan on an object that is wider by ``REACH`` on all sides.
        free: what is fitted.
        measured: √n ``(J, N²)`` float32, zero where nothing was measured; good: ``(N²,)`` float32, one where
            it was; zero frequency at sample 0.
        noise, variation: ν and V.
        state: object and modes; its positions and flux are as they are told.
        placed: ``(J,)`` bool.
        moves: ``(J, 2)`` pixels.
        cover: by its corner, what share of a pattern's light falls where the object is known.
    """

    data: Dataset
    free: Freedom
    measured: np.ndarray
    good: np.ndarray
    noise: float
    variation: float
    state: State
    placed: np.ndarray
    moves: np.ndarray
    cover: np.ndarray

    @classmethod
    def of(cls, data: Dataset, free: Freedom) -> Growth:
        """Nothing is placed, the object is a constant."""
        beam = replace(data.beam, positions=data.positions + np.float32(REACH))
        data = replace(
            data, beam=beam, object_size=data.object_size + 2 * REACH, objects=None, stated_tiling=None
        )
        count, N = len(data.positions), data.N
        good = np.ones((N, N), bool) if data.good is None else np.fft.ifftshift(data.good)
        root = np.where(good, np.fft.ifftshift(data.amplitudes[:], axes=(1, 2)), 0).astype(np.float32)
        root = root.reshape(count, N * N)
        mean = np.sqrt(np.mean(root**2, axis=0, dtype=float))
        noise = float(np.minimum(mean**2, 0.25).sum()) if data.counts else 0.0
        left = np.sum(root**2, axis=1) - (root @ mean) ** 2 / np.sum(mean**2)
        flat = good.ravel().astype(np.float32)
        variation = max(float(left.mean()) - noise, 1e-30)
        return cls(
            data,
            free,
            root,
            flat,
            noise,
            variation,
            constant_object(data, data.object_size),
            np.zeros(count, bool),
            np.zeros((count, 2)),
            np.zeros((0, 0)),
        )

    @property
    def dim(self) -> bool:
        """The noise of photons hides what patterns differ by."""
        return self.noise > self.variation

    @property
    def told(self) -> np.ndarray:
        """Positions ``(J, 2)`` float64."""
        return self.state.positions

    def plant(self) -> None:
        """The best of some seeds, without the patterns in it that contradict the others."""
        start, best, lowest = self.state, np.inf, np.inf
        chosen = self.placed, self.state
        for neighbours in seeds(self.told):
            for seed in neighbours:
                self.state, count = start, len(seed)
                self.fit(seed, OBJECT_ALONE, BEGINNING)
                for _ in range(2):
                    shares = self.own_shares(seed)
                    seed = seed[shares <= max(OUTLYING * np.median(shares), WELL)]
                    self.fit(seed, self.free, TOGETHER)
                height = float(np.quantile(self.own_shares(seed), 0.9)) + count / len(seed) - 1
                if height < best:
                    best, chosen = height, (np.isin(np.arange(len(self.told)), seed), self.state)
                lowest = min(lowest, float(np.median(shares)))
                if best < WELL:
                    break
            if best < WELL or lowest > WELL:  # which the beam does not explain in the middle, nor elsewhere
                break
        self.placed, self.state = chosen

    @property
    def vague(self) -> bool:
        """The beam does not explain even the seed: what a place explains says nothing of the place."""
        return bool(np.median(self.own_shares(np.flatnonzero(self.placed))) > WELL)

    def grow(self) -> None:
        """Until every pattern is placed, or explained nowhere."""
        tries = np.zeros(len(self.told), int)
        reach = energy_diameter(self.state.modes) / 2
        while len(left := np.flatnonzero(~self.placed & (tries < TRIES))):
            ring, guesses = self._next(left)
            limit = self._limit(ring, guesses)
            cases = [(int(j), moves, limit) for j, moves in zip(ring, guesses, strict=True)]
            placed = list(side_by_side(self._place, cases))
            for j, move in zip(ring, placed, strict=True):
                tries[j] += 1
                if move is not None:
                    self.placed[j], self.moves[j] = True, move
            if np.mean(~self.placed & (tries >= TRIES)) > LOST:
                return
            near = cKDTree(self.told[ring] + self.moves[ring]).query(self.told + self.moves)[0] < reach
            if (around := np.flatnonzero(self.placed & near)).size:
                self.fit(around, self.free, GROWING)

    def settle(self) -> None:
        """Positions by gradients; then patterns that the object does not explain are taken out, and looked
        for once more. A few times, as long as positions move."""
        for _ in range(ROUNDS):
            before = self.moves
            for model in ("affine", "each"):  # what all have in common is slow where each moves by itself
                self.fit(np.flatnonzero(self.placed), replace(self.free, positions=True), SETTLING, model)
            shares = self.own_shares(np.arange(len(self.told)))
            wrong = ~self.placed | (shares > max(WELL, OUTLYING * np.median(shares)))
            if wrong.any():
                self.placed = ~wrong
                self.fit(np.flatnonzero(self.placed), self.free, GROWING)
                self.grow()
            if self.lost or np.abs(self.moves - before).max() < SETTLED:
                return

    @property
    def lost(self) -> bool:
        """So many patterns are explained nowhere that positions are not found."""
        return bool(np.mean(~self.placed) > LOST)

    def fit(self, patterns: np.ndarray, free: Freedom, steps: int, moves: str = "free") -> None:
        """Of some patterns, the object and what else is free: positions by a model, else at whole pixels."""
        likelihood = replace(
            likelihood_of(self.data.subset(patterns, 1)), normalisation=self.data.normalisation
        )
        places = self.told[patterns] + self.moves[patterns]
        farthest = self.data.object_size - self.data.N
        places = np.clip(places if free.positions else np.rint(places), 0, farthest)
        start = replace(self.state, positions=places, flux=self.state.flux[patterns])
        found = fit(Terms(likelihood, PRIOR, moves), start, free, steps).state
        self.state = replace(self.state, object=found.object, modes=found.modes)
        if free.positions:
            change = found.positions - places
            self.moves = self.moves.copy()
            self.moves[patterns] += change - change.mean(axis=0)

    def shares(self, pattern: int, moves: np.ndarray) -> np.ndarray:
        """Of a pattern after each of some moves ``(S, 2)``; see the module's text."""
        N, root, left = self.data.N, self.measured[pattern], []
        if root @ root < DARK * (N / 2 / self.data.normalisation) ** 2:
            return np.full(len(moves), np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(self.state.object, (N, N))
        chunk = max(1, CHUNK_PIXELS // self.state.modes.size)
        for k in range(0, len(moves), chunk):
            rows, columns = self._corners(pattern, moves[k : k + chunk]).T
            far = fft.fft2(
                windows[rows, columns][:, None] * self.state.modes, overwrite_x=True
            )  # (S, K, N, N)
            light = np.sum(far.real**2 + far.imag**2, axis=1).reshape(-1, N * N) * self.good
            along, energy = np.sqrt(light) @ root, light.sum(axis=1)
            left.append(root @ root - along**2 / np.maximum(energy, 1e-30))
        return (np.concatenate(left) - self.noise) / self.variation

    def own_shares(self, patterns: np.ndarray) -> np.ndarray:
        """Of patterns where they lie."""
        return np.array([self.shares(j, self.moves[j][None])[0] for j in patterns])

    def search(self, pattern: int, around: np.ndarray) -> tuple[np.ndarray, float]:
        """The best of all moves within ``REACH`` of one ``(2,)``, and its share."""
        moves = around + _square(REACH, COARSE)
        moves = moves[self.cover[tuple(self._corners(pattern, moves).T)] >= OVERLAPPING]
        if not len(moves):
            return around, np.inf
        first = np.argsort(self.shares(pattern, moves))[:CANDIDATES]
        return self._best(pattern, np.concatenate([moves[k] + _square(COARSE - 1) for k in first]))

    def _best(self, pattern: int, moves: np.ndarray) -> tuple[np.ndarray, float]:
        shares = self.shares(pattern, moves)
        return moves[shares.argmin()], float(shares.min())

    def _limit(self, ring: np.ndarray, guesses: np.ndarray) -> float:
        """The share below which a pattern of a ring is explained: more, where the beam is not well known."""
        shares = [self._best(j, moves)[1] for j, moves in zip(ring, guesses, strict=True)]
        return float(np.clip(2 * np.quantile(shares, 0.25), EXPLAINED, MISPLACED))

    def _place(self, case: tuple[int, np.ndarray, float]) -> np.ndarray | None:
        """The move ``(2,)`` of a pattern; None: it is explained nowhere.

        ``case``: the pattern, moves ``(n, 2)`` that it may have, and the share below which one is right.
        """
        pattern, guesses, limit = case
        move, share = self._best(pattern, guesses)
        if share > WELL:
            near, lower = self._best(pattern, move + _square(2))
            if lower < CLEARLY * share:
                move, share = near, lower
        if share <= limit:
            return move
        there, lower = self.search(pattern, guesses[-1])
        if lower < min(MISPLACED, CLEARLY * share):
            return there
        return move if share < POOR or np.abs(there - move).max() <= COARSE else None

    def _next(self, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those patterns of whose light enough falls where the object is known, and moves that they may have.

        As the placed ones before and behind them in time, and as the middle one of the nearest in space.
        """
        placed = np.flatnonzero(self.placed)
        behind = np.minimum(np.searchsorted(placed, left), len(placed) - 1)
        near = (
            cKDTree(self.told[placed]).query(self.told[left], k=min(5, len(placed)))[1].reshape(len(left), -1)
        )
        guesses = np.stack(
            [
                self.moves[placed[np.maximum(behind - 1, 0)]],
                self.moves[placed[behind]],
                np.rint(np.median(self.moves[placed[near]], axis=1)),
            ],
            axis=1,
        )  # (L, 3, 2)
        cover = self._cover(placed)
        share = np.stack([cover[tuple(self._corners(left, guesses[:, k]).T)] for k in range(3)]).max(axis=0)
        ring = share >= min(KNOWN, np.sort(share)[-min(len(share), AT_ONCE)])
        return left[ring], guesses[ring]

    def _cover(self, placed: np.ndarray) -> np.ndarray:
        """What share of a pattern's light falls where the object is known, by its corner."""
        places = self._corners(placed, self.moves[placed]).astype(float)
        light = object_light(replace(self.state, positions=places, flux=self.state.flux[placed]))
        known = (light > LIT * np.median(light[light > 0.1 * light.max()])).astype(np.float32)
        window = light_of(self.state.modes)
        self.cover = fftconvolve(known, window[::-1, ::-1] / window.sum(), "valid")
        return self.cover

    def _corners(self, patterns: np.ndarray | int, moves: np.ndarray) -> np.ndarray:
        """Whole pixels where patterns lie after moves, ``(…, 2)``."""
        farthest = self.data.object_size - self.data.N
        return np.clip(np.rint(self.told[patterns] + moves), 0, farthest).astype(int)


def seeds(told: np.ndarray) -> list[list[np.ndarray]]:
    """Of three places, in the middle of ``told (J, 2)`` and off it, indices of neighbours: all, and, of a
    scan back and forth, those of one direction, which share a backlash."""
    steps = np.gradient(told, axis=0)
    forward = steps @ np.linalg.svd(steps, full_matrices=False)[2][0] > 0
    ways = [np.ones(len(told), bool)]
    if 0.25 < forward.mean() < 0.75:
        ways += [forward, ~forward]
    centre, off = np.median(told, axis=0), np.ptp(told, axis=0) / 4
    found = []
    for place in (centre, centre - off, centre + off):
        order = np.argsort(np.linalg.norm(told - place, axis=1), kind="stable")
        near = [np.sort(order[way[order]][:SEED]) for way in ways]
        found.append([seed for seed in near if len(seed) >= FEWEST])
    return found


def _square(reach: int, step: int = 1) -> np.ndarray:
    """Moves ``(n, 2)`` by at most ``reach`` along rows and columns, in steps."""
    axis = np.arange(-reach, reach + 1, step)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
