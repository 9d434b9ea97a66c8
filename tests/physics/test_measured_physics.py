"""Positions between pixels, unmeasured pixels, and the misfit of an object and its patterns."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers import reference
from helpers.datasets import single_patterns
from helpers.likelihood import smooth_object
from helpers.measurement import diffract

from ptycho import physics
from ptycho.config import RunConfig, UnrolledModel
from ptycho.networks import build_pinn
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.misfit import misfit, predictions
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.windows import cut_windows
from ptycho.training.competitors import geometry_of
from ptycho.training.fitting import batch_of

N, M = 24, 60


def gaussian(row=0.0, col=0.0):
    """A curved Gaussian beam with its centre (row, col) px from the window's, not symmetric."""
    axis = np.arange(N) - N // 2
    r, c = axis[:, None] - row, axis[None, :] - col
    return np.exp(-(r**2 + 1.3 * c**2) / 10 + 0.03j * (r**2 - 0.5 * c**2) + 0.1j * c)


def test_a_position_just_below_a_whole_one_is_that_one():
    """float32 offsets of 65.99999 must not cut another window and shift the probe by a whole pixel."""
    probe = tf.constant(gaussian()[None], tf.complex64)
    whole, _ = physics.split_positions(tf.constant([[[65.99999, 0.0]]]), probe)
    assert whole.numpy().ravel().tolist() == [66, 0]


def test_a_moved_probe_is_a_moved_object():
    """The oracle shifts the object exactly; bilinear interpolation has a far larger error."""
    truth, probe = smooth_object(np.random.default_rng(0), M, 0.2).astype(np.complex64), gaussian()
    position = np.array([14.37, 17.81])
    window = reference.moved(truth, -position)[:N, :N]
    expected = np.abs(np.fft.fftshift(np.fft.fft2(probe * window))) / N
    objects, at = tf.constant(truth[None]), tf.constant(position[None, None], tf.float32)
    modes = tf.constant(probe[None], tf.complex64)
    exact = physics.detect(physics.forward(objects, at, modes, exact=True)).numpy()[0, 0]
    bilinear = diffract(objects, at, modes).numpy()[0, 0]
    scale = expected.max()
    missed = np.abs(exact - expected).max()  # parts of the object beyond the probe's window and Nyquist
    assert missed < 3e-3 * scale
    assert np.abs(bilinear - expected).max() > 5 * missed


@pytest.fixture(scope="module")
def scan():
    """100 patterns at irregular positions by the oracle above, 10⁶ photons each; and the truth."""
    truth, probe = smooth_object(np.random.default_rng(1), M, 0.2).astype(np.complex64), gaussian()
    rng = np.random.default_rng(2)
    grid = np.stack(np.meshgrid(np.arange(10), np.arange(10), indexing="ij"), -1).reshape(-1, 2)
    positions = np.clip(3.6 * grid + rng.uniform(-1, 1, grid.shape), 0, M - N - 1)
    waves = np.stack([probe * reference.moved(truth, -p)[:N, :N] for p in positions])
    clean = np.abs(np.fft.fftshift(np.fft.fft2(waves), axes=(-2, -1))) / N
    scale = np.sqrt(1e6 / np.mean(np.sum(clean**2, axis=(1, 2))))
    counts = rng.poisson((scale * clean) ** 2)
    known = {"photon_scale": float(scale), "objects": truth[None], "exact": True}
    return single_patterns(np.sqrt(counts), probe, positions, M, region_size=N + 1, **known)


def with_bad_pixels(data, value):
    """Return the same scan on a detector with two dead columns and some dead pixels, which read ``value``."""
    good = np.ones((N, N), bool)
    good[:, 7:9] = False
    good[3::8, 5::7] = False
    amplitudes = np.where(good, np.asarray(data.amplitudes), np.float32(value))
    return replace(data, amplitudes=amplitudes, good=good)


def test_the_truth_explains_its_patterns_to_the_photon_noise(scan):
    """The expected residual comes from Poisson's law, the actual one from drawn counts."""
    found = misfit(scan.objects[0], scan)
    assert found.r_factor == pytest.approx(found.r_noise, rel=0.03)
    approximate = misfit(scan.objects[0], replace(scan, exact=False))
    assert approximate.r_factor > 1.2 * found.r_factor


