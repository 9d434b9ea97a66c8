"""Select the orientation of the detector: short reconstructions of all of them are compared.

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
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ptycho.config.data import DataConfig
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import Sample, Trial, TrialOptions, middle, place_anew
from ptycho.scan.comparison import Rule
from ptycho.scan.dataset import Dataset


@dataclass(frozen=True)
class OrientationOptions:
    """Options of the trials of orientations; the limits are measured on simulated scans."""

    object_steps: int = 3  # of the object alone
    probe_steps: int = 4  # then with the probe
    other_axes: Rule = Rule(5.0, 0.06)  # of an orientation with other axes (transposed or mirrored)
    # Of one turned by 180° or negated: a wrong probe, lopsided by chance, has a preference among those that
    # the true probe could not distinguish.
    same_axes: Rule = Rule(5.0, 0.2)
    equal: Rule = Rule(5.0)  # two orientations that differ by less are equally good


OPTIONS = OrientationOptions()


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

    def of(self, data: Dataset) -> Dataset:
        """Return a scan of one object as it is read this way; the probe turns only with a near field."""
        if data.fresnel is not None:
            way = data.fresnel.transposed if self.transpose else data.fresnel
            data = replace(data, beam=data.beam.with_probe(self.patterns(data.probe)), fresnel=way)
        return place_anew(
            data,
            self.patterns(data.amplitudes[:]),
            self.position_sign * data.positions,
            None if data.good is None else self.patterns(data.good),
        )

    def keys(self, config: DataConfig) -> str:
        """Return what must be set to read a file this way, where ``config`` was how it was read."""
        new = self.on(config)
        values = {key: getattr(new, key) for key in self._fields if getattr(new, key) != getattr(config, key)}
        return " ".join(f"data.{key}={str(value).lower()}" for key, value in values.items())

    def on(self, config: DataConfig) -> DataConfig:
        """Return the section ``data`` that reads a file this way, where ``config`` was how it was read.

        First transposed, then reversed: a second transposition exchanges what was reversed before it.
        """
        rows, cols = config.flip_rows, config.flip_cols
        if self.transpose:
            rows, cols = cols, rows
        return replace(
            config,
            transpose=config.transpose != self.transpose,
            flip_rows=rows != self.flip_rows,
            flip_cols=cols != self.flip_cols,
            position_sign=config.position_sign * self.position_sign,
        )


AS_READ = Orientation()
HALF_TURN = Orientation(flip_rows=True, flip_cols=True, position_sign=-1)


def orientations(
    data: Dataset, trial: TrialOptions | None = None, options: OrientationOptions = OPTIONS
) -> list[Trial]:
    """Try every way to read a scan that the probe can distinguish from the others; the best comes first.

    The hypothesis of each trial is a tuple of orientations that the probe cannot distinguish, the one that
    changes least first.
    """
    trial = trial or TrialOptions()
    some = middle(data, trial.count(data.N))

    def tried(ways: tuple[Orientation, ...]) -> Trial:
        sample = Sample.of(ways[0].of(some), trial)
        return sample.trial(ways, sample.fit_object(options.object_steps, options.probe_steps))

    same = alike(data.probe[0]) if data.fresnel is None else [AS_READ, HALF_TURN]
    return sorted(side_by_side(tried, classes(same)), key=lambda trial: trial.score)


def alike(probe: np.ndarray, equal: float = 0.9999) -> list[Orientation]:
    """Return the orientations that a probe ``(N, N)`` cannot distinguish from that of the file, the first.

    ``equal``: correlation of the probe with its image from which on the two count as equal.
    """
    same = [AS_READ]
    real, real_far_field, symmetric = symmetries(probe)
    if real > equal:
        same.append(Orientation(flip_rows=True, flip_cols=True))
    if real_far_field > equal:
        same.append(Orientation(position_sign=-1))
    if symmetric > equal or len(same) == 3:
        same.append(HALF_TURN)
    return same


def classes(same: list[Orientation]) -> list[tuple[Orientation, ...]]:
    """Group the sixteen orientations that differ by one of :func:`alike`, fewest changes first."""
    left = [
        Orientation(*way) for way in itertools.product((False, True), (False, True), (False, True), (1, -1))
    ]
    left.sort(key=lambda way: way.changes)
    grouped: list[tuple[Orientation, ...]] = []
    while left:
        together = [_add(left[0], turn) for turn in same]
        grouped.append(tuple(way for way in left if way in together))
        left = [way for way in left if way not in together]
    return grouped


def _add(way: Orientation, turn: Orientation) -> Orientation:
    """``way``, then a turn by 180° or a negation or both."""
    rows, cols = way.flip_rows != turn.flip_rows, way.flip_cols != turn.flip_cols
    return Orientation(way.transpose, rows, cols, way.position_sign * turn.position_sign)


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


def better(trials: list[Trial], options: OrientationOptions = OPTIONS) -> Trial | None:
    """Return the way that explains a scan clearly better than the one it was read in, or None.

    Of the best and those that are equally good, it is the one that changes least. None also if these differ
    in their axes: then the patterns contradict the way they were read, but do not say which is right.
    """
    own, best = as_read(trials), trials[0]
    good = [trial for trial in trials if not best.gain_over(trial).passes(options.equal)]
    if not clearly_better(best, own, options) or any(not _same_axes(trial, best) for trial in good):
        return None
    return min(good, key=lambda trial: trial.hypothesis[0].changes)


def as_read(trials: list[Trial]) -> Trial:
    """Return the trial of the scan as it was read."""
    return next(trial for trial in trials if AS_READ in trial.hypothesis)


def clearly_better(trial: Trial, other: Trial, options: OrientationOptions = OPTIONS) -> bool:
    """Return whether ``trial`` leaves clearly less unexplained than ``other``, by the options' limits."""
    rule = options.same_axes if _same_axes(trial, other) else options.other_axes
    enough = len(trial.deviance) >= TrialOptions.least
    return enough and trial.clearly_better_than(other, rule)


def _same_axes(trial: Trial, other: Trial) -> bool:
    """Return whether one is the other turned by 180° or negated, or both, or neither."""
    first, second = trial.hypothesis[0], other.hypothesis[0]
    mirrored = [way.flip_rows != way.flip_cols for way in (first, second)]
    return bool(first.transpose == second.transpose and mirrored[0] == mirrored[1])


def advice(best: Trial, trials: list[Trial], config: DataConfig) -> str:
    """Return what to set, where ``best`` is the better of ``trials`` of a scan that ``config`` has read."""
    ways = " or ".join(way.keys(config) for way in best.hypothesis)
    alike = " (the probe cannot distinguish these; the first changes least)"
    return (
        f"{ways} explains the patterns better: deviance {best.mean_deviance:.3g} of a short reconstruction, "
        f"against {as_read(trials).mean_deviance:.3g} as they were read"
        + (alike if len(best.hypothesis) > 1 else "")
    )
