"""The likelihood of patterns: deviances by SciPy, intensities by loops, gradients by finite differences."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers.gradients import gradients
from helpers.likelihood import N, check_gradient, full_scan
from helpers.likelihood import likelihood_of as usual_likelihood_of
from helpers.reference import random_complex
from scipy.special import kl_div
from scipy.stats import poisson

from ptycho import physics
from ptycho.physics.deviance import deviance_of_counts
from ptycho.reconstruction import object_windows, scan_likelihood
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.likelihood import UNMEASURED, deviance, likelihood_step, noise_deviance
from ptycho.reconstruction.misfit import predictions

PARTS = ("object", "modes", "positions", "flux", "background", "point_spread")


def likelihood_of(data, **changes):
    """Return the likelihood in chunks of 16 patterns, so that small scans are fast."""
    return usual_likelihood_of(data, **({"chunk_pixels": 16 * N**2} | changes))


COUNTS = np.array([0, 0, 1, 3, 40, 1e4, 1e8, 1e8, 1e8, 0])
RATES = np.array([0, 2.5, 0.3, 3, 55, 1.02e4, 1e8, 1.0002e8, 3e7, 1e8])


def deviance_of(counts, rates, noise):
    return deviance(tf.constant(rates, tf.float32), tf.constant(np.sqrt(counts), tf.float32), noise).numpy()


@pytest.mark.parametrize(
    "ratio", [1e-6, 0.3, 0.7499, 0.7501, 0.989, 0.99999, 1, 1.0001, 1.2499, 1.2501, 3, 1e6]
)
@pytest.mark.parametrize("n", [0.02, 7.0, 1e8])
def test_deviance_of_counts_at_every_branch(n, ratio):
    n, rate = np.float32(n), np.float32(np.float32(n) * np.float32(ratio))
    expected = 2 * kl_div(float(n), float(rate))
    np.testing.assert_allclose(deviance_of_counts(tf.constant(rate), tf.constant(n)), expected, rtol=2e-5)


@pytest.mark.parametrize("ratio", [0.2, 0.7499, 0.7501, 0.995, 1.0, 1.005, 1.5])
def test_slope_of_the_deviance(ratio):
    """``∂/∂λ = 2 (1 − n/λ)``, ``∂/∂n = −2 log(λ/n)``, on all branches and at the minimum."""
    _, *slopes = gradients(deviance_of_counts, 50.0 * ratio, 50.0)
    np.testing.assert_allclose(slopes, [2 * (1 - 1 / ratio), -2 * np.log(ratio)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rate", [0, 0.004, 0.3, 2.7, 29.9, 31, 400])
def test_what_photon_noise_leaves_on_average(rate):
    """The mean over Poisson's distribution, of counts up to 20 standard deviations."""
    counts = np.arange(int(rate + 20 * np.sqrt(rate)) + 20)
    pixels = 2 * kl_div(counts + 0.02, rate + 0.02)
    expected = np.sum(poisson.pmf(counts, rate) * pixels)
    assert noise_deviance(np.full((2, 1), rate))[1, 0] == pytest.approx(expected, rel=1e-3)


def test_gaussian_and_robust_by_their_formulas():
    residual = np.sqrt(RATES + 1e-4) - np.sqrt(COUNTS)
    tolerance = {"rtol": 1e-3, "atol": 2e-5}
    np.testing.assert_allclose(deviance_of(COUNTS, RATES, "gaussian"), 4 * residual**2, **tolerance)
    huber = 8 * 1.0**2 * (np.sqrt(1 + (residual / 1.0) ** 2) - 1)
    np.testing.assert_allclose(deviance_of(COUNTS, RATES, "robust"), huber, rtol=1e-3, atol=2e-5)


@pytest.fixture(scope="module")
def scan():
    """25 patterns, 40 photons a pixel."""
    return full_scan(5, point_spread=(0.5, 0.8))


@pytest.fixture(scope="module")
def data(scan):
    """The measured scan, without a fifth of the pixels."""
    rng = np.random.default_rng(5)
    return scan.dataset(rng, good=rng.random((N, N)) > 0.2)