def test_the_deviance_of_the_truth_is_that_of_poisson_counts(scan):
    """By a slow sum over one pattern."""
    good = np.random.default_rng(4).random((N, N)) > 0.1
    found = misfit(scan.objects[0], replace(scan, good=good), np.array([17]))
    found_ones = next(predictions(scan.objects[0], scan, np.array([17])))
    counts, rates = (np.square(v.numpy().astype(float)) / scan.normalisation**2 for v in found_ones)
    total = 0.0
    for n, rate, valid in zip(counts.ravel(), rates.ravel(), np.fft.ifftshift(good).ravel(), strict=True):
        if valid:
            total += 2 * (rate - n + (n * np.log(n / rate) if n > 0.5 else 0))
    assert found.pixels[0] == good.sum()
    assert found.mean_deviance == pytest.approx(total / good.sum(), rel=1e-3)


def test_the_misfit_by_a_loop(scan):
    patterns = np.array([3, 50, 97])
    found = misfit(scan.objects[0], scan, patterns)
    for k, j in enumerate(patterns):
        window = reference.moved(scan.objects[0], -scan.positions[j].astype(float))[:N, :N]
        predicted = scan.photon_scale * np.abs(np.fft.fftshift(np.fft.fft2(scan.probe[0] * window))) / N
        measured = np.asarray(scan.amplitudes)[j].astype(float)
        f = scan.normalisation
        assert found.residual[k] / f == pytest.approx(np.abs(predicted - measured).sum(), rel=0.03)
        assert found.measured[k] / f == pytest.approx(measured.sum(), rel=1e-5)


def two_steps(objects, data):
    """An object ``(1, M, M)`` after two steps of the solver."""
    start = Estimate.of(data, objects[0])
    return fit(Objective(likelihood_of(data)), start, OBJECT_ALONE, 2).estimate.object[None]


def test_what_a_bad_pixel_reads_changes_nothing(scan):
    """For zero, a hot value or any other, everything but the statistics is equal."""
    dark, odd = with_bad_pixels(scan, 0), with_bad_pixels(scan, 0)
    start = np.full((1, M, M), 0.7, np.complex64)
    assert (dark.normalised(np.arange(3))[:, ~dark.good] == -1).all()
    refined = two_steps(start, dark)
    hot = replace(odd, amplitudes=np.where(odd.good, np.asarray(odd.amplitudes), 50.0).astype(np.float32))
    object.__setattr__(hot, "normalisation", dark.normalisation)
    np.testing.assert_array_equal(two_steps(start, hot), refined)
    assert misfit(refined[0], hot).r_factor == misfit(refined[0], dark).r_factor


def test_the_network_leaves_unmeasured_pixels_to_its_prediction(scan):
    """The loss of a network does not depend on them, and at the truth no stage changes the object."""
    data = with_bad_pixels(scan.subset(np.arange(100), 4), 0)
    config = RunConfig(N=32, size=128, model=UnrolledModel(stages=1, width=4), batch_size=4)
    geometry = geometry_of(data)
    assert (geometry.masked, geometry.exact, geometry.support) == (True, True, N)
    pinn = build_pinn(config.model, geometry, config.xla, config.loss_weights, config.seed)
    batch = batch_of(data, np.arange(4))
    assert float(tf.reduce_min(batch["x"])) == -1
    probe = tf.constant(data.model_probe)
    regions = tf.constant(cut_windows(np.pad(scan.objects[0], 40), data.origins[:4] + 40, data.region_size))
    predicted = pinn.predict_amplitudes(regions, batch["offsets"], probe)
    valid = batch["x"] >= 0
    error = tf.boolean_mask(tf.abs(predicted - batch["x"]), valid)
    assert float(tf.reduce_mean(error)) < 0.01
    losses = pinn.losses_of(batch, probe, tf.constant(data.normalisation, tf.float32))
    assert np.isfinite(float(losses["loss"]))
