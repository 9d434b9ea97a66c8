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

from ptycho import physics
from ptycho.networks.losses import poisson_deviance
from ptycho.reconstruction.refinement import CHUNK_PIXELS, Advance
from ptycho.scan.dataset import Dataset
from ptycho.scan.windows import add_windows_to, inner_windows

DAMPING = 0.5  # β
UPDATES = 12  # batches of an early pass
MOVE = 0.3  # pixels, the largest change of a position in a pass
WEAK = 0.03  # power of a mode that is made where none is known
RESTART = 1.02  # without momentum, when a pass has met an R-factor so much above that of the one before
DARKEST = 0.05  # of the pixels, that a background is first told by

NOISE = {
    "amplitude": "√n is normal, with one variance: the fastest from afar, biased where photons are few",
    "poisson": "photons are what they are; as amplitude where they are many, or not known",
    "robust": "as amplitude, but what photons cannot explain counts by its size, not by its square",
}


@dataclass(frozen=True, eq=False)
class State:
    """What explains the patterns of a scan, in the normalised units of its dataset.

    Attributes:
        object: ``(M, M)`` complex64.
        modes: ``s·f·P``, ``(K, N, N)`` complex64, the strongest first.
        positions: ``(J, 2)`` float64, top-left samples.
        flux: c, ``(J,)`` float32.
        background: b, ``(N, N)`` float32, normalised intensity, zero frequency at sample 0.
    """

    object: np.ndarray
    modes: np.ndarray
    positions: np.ndarray
    flux: np.ndarray
    background: np.ndarray

    @classmethod
    def of(cls, data: Dataset, object_: np.ndarray, modes: int | None = None) -> State:
        """That of a dataset, with an object ``(M, M)`` and so many modes; None: those that it has."""
        known = data.model_probe.reshape(-1, data.N, data.N)
        wanted = len(known) if modes is None else modes
        return cls(
            object_.astype(np.complex64),
            more_modes(known, wanted)[:wanted],
            data.positions.astype(np.float64),
            np.ones(len(data.positions), np.float32) if data.flux is None else data.flux,
            _background(data),
        )


def explained(data: Dataset, state: State, normalisation: float, group_size: int) -> Dataset:
    """A dataset with the probe, positions, flux and background of a state; groups of the nearest ones.

    Args:
        normalisation: f of the dataset in whose units the state is.
    """
    scale = data.photon_scale * normalisation
    weaker, dark = state.modes[1:] / scale, state.background / normalisation**2
    positions = state.positions.astype(np.float32)
    changed = replace(
        data,
        probe=(state.modes[0] / scale).astype(np.complex64),
        weaker_modes=weaker.astype(np.complex64) if len(weaker) else None,
        positions=positions,
        flux=None if np.all(state.flux == 1) else state.flux.astype(np.float32),
        background=np.fft.fftshift(dark).astype(np.float32) if dark.any() else None,
        exact=data.exact or bool(np.any(positions != np.round(positions))),
        neighbours=None,
    )
    return changed.regrouped(group_size)


@dataclass(frozen=True)
class Freedom:
    """What is found; the rest is taken as known."""

    probe: bool = True
    positions: bool = False
    flux: bool = False
    background: bool = False
    object: bool = True


@dataclass(frozen=True)
class Pass:
    """One way through all patterns: in so many batches, with momentum μ, and what is free in it."""

    batches: int
    momentum: float
    free: Freedom


def from_scratch(passes: int, free: Freedom) -> list[Pass]:
    """Passes from a constant object: the object alone, then with the probe, then everything that is free."""
    probe = replace(free, positions=False)
    early = [Pass(UPDATES, 0.0, Freedom(False))] + [Pass(UPDATES, 0.0, probe)] * 4
    return (early + [Pass(3, 0.8, probe)] * 5 + [Pass(3, 0.8, free)] * max(passes - 10, 0))[:passes]


