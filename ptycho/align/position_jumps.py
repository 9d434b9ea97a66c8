"""Find positions that err by tens of pixels: jumps of the stage, backlash, drift.

Sequential registration (:mod:`~ptycho.align.registration`) finds where each pattern belongs; patterns that
move alike, the sections of the scan behind jumps, are brought there together. If some belong elsewhere,
positions are fitted from there and from the nominal ones, and taken if that explains the patterns clearly
better, the moved ones above all. If many fit at no position, nothing is moved; if the beam does not explain
even some neighbouring patterns, there is no search.

An object that is extended across a jump in whole pixels is a little too wide or too narrow there. Each
pattern agrees with its neighbours, so that gradients of single positions hardly correct it; one shift of the
whole section does.

Registration of patterns: Maiden et al., Ultramicroscopy 120 (2012) 64 (trials at random); Zhang et al., Opt.
Express 21 (2013) 13592 (neighbouring patches).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.align.registration import OPTIONS as REGISTRATION
from ptycho.align.registration import Registration, RegistrationOptions, square
from ptycho.reconstruction.estimate import Refine
from ptycho.reconstruction.scan_likelihood import likelihood_of, side_by_side
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.reconstruction.trial import TrialOptions, constant_object
from ptycho.scan.comparison import REFINED, Comparison, compare_shares
from ptycho.scan.dataset import Dataset

NO_GAIN = Comparison(0.0, 0.0)


@dataclass(frozen=True)
class JumpOptions:
    """Options of the search for position jumps, and limits of which are accepted."""

    registration: RegistrationOptions = RegistrationOptions()
    convincing: float = 0.2  # gain, of what photon noise leaves of the deviance of the moved patterns
    at_random: float = 0.5  # of the patterns, moved otherwise than the one before: nothing is accepted
    few: float = 0.01  # of the patterns, moved by less than twice the least: left to position refinement
    single: float = 0.0  # of the patterns, that do not fit: left to :mod:`~ptycho.align.outliers`,
    in_a_strip: float = 0.1  # and in a strip of a large scan
    pixels: int = 2**22  # of the patterns by which a large scan is tried first, a strip
    longest: int = 512  # pixels long: its object is as wide as it is long
    most_pixels: int = 2**26  # of all patterns that are registered
    object_steps: int = 20  # of the fits that are compared
    probe_steps: int = 20
    position_steps: int = 30


OPTIONS = JumpOptions()


@dataclass(frozen=True, eq=False)
class Jumps:
    """Moves of the patterns of a scan."""

    moves: np.ndarray  # ``(J, 2)`` object pixels, (row, col); all zero where nothing is wrong, or found
    unplaced: np.ndarray  # ``(J,)`` bool, patterns that fit at no position
    gain: Comparison = NO_GAIN  # in logarithms of the deviance, over the nominal positions
    deviance: np.ndarray | None = None  # ``(J,)`` under these moves; None where none were tried
    limits: RegistrationOptions = RegistrationOptions()  # what counts as moved, and as lost
    contradicted: bool = False  # some patterns do not fit where they are, and are not moved

    @property
    def moved(self) -> np.ndarray:
        """Mask ``(J,)`` bool of the patterns that are moved."""
        return np.linalg.norm(self.moves, axis=1) >= self.limits.least

    @property
    def lost(self) -> bool:
        """Whether so many patterns fit at no position that positions are not found."""
        return bool(self.unplaced.mean() > self.limits.lost)

    @property
    def breaks(self) -> np.ndarray:
        """Mask ``(J − 1,)`` bool, True where the next pattern is moved otherwise."""
        return np.linalg.norm(np.diff(self.moves, axis=0), axis=1) >= self.limits.least

    @property
    def kind(self) -> str:
        """Kind of the moves, by how they change from one pattern to the next."""
        breaks = self.breaks.sum()
        if breaks == 0:
            return "a drift"
        if breaks >= self.moved.sum():
            return "jumps"
        return "a jump" if breaks <= 2 else "backlash"

    @property
    def text(self) -> str:
        """Summary such as ``12 of 400 patterns by 14 to 31 px: jumps``."""
        far = np.linalg.norm(self.moves[self.moved], axis=1)
        return (
            f"{len(far)} of {len(self.moves)} patterns by {far.min():.0f} to {far.max():.0f} px: {self.kind}"
        )


def find_jumps(data: Dataset, refine_probe: bool = True, options: JumpOptions = OPTIONS) -> Jumps:
    """Return moves of the patterns of a scan of one object that explain it clearly better, if there are any.

    A scan of more than ``options.pixels`` is tried first by a strip through its middle, across its rows. If
    patterns of the strip are moved, all of the scan is registered; if the strip is lost, the scan is, too, as
    is one of more than ``options.most_pixels``.

    Args:
        data: patterns of a far field; in a near field, or in too few patterns, nothing is found.
        refine_probe: the probe is corrected along with the object.
    """
    count, most = len(data.positions), data.held_by(options.pixels, options.registration.seed)
    nothing = Jumps(np.zeros((count, 2)), np.zeros(count, bool), limits=options.registration)
    if count < options.registration.fewest or data.fresnel is not None:
        return nothing
    if count > most:
        part = data.cut_out(strip(data.positions, most, options.longest))
        tried = find_jumps(part, refine_probe, replace(options, single=options.in_a_strip))
        if not tried.lost and not tried.moved.any():
            return replace(nothing, contradicted=tried.contradicted)
        if tried.lost or count > data.held_by(options.most_pixels, most):
            return replace(nothing, unplaced=np.ones(count, bool))
    jumps, noise = _registered(data, refine_probe, options)
    contradicted = bool(jumps.unplaced.any())
    if jumps.lost or not jumps.moved.any() or _is_map(jumps.moves, data.positions, options.registration):
        return replace(nothing, unplaced=jumps.unplaced, contradicted=contradicted)
    if jumps.breaks.mean() > options.at_random:
        return replace(nothing, unplaced=jumps.moved | jumps.unplaced)
    nominal, moved = (_ended(data, moves, refine_probe, options) for moves in (nothing.moves, jumps.moves))
    gain = compare_shares(moved[1], nominal[1])
    far = np.linalg.norm(moved[0], axis=1) >= options.registration.least
    misfit = np.maximum(nominal[1][far] - noise, 0).sum()
    convincing = far.any() and np.sum(nominal[1][far] - moved[1][far]) > options.convincing * misfit
    taken = bool(gain.passes(REFINED) and convincing)
    moves, deviance = moved if taken else (nothing.moves, nominal[1])
    return Jumps(moves, jumps.unplaced, gain, deviance, options.registration, contradicted or not taken)


def _is_map(moves: np.ndarray, positions: np.ndarray, limits: RegistrationOptions) -> bool:
    """Return whether moves ``(J, 2)`` are those of another scale or turn, which :mod:`~.affine_map` finds."""
    there, here = (
        (places - places.mean(axis=0)) @ (1, 1j) for places in (positions + moves, positions.astype(float))
    )
    left = np.abs(there - here * (np.vdot(here, there) / np.vdot(here, here)))
    explained, still = (np.mean(off < limits.least) for off in (left, np.abs(there - here)))
    return bool(still < 1 - limits.lost < explained)


def strip(positions: np.ndarray, count: int, longest: int = OPTIONS.longest) -> np.ndarray:
    """Return indices, at most ``count``, in order, of the patterns nearest to a line of ``longest`` px
    through the middle of ``positions (J, 2)`` along the axis on which the scan goes on slowly.
    """
    order = np.arange(len(positions)) - len(positions) / 2
    centred = positions - np.median(positions, axis=0)
    fast = int(np.argmin(np.abs(order @ centred)))
    near = np.flatnonzero(np.abs(centred[:, 1 - fast]) <= longest / 2)
    return np.sort(near[np.argsort(np.abs(centred[near, fast]), kind="stable")[:count]])


def _registered(data: Dataset, refine_probe: bool, options: JumpOptions) -> tuple[Jumps, float]:
    """Moves from the most common one; and a pattern's deviance by photon noise alone, at most."""
    registration = Registration.of(data, Refine(refine_probe), options.registration)
    noise = 4 * registration.noise
    nothing = Jumps(registration.moves, registration.placed, limits=options.registration)
    if registration.noise > registration.variation:  # hides what patterns differ by
        return nothing, noise
    registration.begin()
    if registration.vague:
        return nothing, noise
    registration.extend()
    moves, first = np.zeros_like(registration.moves), replace(nothing, moves=registration.moves)
    apart = ~registration.placed | first.moved
    alone = first.breaks.sum() >= first.moved.sum()  # not a section that is moved alike
    if alone and 0 < apart.mean() <= options.single:
        return replace(nothing, moves=moves, unplaced=apart), noise
    if registration.lost or stand_out(registration.moves, options):
        bring_together(registration)
        registration.refine()
        whole = np.rint(registration.moves[registration.placed])
        places, counts = np.unique(whole, axis=0, return_counts=True)
        moves = (registration.moves - places[counts.argmax()]) * registration.placed[:, None]
    return Jumps(moves, ~registration.placed, limits=options.registration), noise


