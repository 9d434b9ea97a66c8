"""Select how a scan is read, the orientation of its detector first: short reconstructions are compared.

    A_j(q) = |F[ P(x) O(x + r_j) ](q)|,   x, q from −N/2 to N/2, zero at sample N//2

A scan is read in sixteen ways: patterns transposed, then their rows and their columns reversed (2³),
positions as they are or negated (2). The wrong ones make neighbouring patterns contradict each other, as long
as patches overlap and the probe is about right; it is corrected along with the object.

**What cannot be told apart.** Write ``P*`` for the conjugate and ``P(−x)`` for the probe turned by 180°. With
another object (its conjugate, turned, or both), the following describe the same measurement:

====================================== ============================== =========================
the scan read with                     as it is, but with the probe   not told apart where
====================================== ============================== =========================
rows and columns reversed              P*(x), and O*                  P is real
positions negated                      P*(−x), and O*(−x)             F P is real
both                                   P(−x), and O(−x)               P is symmetric
====================================== ============================== =========================

each up to a constant phase of the probe and a shift of it. The same holds of the three with transposition or
reversed rows added to both sides. So a probe that is round, in focus or not, leaves eight ways, and one that
is real too, four; then the object may be turned or conjugated, and the data cannot show it. Ways
that the probe cannot distinguish share one trial, of the one that changes least. Further:

- Positions whose rows and columns are exchanged look like transposed patterns, seen by a round probe.
- A scan along one line, or without overlap, constrains little or nothing; then all are explained alike.
- In a near field probe and patterns are images in one frame. To turn both is to turn the positions the other
  way: there are eight ways, each with its twin, in which rows and columns are reversed and positions negated.
- A probe that was itself guessed from these data has chosen its curvature for the scan as read: the sign of
  the positions and a turn by 180° are then not tested at all, and a transposition is often missed.

Frames late or early by one are tried in the same way (:func:`find_frame_offset`): a missed trigger puts every
pattern at its neighbour's place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ptycho.align.pattern_shift import as_pairs
from ptycho.config.data import DataConfig
from ptycho.config.messages import show
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import Sample, Trial, TrialOptions, middle, middle_patterns, place_anew
from ptycho.scan.comparison import TURNED, Rule, split_patterns
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns


class Orientation(NamedTuple):
    """Change of how a scan is read: patterns transposed, then reversed; positions negated."""

    transpose: bool = False
    flip_rows: bool = False
    flip_cols: bool = False
    position_sign: int = 1

    @property
    def changes(self) -> int:
        """Number of the four in which it differs from the scan as it was read."""
        return self.transpose + self.flip_rows + self.flip_cols + (self.position_sign < 0)

    def patterns(self, images: np.ndarray) -> np.ndarray:
        """Turn images ``(…, N, N)`` about the zero frequency, which stays at ``N//2``, for even N, too."""
        images = np.swapaxes(images, -1, -2) if self.transpose else images
        images = reverse_about_zero(images, -2) if self.flip_rows else images
        return reverse_about_zero(images, -1) if self.flip_cols else images

    @property
    def _matrix(self) -> np.ndarray:
        """The same of a vector ``(row, col)`` on the detector, ``(2, 2)``."""
        axes = np.eye(2)[::-1] if self.transpose else np.eye(2)
        return np.where((self.flip_rows, self.flip_cols), -1, 1)[:, None] * axes

    def of(self, data: Dataset) -> Dataset:
        """Return a scan of one object as it is read this way; the probe turns only with a near field."""
        if data.fresnel is not None:
            way = data.fresnel.transposed if self.transpose else data.fresnel
            data = replace(data, beam=data.beam.with_probe(self.patterns(data.probe)), fresnel=way)
        shifts = data.amplitudes.shifts
        turned = None if shifts is None else (shifts @ self._matrix.T).astype(np.float32)
        return place_anew(
            data,
            Patterns(np.ascontiguousarray(self.patterns(data.amplitudes[:])), shifts=turned),
            self.position_sign * data.positions,
            None if data.good is None else self.patterns(data.good),
        )

    def keys(self, config: DataConfig) -> str:
        """Return what must be set to read a file this way, where ``config`` was how it was read."""
        new, names = self.on(config), (*self._fields, "pattern_shift")
        values = {key: getattr(new, key) for key in names if getattr(new, key) != getattr(config, key)}
        return " ".join(f"data.{key}={show(value).replace(' ', '')}" for key, value in values.items())

    def on(self, config: DataConfig) -> DataConfig:
        """Return the section ``data`` that reads a file this way, where ``config`` was how it was read.

        First transposed, then reversed: a second transposition exchanges what was reversed before it.
        """
        rows, cols = config.flip_rows, config.flip_cols
        if self.transpose:
            rows, cols = cols, rows
        shift = config.pattern_shift
        if shift is not None:
            shift = as_pairs(self.position_sign * self._matrix @ np.array(shift))
        return replace(
            config,
            pattern_shift=shift,
            transpose=config.transpose != self.transpose,
            flip_rows=rows != self.flip_rows,
            flip_cols=cols != self.flip_cols,
            position_sign=config.position_sign * self.position_sign,
        )