def continued(passes: int, free: Freedom) -> list[Pass]:
    """Passes that go on from :func:`from_scratch`."""
    return ([Pass(3, 0.8, free)] * (passes // 2) + [Pass(1, 0.9, free)] * passes)[:passes]


def from_an_object(passes: int, free: Freedom) -> list[Pass]:
    """Passes from an object that explains the patterns well: all else is fitted to it, then it is free."""
    others = replace(free, object=False)
    first = 6 if others != Freedom(False, object=False) else 0
    return ([Pass(1, 0.5, others)] * first + [Pass(1, 0.9, free)] * max(passes - first, 0))[:passes]


def more_modes(known: np.ndarray, count: int) -> np.ndarray:
    """At least ``count`` modes ``(K, N, N)``: the known ones, and products of the strongest with x, y, xy, ….

    Each new one has ``WEAK`` of the strongest one's power and is orthogonal to all others.
    """
    N, modes = known.shape[-1], list(known)
    axis = np.arange(N) - N / 2
    powers = [(p, total - p) for total in range(1, 8) for p in range(total + 1)]
    for row, col in powers[: max(count - len(known), 0)]:
        made = known[0] * (axis[:, None] ** row * axis[None, :] ** col)
        for mode in orthogonal(np.stack(modes))[0]:
            made = made - mode * (np.vdot(mode, made) / max(np.vdot(mode, mode).real, 1e-30))
        scale = np.sqrt(WEAK * np.sum(np.abs(known[0]) ** 2) / np.sum(np.abs(made) ** 2))
        modes.append(scale * made)
    return np.stack(modes).astype(np.complex64)


def orthogonal(modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same partially coherent probe in orthogonal modes, the strongest first; and the unitary ``(K, K)``.

    ``P'_k = Σ_m U_km P_m`` leaves ``Σ_m P_m(x) P̄_m(y)`` as it is.
    """
    flat = modes.reshape(len(modes), -1)
    values, vectors = np.linalg.eigh((flat @ flat.conj().T).astype(np.complex128))
    unitary = vectors[:, np.argsort(-values)].conj().T
    return np.tensordot(unitary, modes, 1).astype(np.complex64), unitary


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
    """

    data: Dataset
    judge: Dataset
    seed: int
    noise: str = "poisson"
    by_deviance: bool = False
    compile_xla: bool = True

    def __post_init__(self) -> None:
        fitting = max(1, CHUNK_PIXELS // self.data.N**2)
        self.chunk = min(fitting, -(-len(self.data.positions) // UPDATES))
        self._steps: dict[tuple[bool, bool], Callable] = {}

    def run(
        self, start: State, plan: list[Pass], patience: int, advance: Advance = lambda patterns: None
    ) -> Solution:
        """The state that explains the judging patterns best, the start among the candidates.

        It ends early when none of the last ``patience`` passes was the best.
        """
        state, motion, rng = start, _Motion.none(start), np.random.default_rng([self.seed, 4])
        power, before = float(np.sum(np.abs(start.modes) ** 2)), np.inf
        places = State.of(self.judge, start.object)
        score, r_factor, places = self._judged(places, start, Freedom(False))
        best, best_places, course, r_factors = start, places, [score], [r_factor]
        if any(step.free.background for step in plan) and not start.background.any():
            state = replace(start, background=_some_background(self.data))
        for step in plan:
            state, motion, fitted = self._pass(state, motion, step, rng, advance)
            state, motion = _settled(state, motion, power)
            if fitted > RESTART * before:
                motion = _Motion.none(state)
            before = fitted
            judging = replace(state, positions=places.positions, flux=places.flux)
            score, r_factor, places = self._judged(places, state, step.free)
            course.append(score)
            r_factors.append(r_factor)
            if score <= min(course):
                best, best_places = state, judging
            if min(course[-patience:]) > min(course):
                break
        return Solution(best, best_places, course, r_factors)

    # ---- one pass

    def _pass(
        self, state: State, motion: _Motion, step: Pass, rng: np.random.Generator, advance: Advance
    ) -> tuple[State, _Motion, float]:
        """The state after a pass, and the R-factor on the way."""
        count, free = len(state.positions), step.free
        order = rng.permutation(count)
        object_, modes, background = state.object.copy(), state.modes.copy(), state.background
        positions, flux = state.positions.copy(), state.flux.copy()
        ratio, residual, measured = np.zeros_like(background), 0.0, 0.0
        seen = np.zeros_like(background)
        moving, turning = motion.object, motion.modes
        for batch in np.array_split(order, min(step.batches, count)):
            total = _Sums.zeros(object_.shape, modes.shape)
            for k in range(0, len(batch), self.chunk):
                part = batch[k : k + self.chunk]
                here = State(object_, modes, state.positions[part], state.flux[part], background)
                found = self._contribution(self.data, part, here, free, total)
                residual, measured = residual + found.residual, measured + found.measured
                ratio, seen = ratio + found.ratio, seen + found.seen
                _follow(positions, flux, part, found, free)
                advance(len(part))
            change, turn = self._steps_of(total, object_, modes, batch, state.positions, free)
            moving = step.momentum * moving + change
            object_ = object_ + moving
            if free.probe:
                turning = step.momentum * turning + turn
                modes = modes + turning
        if free.positions:
            positions += (state.positions - positions).mean(axis=0)
            positions = np.clip(positions, 0, object_.shape[0] - self.data.N - 1e-3)
        if free.flux:
            flux /= np.sqrt(np.mean(flux**2))
        if free.background:
            background = background * np.where(seen > 0, ratio / np.maximum(seen, 1), 1).astype(np.float32)
        after = State(object_, modes, positions, flux, background)
        return after, _Motion(moving, turning), residual / measured

    def _steps_of(
        self,
        total: _Sums,
        object_: np.ndarray,
        modes: np.ndarray,
        batch: np.ndarray,
        positions: np.ndarray,
        free: Freedom,
    ) -> tuple[np.ndarray, np.ndarray]:
        """``α_O ΔO`` and ``α_P ΔP`` of a batch."""
        change = total.back / (total.light + DAMPING * total.light.max())
        of_object = np.vdot(change, total.back).real, float(np.sum(np.abs(change) ** 2 * total.light))
        if not free.object:
            of_object = 0.0, of_object[1]
            change = np.zeros_like(change)
        if not free.probe:
            return np.complex64(of_object[0] / max(of_object[1], 1e-30)) * change, np.zeros_like(modes)
        turn = total.turned / (total.seen_object + DAMPING * total.seen_object.max())
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
        self, data: Dataset, part: np.ndarray, here: State, free: Freedom, total: _Sums | None = None
    ) -> _Found:
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
        out = self._compiled(free)(
            *map(tf.constant, arrays), tf.constant(here.modes), tf.constant(here.background)
        )
        values = {key: value.numpy() for key, value in out.items()}
        n = len(part)
        if total is not None:
            add_windows_to(total.back, values["back"][:n], corners)
            add_windows_to(total.light, values["light"][:n], corners)
            total.turned += values["turned"]
            total.seen_object += values["seen_object"]
        return _Found(
            values["moves"][:n].astype(np.float64),
            values["brighter"][:n],
            values["ratio"],
            values["seen"],
            float(values["deviance"]),
            float(values["residual"]),
            float(values["measured"]),
        )

    def _compiled(self, free: Freedom) -> Callable:
        key = (free.probe, free.positions)
        if key not in self._steps:
            f = self.data.photon_amplitude
            photon = f if self.noise == "poisson" else None
            limit = f / 2 if self.noise == "robust" and f is not None else None  # √n has the spread ½
            one = self.data.normalisation if self.data.counts else None
            step = partial(contribution, photon=photon, limit=limit, one=one, probe=key[0], moves=key[1])
            self._steps[key] = tf.function(step, jit_compile=self.compile_xla, reduce_retracing=False)
        return self._steps[key]

    def _judged(self, places: State, state: State, free: Freedom) -> tuple[float, float, State]:
        """What decides about the judging patterns, their R-factor, and where they are and how bright."""
        data, residual, measured, deviance, pixels = self.judge, 0.0, 0.0, 0.0, 0.0
        positions, flux = places.positions.copy(), places.flux.copy()
        for k in range(0, len(positions), self.chunk):
            part = np.arange(k, min(k + self.chunk, len(positions)))
            here = replace(state, positions=places.positions[part], flux=places.flux[part])
            found = self._contribution(data, part, here, Freedom(False, free.positions))
            residual, measured = residual + found.residual, measured + found.measured
            deviance, pixels = deviance + found.deviance, pixels + float(found.seen.sum())
            _follow(positions, flux, part, found, free)
        positions = np.clip(positions, 0, state.object.shape[0] - data.N - 1e-3)
        r_factor = residual / measured
        score = deviance / max(pixels, 1) if self.by_deviance and self.data.counts else r_factor
        return score, r_factor, replace(state, positions=positions, flux=flux)


def contribution(
    windows: tf.Tensor,
    fractions: tf.Tensor,
    flux: tf.Tensor,
    measured: tf.Tensor,
    modes: tf.Tensor,
    background: tf.Tensor,
    *,
    photon: float | None,
    limit: float | None,
    one: float | None,
    probe: bool,
    moves: bool,
) -> dict[str, tf.Tensor]:
    """What patterns say about the object, the probe, their positions, their flux and the background.

    Args:
        windows: the object at their whole pixels, ``(B, N, N)`` complex64.
        fractions: ``(B, 2)``, what is left of the positions; flux: ``(B,)``, zero where there is no pattern.
        measured: x, ``(B, N, N)`` float32, zero frequency at sample 0; negative: not measured.
        modes: ``(K, N, N)`` complex64; background: ``(N, N)``.
        photon, limit: as in :func:`ptycho.physics.far_field_step`.
        one: amplitude of one photon, for the deviance; None: there is none.
        probe, moves: compute what the probe and the positions need; zeros are given without.
    """
    ramp = physics.shift_ramp(fractions, modes)  # (B, 1, N, N)
    moved = tf.signal.ifft2d(tf.signal.fft2d(modes) * ramp)
    lit = physics.scaled(moved, flux[:, None, None, None])
    far_fields = physics.far_field(lit * windows[:, None])
    light = physics.total_light(far_fields, True, background)
    expected = tf.sqrt(light)
    seen = tf.cast((measured >= 0) & (flux > 0)[:, None, None], tf.float32)
    step = physics.far_field_step(far_fields, measured, photon, True, background, limit)
    change = physics.near_field(step)  # χ
    x = seen * measured
    found = {
        "back": physics.over_modes(tf.math.conj(lit) * change, True),
        "light": physics.over_modes(physics.intensity(lit), True),
        "residual": tf.reduce_sum(seen * tf.abs(expected - measured)),
        "measured": tf.reduce_sum(x),
        "deviance": tf.zeros(()),
        "brighter": tf.reduce_sum(x * expected, (1, 2)) / (tf.reduce_sum(seen * light, (1, 2)) + 1e-20),
        "ratio": tf.reduce_sum(tf.square(x) / tf.maximum(light, 1e-12), 0),
        "seen": tf.reduce_sum(seen, 0),
        "turned": tf.zeros_like(modes),
        "seen_object": tf.zeros_like(background),
        "moves": tf.zeros_like(fractions),
    }
    if one is not None:
        as_seen = tf.where(seen > 0, measured, expected)
        mean = poisson_deviance(expected, as_seen, tf.constant(one, tf.float32))
        found["deviance"] = mean * tf.cast(tf.size(measured), tf.float32)
    if probe:
        weight = flux[:, None, None, None]
        turned = tf.signal.fft2d(physics.scaled(tf.math.conj(windows)[:, None] * change, weight))
        found["turned"] = tf.signal.ifft2d(tf.reduce_sum(turned * tf.math.conj(ramp), 0))
        found["seen_object"] = tf.reduce_sum(physics.intensity(windows) * tf.square(weight[:, 0]), 0)
    if moves:
        found["moves"] = tf.stack([_move(windows, lit, change, axis) for axis in (1, 2)], -1)
    return found


def _move(windows: tf.Tensor, lit: tf.Tensor, change: tf.Tensor, axis: int) -> tf.Tensor:
    """``Re Σ conj(P ∂O) χ / Σ |P ∂O|²`` along one axis, ``(B,)``."""
    slope = lit * ((tf.roll(windows, -1, axis) - tf.roll(windows, 1, axis)) / 2)[:, None]
    along = tf.reduce_sum(tf.math.real(tf.math.conj(slope) * change), (1, 2, 3))
    return along / (tf.reduce_sum(physics.intensity(slope), (1, 2, 3)) + 1e-6)


@dataclass(frozen=True, eq=False)
class _Found:
    """Of some patterns: for each, for each pixel, and altogether; see :func:`contribution`."""

    moves: np.ndarray
    brighter: np.ndarray
    ratio: np.ndarray
    seen: np.ndarray
    deviance: float
    residual: float
    measured: float


@dataclass(eq=False)
class _Sums:
    """Over a batch: numerators and denominators of ΔO ``(M, M)`` and ΔP ``(K, N, N)``."""

    back: np.ndarray
    light: np.ndarray
    turned: np.ndarray
    seen_object: np.ndarray

    @classmethod
    def zeros(cls, canvas: tuple[int, ...], modes: tuple[int, ...]) -> _Sums:
        return cls(
            np.zeros(canvas, np.complex64),
            np.zeros(canvas, np.float32),
            np.zeros(modes, np.complex64),
            np.zeros(modes[1:], np.float32),
        )


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
        modes, unitary = orthogonal(modes)
        turning = np.tensordot(unitary, turning, 1).astype(np.complex64)
    scale = np.float32(np.sqrt(power / np.sum(np.abs(modes) ** 2)))
    changed = replace(state, object=state.object / scale, modes=scale * modes)
    return changed, _Motion(motion.object / scale, scale * turning)


def _follow(positions: np.ndarray, flux: np.ndarray, part: np.ndarray, found: _Found, free: Freedom) -> None:
    """Move some patterns, and change their flux, half-way to where they fit best; in place."""
    if free.positions:
        positions[part] += np.clip(found.moves, -MOVE, MOVE) / 2
    if free.flux:
        flux[part] *= 1 + (found.brighter - 1) / 2


def _corners(positions: np.ndarray) -> np.ndarray:
    return np.floor(positions + 0.5).astype(np.int64)


def _background(data: Dataset) -> np.ndarray:
    """The dataset's, in the units of a state; zero where none is known."""
    known = data.model_background
    return np.zeros((data.N, data.N), np.float32) if known is None else known


def _some_background(data: Dataset) -> np.ndarray:
    """What the search for one starts from, as its steps multiply: half of the darkest pixels, uniform."""
    mean = data.normalisation**2 * data.amplitudes.statistics.mean_intensity
    seen = mean if data.good is None else mean[data.good]
    start = 0.5 * np.quantile(seen, DARKEST) + 1e-6 * seen.mean()
    return np.full((data.N, data.N), start, np.float32)