def stand_out(moves: np.ndarray, options: JumpOptions = OPTIONS) -> bool:
    """Return whether some of ``moves (J, 2)`` are more than scatter, which the refinement of positions finds.

    More is one of twice ``least`` pixels, or ``least`` pixels in a share ``few`` of the patterns.
    """
    far, least = np.linalg.norm(moves, axis=1), options.registration.least
    return bool(far.max() >= 2 * least or np.mean(far >= least) >= options.few)


def _ended(
    data: Dataset, moves: np.ndarray, refine_probe: bool, options: JumpOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Moves ``(J, 2)`` after a fit with refined positions from some, and each pattern's deviance ``(J,)``."""
    likelihood, side = likelihood_of(data), data.object_size + 2 * options.registration.reach
    start, objective = constant_object(data, side), Objective(likelihood, TrialOptions().prior, "each")
    nominal = start.positions + options.registration.reach
    estimate = replace(start, positions=np.clip(nominal + moves, 0, side - data.N))
    for refine, steps in (
        (OBJECT_ALONE, options.object_steps),
        (Refine(refine_probe), options.probe_steps),
        (Refine(refine_probe, positions=True), options.position_steps),
    ):
        estimate = fit(objective, estimate, refine, steps).estimate
    change = estimate.positions - nominal - moves
    return moves + change - change.mean(axis=0), likelihood.evaluate(estimate).deviance


def bring_together(registration: Registration) -> bool:
    """Give each section the shift at which its patterns fit best; return whether any was shifted.

    The shifts are kept only if all patterns are then explained better.
    """
    moves, estimate, options = registration.moves, registration.estimate, registration.options
    parts = sections(moves, registration.placed, options)
    spreads = [np.abs(moves[part] - np.median(moves[part], axis=0)).max() for part in parts]
    if len(parts) < 2 or max(spreads) < options.settled:
        return False
    placed = np.flatnonzero(registration.placed)

    def mean_share() -> float:
        registration.fit(placed, registration.refined, options.refining_steps)
        shares = registration.own_shares(placed)
        return float(shares[np.isfinite(shares)].mean())

    def put(part: np.ndarray, move: np.ndarray) -> None:
        registration.moves = registration.moves.copy()
        registration.moves[part] = move

    before, known = mean_share(), parts[0]
    put(known, np.median(moves[known], axis=0))
    for part in parts[1:]:
        registration.fit(known, registration.refined, options.refining_steps)
        if (move := _place_of(registration, part, known)) is not None:
            put(part, move)
            known = np.union1d(known, part)
    if mean_share() < before:
        return True
    registration.moves, registration.estimate = moves, estimate
    return False


def sections(
    moves: np.ndarray, placed: np.ndarray, options: RegistrationOptions = REGISTRATION
) -> list[np.ndarray]:
    """Return indices of placed patterns with ``moves (J, 2)`` within ``options.least``, largest first."""
    left, sections = np.flatnonzero(placed), list[np.ndarray]()
    while len(left):
        places, counts = np.unique(np.rint(moves[left]), axis=0, return_counts=True)
        centre = places[counts.argmax()]
        for _ in range(2):
            near = np.linalg.norm(moves[left] - centre, axis=1) < options.least
            centre = np.median(moves[left[near]], axis=0)
        if near.sum() < options.seed:
            break
        sections.append(left[near])
        left = left[~near]
    return sorted(sections, key=len, reverse=True)


def _place_of(
    registration: Registration, part: np.ndarray, known: np.ndarray, fewest: int = 5, most: int = 120
) -> np.ndarray | None:
    """Return the shift ``(2,)`` of a section at which its patterns that overlap with others fit best.

    None: fewer than ``fewest`` of them overlap; ``most`` are used.
    """
    middle, options = np.rint(np.median(registration.moves[part], axis=0)), registration.options
    cover = registration.cover_of(known)[tuple(registration.corners(part, middle).T)]
    count = min(most, int(np.sum(cover >= options.overlapping)))
    if count < fewest:
        return None
    tried, beside = middle + square(int(options.least) + 1), part[np.argsort(-cover, kind="stable")[:count]]
    shares = np.array(list(side_by_side(lambda pattern: registration.shares(pattern, tried), list(beside))))
    known_shares = shares[np.isfinite(shares).all(axis=1)]
    return tried[known_shares.sum(axis=0).argmin()] if len(known_shares) >= fewest else None
