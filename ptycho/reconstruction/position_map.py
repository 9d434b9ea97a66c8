"""Are the positions those of the detector's axes and pixels? The linear map that explains the patterns best.

    r_j → A r_j,   A = s R(φ) and a shear

An object is fitted with A free, from a constant, to a few patterns in the middle of the scan first: there a
wrong scale or turn moves positions by a pixel or two, from where the fit finds its way. The map that it finds
is taken to more patterns, which tell it more exactly.

A probe that is free hides a wrong scale: out of focus by as much more, it explains nearly the same patterns
by an object that is stretched. But not quite as well, since the object scatters by the sizes that it has. So
object, probe and A are fitted together along that valley, the curvature of the probe being scaled with the
positions; where the probe as it was told explains more with another A, from there, too.

The errors are those of moves that single patterns would make, what they differ by from a linear map, and of
the valley, in which the fit ends where A changes by less than ``SAME``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.reconstruction.causes import PATTERN_SHIFT, POSITION_MAP, score_causes
from ptycho.reconstruction.refinement import likelihood_of
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.short_fit import PRIOR, constant_object, middle
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.reconstruction.state import Freedom, State
from ptycho.scan.comparison import Comparison, compare_shares
from ptycho.scan.dataset import Dataset
from ptycho.scan.optics import curvature_of, curved
from ptycho.scan.positions import rotation
from ptycho.scan.ramp import levelled

FEWEST = 12  # patterns, for any claim
GROWING = ((16, 8, 15), (36, 8, 20))  # patterns; steps of the object alone, and with A
COUNT, PIXELS = 100, 2**19  # patterns that A is found from, and their pixels, unless they are fewer than
LEAST = 36
EVERY = 6  # one of so many patterns is kept out
ALONE, TOGETHER = 8, 25  # steps
FACTOR, MOST = 1.08, 6  # of the scale along the valley, and how often
SAME = 2e-3  # of A: the fit is done
ROUNDS = 6  # until then, at most
VALLEY = 5e-3  # error of A that a probe which is free leaves, at least: measured
SCALE, TURN = 0.02, 0.75  # of the scale and in degrees: a map that differs by less needs no word
CERTAIN = 4.0  # standard errors that a map must differ by
PLACING = 12  # steps of the single moves


@dataclass(frozen=True)
class PositionMap:
    """A linear map of positions, ``r → A r``, in object pixels.

    Attributes:
        matrix: A, ``(2, 2)``.
        scale_error, turn_error: standard errors, relative and in degrees.
        gain: in logarithms of the deviance of the same patterns, over positions without it.
        probe: ``(N, N)`` that goes with it, in the units of the dataset.
        skewness: of the object's phase.
        by_shift: patterns that shift on the detector with the position would explain more than positions of
            another map; see :mod:`~ptycho.reconstruction.causes`.
    """

    matrix: np.ndarray
    scale_error: float
    turn_error: float
    gain: Comparison
    probe: np.ndarray
    skewness: float
    by_shift: bool = False

    @property
    def scale(self) -> float:
        return float(np.sqrt(abs(np.linalg.det(self.matrix))))

    @property
    def degrees(self) -> float:
        return turn_in(self.matrix)

    @property
    def shear(self) -> float:
        """The larger stretch over the smaller, less one."""
        values = np.linalg.svd(self.matrix, compute_uv=False)
        return float(values[0] / values[1] - 1)

    @property
    def scale_differs(self) -> bool:
        off = abs(self.scale - 1)
        return bool(self.gain.matters and off > max(SCALE, CERTAIN * self.scale_error))

    @property
    def turn_differs(self) -> bool:
        off = abs(self.degrees)
        return bool(self.gain.matters and off > max(TURN, CERTAIN * self.turn_error))

    @property
    def shear_differs(self) -> bool:
        return bool(self.gain.matters and self.shear > max(SCALE, CERTAIN * self.scale_error))

    @property
    def text(self) -> str:
        return (
            f"rotated by {self.degrees:.2f} ± {self.turn_error:.2f}°, "
            f"{self.scale:.4f} ± {self.scale_error:.4f} times in scale"
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """Some patterns that are fitted, and some between them that are kept out."""

    used: ScanLikelihood
    out: ScanLikelihood

    @classmethod
    def of(cls, data: Dataset) -> _Part:
        every = np.arange(len(data.positions))
        out = every[EVERY // 2 :: EVERY]
        used = likelihood_of(data.subset(np.setdiff1d(every, out), 1))
        return cls(used, replace(used, data=data.subset(out, 1)))

    def trial(self, state: State) -> Trial:
        """What a state of the fitted patterns comes to; the others lie where its map has them."""
        told, kept_out = self.used.data.positions.astype(float), self.out.data.positions
        matrix = _map_between(told, state.positions)
        places = (kept_out - told.mean(axis=0)) @ matrix.T + state.positions.mean(axis=0)
        there = replace(state, positions=places, flux=self.out.data.beam.flux)
        shares = [
            likelihood.evaluate(one).deviance / likelihood.pixels
            for likelihood, one in ((self.used, state), (self.out, there))
        ]
        return Trial(matrix, state, shares[0], shares[1])


@dataclass(frozen=True, eq=False)
class Start:
    """What a trial begins with: A, and the modes ``(K, N, N)`` in a dataset's units."""

    matrix: np.ndarray
    modes: np.ndarray