AS_READ = Orientation()
REVERSED = Orientation(flip_rows=True, flip_cols=True)
HALF_TURN = Orientation(flip_rows=True, flip_cols=True, position_sign=-1)


def orientations(
    data: Dataset,
    trial: TrialOptions = TrialOptions(),
    object_steps: int = 3,
    probe_steps: int = 4,
    among: Sequence[tuple[Orientation, ...]] | None = None,
) -> list[Trial]:
    """Try every way to read a scan that the probe can distinguish from the others; the best comes first.

    The hypothesis of each trial is a tuple of orientations that the probe cannot distinguish, the one that
    changes least first. ``among``: try these alone.
    """
    some = middle(data, trial.count(data.N))

    def tried(ways: tuple[Orientation, ...]) -> Trial:
        sample = Sample.of(ways[0].of(some), trial)
        return sample.trial(ways, sample.fit_object(object_steps, probe_steps))

    if among is None:
        among = classes(alike(data.probe[0]) if data.fresnel is None else [AS_READ, HALF_TURN])
    return sorted(side_by_side(tried, among), key=lambda trial: trial.score)


def longer_trials(data: Dataset, most: int = 4) -> list[Trial]:
    """Try orientations by longer fits, as a wrong probe needs; the best comes first.

    All are fitted for 30 steps, and the ``most`` best, and the scan as it was read, for 80.
    """
    first = orientations(data, object_steps=10, probe_steps=20)
    finalists = {trial.hypothesis: None for trial in (*first[:most], as_read(first))}
    return orientations(data, object_steps=20, probe_steps=60, among=[*finalists])


def alike(probe: np.ndarray, equal: float = 0.9999) -> list[Orientation]:
    """Return the orientations that a probe ``(N, N)`` cannot distinguish from that of the file, the first.

    ``equal``: correlation of the probe with its image from which on the two count as equal.
    """
    real, real_far_field, symmetric = (value > equal for value in symmetries(probe))
    symmetric |= real and real_far_field
    ways = REVERSED, Orientation(position_sign=-1), HALF_TURN
    return [AS_READ, *itertools.compress(ways, (real, real_far_field, symmetric))]


def classes(same: list[Orientation]) -> list[tuple[Orientation, ...]]:
    """Group the sixteen orientations that differ by one of :func:`alike`, fewest changes first."""
    ways = itertools.starmap(Orientation, itertools.product(*[(False, True)] * 3, (1, -1)))
    left, grouped = sorted(ways, key=lambda way: way.changes), list[tuple[Orientation, ...]]()
    while left:
        transpose, rows, cols, sign = left[0]
        together = [
            Orientation(transpose, rows != turn.flip_rows, cols != turn.flip_cols, sign * turn.position_sign)
            for turn in same
        ]
        grouped.append(tuple(way for way in left if way in together))
        left = [way for way in left if way not in together]
    return grouped


def symmetries(probe: np.ndarray) -> tuple[float, float, float]:
    """Return how real a probe ``(N, N)`` is, how real its far field, and how symmetric, each from 0 to 1.

    The correlations of P(x) with P*(x), P*(−x) and P(−x), at the constant phase that makes them largest; of
    the last two, at the shift that does.
    """
    wave = probe.astype(complex)
    far = np.fft.fft2(wave, norm="ortho")
    energy = np.sum(np.abs(wave) ** 2)
    real = np.abs(np.sum(wave**2))
    real_far_field = np.abs(np.fft.ifft2(far**2)).max() * wave.size
    turned = np.roll(far[::-1, ::-1], (1, 1), (0, 1))  # Ψ(−q), zero frequency at sample 0
    symmetric = np.abs(np.fft.ifft2(far * turned.conj())).max() * wave.size
    return float(real / energy), float(real_far_field / energy), float(symmetric / energy)


def reverse_about_zero(images: np.ndarray, axis: int) -> np.ndarray:
    """Reverse ``images (…, N, …)`` along an axis of N samples so that sample ``N//2`` stays where it is.

    For even N, sample 0 (the frequency −N/2, which has no counterpart) stays, too.
    """
    return np.roll(np.flip(images, axis), 1 - images.shape[axis] % 2, axis)


