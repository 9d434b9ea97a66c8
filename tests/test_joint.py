"""The joint solver: every sum by loops and finite differences, and scans whose truth it has to find."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import reference
import tensorflow as tf

from ptycho.reconstruction import contribution as contribution_of
from ptycho.reconstruction import joint
from ptycho.reconstruction.contribution import contribution
from ptycho.reconstruction.joint import DAMPING, MOVE, NOISE, JointSolver
from ptycho.reconstruction.joint_state import (
    WEAK,
    Freedom,
    Pass,
    State,
    explained,
    from_an_object,
    from_scratch,
    more_modes,
)
from ptycho.reconstruction.misfit import misfit
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import orthogonal_modes

N, M = 32, 72
EVERYTHING = Freedom(True, True, True, True)


def complex64(rng, *shape):
    return reference.random_complex(rng, shape).astype(np.complex64)


def far(waves):
    return np.fft.fft2(waves, norm="ortho")


def near(far_fields):
    return np.fft.ifft2(far_fields, norm="ortho")


def power(modes):
    return np.sum(np.abs(modes) ** 2, axis=(-2, -1))


# ---- modes


def density(modes):
    """``Σ_m P_m(x) P̄_m(y)`` by a loop over the modes."""
    total = 0
    for mode in modes:
        total = total + np.outer(mode.ravel(), mode.ravel().conj())
    return total


@pytest.mark.parametrize("count", [1, 2, 4])
def test_orthogonal_modes_are_the_same_light(count):
    modes = complex64(np.random.default_rng(0), count, 5, 5)
    found, unitary = orthogonal_modes(modes)
    np.testing.assert_allclose(density(found), density(modes), atol=1e-4)
    gram = np.einsum("kyx,lyx->kl", found.conj(), found)
    np.testing.assert_allclose(gram, np.diag(power(found)), atol=1e-3)
    assert np.all(np.diff(power(found)) <= 0)
    np.testing.assert_allclose(unitary @ unitary.conj().T, np.eye(count), atol=1e-10)
    np.testing.assert_allclose(np.einsum("km,myx->kyx", unitary, modes), found, atol=1e-4)


@pytest.mark.parametrize("known, count", [(1, 1), (1, 2), (1, 6), (2, 4), (3, 2)])
def test_more_modes_are_orthogonal_and_weak(known, count):
    given = complex64(np.random.default_rng(1), known, 9, 9)
    found = more_modes(given, count)
    assert found.shape == (max(known, count), 9, 9) and found.dtype == np.complex64
    np.testing.assert_array_equal(found[:known], given)
    np.testing.assert_allclose(power(found[known:]), WEAK * power(given[0]), rtol=1e-4)
    for made, other in itertools.combinations(range(len(found) - 1, -1, -1), 2):
        if made >= known:
            overlap = abs(np.vdot(found[made], found[other]))
            assert overlap < 1e-3 * np.sqrt(power(found[made]) * power(found[other]))


# ---- what some patterns say

SIDE = 9  # odd


def chunk_of(rng, count=3, modes=2, photon=None):
    """The arrays of :func:`contribution`: bad pixels, flux, and a pattern that only fills up."""
    scale = 1.0 if photon is None else photon
    measured = np.sqrt(rng.poisson(8, (count, SIDE, SIDE))).astype(np.float32) * scale
    measured[:, 2, 3:5], measured[1, 7] = -1, -1
    measured[-1] = 0
    flux = rng.uniform(0.6, 1.5, count).astype(np.float32)
    flux[-1] = 0
    return {
        "windows": complex64(rng, count, SIDE, SIDE),
        "fractions": rng.uniform(-0.5, 0.5, (count, 2)).astype(np.float32),
        "flux": flux,
        "measured": measured,
        "modes": complex64(rng, modes, SIDE, SIDE),
        "background": rng.uniform(0.1, 2, (SIDE, SIDE)).astype(np.float32),
    }


def ramp_of(fraction, side=SIDE):
    q = np.fft.fftfreq(side)
    return np.exp(-2j * np.pi * (fraction[0] * q[:, None] + fraction[1] * q[None, :]))


def waves_of(values, j):
    """``c P_m(x − s)`` and the far fields of the j-th pattern."""
    lit = [values["flux"][j] * near(far(mode) * ramp_of(values["fractions"][j])) for mode in values["modes"]]
    return np.array(lit), far(np.array(lit) * values["windows"][j])


def slow_contribution(values, photon=None, limit=None, one=None):
    """The same as :func:`contribution`, pattern by pattern and pixel by pixel, in double precision."""
    count, side = len(values["windows"]), values["windows"].shape[-1]
    found = {
        "back": np.zeros((count, side, side), complex),
        "light": np.zeros((count, side, side)),
        "residual": 0.0,
        "measured": 0.0,
        "surplus": 0.0,
        "energy": 0.0,
        "deviance": 0.0,
        "brighter": np.zeros(count),
        "ratio": np.zeros((side, side)),
        "seen": np.zeros((side, side)),
        "turned": np.zeros(values["modes"].shape, complex),
        "seen_object": np.zeros((side, side)),
        "moves": np.zeros((count, 2)),
    }
    for j in range(count):
        lit, far_fields = waves_of(values, j)
        window, step = values["windows"][j].astype(complex), np.zeros_like(far_fields)
        above = below = 0.0
        for p, q in np.ndindex(side, side):
            x, c = float(values["measured"][j, p, q]), values["flux"][j]
            total = np.sum(np.abs(far_fields[:, p, q]) ** 2) + values["background"][p, q]
            a = np.sqrt(total)
            if x < 0 or c == 0:
                continue
            change = x - a
            if photon is not None and x**2 / photon**2 < 10.5:
                change = (x**2 - a**2) / (2 * max(a, np.sqrt(0.05) * max(photon, x)))
            if limit is not None:
                change = max(-limit, min(limit, change))
            step[:, p, q] = change * far_fields[:, p, q] / np.sqrt(total + 1e-6)
            found["residual"] += abs(x - a)
            if one is not None:
                n, rate = x**2 / one**2, total / one**2
                found["deviance"] += 2 * (rate - n + (n * np.log(n / rate) if n else 0))
            found["measured"] += x
            found["surplus"] += (x**2 - total) ** 2
            found["energy"] += x**2
            found["ratio"][p, q] += x**2 / total
            found["seen"][p, q] += 1
            above, below = above + x * a, below + total
        chi = near(step)
        found["brighter"][j] = above / below if below else 0
        slopes = [
            (np.roll(window, -1, axis) - np.roll(window, 1, axis)) / 2 for axis in (0, 1)
        ]  # of the object
        for axis in (0, 1):
            along = np.sum([(np.conj(p * slopes[axis]) * x).real for p, x in zip(lit, chi, strict=True)])
            size = np.sum([np.abs(p * slopes[axis]) ** 2 for p in lit])
            found["moves"][j, axis] = along / (size + 1e-6)
        for m, mode in enumerate(lit):
            found["back"][j] += mode.conj() * chi[m]
            found["light"][j] += np.abs(mode) ** 2
            back = values["flux"][j] * window.conj() * chi[m]
            found["turned"][m] += near(far(back) * ramp_of(values["fractions"][j]).conj())
        found["seen_object"] += values["flux"][j] ** 2 * np.abs(window) ** 2
    return found


def fast_contribution(values, photon=None, limit=None, one=None, probe=True, moves=True, shifted=True):
    out = contribution(
        **{key: tf.constant(value) for key, value in values.items()},
        photon=photon,
        limit=limit,
        one=one,
        probe=probe,
        moves=moves,
        shifted=shifted,
    )
    return {key: value.numpy() for key, value in out.items()}


@pytest.mark.parametrize("photon, limit", [(None, None), (0.4, None), (None, 0.5), (0.4, 0.1)])
@pytest.mark.parametrize("modes", [1, 3])
def test_every_sum_by_loops(modes, photon, limit):
    values = chunk_of(np.random.default_rng(2), modes=modes, photon=photon)
    one = None if photon is None and limit is None else 0.4
    expected, found = (say(values, photon, limit, one) for say in (slow_contribution, fast_contribution))
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(found[key], value, atol=2e-5 * scale, rtol=1e-4, err_msg=key)
        assert scale > 1e-3 or (key, one) == ("deviance", None), key


def test_whole_positions_need_no_shift():
    values = chunk_of(np.random.default_rng(8))
    values["fractions"] = np.zeros_like(values["fractions"])
    expected, found = fast_contribution(values), fast_contribution(values, shifted=False)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=2e-4 * np.abs(value).max(), err_msg=key)


def test_what_is_not_wanted_is_zero():
    values = chunk_of(np.random.default_rng(3))
    whole, part = fast_contribution(values), fast_contribution(values, probe=False, moves=False)
    for key, value in part.items():
        if key in ("turned", "seen_object", "moves"):
            assert not value.any() and value.shape == whole[key].shape
        else:
            np.testing.assert_allclose(value, whole[key], rtol=1e-5, atol=1e-5)


def energy(values):
    """``Σ (a − x)²`` over the measured pixels."""
    total = 0.0
    for j in np.flatnonzero(values["flux"]):
        _, far_fields = waves_of(values, j)
        a = np.sqrt(np.sum(np.abs(far_fields) ** 2, axis=0) + values["background"])
        x = values["measured"][j]
        total += np.sum(np.where(x >= 0, (a - x) ** 2, 0))
    return total


@pytest.mark.parametrize("key, gradient", [("windows", "back"), ("modes", "turned")])
def test_the_back_projection_is_minus_half_the_gradient(key, gradient):
    """``dE = −2 Re ⟨back, d⟩`` for ``E = Σ (a − x)²``, by central differences."""
    rng = np.random.default_rng(4)
    values = chunk_of(rng)
    found = fast_contribution(values)[gradient]
    for _ in range(4):
        change, h = reference.random_complex(rng, values[key].shape), 1e-5
        ahead, behind = (energy(values | {key: values[key] + s * change}) for s in (h, -h))
        slope = (ahead - behind) / (2 * h)
        assert slope == pytest.approx(-2 * np.vdot(found, change).real, rel=2e-3, abs=0.05)
        assert abs(slope) > 0.1


# ---- scans with a known truth


def beam(defocus, row=0.0, col=0.0, tilt=0.0):
    """A band-limited focus, ``defocus`` out of focus, moved and tilted; power one."""
    q = np.fft.fftfreq(N)
    squared = (q[:, None] - tilt) ** 2 + q[None, :] ** 2
    pupil = np.exp(-((squared / 0.16**2) ** 3) - 1j * np.pi * defocus * squared)
    pupil = pupil * np.exp(-2j * np.pi * (row * q[:, None] + col * q[None, :]))
    found = np.fft.fftshift(np.fft.ifft2(pupil))
    return found / np.sqrt(power(found))


def smooth_object():
    """Complex, band-limited, ``(M, M)``: amplitude 0.5 to 1, phase ±1 rad."""
    rng = np.random.default_rng(1)
    q = np.hypot(*np.meshgrid(np.fft.fftfreq(M), np.fft.fftfreq(M), indexing="ij"))
    low_pass = np.exp(-((q / 0.12) ** 2))
    amplitude, phase = (np.fft.ifft2(np.fft.fft2(rng.normal(size=(M, M))) * low_pass).real for _ in "ab")
    return (0.75 + 0.25 * amplitude / abs(amplitude).max()) * np.exp(1j * phase / abs(phase).max())


def cut_at(image, position):
    """``image(r + x)`` by a phase ramp on its transform: exact for a periodic band-limited image."""
    q = np.fft.fftfreq(M)
    ramp = np.exp(2j * np.pi * (position[0] * q[:, None] + position[1] * q[None, :]))
    return np.fft.ifft2(np.fft.fft2(image) * ramp)[:N, :N]


def scan_of(modes, photons=1e6, flux=1.0, background=0.0):
    """100 patterns at irregular positions, by an oracle that moves the object; Poisson counts.

    The dataset has the strongest mode and the true positions.
    """
    rng, truth = np.random.default_rng(2), smooth_object()
    grid = np.stack(np.meshgrid(np.arange(10), np.arange(10), indexing="ij"), -1).reshape(-1, 2)
    positions = (3.8 * grid + 2 + rng.uniform(-1, 1, grid.shape)).astype(np.float32)
    waves = np.stack([[mode * cut_at(truth, p) for mode in modes] for p in positions])
    clean = np.sum(np.abs(np.fft.fftshift(far(waves), axes=(-2, -1))) ** 2, axis=1)
    clean = clean * np.broadcast_to(flux, 100)[:, None, None] ** 2
    scale = np.sqrt(photons / clean.sum(axis=(1, 2)).mean())
    counts = rng.poisson(scale**2 * clean + background)
    return Dataset(
        amplitudes=np.sqrt(counts).astype(np.float32),
        positions=positions,
        image=np.zeros(100, np.int32),
        groups=np.arange(100, dtype=np.int32)[:, None],
        probe=modes[0].astype(np.complex64),
        photon_scale=float(scale),
        object_size=M,
        region_size=N + 1,
        objects=truth[None].astype(np.complex64),
        exact=True,
    )


OUT = np.arange(5, 100, 10)
IN = np.setdiff1d(np.arange(100), OUT)
FLAT = np.ones((M, M), np.complex64)
COMPILED = {}  # by the noise and the amplitude of a photon, so that runs share their executables


def solved(
    data, plan, modes=None, noise="amplitude", start=FLAT, patience=1000, seed=0, chunk=None, affine=False
):
    """What the solver finds, and the parts that it fitted and was judged by."""
    fitted, free = data.subset(IN, 1), data.subset(OUT, 1)
    solver = JointSolver(fitted, free, seed, noise, affine=affine)
    solver.chunk = chunk or solver.chunk
    solver._steps = COMPILED.setdefault((noise, fitted.photon_amplitude), {})
    return solver.run(State.of(fitted, start, modes), plan, patience), fitted, free


def likeness(a, b):
    """``|⟨a, b⟩|`` of two images or modes, one where they are proportional."""
    return abs(np.vdot(a, b)) / np.sqrt(power(a) * power(b))


def inside(image):
    """The part of an object that the scan lights well."""
    return image[14:58, 14:58]


@pytest.fixture(scope="module")
def scan():
    """One mode, 10⁶ photons, the truth throughout."""
    return scan_of([beam(35.0)])


def test_the_direction_of_a_move(scan):
    """Patterns at r, given as at r − δ: the move asked for is along δ, and all of it after some.

    A single one is shorter, as the phases of the far fields are kept.
    """
    delta, part = np.array([0.3, -0.15]), np.arange(44, 50)
    state = State.of(replace(scan, positions=np.float32(scan.positions - delta)), scan.objects[0])
    left = np.full((6, 2), delta)
    for step in range(25):
        moves = fast_contribution(state_arrays(scan, state, part), probe=False)["moves"]
        if step == 0:
            assert np.all(moves * delta > 0) and np.all(np.abs(moves) < np.abs(delta))
        positions = state.positions.copy()
        positions[part] += moves
        state, left = replace(state, positions=positions), left - moves
    np.testing.assert_allclose(left, 0, atol=0.03)


def state_arrays(data, state, part):
    """The arguments of :func:`contribution` for some patterns of a dataset."""
    whole = np.floor(state.positions[part] + 0.5).astype(int)
    windows = [state.object[r : r + N, c : c + N] for r, c in whole]
    return {
        "windows": np.array(windows),
        "fractions": (state.positions[part] - whole).astype(np.float32),
        "flux": state.flux[part],
        "measured": np.fft.ifftshift(data.measured(part), axes=(-2, -1)),
        "modes": state.modes,
        "background": state.background,
    }


@pytest.mark.parametrize("noise", NOISE)
def test_filling_up_a_chunk_changes_nothing(scan, noise):
    """Five patterns in a chunk of eight, against :func:`contribution` of the five alone, placed by loops."""
    f = scan.normalisation
    photon, limit = {"amplitude": (None, None), "poisson": (f, None), "robust": (None, f / 2)}[noise]
    state = State.of(scan, smooth_object(), 2)
    state = replace(state, flux=np.linspace(0.8, 1.2, 100, dtype=np.float32))
    state = replace(state, background=np.full((N, N), 0.01, np.float32))
    part = np.array([3, 50, 97, 4, 20])
    solver = JointSolver(scan, scan, 0, noise, compile_xla=False)
    solver.chunk = 8
    total = contribution_of.Sums.zeros((M, M), state.modes.shape)
    here = replace(state, positions=state.positions[part], flux=state.flux[part])
    found = solver._contribution(scan, part, here, EVERYTHING, total)
    expected = fast_contribution(state_arrays(scan, state, part), photon, limit, f)
    for key in ("moves", "brighter", "ratio", "seen", "deviance", "residual", "measured"):
        np.testing.assert_allclose(getattr(found, key), expected[key], rtol=1e-4, atol=1e-5, err_msg=key)
    for key in ("turned", "seen_object"):
        np.testing.assert_allclose(getattr(total, key), expected[key], rtol=1e-3, atol=1e-3, err_msg=key)
    for key in ("back", "light"):
        canvas = np.zeros((M, M), complex)
        for image, (row, col) in zip(expected[key], np.floor(here.positions + 0.5).astype(int), strict=True):
            canvas[row : row + N, col : col + N] += image
        np.testing.assert_allclose(getattr(total, key), canvas, rtol=1e-3, atol=1e-3, err_msg=key)


# ---- a pass by loops


def tiny(dataset_of, rng, count=6):
    """Six patterns of side 8 at whole positions, and a state with two modes."""
    positions = rng.integers(0, 7, (count, 2))
    probe = reference.random_complex(rng, (8, 8))
    data = dataset_of(
        positions,
        np.arange(count)[:, None],
        N=8,
        object_size=14,
        region_size=8,
        probe=probe,
        weaker_modes=complex64(rng, 1, 8, 8),
    )
    return data, State.of(data, complex64(rng, 14, 14))


@pytest.mark.parametrize("free", [Freedom(True), Freedom(False), Freedom(True, object=False)])
def test_a_pass_by_loops(dataset_of, free):
    """``α_O ΔO`` and ``α_P ΔP`` of one batch; the lengths from the least squares problem written out."""
    rng = np.random.default_rng(5)
    data, state = tiny(dataset_of, rng)
    solver = JointSolver(data, data, 0, "amplitude", compile_xla=False)
    found, _, fitted = solver._pass(
        state, joint._Motion.none(state), Pass(1, 0.0, free), np.random.default_rng(0), lambda n: None
    )
    f, corners = data.normalisation, data.positions.astype(int)
    values = {
        "windows": np.array([state.object[r : r + 8, c : c + 8] for r, c in corners]),
        "fractions": np.zeros((6, 2)),
        "flux": np.ones(6),
        "measured": f * np.fft.ifftshift(data.amplitudes[:], axes=(-2, -1)),
        "modes": state.modes.astype(complex),
        "background": np.zeros((8, 8)),
    }
    steps, back, light = [], np.zeros((14, 14), complex), np.zeros((14, 14))
    turned, seen = np.zeros((2, 8, 8), complex), np.zeros((8, 8))
    residual = 0.0
    for j, (r, c) in enumerate(corners):
        lit, far_fields = waves_of_side(values, j)
        a = np.sqrt(np.sum(np.abs(far_fields) ** 2, axis=0))
        residual += np.abs(a - values["measured"][j]).sum()
        chi = near((values["measured"][j] - a) * far_fields / np.sqrt(a**2 + 1e-6))
        steps.append(chi)
        for m in range(2):
            back[r : r + 8, c : c + 8] += lit[m].conj() * chi[m]
            light[r : r + 8, c : c + 8] += np.abs(lit[m]) ** 2
            turned[m] += values["windows"][j].conj() * chi[m]
        seen += np.abs(values["windows"][j]) ** 2
    change = back / (light + DAMPING * light.max()) * free.object
    turn = turned / (seen + DAMPING * seen.max()) * free.probe
    moved = np.array([state.modes * change[r : r + 8, c : c + 8] for r, c in corners]).ravel()
    turning = np.array([turn * window for window in values["windows"]]).ravel()
    matrix = np.array([[np.vdot(a, b).real for b in (moved, turning)] for a in (moved, turning)])
    matrix += np.diag(1e-3 * np.diag(matrix)) * free.probe + 1e-12 * np.eye(2)
    goal = [np.vdot(a, np.array(steps).ravel()).real for a in (moved, turning)]
    lengths = np.linalg.solve(matrix, goal)
    np.testing.assert_allclose(found.object, state.object + lengths[0] * change, atol=2e-3)
    np.testing.assert_allclose(found.modes, state.modes + lengths[1] * turn, rtol=1e-3, atol=2e-3)
    assert fitted.r_factor == pytest.approx(residual / values["measured"].sum(), rel=1e-4)
    assert free.object == bool(np.abs(found.object - state.object).max() > 1e-2)
    assert free.probe == bool(np.abs(found.modes - state.modes).max() > 1e-2)


def waves_of_side(values, j):
    lit = values["modes"]
    return lit, far(lit * values["windows"][j])


def test_momentum_adds_to_the_last_change(dataset_of):
    rng = np.random.default_rng(6)
    data, state = tiny(dataset_of, rng)
    solver = JointSolver(data, data, 0, "amplitude", compile_xla=False)
    last = joint._Motion(0.1 * complex64(rng, 14, 14), 0.1 * complex64(rng, 2, 8, 8))
    plain, _, _ = solver._pass(state, last, Pass(1, 0.0, Freedom()), np.random.default_rng(0), lambda n: None)
    found, motion, _ = solver._pass(
        state, last, Pass(1, 0.7, Freedom()), np.random.default_rng(0), lambda n: None
    )
    np.testing.assert_allclose(found.object, plain.object + 0.7 * last.object, atol=1e-4)
    np.testing.assert_allclose(found.modes, plain.modes + 0.7 * last.modes, atol=1e-4)
    np.testing.assert_allclose(motion.object, found.object - state.object, atol=1e-4)
    np.testing.assert_allclose(motion.modes, found.modes - state.modes, atol=1e-4)


def test_what_a_pass_does_with_moves_flux_and_background(scan, monkeypatch):
    """Moves are cut, halved and free of a mean; flux goes half the way and keeps its mean square; a pixel
    that nobody has seen keeps its background."""
    solver, state = JointSolver(scan, scan, 0), State.of(scan, smooth_object())
    state = replace(state, background=np.full((N, N), 2.0, np.float32))
    ask = np.where(np.arange(100)[:, None] % 2, [5.0, -0.1], [-5.0, 0.1])
    bright = np.where(np.arange(100) % 4, 1.2, 0.6)
    seen = np.ones((N, N))
    seen[3, 4] = 0

    def told(data, part, here, free, total=None):
        if total is not None:
            total.light += 1
        return contribution_of.Found(
            ask[part], bright[part], 3.0 * seen * len(part), seen * len(part), 9.0, 1.0, 4.0, 8.0, 2.0
        )

    monkeypatch.setattr(solver, "_contribution", told)
    nothing = joint._Motion.none(state)
    rng = np.random.default_rng(0)
    free = Freedom(False, True, True, True)
    found, _, fitted = solver._pass(state, nothing, Pass(4, 0.0, free), rng, lambda n: None)
    moved = found.positions - state.positions
    np.testing.assert_allclose(moved, 1.5 * np.clip(ask, -MOVE, MOVE), atol=1e-9)
    flux = (1 + bright) / 2
    np.testing.assert_allclose(found.flux, flux / np.sqrt(np.mean(flux**2)), rtol=1e-5)
    expected = np.full((N, N), 6.0)
    expected[3, 4] = 2.0
    np.testing.assert_allclose(found.background, expected)
    assert fitted.r_factor == 0.25 and fitted.misfit(0.5) == 16
    ask[:] = [0.2, 0.2]
    found, _, _ = solver._pass(state, nothing, Pass(4, 0.0, free), rng, lambda n: None)
    np.testing.assert_allclose(found.positions, state.positions, atol=1e-9)
    edge = replace(state, positions=np.where(np.arange(100)[:, None] < 50, [0.01], [M - N - 0.01] * 2))
    ask[:] = np.where(np.arange(100)[:, None] < 50, -0.2, 0.2)
    found, _, _ = solver._pass(edge, nothing, Pass(4, 0.0, free), rng, lambda n: None)
    assert found.positions.min() == 0 and M - N - 0.01 < found.positions.max() < M - N
    held, _, _ = solver._pass(state, nothing, Pass(4, 0.0, Freedom(False)), rng, lambda n: None)
    for key in ("positions", "flux", "background"):
        np.testing.assert_array_equal(getattr(held, key), getattr(state, key))


def test_settling_keeps_the_far_fields():
    """The power is the stated one, products of object and modes the same light, the motion follows."""
    rng = np.random.default_rng(7)
    state = State(
        complex64(rng, 9, 9), complex64(rng, 2, 9, 9), np.zeros((1, 2)), np.ones(1), np.zeros((9, 9))
    )
    motion = joint._Motion(0.2 * state.object, 0.1 * state.modes)
    settled, moving = joint._settled(state, motion, 50.0)
    assert power(settled.modes).sum() == pytest.approx(50, rel=1e-5)
    before, after = (density(s.modes * s.object) for s in (state, settled))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)
    assert abs(np.vdot(*settled.modes)) < 1e-3
    np.testing.assert_allclose(moving.object, 0.2 * settled.object, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moving.modes, 0.1 * settled.modes, rtol=1e-4, atol=1e-4)


# ---- the course of a run


def told_run(scan, monkeypatch, judged, fitted, patience=100):
    """A run whose R-factors are told: the solution, and whether each pass was given a motion."""
    solver, start = JointSolver(scan, scan, 0), State.of(scan, smooth_object())
    moving, judged, fitted = [], iter(judged), iter(fitted)

    def one_pass(state, motion, step, rng, advance):
        moving.append(bool(np.abs(motion.object).max() > 0))
        after = replace(state, object=state.object + 1)
        moved = joint._Motion(np.ones_like(state.object), motion.modes)
        return after, moved, contribution_of.Fit(next(fitted), 1.0)

    def judge(places, state, free):
        return next(judged), 0.5, replace(state, positions=places.positions + 1, flux=places.flux)

    monkeypatch.setattr(solver, "_pass", one_pass)
    monkeypatch.setattr(solver, "_judged", judge)
    return start, solver.run(start, [Pass(1, 0.5, Freedom())] * 6, patience), moving


def test_a_run_returns_its_best_state(scan, monkeypatch):
    """And the positions at which the judging patterns met just the R-factor that it is the best by."""
    judged = [0.5, 0.6, 0.3, 0.4, 0.35, 0.3, 0.7]
    start, found, _ = told_run(scan, monkeypatch, judged, [1.0] * 6)
    assert found.course == judged and found.r_factors == [0.5] * 7
    np.testing.assert_allclose(found.state.object, start.object + 5, rtol=1e-3)
    np.testing.assert_allclose(found.judging.positions, start.positions + 5)
    np.testing.assert_array_equal(found.judging.object, found.state.object)


def test_a_run_without_a_better_pass_returns_its_start(scan, monkeypatch):
    start, found, _ = told_run(scan, monkeypatch, [0.2, 0.3, 0.25, 0.4], [1.0] * 6, patience=3)
    assert found.course == [0.2, 0.3, 0.25, 0.4]  # and ends for lack of patience
    np.testing.assert_array_equal(found.state.object, start.object)
    np.testing.assert_array_equal(found.state.modes, start.modes)


def test_momentum_is_lost_where_a_pass_got_worse(scan, monkeypatch):
    fitted = [0.5, 0.4, 0.405, 0.42, 0.3, 0.29]  # 0.42 is more than two in a hundred above 0.405
    _, _, moving = told_run(scan, monkeypatch, np.linspace(1, 0.5, 7), fitted)
    assert moving == [False, True, True, True, False, True]


def test_plans_have_the_stated_number_of_passes():
    for passes in (0, 1, 5, 12, 40):
        assert len(from_scratch(passes, EVERYTHING)) == len(from_an_object(passes, EVERYTHING)) == passes
    plan = from_scratch(12, EVERYTHING)
    assert [step.free.probe for step in plan] == [False] + [True] * 11
    assert [step.free.positions for step in plan] == [False] * 6 + [True] * 6
    plan = from_an_object(8, EVERYTHING)
    assert [step.free.object for step in plan] == [False] * 6 + [True] * 2
    assert all(step.free.object for step in from_an_object(3, Freedom(False)))


@pytest.mark.parametrize("counts", [True, False])
def test_the_judge_is_taken_in_the_units_of_the_fit(counts):
    """Judging patterns twice as bright have another normalisation; they are met as by :func:`misfit`."""
    data = scan_of([beam(35.0)], 1e4, flux=np.where(np.arange(100) % 10 == 5, 2.0, 1.0))
    bright = np.where(np.arange(100) % 10 == 5, 2.0, 1.0).astype(np.float32)
    data = replace(data, flux=bright, counts=counts)
    fitted, free = data.subset(IN, 1), data.subset(OUT, 1)
    assert fitted.normalisation > 1.5 * free.normalisation
    solver = JointSolver(fitted, free, 0, by_deviance=True, compile_xla=False)
    found = solver.run(State.of(fitted, data.objects[0]), [], 1)
    expected = misfit(data.objects, free)
    assert found.r_factors == [pytest.approx(expected.r_factor, rel=1e-4)] and expected.r_factor < 0.3
    decides = expected.mean_deviance if counts else expected.r_factor
    assert found.course == [pytest.approx(decides, rel=1e-3)]


# ---- what is found


def test_object_and_probe_from_a_wrong_defocus(scan):
    """The free patterns are explained to 1.4 times their noise."""
    wrong = replace(scan, probe=beam(50.0).astype(np.complex64))
    found, _, _ = solved(wrong, from_scratch(25, Freedom(True)))
    assert likeness(wrong.probe, scan.probe) < 0.95
    assert likeness(found.state.modes[0], scan.probe) > 0.999
    assert likeness(inside(found.state.object), inside(scan.objects[0])) > 0.997
    assert min(found.r_factors) < 1.4 * misfit(scan.objects, scan.subset(OUT, 1)).r_noise


def distance(found, truth):
    """Root mean square distance of positions, their mean taken off."""
    error = found - truth
    return np.sqrt(np.mean(np.sum((error - error.mean(axis=0)) ** 2, axis=1)))


def test_positions_are_found(scan):
    error = np.random.default_rng(8).normal(size=(100, 2)) * 0.5
    moved = replace(scan, positions=(scan.positions + error).astype(np.float32))
    found, _, _ = solved(moved, from_scratch(26, Freedom(True, True)))
    assert distance(moved.positions, scan.positions) > 0.6
    assert distance(found.state.positions, scan.positions[IN]) < 0.3
    assert distance(found.judging.positions, scan.positions[OUT]) < 0.3
    np.testing.assert_allclose(
        found.state.positions.mean(axis=0), moved.positions[IN].mean(axis=0), atol=1e-3
    )


def test_positions_are_scaled_and_turned_together(scan):
    """A stage of which one axis is 4 % too long, turned by 2°: all patterns follow one affine map.

    It is found slowly: an object that is scaled and turned with the positions explains nearly as much.
    """
    turn = np.array([[1.04, -0.035], [0.035, 1.0]])
    middle = scan.positions.mean(axis=0)
    told = ((scan.positions - middle) @ turn.T + middle).astype(np.float32)
    moved = replace(scan, positions=told)
    found, fitted, free = solved(moved, from_scratch(40, Freedom(True, True)), affine=True)
    assert distance(told, scan.positions) > 0.6
    for state, true in ((found.state, IN), (found.judging, OUT)):
        assert distance(state.positions, scan.positions[true]) < 0.6 * distance(told, scan.positions)
    both = np.vstack([found.state.positions, found.judging.positions])
    terms = np.column_stack([np.ones(100), np.vstack([fitted.positions, free.positions])])
    rest = both - terms @ np.linalg.lstsq(terms, both, rcond=None)[0]
    assert np.abs(rest).max() < 1e-3


def test_two_modes_are_found():
    """From one mode and the object: what the second one is, and how strong; one alone explains far less."""
    modes, _ = orthogonal_modes(
        np.stack([beam(35.0), 0.5 * beam(35.0, col=5.0, tilt=0.05)]).astype(np.complex64)
    )
    data, plan = scan_of(modes.astype(complex)), [Pass(12, 0.0, Freedom(True, object=False))] * 20
    start = data.objects[0]
    found, fitted, _ = solved(data, plan, 2, start=start)
    alone, _, _ = solved(data, plan, 1, start=start)
    ratio, true = (power(m)[1] / power(m)[0] for m in (found.state.modes, modes))
    assert 0.2 < true < 0.3 and ratio == pytest.approx(true, rel=0.25)
    assert likeness(found.state.modes[1], modes[1]) > 0.85
    assert likeness(found.state.modes[0], modes[0]) > 0.99
    assert min(found.r_factors) < 0.6 * min(alone.r_factors)
    begun = State.of(fitted, FLAT, 2).modes
    assert power(found.state.modes).sum() == pytest.approx(power(begun).sum(), rel=1e-3)


def test_the_flux_is_found():
    flux = np.clip(1 + 0.2 * np.random.default_rng(9).normal(size=100), 0.5, 1.6)
    flux = (flux / np.sqrt(np.mean(flux**2))).astype(np.float32)
    data = scan_of([beam(35.0)], flux=flux)
    found, _, _ = solved(data, from_scratch(25, Freedom(True, False, True)))
    for got, true in ((found.state.flux, flux[IN]), (found.judging.flux, flux[OUT])):
        assert np.std(got / true) / np.mean(got / true) < 0.06 < 0.13 < np.std(true) / np.mean(true)
    assert np.mean(found.state.flux**2) == pytest.approx(1, rel=1e-4)
    assert min(found.r_factors) < 2.5 * misfit(data.objects, replace(data, flux=flux)).r_noise


@pytest.fixture(scope="module")
def dark():
    """A scan with a background, brighter on one side, and that background."""
    axis = np.arange(N) - N // 2
    background = 6 + 30 * np.exp(-((axis[:, None] - 4) ** 2 + (axis[None, :] + 9) ** 2) / 30)
    return scan_of([beam(35.0)], 1e5, background=background), background


def test_the_background_is_found(dark):
    """Where the beam itself does not reach, to a tenth; with none to begin with."""
    data, truth = dark
    found, fitted, _ = solved(data, from_scratch(16, Freedom(True, background=True)), noise="poisson")
    got = explained(fitted, found.state, fitted.normalisation, 1).background
    axis = np.arange(N) - N // 2
    outside = np.hypot(axis[:, None], axis[None, :]) > 8
    assert np.median(got[outside] / truth[outside]) == pytest.approx(1, abs=0.12)
    assert np.corrcoef(got[outside], truth[outside])[0, 1] > 0.98
    assert min(found.r_factors) < 0.5 * misfit(data.objects, data).r_factor


def test_a_background_that_is_not_free_stays(dark):
    data, truth = dark
    known = replace(data, background=truth.astype(np.float32))
    found, _, _ = solved(known, [Pass(3, 0.0, Freedom(True))], noise="poisson")
    expected = known.subset(IN, 1).model_background
    np.testing.assert_array_equal(found.state.background, expected)
    none, _, _ = solved(data, [Pass(3, 0.0, Freedom(True))], noise="poisson")
    assert not none.state.background.any()


def test_bad_pixels_have_no_influence(scan):
    """Whatever they read; the normalisation, which is a sum over all pixels, apart."""
    good = np.random.default_rng(10).random((N, N)) > 0.05
    results = []
    for value in (0.0, 40.0):
        amplitudes = np.where(good, scan.amplitudes[:], np.float32(value))
        masked = replace(scan, amplitudes=amplitudes, good=good)
        fitted, free = masked.subset(IN, 1), masked.subset(OUT, 1)
        for part in (fitted, free):
            object.__setattr__(part, "normalisation", scan.normalisation)
        plan = [Pass(3, 0.0, EVERYTHING), Pass(1, 0.5, EVERYTHING)]
        solver = JointSolver(fitted, free, 0, compile_xla=False)
        results.append(solver.run(State.of(fitted, FLAT), plan, 9))
    assert results[0].course == results[1].course
    np.testing.assert_array_equal(results[0].state.object, results[1].state.object)


PLAN = [Pass(12, 0.0, EVERYTHING), Pass(3, 0.5, EVERYTHING), Pass(1, 0.8, EVERYTHING)]


@pytest.fixture(scope="module")
def short(scan):
    """A few passes with two modes and all free, on a scan of the wrong defocus."""
    wrong = replace(scan, probe=beam(50.0).astype(np.complex64))
    return wrong, solved(wrong, PLAN, 2, "poisson")


def test_the_explained_dataset_has_the_r_factor_of_the_course(short, scan):
    _, (found, fitted, free) = short
    f = fitted.normalisation
    judging = explained(free, found.judging, f, 1)
    assert found.course == found.r_factors
    again = misfit(found.state.object[None], judging)
    assert again.r_factor == pytest.approx(min(found.course), rel=1e-4)
    data = explained(fitted, found.state, f, 3)
    assert data.group_size == 3 and data.weaker_modes.shape == (1, N, N)
    assert data.flux is not None and data.background is not None
    state = State.of(data, found.state.object)
    for key in ("modes", "positions", "flux", "background"):
        np.testing.assert_allclose(
            getattr(state, key), getattr(found.state, key), rtol=1e-5, atol=1e-5, err_msg=key
        )
    plain = explained(fitted, State.of(fitted, FLAT), f, 1)
    assert plain.flux is None and plain.background is None and plain.weaker_modes is None


def test_flux_and_background_are_taken_off_what_a_network_sees(short):
    """``x = √max(f²(A² − b), 0)/c``, −1 where nothing was measured."""
    _, (found, fitted, _) = short
    good = np.ones((N, N), bool)
    good[3, 5] = False
    data = replace(explained(fitted, found.state, fitted.normalisation, 1), good=good)
    data = replace(data, background=np.full((N, N), 0.5, np.float32) + np.eye(N, dtype=np.float32))
    groups = np.array([[3, 7], [80, 0]])
    seen = data.normalised(groups)
    assert seen.shape == (2, 2, N, N)
    for g, c in np.ndindex(groups.shape):
        j = groups[g, c]
        counts = np.maximum(data.amplitudes[j].astype(float) ** 2 - data.background, 0)
        expected = np.where(good, data.normalisation * np.sqrt(counts) / data.flux[j], -1)
        np.testing.assert_allclose(seen[g, c], expected, atol=1e-4)
    np.testing.assert_array_equal(data.normalised(slice(80, 81)), seen[1, :1])


def test_the_same_seed_gives_the_same(short):
    wrong, (found, _, _) = short
    again, _, _ = solved(wrong, PLAN, 2, "poisson")
    other, _, _ = solved(wrong, PLAN, 2, "poisson", seed=1)
    assert again.course == found.course != other.course
    np.testing.assert_array_equal(again.state.object, found.state.object)


def test_the_size_of_a_chunk_does_not_matter(short):
    wrong, (found, _, _) = short
    other, _, _ = solved(wrong, PLAN, 2, "poisson", chunk=31)
    np.testing.assert_allclose(other.r_factors, found.r_factors, rtol=3e-3)
    np.testing.assert_allclose(inside(other.state.object), inside(found.state.object), atol=5e-3)
    np.testing.assert_allclose(other.state.positions, found.state.positions, atol=5e-3)
    np.testing.assert_allclose(other.state.flux, found.state.flux, atol=5e-3)
    np.testing.assert_allclose(other.state.background, found.state.background, atol=5e-3, rtol=5e-3)