@dataclass(frozen=True, eq=False)
class Trial:
    """What came of it: A, the state, and the deviance per pixel of each pattern that was fitted, or not."""

    matrix: np.ndarray
    state: State
    used: np.ndarray
    out: np.ndarray

    @property
    def height(self) -> float:
        """Of both: with positions far apart any pattern can be fitted, but none predicted."""
        return float(np.log(self.used).mean() + np.log(self.out).mean())


def turn_in(matrix: np.ndarray) -> float:
    """φ of the rotation nearest to a map ``(2, 2)``, in degrees, from rows to columns."""
    return float(np.rad2deg(np.arctan2(matrix[1, 0] - matrix[0, 1], matrix[0, 0] + matrix[1, 1])))


def find_map(data: Dataset, degrees: float = 0.0, turn_is_open: bool = False) -> PositionMap | None:
    """The map that explains the middle of a scan of one object best; None: too few patterns to tell.

    Args:
        data: the scan, under the probe that was told or guessed.
        degrees: a turn to begin with.
        turn_is_open: what is gained is told against positions of the same turn; if not, as they were told.
    """
    if len(data.positions) < FEWEST:
        return None
    count = max(LEAST, min(COUNT, PIXELS // data.N**2))
    part = _Part.of(middle(data, count))
    told = Start(rotation(degrees), data.probe[:1])
    best = _along_the_valley(part, told)
    other = _grow(data, told)
    if _apart(other, best.matrix):
        from_there = _together(part, Start(other, told.modes))
        best = min(best, from_there, key=lambda trial: trial.height)
    if _apart(best.matrix, np.eye(2), SCALE / 2):
        best = _to_the_end(part, best)
        again = _together(part, _anew(told, best.matrix))
        best = min(best, _to_the_end(part, again), key=lambda trial: trial.height)
    return _judged(part, best, rotation(turn_in(best.matrix)) if turn_is_open else np.eye(2))


def _along_the_valley(part: _Part, told: Start) -> Trial:
    """The best of several scales, each with a probe whose curvature goes with it."""
    curvature = curvature_of(told.modes[0])

    def trial(power: int) -> Trial:
        return _together(part, _scaled(told, FACTOR**power, curvature))

    tried = {power: trial(power) for power in (-1, 0, 1)}
    while True:
        best = min(tried, key=lambda power: tried[power].height)
        further = best + (1 if best == max(tried) else -1)
        if further in tried or abs(further) > MOST:
            return tried[best]
        tried[further] = trial(further)


def _scaled(told: Start, scale: float, curvature: float) -> Start:
    """Positions so many times as far apart, and a probe that is as much more out of focus."""
    modes = np.stack([curved(mode, (scale - 1) * curvature) for mode in told.modes])
    return Start(scale * told.matrix, modes)


def _anew(told: Start, matrix: np.ndarray) -> Start:
    """The turn and the scale of a map: a probe that made up for a wrong turn may have left it a shear."""
    scale = float(np.sqrt(abs(np.linalg.det(matrix))))
    return _scaled(replace(told, matrix=rotation(turn_in(matrix))), scale, curvature_of(told.modes[0]))


def _grow(data: Dataset, told: Start) -> np.ndarray:
    """The map under the probe as it was told, from few patterns to more."""
    matrix = told.matrix
    for count, alone, steps in GROWING:
        part = _Part.of(middle(data, count))
        matrix = _together(part, Start(matrix, told.modes), False, alone, steps).matrix
    return matrix


def _together(
    part: _Part,
    start: Start,
    probe: bool = True,
    alone: int = ALONE,
    steps: int = TOGETHER,
    positions: bool = True,
) -> Trial:
    """An object from a constant, then with A, and with the probe if it is free."""
    terms = Terms(part.used, PRIOR, "affine")
    state = fit(terms, _placed(part.used.data, start), OBJECT_ALONE, alone).state
    return _gone_on(part, state, Freedom(probe, positions=positions), steps)


def _gone_on(part: _Part, state: State, free: Freedom, steps: int) -> Trial:
    return part.trial(fit(Terms(part.used, PRIOR, "affine"), state, free, steps).state)


def _to_the_end(part: _Part, trial: Trial) -> Trial:
    """All of it further, until A stands."""
    for _ in range(ROUNDS):
        before, trial = trial, _gone_on(part, trial.state, Freedom(True, positions=True), TOGETHER)
        if not _apart(trial.matrix, before.matrix, SAME):
            break
    return trial


def _judged(part: _Part, found: Trial, told: np.ndarray) -> PositionMap:
    """Against positions mapped by ``told (2, 2)``, under a probe that is free, too."""
    likelihood = part.used
    gain, by_shift = Comparison(0.0, 0.0), False
    if _apart(found.matrix, told, SCALE / 2):
        own = _together(part, Start(told, likelihood.data.probe[:1]), positions=False)
        own = _gone_on(part, own.state, Freedom(True), TOGETHER)
        gain = compare_shares(_all(found), _all(own))
        if found.height > own.height:
            gain = Comparison(min(gain.gain, 0.0), gain.error)
        by_shift = _is_by_shift(likelihood, own.state)
    beam = found.state.beam(likelihood.data.photon_scale, likelihood.normalisation)
    scale_error, turn_error = _errors(likelihood, found)
    skewness = _skewness(found.state, likelihood.data.N)
    return PositionMap(found.matrix, scale_error, turn_error, gain, beam.probe[0], skewness, by_shift)


def _is_by_shift(likelihood: ScanLikelihood, state: State) -> bool:
    """Return whether a shift of the patterns would explain more at this state than a map of the positions."""
    beam = state.beam(likelihood.data.photon_scale, likelihood.normalisation)
    data = replace(likelihood.data, object_size=len(state.object)).under(beam)
    causes = score_causes(state.object, data)
    return causes is not None and causes.gains[PATTERN_SHIFT] > causes.gains[POSITION_MAP]


def _all(trial: Trial) -> np.ndarray:
    return np.concatenate([trial.used, trial.out])


def _placed(data: Dataset, start: Start) -> State:
    """A constant object under a start's modes, on which positions have room to move."""
    positions = (data.positions - data.positions.mean(axis=0)).astype(float) @ start.matrix.T
    room = np.ceil(0.15 * np.ptp(positions, axis=0).max()) + 3
    positions += room - np.floor(positions.min(axis=0))
    side = data.N + int(np.ceil(positions.max()) + room) + 1
    lit = replace(data, beam=data.beam.with_probe(start.modes))
    return replace(constant_object(lit, side), positions=positions)


def _map_between(told: np.ndarray, found: np.ndarray) -> np.ndarray:
    """A of ``found = A told + const`` by least squares, ``(2, 2)``."""
    one, two = (positions - positions.mean(axis=0) for positions in (told.astype(float), found))
    return np.linalg.lstsq(one, two, rcond=None)[0].T


def _apart(one: np.ndarray, other: np.ndarray, limit: float = SCALE) -> bool:
    return bool(np.abs(one - other).max() > limit * np.abs(other).max())


def _errors(likelihood: ScanLikelihood, found: Trial) -> tuple[float, float]:
    """Of the logarithm of the scale and, in degrees, of the turn: from moves of single patterns.

    Of moves Δ at places ρ, both from their means: ``s = Σ ρ·Δ / Σ ρ²`` and ``φ = Σ ρ×Δ / Σ ρ²``.
    """
    free = Freedom(False, positions=True, object=False)
    moved = fit(Terms(likelihood, moves="each"), found.state, free, PLACING).state.positions
    rho = found.state.positions - found.state.positions.mean(axis=0)
    moves = moved - found.state.positions
    moves = moves - moves.mean(axis=0)
    moves -= rho @ np.linalg.lstsq(rho, moves, rcond=None)[0]
    variance = np.sum(moves**2) / max(2 * len(rho) - 6, 1) / np.sum(rho**2)
    error = np.sqrt(variance + VALLEY**2)
    return float(error), float(np.rad2deg(error))


def _skewness(state: State, N: int) -> float:
    """Of the phase of an object where it is scanned, without its plane: positive where bright spots are."""
    low, high = (getattr(state.positions, end)(axis=0).astype(int) + N // 2 for end in ("min", "max"))
    image = state.object[low[0] : high[0] + 1, low[1] : high[1] + 1]
    if min(image.shape) < 4:
        return 0.0
    phase = np.angle(levelled(image, np.ones(image.shape, bool)))
    return float(np.mean((phase - phase.mean()) ** 3) / max(phase.std() ** 3, 1e-30))