def better(trials: list[Trial], equal: Rule = Rule(5.0)) -> Trial | None:
    """Return the way that explains a scan clearly better than the one it was read in, or None.

    Of the best and those that are equally good, it is the one that changes least. None also if these differ
    in their axes: then the patterns contradict the way they were read, but do not say which is right. Those
    count as equally good over which the best does not gain by the rule ``equal``.
    """
    best = trials[0]
    good = [trial for trial in trials if not best.gain_over(trial).passes(equal)]
    if not (clearly_better(best, as_read(trials)) and all(_same_axes(trial, best) for trial in good)):
        return None
    return min(good, key=lambda trial: trial.hypothesis[0].changes)


def as_read(trials: list[Trial]) -> Trial:
    """Return the trial of the scan as it was read."""
    return next(trial for trial in trials if AS_READ in trial.hypothesis)


def clearly_better(
    trial: Trial, other: Trial, other_axes: Rule = Rule(5.0, 0.06), same_axes: Rule = TURNED
) -> bool:
    """Return whether ``trial`` leaves clearly less unexplained than ``other``.

    ``other_axes``, ``same_axes``: rules of an orientation that is transposed or mirrored (measured), and of
    one that is turned by 180° or negated.
    """
    enough = len(trial.deviance) >= TrialOptions.least
    return enough and trial.clearly_better_than(other, same_axes if _same_axes(trial, other) else other_axes)


def _same_axes(trial: Trial, other: Trial) -> bool:
    """Return whether one is the other turned by 180° or negated, or both, or neither."""
    first, second = (
        (way.transpose, way.flip_rows != way.flip_cols) for way in (trial.hypothesis[0], other.hypothesis[0])
    )
    return first == second


def advice(best: Trial, trials: list[Trial], config: DataConfig) -> str:
    """Return what to set, where ``best`` is the better of ``trials`` of a scan that ``config`` has read."""
    ways = " or ".join(way.keys(config) for way in best.hypothesis)
    alike = " (the probe cannot distinguish these; the first changes least)"
    return (
        f"{ways} explains the patterns better: deviance {best.mean_deviance:.3g} of a short reconstruction, "
        f"against {as_read(trials).mean_deviance:.3g} as they were read"
        + (alike if len(best.hypothesis) > 1 else "")
    )


def find_frame_offset(
    data: Dataset,
    frames: np.ndarray,
    trial: TrialOptions = TrialOptions(),
    object_steps: int = 3,
    probe_steps: int = 4,
) -> tuple[int, Trial, Trial] | None:
    """Return the offset that explains a scan clearly better than none, its trial, and that of none.

    The same patterns in the middle of the scan are reconstructed shortly at their own positions, at the next
    ones and at the previous ones.

    Args:
        data: patterns of one scan, in the order of the frames.
        frames: ``(J,)`` numbers of their frames, rising.
        object_steps, probe_steps: of the object alone, then with the probe.

    Returns:
        1, if frame j was measured at position j + 1, or −1; None: neither explains more, or there are too
        few patterns whose neighbours in time are known. In a raster of equal steps all three agree inside the
        lines, where an offset is a common shift and does no harm.
    """
    numbers = np.full(frames.max() + 3, -1)
    numbers[frames + 1] = np.arange(len(frames))  # the pattern of a frame, after one without any
    places = {offset: numbers[frames + 1 + offset] for offset in (0, 1, -1)}
    between = np.flatnonzero((places[1] >= 0) & (places[-1] >= 0))
    if len(between) < trial.least:
        return None
    chosen = between[middle_patterns(data.subset(between, 1), trial.count(data.N))]
    split = split_patterns(data.positions[chosen], len(chosen) // trial.holdout_every, 0)
    chosen_patterns = data.amplitudes.some(chosen).in_memory()

    def tried(offset: int) -> Trial:
        positions = data.positions[places[offset][chosen]]
        sample = Sample.of(place_anew(data, chosen_patterns, positions, data.good), trial, split)
        return sample.trial(offset, sample.fit_object(object_steps, probe_steps))

    none, *others = side_by_side(tried, list(places))
    best = better_offset(none, others)
    return None if best is None else (best.hypothesis, best, none)


def better_offset(none: Trial, others: Sequence[Trial], rule: Rule = Rule(5.0, 0.1)) -> Trial | None:
    """Return the better trial of two opposite offsets, if it leaves clearly less than the other and none."""
    best, other = sorted(others, key=lambda one: one.score)
    return best if best.clearly_better_than(none, rule) and best.gain_over(other).passes(rule) else None
