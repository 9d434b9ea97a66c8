"""Is the detector turned as the file's format says? Every orientation reconstructs a little; the data choose.

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
is real too, four; then the object may come out turned or conjugated, and nothing in the data says so. Ways
that the probe cannot tell apart share one trial, of the one that changes least. Further:

- Positions whose rows and columns are exchanged look like transposed patterns, seen by a round probe.
- A scan along one line, or without overlap, tells little or nothing; then all are explained alike.
- A probe that was itself guessed from these data has chosen its curvature for the scan as read: the sign of
  the positions and a turn by 180° are then not tested at all, and a transposition is often missed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.config.data import DataConfig
from ptycho.reconstruction.misfit import Misfit, misfit
from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import smallest_region
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import energy_diameter
from ptycho.scan.windows import add_windows, inner_windows

ALIKE = 0.9999  # correlation of a probe and its image from which they count as equal
SPACING = 0.1  # of the probe's diameter: of two patterns nearer to each other one is left out
COUNT = 60
PASSES = 10
EXPLAINED = 0.8  # these limits: see :func:`clearly_better`
LESS = 0.97
LESS_TURNED = 0.9
SIGNIFICANT = 5.0
FLOOR = 0.01  # ε: of the strongest light; damps what little lights
HAIR = 1e-4  # of a pixel below a whole position; such a fraction is rounding
FEWEST = 12  # patterns, for any claim


class Orientation(NamedTuple):
    """How a scan is read otherwise than it was: patterns transposed, then reversed; positions negated."""

    transpose: bool = False
    flip_rows: bool = False
    flip_cols: bool = False
    position_sign: int = 1

    @property
    def changes(self) -> int:
        """In how many of the four it differs from the scan as it was read."""
        return self.transpose + self.flip_rows + self.flip_cols + (self.position_sign < 0)

    def patterns(self, images: np.ndarray) -> np.ndarray:
        """Images ``(…, N, N)`` turned about the zero frequency, which stays at ``N//2`` for even N, too."""
        images = np.swapaxes(images, -1, -2) if self.transpose else images
        images = reversed_about_zero(images, -2) if self.flip_rows else images
        return reversed_about_zero(images, -1) if self.flip_cols else images

    def of(self, data: Dataset) -> Dataset:
        """A scan of one object as it is read this way; the probe is the same."""
        return placed_anew(
            data,
            self.patterns(data.amplitudes[:]),
            self.position_sign * data.positions,
            None if data.good is None else self.patterns(data.good),
        )

    def keys(self, config: DataConfig) -> str:
        """What must be set to read a file this way, where ``config`` was how it was read."""
        new = self.on(config)
        values = {key: getattr(new, key) for key in self._fields if getattr(new, key) != getattr(config, key)}
        return " ".join(f"data.{key}={str(value).lower()}" for key, value in values.items())

    def on(self, config: DataConfig) -> DataConfig:
        """The section ``data`` that reads a file this way, where ``config`` was how it was read.

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


@dataclass(frozen=True, eq=False)
class Trial:
    """How well the middle of a scan is explained, read one way.

    Attributes:
        orientation: of those that the probe cannot tell apart, the one that changes least.
        alike: the others.
        misfit: after the short reconstruction, of the patterns it was made from.
    """

    orientation: Orientation
    alike: tuple[Orientation, ...]
    misfit: Misfit

    @property
    def r_factor(self) -> float:
        return self.misfit.r_factor


def orientations(
    data: Dataset,
    count: int = COUNT,
    passes: int = PASSES,
    advance: Callable[[int], object] = lambda patterns: None,
) -> list[Trial]:
    """Every way to read a scan that the probe can tell from the others, the best explained first.

    Each starts from a constant object and takes ``2·passes + 1`` Fourier transforms of ``(N, N)`` a pattern,
    or ``5·passes`` where positions are no whole pixels: 20 160, or 48 000, in all sixteen ways of 60 patterns
    in 10 passes, and half of them or a quarter with a round probe.

    Args:
        data: a scan as it was read.
        count: so many patterns in the middle of the scan are used.
        passes: updates of the object.
        advance: called with the number of patterns that were just used, ``passes`` times all of them for
            each of the :func:`classes`.
    """
    some = middle(data, count)
    found = []
    for first, *others in classes(data.probe):
        image, scan = reconstructed(first.of(some), passes, True, advance)
        found.append(Trial(first, tuple(others), misfit(image, scan)))
    return sorted(found, key=lambda trial: trial.r_factor)


def classes(probe: np.ndarray) -> list[tuple[Orientation, ...]]:
    """The sixteen orientations, those together that a probe ``(N, N)`` cannot tell apart, fewest changes
    first."""
    same = [AS_READ]
    real, real_far_field, symmetric = symmetries(probe)
    if real > ALIKE:
        same.append(Orientation(flip_rows=True, flip_cols=True))
    if real_far_field > ALIKE:
        same.append(Orientation(position_sign=-1))
    if symmetric > ALIKE or len(same) == 3:
        same.append(Orientation(flip_rows=True, flip_cols=True, position_sign=-1))
    left = [
        Orientation(*way) for way in itertools.product((False, True), (False, True), (False, True), (1, -1))
    ]
    left.sort(key=lambda way: way.changes)
    found = []
    while left:
        together = [_added(left[0], turn) for turn in same]
        found.append(tuple(way for way in left if way in together))
        left = [way for way in left if way not in together]
    return found


def _added(way: Orientation, turn: Orientation) -> Orientation:
    """``way``, then a turn by 180° or a negation or both."""
    rows, cols = way.flip_rows != turn.flip_rows, way.flip_cols != turn.flip_cols
    return Orientation(way.transpose, rows, cols, way.position_sign * turn.position_sign)


def symmetries(probe: np.ndarray) -> tuple[float, float, float]:
    """How real a probe ``(N, N)`` is, how real its far field, and how symmetric, each from 0 to 1.

    The correlations of P(x) with P*(x), P*(−x) and P(−x), at the constant phase that makes them largest; of
    the last two, at the shift that does.
    """
    wave = probe.astype(complex)
    far = np.fft.fft2(wave, norm="ortho")
    energy = np.sum(np.abs(wave) ** 2)
    real = np.abs(np.sum(wave**2))
    real_far_field = np.abs(np.fft.ifft2(far**2)).max() * wave.size
    symmetric = np.abs(np.fft.ifft2(far * _turned(far).conj())).max() * wave.size
    return float(real / energy), float(real_far_field / energy), float(symmetric / energy)


def _turned(far_field: np.ndarray) -> np.ndarray:
    """``Ψ(−q)``, zero frequency at sample 0."""
    return np.roll(far_field[::-1, ::-1], (1, 1), (0, 1))


def reversed_about_zero(images: np.ndarray, axis: int) -> np.ndarray:
    """Images reversed along an axis of N samples so that sample ``N//2`` stays where it is.

    For even N, sample 0 (the frequency −N/2, which has no counterpart) stays, too.
    """
    return np.roll(np.flip(images, axis), 1 - images.shape[axis] % 2, axis)


def middle(data: Dataset, count: int) -> Dataset:
    """Some neighbouring patterns in the middle of a scan, on an object as small as they need.

    They are the nearest ones to the pattern that is nearest to the middle; where they lie denser than
    ``SPACING`` of the probe's diameter, some between them are left out.
    """
    off_middle = np.linalg.norm(data.positions - np.median(data.positions, axis=0), axis=1)
    centre = int(np.argmin(off_middle))
    mine = np.flatnonzero(data.image == data.image[centre])
    distance = np.linalg.norm(data.positions[mine] - data.positions[centre], axis=1)
    mine = mine[np.argsort(distance, kind="stable")]
    apart = _apart(data.positions[mine], SPACING * energy_diameter(data.probe), count)
    chosen = mine[np.concatenate([apart, np.setdiff1d(np.arange(len(mine)), apart)])[:count]]
    return placed_anew(data, data.amplitudes[chosen], data.positions[chosen], data.good)


def _apart(positions: np.ndarray, spacing: float, count: int) -> np.ndarray:
    """Indices of at most ``count`` positions ``(K, 2)``, from the first on, none nearer to another than
    ``spacing``."""
    kept = [0]
    for k in range(1, len(positions)):
        if len(kept) == count:
            break
        if np.linalg.norm(positions[kept] - positions[k], axis=1).min() >= spacing:
            kept.append(k)
    return np.array(kept)


def placed_anew(
    data: Dataset, amplitudes: np.ndarray, positions: np.ndarray, good: np.ndarray | None
) -> Dataset:
    """A dataset of one object with other patterns ``(K, N, N)`` at positions ``(K, 2)`` of any origin."""
    corners = positions - np.floor(positions.min(axis=0)) + 1
    groups = np.arange(len(corners), dtype=np.int32)[:, None]
    return replace(
        data,
        amplitudes=Patterns(np.ascontiguousarray(amplitudes)),
        positions=corners.astype(np.float32),
        image=np.zeros(len(corners), np.int32),
        groups=groups,
        object_size=data.N + int(np.ceil(corners.max())) + 1,
        region_size=smallest_region(corners, groups, data.N),
        objects=None,
        neighbours=None,
        stated_tiling=None,
        good=good,
        exact=bool(np.any(corners != np.round(corners))),
    )


def reconstructed(
    data: Dataset, passes: int, free_probe: bool, advance: Callable[[int], object] = lambda patterns: None
) -> tuple[np.ndarray, Dataset]:
    """An object ``(1, M, M)`` complex64 after some passes from a constant one, and the data with their probe.

    With the step ΔΨ of :func:`ptycho.physics.far_field_step` and ``Δψ_j = F⁻¹ ΔΨ_j``, a pass is

        O ← O + Σ_j P̄_j Δψ_j / (Σ_j |P_j|² + ε max),   P ← P + Σ_j Ō_j Δψ_j / (Σ_j |O_j|² + ε max),

    the second from the second pass on, if the probe is free. Positions are split into whole pixels, where O
    is cut, and fractions, by which P_j is P moved; its part of the sum is moved back.
    Source: Thibault et al., Ultramicroscopy 109 (2009), eqs. 8 and 9.
    """
    N, M = data.N, data.object_size
    corners = np.floor(data.positions + HAIR).astype(np.int64)
    ramps = _ramps(data.positions - corners, N) if data.exact else None
    measured = physics.uncentre(tf.constant(data.normalised(slice(None))))
    probe = data.model_probe[None]
    bright = N / 2 / np.sqrt(np.sum(np.abs(probe) ** 2, dtype=float))  # as the patterns are
    image = np.full((M, M), bright, np.complex64)
    for done in range(passes):
        lit = probe if ramps is None else _filtered(probe, ramps)
        patches = inner_windows(image, corners, N)
        step = physics.far_field_step(physics.far_field(lit * patches), measured, data.photon_amplitude)
        change = physics.near_field(step).numpy()
        light = add_windows(np.broadcast_to(np.abs(lit) ** 2, change.shape), corners, (M, M))
        image = image + add_windows(lit.conj() * change, corners, (M, M)) / _floored(light)
        if free_probe and done > 0:
            back = patches.conj() * change
            back = back if ramps is None else _filtered(back, ramps.conj())
            probe = probe + back.sum(axis=0) / _floored(np.sum(np.abs(patches) ** 2, axis=0))
        advance(len(corners))
    found = probe[0] / (data.photon_scale * data.normalisation)
    return image[None], replace(data, probe=found.astype(np.complex64))


def _ramps(shifts: np.ndarray, N: int) -> np.ndarray:
    """``exp(−2πi q·s)`` for shifts ``(K, 2)``, ``(K, N, N)`` complex64, zero frequency at sample 0."""
    q = np.fft.fftfreq(N)
    turns = shifts[:, 0, None, None] * q[:, None] + shifts[:, 1, None, None] * q
    return np.exp(-2j * np.pi * turns).astype(np.complex64)


def _filtered(waves: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """``F⁻¹[factors · F waves]``."""
    return physics.near_field(physics.far_field(waves) * factors).numpy()


def _floored(light: np.ndarray) -> np.ndarray:
    return light + FLOOR * light.max()


def better(trials: list[Trial]) -> Trial | None:
    """The way that explains a scan clearly better than the one it was read in; None where none does.

    Of the best and those that are as good, the one that changes least; None also if not all of these are the
    best turned by 180° or negated: then the patterns contradict the way they were read, but do not say which
    is right.
    """
    own, best = as_read(trials), trials[0]
    good = [trial for trial in trials if not _surely_better(best, trial)]
    if not clearly_better(best, own) or any(not _same_axes(trial, best) for trial in good):
        return None
    return min(good, key=lambda trial: trial.orientation.changes)


def as_read(trials: list[Trial]) -> Trial:
    """The trial of the scan as it was read."""
    return next(trial for trial in trials if AS_READ in (trial.orientation, *trial.alike))


def clearly_better(one: Trial, other: Trial) -> bool:
    """Whether ``one`` leaves clearly less unexplained than ``other``; measured limits, by simulated scans.

    What is unexplained is the R-factor less what photon noise alone would give, where that is known: it must
    be less than ``EXPLAINED`` of the other's. The R-factor itself must be less than ``LESS`` of the other's,
    and if the two differ by a turn of 180° or a negation, ``LESS_TURNED``: a wrong probe, lopsided by chance,
    has its preference among ways that the true one could not tell apart. And the mean difference of the
    patterns' residuals must be ``SIGNIFICANT`` standard errors, lest noise be taken for an explanation.
    """
    noise = one.misfit.r_noise or 0.0
    limit = LESS_TURNED if _same_axes(one, other) else LESS
    return (
        len(one.misfit.residual) >= FEWEST
        and one.r_factor < limit * other.r_factor
        and one.r_factor - noise < EXPLAINED * (other.r_factor - noise)
        and _surely_better(one, other)
    )


def _surely_better(one: Trial, other: Trial) -> bool:
    """Of the same patterns in the same order."""
    gain = other.misfit.residual - one.misfit.residual
    return bool(gain.mean() > SIGNIFICANT * gain.std() / np.sqrt(len(gain)))


def _same_axes(one: Trial, other: Trial) -> bool:
    """Whether one is the other turned by 180° or negated, or both, or neither."""
    first, second = one.orientation, other.orientation
    mirrored = [way.flip_rows != way.flip_cols for way in (first, second)]
    return first.transpose == second.transpose and mirrored[0] == mirrored[1]


def advice(found: Trial, trials: list[Trial], config: DataConfig) -> str:
    """What to set, for the log: ``found`` is the better of ``trials`` of a scan that ``config`` has read."""
    ways = " or ".join(way.keys(config) for way in (found.orientation, *found.alike))
    return (
        f"{ways} explains the patterns better: R-factor {found.r_factor:.3f} of a short reconstruction, "
        f"against {as_read(trials).r_factor:.3f} as they were read"
        + (" (the probe cannot tell these apart; the first changes least)" if found.alike else "")
    )