def test_forward_by_loops(scan):
    """Modes, flux, background, point spread, and fractions of positions, which shift the probe."""
    estimate = scan.estimate(1.0)
    objects, modes = tf.constant(estimate.object[None]), tf.constant(estimate.modes)
    places = tf.constant(scan.positions[None], tf.float32)
    beam = {part: tf.constant(getattr(estimate, part)) for part in ("background", "point_spread")}
    beam["flux"] = tf.constant(estimate.flux[None])
    found = physics.forward(objects, places, modes, exact=True, **beam)
    np.testing.assert_allclose(found[0], scan.intensity(), rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("compiled", [False, True])
def test_deviance_of_every_pattern(scan, data, compiled):
    found = likelihood_of(data, compile_xla=compiled).evaluate(scan.estimate(data.normalisation))
    counts = np.fft.ifftshift(np.rint(data.amplitudes[:].astype(float) ** 2), axes=(-2, -1))
    pixels = 2 * kl_div(counts + 0.02, scan.intensity() + 0.02)
    measured = np.fft.ifftshift(data.good)
    np.testing.assert_allclose(found.deviance, pixels[:, measured].sum(axis=1), rtol=1e-4)
    assert found.value == pytest.approx(pixels[:, measured].sum() / 2, rel=1e-5)
    assert found.gradients == {}


def test_scores_predict_with_the_point_spread(scan, data):
    """Of the beam of an estimate, at amplitudes of the dataset's scale."""
    estimate = replace(scan.estimate(data.normalisation), point_spread=np.array([-0.5, 0.8], np.float32))
    under = replace(
        data.under(estimate.beam(data.photon_scale, data.normalisation)), exact=True, photon_scale=1.0
    )
    (_, found), *_ = predictions(estimate.object, under, np.arange(25))
    np.testing.assert_allclose(np.square(found) / under.normalisation**2, scan.intensity(), rtol=1e-3)
    again = Estimate.of(under, estimate.object, normalisation=data.normalisation)
    np.testing.assert_allclose(again.point_spread, [0.5, 0.8], rtol=1e-6)


def test_what_was_not_measured_weighs_nothing(scan, data):
    estimate = scan.estimate(data.normalisation)
    spoilt = data.amplitudes[:].copy()
    spoilt[:, ~data.good] = 1e5
    before = likelihood_of(data).evaluate(estimate, PARTS)
    after = likelihood_of(data, instead=spoilt).evaluate(estimate, PARTS)
    np.testing.assert_array_equal(after.deviance, before.deviance)
    for name in PARTS:
        assert np.all(np.isfinite(after.gradients[name]))
        np.testing.assert_array_equal(after.gradients[name], before.gradients[name])
    assert not before.gradients["background"][np.fft.ifftshift(~data.good)].any()
    assert (likelihood_of(data).pixels == data.good.sum()).all()


@pytest.mark.parametrize("noise", ["poisson", "gaussian", "robust"])
@pytest.mark.parametrize("part", PARTS)
def test_gradient_of_every_part(scan, data, noise, part):
    likelihood = likelihood_of(data, noise=noise, unit=1.2)
    check_gradient(likelihood, scan, data.normalisation, part)


@pytest.mark.parametrize("most", [7, 25])
def test_chunks_and_what_fills_them_up_change_nothing(scan, data, most):
    estimate = scan.estimate(data.normalisation)
    whole = likelihood_of(data).evaluate(estimate, PARTS)
    chunks = []
    likelihood = likelihood_of(data, advance=chunks.append, chunk_pixels=most * N**2)
    assert likelihood.chunk == most
    parts = likelihood.evaluate(estimate, PARTS)
    np.testing.assert_allclose(parts.deviance, whole.deviance, rtol=1e-5)
    for name in PARTS:
        largest = np.abs(whole.gradients[name]).max()
        np.testing.assert_allclose(parts.gradients[name], whole.gradients[name], atol=2e-5 * largest)
    assert sum(chunks) == 25 and max(chunks) == min(most, 25)


@pytest.mark.parametrize("varies", [False, True])
def test_kept_probes_change_nothing_but_the_time(scan, data, varies):
    """OPR modes included; once the beam is another, its own probes count."""
    estimate, rng = scan.estimate(data.normalisation), np.random.default_rng(8)
    assert np.any(estimate.positions % 1)
    if varies:
        weights = random_complex(rng, (len(estimate.positions), 1)).astype(np.complex64)
        estimate = estimate.varied_by(0.3 * estimate.modes[-1:], weights)
    plain = likelihood_of(data)
    keeping = plain.under_beam_of(estimate)
    assert keeping.moved_probes is not None and plain.moved_probes is None
    changed = replace(estimate, object=estimate.object * np.complex64(1.1))
    for under in (changed, replace(changed, positions=changed.positions + 0.2)):
        expected, found = (likelihood.evaluate(under, ("object",)) for likelihood in (plain, keeping))
        np.testing.assert_allclose(found.deviance, expected.deviance, rtol=1e-4)
        slope = expected.gradients["object"]
        np.testing.assert_allclose(found.gradients["object"], slope, atol=1e-4 * np.abs(slope).max())


@pytest.mark.parametrize("most", [7, 25])
def test_where_the_object_stays_on_the_device_all_is_the_same(scan, data, monkeypatch, most):
    """As on a GPU, with its larger chunks; here the device is this processor."""
    estimate = scan.estimate(data.normalisation)
    here = likelihood_of(data).evaluate(estimate, PARTS)
    for module in (object_windows, scan_likelihood):
        monkeypatch.setattr(module, "has_gpu", lambda: True)
    there = likelihood_of(data, chunk_pixels=most * N**2 // 16).evaluate(estimate, PARTS)
    np.testing.assert_allclose(there.deviance, here.deviance, rtol=1e-5)
    for name in PARTS:
        expected, found = here.gradients[name], there.gradients[name]
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


def test_windows_and_their_sum_are_those_of_loops_wherever_they_lie():
    random = np.random.default_rng(3)
    image, parts = (random_complex(random, shape).astype(np.complex64) for shape in ((9, 11), (5, 5, 5)))
    corners = np.array([[0, 0], [3, 6], [4, 5], [3, 6]])
    expected = np.zeros_like(image)
    for (row, col), part in zip(corners, parts, strict=False):
        expected[row : row + 5, col : col + 5] += part
    for windows in (object_windows.InHostMemory(image, 5), object_windows.OnDevice(image, 5)):
        cut = windows.cut(corners).numpy()
        np.testing.assert_array_equal(cut, [image[r : r + 5, c : c + 5] for r, c in corners])
        for some in (slice(0, 2), slice(2, 4)):  # the fifth only fills up
            filled = parts[:2] if some.start == 0 else parts[2:]
            windows.add(windows.part(tf.constant(filled), corners[some]))
        np.testing.assert_allclose(windows.sum, expected, rtol=1e-6)


def compiled(stage):
    """A step of two patterns, one mode and one OPR mode, as XLA has it at some stage."""
    step = likelihood_step("poisson", ("windows", "modes", "fractions"), True, True)
    beam = (2, 2), (2,), (1, N, N), (N, N), (1, N, N), (2, 1), (0,)
    sizes = (2, N, N), *beam, (2, N, N), (), (2, 2, N), (0, 0)
    dtypes = [tf.complex64 if k in (0, 3, 5, 6, 10, 11) else tf.float32 for k in range(len(sizes))]
    arguments = [tf.ones(size, dtype) for size, dtype in zip(sizes, dtypes, strict=True)] + [tf.constant(1)]
    return step.experimental_get_compiler_ir(*arguments)(stage=stage)


def test_a_compiled_step_computes_no_sine_for_each_pixel():
    """Left to itself, XLA puts the sines of the ramps into every loop over pixels and modes."""
    with_sines = [part for part in compiled("optimized_hlo").split("\n\n") if " sine(" in part]
    assert with_sines and not any(f"{N},{N}]" in part for part in with_sines)


def test_a_compiled_step_asks_nothing_of_its_host():
    """The program, before XLA optimises it, asks for no transfer."""
    program = compiled("hlo")
    operations = set(re.findall(r"= \S+ ([a-z-]+)\(", program))
    assert {"fft", "multiply"} <= operations
    assert not operations & {"infeed", "outfeed", "send", "recv", "send-done", "recv-done", "custom-call"}


def test_where_nothing_is_expected_gradients_are_finite():
    windows, patterns, small = tf.zeros((2, N, N), tf.complex64), 3 + tf.zeros((2, N, N)), tf.constant(0.1)
    for noise in ("poisson", "gaussian", "robust"):
        step = likelihood_step(noise, ("windows", "modes", "background"), False, False)
        beam = tf.zeros((2, 2)), tf.ones(2), windows[:1], tf.zeros((N, N)), windows[:0], windows[:, :0, 0]
        beam = *beam, tf.zeros(0)
        _, found = step(windows, *beam, patterns, small, windows[:, :0], windows[0, :0, :0], tf.constant(1))
        assert all(np.isfinite(gradient.numpy()).all() for gradient in found.values())


EVERYTHING = tuple(scan_likelihood.ARGUMENTS.values())


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("own_modes", [True, False])
def test_batches_give_what_all_patterns_at_once_give(moved, own_modes):
    """12 patterns of 24², of which 4 are a batch, with masked pixels, shifts, modes and OPR modes."""
    count, side, rng = 12, 24, np.random.default_rng(0)

    def waves(*shape):
        return tf.constant(rng.normal(size=shape) + 1j * rng.normal(size=shape), tf.complex64)

    def numbers(*shape):
        return tf.constant(rng.uniform(0.5, 1.5, shape), tf.float32)

    modes = waves(*(count,) * own_modes, 3, side, side)
    beam = numbers(count, 2), numbers(count), modes, numbers(side, side), waves(2, side, side)
    amplitudes = numbers(count, side, side).numpy()
    amplitudes[:, :3] = UNMEASURED
    spread = tf.constant([0.6, 1.1], tf.float32)
    known = waves(count, side, side), *beam, waves(count, 2), spread, tf.constant(amplitudes)
    known = *known, tf.constant(0.3), waves(count, 2, side), waves(0, 0), tf.constant(3)
    expected, slopes = likelihood_step("poisson", EVERYTHING, moved, None)(*known)
    values, gradients = likelihood_step("poisson", EVERYTHING, moved, True, batch=4)(*known)
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    assert set(gradients) == set(EVERYTHING)
    for name, slope in slopes.items():
        scale = np.abs(slope).max()
        np.testing.assert_allclose(gradients[name], slope, atol=2e-5 * scale, err_msg=name)
    assert np.any(gradients["fractions"]) == moved


@pytest.mark.parametrize("compile_xla", [True, False])
def test_batches_without_patterns_are_not_computed(compile_xla):
    """The last chunk of a scan is rarely full."""
    step = likelihood_step("poisson", ("windows", "modes"), False, compile_xla, batch=2)
    windows, ones = tf.ones((6, N, N), tf.complex64), tf.ones((6, N, N))
    beam = tf.zeros((6, 2)), tf.ones(6), windows[:1], tf.zeros((N, N)), windows[:0], windows[:, :0, 0]
    known = windows, *beam, tf.zeros(0), ones, tf.constant(1.0), windows[:, :0], windows[0, :0, :0]
    whole, some = (step(*known, tf.constant(count)) for count in (3, 2))
    np.testing.assert_array_equal(some[0][:4], whole[0][:4])
    np.testing.assert_allclose(some[1]["modes"], whole[1]["modes"] * 2 / 3, rtol=1e-5)
    assert np.all(whole[0] > 0) and not np.any(some[0][4:]) and not np.any(some[1]["windows"][4:])
