"""Joint solver: object, probe modes, positions, flux and background that explain the patterns of one scan.

With ``ψ_jm = c_j P_m(x − s_j) O[w_j + x]``, the position being ``r_j = w_j + s_j`` with w whole,

    λ_j = Σ_m |F ψ_jm|² + b,   χ_jm = F⁻¹ ΔΨ_jm,

where ΔΨ is the step of :func:`ptycho.physics.far_field_step` toward the measured pattern, a batch gives

    ΔO = Σ_j Σ_m c_j P̄_m χ_jm / (L + β max L),       L = Σ_j Σ_m |c_j P_m|²
    ΔP_m = Σ_j c_j Ō_j χ_jm / (Q + β max Q),          Q = Σ_j |c_j O_j|²
    Δr_j = Re Σ conj(P ∂O) χ / Σ |P ∂O|²,   c_j ← c_j Σ x√λ / Σ λ,   b ← b ⟨x²/λ⟩

``O ← O + v_O`` with ``v_O ← μ v_O + α_O ΔO``, and the probe alike; the step lengths (α_O, α_P) solve the
least squares problem ``min Σ |χ − α_O P ΔO − α_P ΔP O|²`` over the batch. Early passes have small batches and
no momentum μ; late ones the whole scan as one batch. Sources: Odstrčil, Menzel & Guizar-Sicairos, Opt.
Express 26 (2018) 3108, for the step lengths and the incoherent modes; Thibault & Menzel, Nature 494 (2013)
68, for the modes; Zhang et al., Opt. Express 21 (2013) 13592, for positions found with the object; the
background's update is that of expectation maximisation.

What the data leave open is kept: the power ``Σ|P|²`` (the object takes the rest), the mean of c² (one), the
mean of the positions; modes are orthogonal and ordered by power.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import tensorflow as tf

from ptycho.progress import Advance
from ptycho.reconstruction.contribution import Fit, Found, Sums, contribution
from ptycho.reconstruction.joint_state import UPDATES, Freedom, Pass, State
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import orthogonal_modes
from ptycho.scan.windows import add_windows_to, inner_windows

CHUNK_PIXELS = 2**20  # of the patterns that are handled at once
DAMPING = 0.5  # β
FEWEST = 8  # patterns in a batch
MOVE = 0.3  # pixels, the longest step of a position that is believed
FARTHER = (
    1.5  # times that step a position moves: each is held back by an object that was made with the wrong one
)
AFFINE_MOMENTUM = 0.8  # of positions that move as a whole: a scale is found slowly, pass by pass
RESTART = 1.02  # without momentum, when a pass has met an R-factor so much above that of the one before
DARKEST = 0.05  # of the pixels, that a background is first told by

NOISE = {
    "amplitude": "√n is normal, with one variance: the fastest from afar, biased where photons are few",
    "poisson": "photons are what they are; as amplitude where they are many, or not known",
    "robust": "as amplitude, but what photons cannot explain counts by its size, not by its square",
}


@dataclass(frozen=True, eq=False)
class Solution:
    """What a run of the solver gives.

    Attributes:
        state: the best one.
        judging: the same, with the positions and the flux of the judging patterns.
        course: what decided, before and after every pass: the R-factor of the judging patterns, or Poisson's
            deviance per pixel.
        r_factors: their R-factors.
    """

    state: State
    judging: State
    course: list[float]
    r_factors: list[float]


@dataclass(eq=False)
class JointSolver:
    """The passes over one scan.

    Args:
        data: the patterns that are fitted, all of one object.
        judge: patterns of the same scan that are not. Their positions and flux are fitted where those of the
            others are, nothing else.
        seed: of the order of the patterns.
        noise: a key of :data:`NOISE`.
        compile_xla: compile the passes with XLA.
        by_deviance: Poisson's deviance decides which state is best, where photons were counted.
        lit: ``(N, N)`` bool, where a probe that is found may be other than zero; None: everywhere.
        damping: β.
        batches: the most of a pass.
        affine: positions may be scaled, rotated and sheared, as a whole; if not, each moves by itself.
    """

    data: Dataset
    judge: Dataset
    seed: int
    noise: str = "poisson"
    by_deviance: bool = False
    compile_xla: bool = True
    lit: np.ndarray | None = None
    damping: float = DAMPING
    batches: int = UPDATES
    affine: bool = False

    def __post_init__(self) -> None:
        fitting = max(1, CHUNK_PIXELS // self.data.N**2)
        self.chunk = min(fitting, -(-len(self.data.positions) // self.batches))
        self._steps: dict[tuple[bool, bool, bool], Callable] = {}

    def run(
        self,
        start: State,
        plan: list[Pass],
        patience: int,
        advance: Advance = lambda patterns: None,
        watch: Callable[[State, float], object] = lambda state, r_factor: None,
    ) -> Solution:
        """The state that explains the judging patterns best, the start among the candidates.

        It ends early when none of the last ``patience`` passes was the best. ``watch`` is called after every
        pass with the state and the R-factor of the judging patterns.
        """
        state, motion, rng = start, _Motion.none(start), np.random.default_rng([self.seed, 4])
        power, before = float(np.sum(np.abs(start.modes) ** 2)), np.inf
        places, map_ = State.of(self.judge, start.object), _Map(np.zeros((3, 2)), np.zeros((3, 2)))
        score, r_factor, places = self._judged(places, start, Freedom(False))
        best, best_places, course, r_factors = start, places, [score], [r_factor]
        if any(step.free.background for step in plan) and not start.background.any():
            state = replace(start, background=_some_background(self.data))
        for step in plan:
            state, motion, fitted = self._pass(state, motion, step, rng, advance)
            if self.affine and step.free.positions:
                state, places, map_ = self._as_a_whole(state, places, map_)
            state, motion = _settled(state, motion, power)
            if fitted.r_factor > RESTART * before:
                motion = _Motion.none(state)
            before = fitted.r_factor
            judging = replace(state, positions=places.positions, flux=places.flux)
            alone = replace(step.free, positions=step.free.positions and not self.affine)
            score, r_factor, places = self._judged(places, state, alone)
            course.append(score)
            r_factors.append(r_factor)
            watch(state, r_factor)
            if score <= min(course):
                best, best_places = state, judging
            if min(course[-patience:]) > min(course):
                break
        return Solution(best, best_places, course, r_factors)

    def corrected(
        self, state: State, batches: int, rng: np.random.Generator, advance: Advance
    ) -> tuple[State, float]:
        """A pass in which the object alone is free, without momentum, and the misfit ``Σ(n − λ)² / Σ n``.

        That is what each batch finds before it changes the object: with one batch, the misfit of ``state``.
        """
        step = Pass(batches, 0.0, Freedom(False))
        after, _, fitted = self._pass(state, _Motion.none(state), step, rng, advance)
        return after, fitted.misfit(self.data.normalisation)

    def misfit(self, state: State, part: np.ndarray) -> float:
        """``Σ(n − λ)² / Σ n`` of some patterns: about one where photon noise is all that is left."""
        fitted = Fit()
        for k in range(0, len(part), self.chunk):
            some = part[k : k + self.chunk]
            here = replace(state, positions=state.positions[some], flux=state.flux[some])
            fitted.add(self._contribution(self.data, some, here, Freedom(False)))
        return fitted.misfit(self.data.normalisation)

    def _as_a_whole(self, state: State, places: State, map_: _Map) -> tuple[State, State, _Map]:
        """All patterns at an affine image of their first positions, which follows the moves with momentum."""
        given = self.data.positions.astype(float)
        centre, span = given.mean(axis=0), max(float(np.ptp(given, axis=0).max()), 1.0)

        def terms(positions: np.ndarray) -> np.ndarray:
            return np.column_stack([np.ones(len(positions)), (positions - centre) / span])

        nearest, *_ = np.linalg.lstsq(terms(given), state.positions - given, rcond=None)
        change = AFFINE_MOMENTUM * map_.change + nearest - map_.factors
        factors, found = map_.factors + change, []
        for one, first in ((state, given), (places, self.judge.positions.astype(float))):
            moved = first + terms(first) @ factors
            found.append(replace(one, positions=self._inside(moved, state)))
        return found[0], found[1], _Map(factors, change)

    def _inside(self, positions: np.ndarray, state: State) -> np.ndarray:
        return np.clip(positions, 0, state.object.shape[0] - self.data.N - 1e-3)

    # ---- one pass

    def _pass(
        self, state: State, motion: _Motion, step: Pass, rng: np.random.Generator, advance: Advance
    ) -> tuple[State, _Motion, Fit]:
        """The state after a pass, and how well the patterns were explained on the way."""
        count, free = len(state.positions), step.free
        order = rng.permutation(count)
        object_, modes, background = state.object.copy(), state.modes.copy(), state.background
        positions, flux = state.positions.copy(), state.flux.copy()
        ratio, fitted = np.zeros_like(background), Fit()
        seen = np.zeros_like(background)
        moving, turning = motion.object, motion.modes
        for batch in np.array_split(order, min(step.batches, max(1, count // FEWEST))):
            total = Sums.zeros(object_.shape, modes.shape)
            for k in range(0, len(batch), self.chunk):
                part = batch[k : k + self.chunk]
                here = State(object_, modes, state.positions[part], state.flux[part], background)
                found = self._contribution(self.data, part, here, free, total)
                fitted.add(found)
                ratio, seen = ratio + found.ratio, seen + found.seen
                _follow(positions, flux, part, found, free)
                advance(len(part))
            change, turn = self._steps_of(total, object_, modes, batch, state.positions, free)
            moving = step.momentum * moving + change
            object_ = object_ + moving
            if free.probe:
                turning = step.momentum * turning + turn
                modes = modes + turning if self.lit is None else (modes + turning) * self.lit
        if free.positions:
            positions += (state.positions - positions).mean(axis=0)
            positions = self._inside(positions, state)
        if free.flux:
            flux /= np.sqrt(np.mean(flux**2))
        if free.background:
            background = background * np.where(seen > 0, ratio / np.maximum(seen, 1), 1).astype(np.float32)
        after = State(object_, modes, positions, flux, background)
        return after, _Motion(moving, turning), fitted

    def _steps_of(
        self,
        total: Sums,
        object_: np.ndarray,
        modes: np.ndarray,
        batch: np.ndarray,
        positions: np.ndarray,
        free: Freedom,
    ) -> tuple[np.ndarray, np.ndarray]:
        """``α_O ΔO`` and ``α_P ΔP`` of a batch."""
        change = total.back / (total.light + self.damping * total.light.max())
        of_object = np.vdot(change, total.back).real, float(np.sum(np.abs(change) ** 2 * total.light))
        if not free.object:
            of_object = 0.0, of_object[1]
            change = np.zeros_like(change)
        if not free.probe:
            return np.complex64(of_object[0] / max(of_object[1], 1e-30)) * change, np.zeros_like(modes)
        turn = total.turned / (total.seen_object + self.damping * total.seen_object.max())
        of_probe = np.vdot(turn, total.turned).real, float(np.sum(np.abs(turn) ** 2 * total.seen_object))
        both = np.sum(modes.conj() * turn, axis=0)
        cross, whole = 0.0, _corners(positions[batch])
        for k in range(0, len(batch), self.chunk):
            corners = whole[k : k + self.chunk]
            changes = inner_windows(change, corners, self.data.N)
            windows = inner_windows(object_, corners, self.data.N)
            cross += float(np.vdot(np.einsum("jyx,jyx->yx", changes, windows.conj()), both).real)
        matrix = np.array([[of_object[1], cross], [cross, of_probe[1]]])
        matrix += np.diag(1e-3 * np.diag(matrix) + 1e-30)
        lengths = np.linalg.solve(matrix, [of_object[0], of_probe[0]]).astype(np.float32)
        return lengths[0] * change, lengths[1] * turn

    def _contribution(
        self, data: Dataset, part: np.ndarray, here: State, free: Freedom, total: Sums | None = None
    ) -> Found:
        """What some patterns say, added to a total; the chunk is filled up with patterns of no light."""
        short = self.chunk - len(part)
        corners = _corners(here.positions)
        windows = inner_windows(here.object, corners, data.N)
        ours = np.float32(self.data.normalisation / data.normalisation)
        x = ours * np.fft.ifftshift(data.measured(part), axes=(-2, -1))
        arrays: tuple[np.ndarray, ...] = (
            windows,
            (here.positions - corners).astype(np.float32),
            here.flux,
            x,
        )
        if short:
            arrays = tuple(np.concatenate([a, np.zeros((short, *a.shape[1:]), a.dtype)]) for a in arrays)
        out = self._compiled(free, bool(arrays[1].any()))(
            *map(tf.constant, arrays), tf.constant(here.modes), tf.constant(here.background)
        )
        values = {key: value.numpy() for key, value in out.items()}
        n = len(part)
        if total is not None:
            add_windows_to(total.back, values["back"][:n], corners)
            add_windows_to(total.light, values["light"][:n], corners)
            total.turned += values["turned"]
            total.seen_object += values["seen_object"]
        return Found(
            values["moves"][:n].astype(np.float64),
            values["brighter"][:n],
            values["ratio"],
            values["seen"],
            float(values["deviance"]),
            *(float(values[key]) for key in ("residual", "measured", "surplus", "energy")),
        )

    def _compiled(self, free: Freedom, shifted: bool) -> Callable:
        key = (free.probe, free.positions, shifted)
        if key not in self._steps:
            f = self.data.photon_amplitude
            photon = f if self.noise == "poisson" else None
            limit = f / 2 if self.noise == "robust" and f is not None else None  # √n has the spread ½
            one = self.data.normalisation if self.data.counts else None
            step = partial(
                contribution, photon=photon, limit=limit, one=one, probe=key[0], moves=key[1], shifted=shifted
            )
            self._steps[key] = tf.function(
                step, jit_compile=self.compile_xla, reduce_retracing=False, autograph=False
            )
        return self._steps[key]

    def _judged(self, places: State, state: State, free: Freedom) -> tuple[float, float, State]:
        """What decides about the judging patterns, their R-factor, and where they are and how bright."""
        data, fitted, deviance, pixels = self.judge, Fit(), 0.0, 0.0
        positions, flux = places.positions.copy(), places.flux.copy()
        for k in range(0, len(positions), self.chunk):
            part = np.arange(k, min(k + self.chunk, len(positions)))
            here = replace(state, positions=places.positions[part], flux=places.flux[part])
            found = self._contribution(data, part, here, Freedom(False, free.positions))
            fitted.add(found)
            deviance, pixels = deviance + found.deviance, pixels + float(found.seen.sum())
            _follow(positions, flux, part, found, free)
        positions = self._inside(positions, state)
        score = deviance / max(pixels, 1) if self.by_deviance and self.data.counts else fitted.r_factor
        return score, fitted.r_factor, replace(state, positions=positions, flux=flux)


@dataclass(frozen=True, eq=False)
class _Map:
    """Positions less the first ones as a linear function of 1, row, column, ``(3, 2)``; its last change."""

    factors: np.ndarray
    change: np.ndarray


@dataclass(frozen=True, eq=False)
class _Motion:
    """The last changes of object and modes."""

    object: np.ndarray
    modes: np.ndarray

    @classmethod
    def none(cls, state: State) -> _Motion:
        return cls(np.zeros_like(state.object), np.zeros_like(state.modes))


def _settled(state: State, motion: _Motion, power: float) -> tuple[State, _Motion]:
    """The same far fields with the power that the probe had, and modes orthogonal."""
    modes, turning = state.modes, motion.modes
    if len(modes) > 1:
        modes, unitary = orthogonal_modes(modes)
        turning = np.tensordot(unitary, turning, 1).astype(np.complex64)
    scale = np.float32(np.sqrt(power / np.sum(np.abs(modes) ** 2)))
    changed = replace(state, object=state.object / scale, modes=scale * modes)
    return changed, _Motion(motion.object / scale, scale * turning)


def _follow(positions: np.ndarray, flux: np.ndarray, part: np.ndarray, found: Found, free: Freedom) -> None:
    """Move some patterns, and change their flux half-way to what fits best; in place."""
    if free.positions:
        positions[part] += FARTHER * np.clip(found.moves, -MOVE, MOVE)
    if free.flux:
        flux[part] *= 1 + (found.brighter - 1) / 2


def _corners(positions: np.ndarray) -> np.ndarray:
    return np.floor(positions + 0.5).astype(np.int64)


def _some_background(data: Dataset) -> np.ndarray:
    """What the search for one starts from, as its steps multiply: half of the darkest pixels, uniform."""
    mean = data.normalisation**2 * data.amplitudes.statistics.mean_intensity
    seen = mean if data.good is None else mean[data.good]
    start = 0.5 * np.quantile(seen, DARKEST) + 1e-6 * seen.mean()
    return np.full((data.N, data.N), start, np.float32)
