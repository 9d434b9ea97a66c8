"""The difference map: two iterations by loops in NumPy; when it is selected, and its accuracy."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from helpers.likelihood import N, Scan, distance, likelihood_of
from helpers.quick import KNOWN, decided
from helpers.reference import random_complex

from ptycho.reconstruction.difference_map import difference_map
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.learned import Learned
from ptycho.reconstruction.model_selection import first_noise, select_model
from ptycho.reconstruction.selection import ModelOptions, SelectionOptions
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_further

FLOOR, SMALL = 0.02, 16 * N**2  # of the illumination; chunks of 16 patterns, in pixels


def by_loops(estimate, amplitudes, good, iterations):
    """Objects of the equations, in double precision; ``amplitudes`` have the zero frequency at sample 0."""
    q = np.fft.fftfreq(N)
    probes, windows = [], []
    for (row, column), flux in zip(estimate.positions, estimate.flux, strict=True):
        whole = int(np.floor(row + 0.5)), int(np.floor(column + 0.5))
        ramp = np.exp(-2j * np.pi * np.add.outer((row - whole[0]) * q, (column - whole[1]) * q))
        probes.append([flux * np.fft.ifft2(np.fft.fft2(mode) * ramp) for mode in estimate.modes])
        windows.append((slice(whole[0], whole[0] + N), slice(whole[1], whole[1] + N)))
    illumination = np.zeros(estimate.object.shape)
    for probe, window in zip(probes, windows, strict=True):
        illumination[window] += sum(np.abs(mode) ** 2 for mode in probe)
    held, image = FLOOR * illumination.max(), estimate.object.astype(complex)
    waves = [[mode * image[window] for mode in probe] for probe, window in zip(probes, windows, strict=True)]
    for _ in range(iterations):
        total = held * image
        for j, (probe, window) in enumerate(zip(probes, windows, strict=True)):
            ours = [mode * image[window] for mode in probe]
            far = [np.fft.fft2(2 * one - wave) / N for one, wave in zip(ours, waves[j], strict=True)]
            strength = np.sqrt(sum(np.abs(one) ** 2 for one in far))
            wanted = np.sqrt(np.maximum(amplitudes[j] ** 2 - estimate.background, 0))
            ratio = np.where(good, wanted / strength, 1)
            each = zip(waves[j], far, ours, strict=True)
            waves[j] = [wave + np.fft.ifft2(ratio * one) * N - mine for wave, one, mine in each]
            total[window] += sum(mode.conj() * wave for mode, wave in zip(probe, waves[j], strict=True))
        image = total / (illumination + held)
    return image


def test_two_iterations_by_loops():
    """Two modes, fractions of a pixel, flux, background, pixels that were not measured, three chunks."""
    rng = np.random.default_rng(3)
    scan = Scan.of(rng, modes=random_complex(rng, (2, N, N)) * 10)
    scan = replace(scan, flux=rng.uniform(0.8, 1.2, 36), background=rng.uniform(5, 20, (N, N)))
    good = rng.random((N, N)) > 0.2
    likelihood = likelihood_of(scan.dataset(rng, good=good), unit=1.5, chunk_pixels=SMALL)
    f = likelihood.normalisation
    start = replace(scan.rough(f), object=random_complex(rng, scan.object.shape).astype(np.complex64))
    measured = np.fft.ifftshift(f * likelihood.data.amplitudes[:], axes=(-2, -1))
    expected = by_loops(start, measured, np.fft.ifftshift(good), 2)
    found = difference_map(likelihood, start, iterations=2, floor=FLOOR).object
    assert np.linalg.norm(found - expected) < 1e-3 * np.linalg.norm(expected)


def test_a_probe_with_a_sharp_edge_half_a_pixel_beside_the_grid():
    """Off the grid it has intensity where on the grid it has almost none; the object stays small."""
    rng = np.random.default_rng(5)
    disk = 30.0 * (np.hypot(*np.mgrid[-N // 2 : N // 2, -N // 2 : N // 2]) < N / 4)
    scan = Scan.of(rng, modes=disk[None].astype(complex))
    scan = replace(scan, positions=np.floor(scan.positions) + 0.45)
    likelihood = likelihood_of(scan.dataset(rng), compile_xla=True)
    found = difference_map(likelihood, scan.rough(likelihood.normalisation), 60)
    assert np.abs(found.object).max() < 10


def textured(count, step):
    """``count²`` patterns of an object that differs from pixel to pixel."""
    rng = np.random.default_rng(2)
    scan = Scan.of(rng, photons=1e6, count=count, step=step)
    texture = rng.uniform(0, 1, scan.object.shape) * np.exp(1.5j * rng.uniform(0, 1, scan.object.shape))
    return replace(scan, object=texture)


def test_a_textured_object_in_which_a_descent_gets_stuck():
    """A fit from a constant ends far from the truth; from the difference map, at the noise."""
    scan = textured(6, 2.6)
    data = scan.dataset(np.random.default_rng(3))
    likelihood = likelihood_of(data, compile_xla=True, chunk_pixels=SMALL)
    start = scan.rough(likelihood.normalisation)

    def misfit(start):
        estimate = fit(Objective(likelihood), start, OBJECT_ALONE, 60).estimate
        return likelihood.evaluate(estimate).deviance.mean() / N**2

    assert misfit(difference_map(likelihood, start, 150)) < 2 < 8 < misfit(start)


@pytest.mark.parametrize("projected", [False, True])
def test_patterns_that_a_fit_lacked_join_it(projected):
    """Four of 36 patterns leave holes in the object, which a denoiser that changes nothing holds."""
    scan = textured(6, 4.2)
    data = scan.dataset(np.random.default_rng(3))
    lacked = [7, 16, 21, 28]
    others = np.delete(np.arange(36), lacked)
    part = likelihood_of(data.subset(others, 1), compile_xla=True, chunk_pixels=SMALL)
    begun = Estimate.of(part.data, np.ones(scan.object.shape), normalisation=data.normalisation)
    lacking = fit(Objective(part), difference_map(part, begun, 150), OBJECT_ALONE, 60).estimate
    same = Learned(lambda inputs, noise: tf.zeros((*inputs.shape[:-1], 2)), 8.0)
    whole = Objective(replace(part, data=data), learned=same)
    joined = Estimate.of(data, lacking.object, normalisation=data.normalisation)
    fits = fit_further(whole, joined, 60, projected=projected), fit_further(whole, joined, 60, holes=False)
    mask = np.zeros(scan.object.shape, bool)
    for row, column in np.rint(data.positions[lacked]).astype(int) + N // 2:
        mask[row - 2 : row + 3, column - 2 : column + 3] = True
    further, held = (distance(fitted.estimate.object, scan.object, mask) for fitted in fits)
    assert further < 0.7 * held


def start_of(data, **options):
    """Return the selected model of a scan with a known beam, and its initial object."""
    selection = select_model(data, replace(KNOWN, probe_variation=0, **options), 0, True)
    return selection, decided(selection).get("initial object")


def test_the_start_that_explains_more_is_taken():
    selection, start = start_of(textured(6, 2.6).dataset(np.random.default_rng(3)))
    assert selection.projected and start == "by the difference map"
    smooth = Scan.of(np.random.default_rng(1), 1e4, count=6, step=2.2)
    selection, start = start_of(smooth.dataset(np.random.default_rng(3)))
    assert not selection.projected and start == "a constant"


def test_a_dense_scan_gets_it_where_a_known_probe_leads_to_a_poor_fit():
    data = textured(8, 2.2).dataset(np.random.default_rng(3))
    assert start_of(data)[1] == "by the difference map"
    assert start_of(data, selection=SelectionOptions(poor_fit=np.inf))[1] is None


def test_the_noise_of_amplitudes_is_that_of_the_better_start():
    """Normal noise σ of an amplitude is that of an effective photon of amplitude 2σ."""
    rng, sigma, scan = np.random.default_rng(3), 0.5, textured(6, 2.6)
    amplitudes = scan.dataset().amplitudes[:]
    noisy = np.abs(amplitudes + sigma * rng.normal(size=amplitudes.shape))
    data = scan.dataset(amplitudes=noisy.astype(np.float32))
    unit = first_noise(replace(data, counts=False), ModelOptions(prior="none"), True).unit
    assert 0.7 < unit / (2 * sigma) < 1.5
