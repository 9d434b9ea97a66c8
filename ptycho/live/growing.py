"""An object that grows with its scan: new patterns are fitted with their neighbours, the rest stays.

Every cycle takes new patterns and the old ones nearest to them, or where there are no new ones the pattern
that was fitted least often with those nearest to it, and minimises

    −log p(those) + ½ Σ w |O − O₀|²,   w = 2 Σ_k Σ_m |P_m|² / f²

where the sum goes over the *other* patterns that light a pixel: what they say of the object stands as a
normal distribution about what they have led to (recursive Bayesian estimation with Laplace's approximation).
So nothing that is known is spoilt where new patterns reach into it, and a pixel that only the new ones light
is free. It begins as the mean of what is lit near it, phase included. The probe is free with the object, and
its change is taken by the share of the patterns that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.spatial import cKDTree

from ptycho.live.beginning import Beginning
from ptycho.reconstruction.prior import Anchor, Prior
from ptycho.reconstruction.solver import OBJECT_ALONE, Terms, fit
from ptycho.reconstruction.state import Freedom, State
from ptycho.scan.dataset import MARGIN
from ptycho.scan.windows import add_windows_to

BATCH_PIXELS = 2**22  # of the patterns that are fitted together
ALONE, TOGETHER = 25, 10  # steps of the first patterns: of the object, then of the probe, too
STEPS = 6  # of a cycle
HURRIED = 3  # the same where more new patterns wait than can be fitted so
FEWEST = 16  # patterns that are fitted together
PRIOR = Prior("edge_preserving", 3.0)
DARK = 1e-3  # of the strongest light: what is less has told nothing
COARSE = 4  # pixels, in steps of which what is not lit is filled
KEPT_OUT = 20  # one pattern of so many is not fitted, and judges
JUDGING = 64  # patterns that judge, at most
SLOWEST = 0.1  # of a change of the probe, that is taken at least
SETTLED = 2  # visits, after which a pattern's position is free
LARGEST_SIDE = 2**14  # pixels of an object's side
Read = Callable[[np.ndarray], np.ndarray]
"""Rows of a store ``(n,)`` → amplitudes ``(n, N, N)``."""


@dataclass(frozen=True, eq=False)
class Growing:
    """The object and what is known of the patterns so far.

    Attributes:
        object: ``(H, W)`` complex64; ``origin``: (row, col) of its first sample in the positions' pixels.
        light: ``Σ_j Σ_m |P_m|²`` of the patterns that were fitted, ``(H, W)`` float32.
        modes: ``s·f·P``, ``(K, N, N)`` complex64.
        rows: ``(J,)`` of the store; ``arrived``: ``(J,)`` s.
        told, positions: ``(J, 2)``, as the source has them and as they were found, in object pixels.
        visits: how often a pattern was fitted, ``(J,)``; ``judges``: ``(J,)`` bool, those never fitted.
    """

    object: np.ndarray
    origin: np.ndarray
    light: np.ndarray
    modes: np.ndarray
    rows: np.ndarray
    arrived: np.ndarray
    told: np.ndarray
    positions: np.ndarray
    visits: np.ndarray
    judges: np.ndarray

    @property
    def waiting(self) -> np.ndarray:
        """Indices of the patterns that were not used yet."""
        return np.flatnonzero((self.visits == 0) & ~self.judges)

    @property
    def used(self) -> int:
        return int(np.count_nonzero(self.visits > 0))


def nothing(begun: Beginning) -> Growing:
    """No object yet."""
    none, N = np.zeros((0, 2)), begun.N
    return Growing(
        np.zeros((N, N), np.complex64),
        np.zeros(2, np.int64),
        np.zeros((N, N), np.float32),
        begun.modes,
        np.zeros(0, np.int64),
        np.zeros(0),
        none,
        none,
        np.zeros(0, np.int64),
        np.zeros(0, bool),
    )


def extend(
    grown: Growing, rows: np.ndarray, indices: np.ndarray, positions: np.ndarray, arrived: np.ndarray
) -> Growing:
    """With the patterns of more ``rows (n,)`` of the store at ``positions (n, 2)`` in object pixels.

    Those that lie farther than a window from all others wait: they would make the object grow for nothing.
    """
    new = np.flatnonzero(~np.isin(rows, grown.rows))
    new = new[_near(positions[new], grown.told, grown.modes.shape[-1])]
    if not len(new):
        return grown
    grown = _enlarged(grown, positions[new])
    judges = (indices[new] % KEPT_OUT == KEPT_OUT // 2) & (len(rows) >= KEPT_OUT)
    return replace(
        grown,
        rows=np.concatenate([grown.rows, rows[new]]),
        arrived=np.concatenate([grown.arrived, arrived[new]]),
        told=np.concatenate([grown.told, positions[new]]),
        positions=np.concatenate([grown.positions, positions[new]]),
        visits=np.concatenate([grown.visits, np.zeros(len(new), np.int64)]),
        judges=np.concatenate([grown.judges, judges]),
    )


def _near(new: np.ndarray, known: np.ndarray, reach: float) -> np.ndarray:
    """Indices of the new positions ``(n, 2)`` that hang together with known ones, or with most of the new."""
    if not len(new):
        return np.zeros(0, np.int64)
    near = np.zeros(len(new), bool)
    if not len(known):
        near[np.argmin(np.linalg.norm(new - np.median(new, axis=0), axis=1))] = True
    while not near.all():
        reached = cKDTree(np.concatenate([known, new[near]])).query(new)[0] <= reach
        if not (reached & ~near).any():
            break
        near |= reached
    return np.flatnonzero(near)


def _enlarged(grown: Growing, positions: np.ndarray) -> Growing:
    """With room for positions ``(n, 2)``, a window and a margin around them; in steps of half a window."""
    N = grown.modes.shape[-1]
    low, high = np.floor(positions.min(axis=0)).astype(int), np.ceil(positions.max(axis=0)).astype(int)
    if not len(grown.rows):
        origin, end = low - 2 * MARGIN, high + N + 2 * MARGIN
        shape = tuple(end - origin)
        return replace(
            grown,
            object=np.zeros(shape, np.complex64),
            light=np.zeros(shape, np.float32),
            origin=origin,
        )
    step = N // 2
    before = np.maximum(grown.origin - (low - MARGIN), 0)
    after = np.maximum(high + N + MARGIN - (grown.origin + grown.object.shape), 0)
    before, after = -(-before // step) * step, -(-after // step) * step
    if not (before.any() or after.any()):
        return grown
    pads = list(zip(before.tolist(), after.tolist(), strict=True))
    return replace(
        grown,
        object=np.pad(grown.object, pads),
        light=np.pad(grown.light, pads),
        origin=grown.origin - before,
    )


def choose(grown: Growing, most: int, sweep: bool = False) -> np.ndarray:
    """At most so many patterns to be fitted together, ``(n,)``.

    New ones, the oldest first, and those nearest to them; in a ``sweep``, or where all were used, the pattern
    that was fitted least often of those that were, and those nearest to it.
    """
    fitted, new = np.flatnonzero(~grown.judges), grown.waiting[:most]
    used = fitted[grown.visits[fitted] > 0]
    if len(used) and (sweep or not len(new)):
        new = used[[np.argmin(grown.visits[used])]]
    old = np.setdiff1d(fitted[grown.visits[fitted] > 0], new)
    if not len(old):
        return new
    distance = cKDTree(grown.told[new]).query(grown.told[old])[0]
    near = old[np.argsort(distance, kind="stable")[: most - len(new)]]
    return np.sort(np.concatenate([new, near]))


def steps_of(grown: Growing, budget: float) -> int:
    """Steps of a cycle of so many pattern-steps: fewer where more new patterns wait than it can take."""
    return STEPS if STEPS * len(grown.waiting) <= budget else HURRIED


def improve(
    grown: Growing, begun: Beginning, read: Read, free: Freedom, budget: float, sweep: bool = False
) -> Growing:
    """After one cycle of about so many pattern-steps: patterns times steps of the solver.

    ``sweep``: of patterns that were used before, though there may be new ones.
    """
    if not len(grown.rows) or grown.judges.all():
        return grown
    first = not grown.light.any()
    steps = steps_of(grown, budget)
    most = int(np.clip(budget / steps, FEWEST, BATCH_PIXELS // begun.N**2))
    chosen = choose(grown, most, sweep)
    amplitudes = read(grown.rows[chosen])
    sound = np.isfinite(amplitudes).all(axis=(1, 2))
    grown = replace(grown, visits=grown.visits + np.isin(np.arange(len(grown.visits)), chosen))
    chosen, amplitudes = chosen[sound], amplitudes[sound]
    if not len(chosen):
        return grown
    window, corner = _window(grown, chosen)
    there = grown.positions[chosen] - corner
    likelihood = begun.likelihood_of(amplitudes, there, max(s.stop - s.start for s in window))
    others = np.maximum(
        grown.light[window] - _light(grown, chosen, window, corner, grown.visits[chosen] > 1), 0
    )
    image = filled(grown.object[window], grown.light[window], begun.N)
    anchor = Anchor(image, np.float32(2 / likelihood.photon**2) * others)
    terms = Terms(likelihood, PRIOR, "independent", begun.lit, anchor=anchor)
    background = np.zeros((begun.N, begun.N), np.float32)
    start = State(image, grown.modes, there, np.ones(len(chosen), np.float32), background)
    if first:
        start = fit(terms, start, OBJECT_ALONE, ALONE, 0.0).state
    settled = grown.visits[chosen].min() > SETTLED
    free = replace(free, positions=free.positions and bool(settled))
    found = fit(terms, start, free, TOGETHER if first else steps, 0.0).state
    return _taken(grown, found, chosen, window, corner)


def _window(grown: Growing, chosen: np.ndarray) -> tuple[tuple[slice, slice], np.ndarray]:
    """The part of the object that some patterns light, with a margin, and its corner in positions."""
    N, places = grown.modes.shape[-1], grown.positions[chosen] - grown.origin
    low = np.maximum(np.floor(places.min(axis=0)).astype(int) - MARGIN, 0)
    high = np.minimum(np.ceil(places.max(axis=0)).astype(int) + N + MARGIN, grown.object.shape)
    return (slice(low[0], high[0]), slice(low[1], high[1])), low + grown.origin


def _light(
    grown: Growing,
    chosen: np.ndarray,
    window: tuple[slice, slice],
    corner: np.ndarray,
    counted: np.ndarray,
) -> np.ndarray:
    """The light of those of some patterns that are ``counted (n,)``, on a window."""
    light = np.zeros((window[0].stop - window[0].start, window[1].stop - window[1].start), np.float32)
    corners = np.round(grown.told[chosen[counted]] - corner).astype(int)
    one = np.sum(np.abs(grown.modes) ** 2, axis=0)
    add_windows_to(light, np.broadcast_to(one, (len(corners), *one.shape)), corners)
    return light


def filled(image: np.ndarray, light: np.ndarray, N: int) -> np.ndarray:
    """An object ``(H, W)`` with what no light has reached as the mean of what is lit near it.

    Near: by a normal distribution of an eighth of a window, else of wider ones; 1 where nothing is lit.
    """
    lit = light > DARK * light.max(initial=0)
    if lit.all() or not lit.any():
        return image.copy() if lit.any() else np.ones(image.shape, np.complex64)
    coarse = slice(None, None, COARSE), slice(None, None, COARSE)
    known, weight = np.where(lit, image, 0)[coarse], lit[coarse].astype(np.float32)
    found = np.full(known.shape, image[lit].mean(), np.complex64)
    for width in (N / 2, N / 4, N / 8):
        share, *parts = (
            gaussian_filter(part, width / COARSE, truncate=2) for part in (weight, known.real, known.imag)
        )
        near = share > 0.01
        found[near] = (parts[0][near] + 1j * parts[1][near]) / share[near]
    rows, columns = (np.arange(side) // COARSE for side in image.shape)
    return np.where(lit, image, found[np.ix_(rows, columns)]).astype(np.complex64)


def _taken(
    grown: Growing, found: State, chosen: np.ndarray, window: tuple[slice, slice], corner: np.ndarray
) -> Growing:
    """With what a fit of the chosen patterns has found."""
    image, light, positions = grown.object.copy(), grown.light.copy(), grown.positions.copy()
    new = grown.visits[chosen] == 1
    light[window] += _light(grown, chosen, window, corner, new)
    image[window] = found.object
    positions[chosen] = found.positions + corner
    share = max(SLOWEST, len(chosen) / max(grown.used, 1))
    modes = grown.modes + np.float32(min(share, 1.0)) * (found.modes - grown.modes)
    return replace(grown, object=image, light=light, positions=positions, modes=modes.astype(np.complex64))


def sound_judges(grown: Growing, read: Read) -> np.ndarray:
    """Indices of some patterns that are never fitted, and lie among those that were."""
    judges = np.flatnonzero(grown.judges)
    if not len(judges) or not grown.light.any():
        return judges[:0]
    middles = np.round(grown.told[judges] - grown.origin).astype(int) + grown.modes.shape[-1] // 2
    typical = np.median(grown.light[grown.light > 0.1 * grown.light.max()])
    judges = judges[grown.light[middles[:, 0], middles[:, 1]] > 0.5 * typical]
    judges = judges[:: max(1, -(-len(judges) // JUDGING))]
    return judges[np.isfinite(read(grown.rows[judges])).all(axis=(1, 2))] if len(judges) else judges


def judged(grown: Growing, begun: Beginning, read: Read) -> float | None:
    """Deviance per pixel of patterns that are never fitted, where they are told to lie; None: too few."""
    judges = sound_judges(grown, read)
    if not len(judges):
        return None
    there, N = grown.told[judges] - grown.origin, begun.N
    likelihood = begun.likelihood_of(read(grown.rows[judges]), there, max(grown.object.shape))
    flux, background = np.ones(len(judges), np.float32), np.zeros((N, N), np.float32)
    image = filled(grown.object, grown.light, N)
    each = likelihood.evaluate(State(image, grown.modes, there, flux, background)).deviance
    return float(np.mean(each)) / likelihood.pixels
