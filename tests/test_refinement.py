"""Refinement: the update by loops, the truth as its fixed point, and less misfit with every pass."""

import io
import itertools
import logging
import sys
from dataclasses import replace

import numpy as np
import pytest
import reference

from ptycho import progress
from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.reconstruction import refinement
from ptycho.reconstruction.refinement import ILLUMINATION_FLOOR, refine, refinements
from ptycho.reconstruction.stitching import stitch, stitch_each

N, M = 16, 27


def scan_of(dataset_of, rng, count=8):
    """A scan of sub-pixel positions over two images with a complex probe; its last pattern is in no group."""
    positions = rng.uniform(0, M - N, (count, 2))
    positions[0] = M - N  # the corner
    return dataset_of(
        positions,
        np.arange(count - 1)[:, None],
        object_size=M,
        region_size=N + 2,
        image=np.arange(count) % 2,
        probe=reference.random_complex(rng, (N, N)),
    )


def measured_on(objects, data):
    """``data`` with the noise-free amplitudes of ``objects`` in counts."""
    amplitudes = [
        reference.diffraction(objects[i], [position], data.probe)[0]
        for i, position in zip(data.image, data.positions, strict=True)
    ]
    return replace(data, amplitudes=data.photon_scale * np.array(amplitudes, np.float32))


def one_pass_by_loops(objects, data):
    """The objects after a pass, and ``Σ(n − λ)² / Σ n`` of each before it."""
    probe, f = data.model_probe.astype(complex), data.normalisation
    updated, misfits = objects.astype(complex), []
    for i, image in enumerate(objects):
        change, light = np.zeros((M, M), complex), np.zeros((M, M))
        squares = photons = 0.0
        for k in np.flatnonzero(data.image == i):
            wave = probe * reference.extract(image, data.positions[k], N)
            far = np.fft.fft2(wave, norm="ortho")
            n = np.fft.ifftshift(data.amplitudes[k].astype(float)) ** 2
            root = np.abs(far) / f  # √λ
            step = np.sqrt(n) - root
            if data.counts:
                least = np.sqrt(0.05 * np.maximum(n, 1))
                step = np.where(n > 10.5, step, (n - root**2) / (2 * np.maximum(root, least)))
            revised = np.fft.ifft2(f * step * far / np.sqrt(np.abs(far) ** 2 + 1e-6), norm="ortho")
            change += reference.place(probe.conj() * revised, data.positions[k], (M, M))
            light += reference.place(np.abs(probe) ** 2, data.positions[k], (M, M)).real
            squares, photons = squares + ((n - root**2) ** 2).sum(), photons + n.sum()
        updated[i] += change / (light + ILLUMINATION_FLOOR * light.max())
        misfits.append(squares / photons)
    return updated, misfits


def after(passes, objects, data):
    """The objects after some passes, whatever the misfit."""
    every = [
        itertools.islice(refinements(start, data, i), passes - 1, None) for i, start in enumerate(objects)
    ]
    return np.stack([next(updates).object for updates in every])


def misfit(objects, data):
    """RMS difference of normalised amplitudes."""
    predicted = [
        reference.diffraction(objects[data.image[k]], [data.positions[k]], data.model_probe)[0]
        for k in range(len(data.image))
    ]
    measured = data.normalised(slice(None))
    return float(np.sqrt(np.mean((np.array(predicted) - measured) ** 2)))


@pytest.mark.parametrize("chunk, dark, counts", [(3, 0, True), (64, 0, True), (64, 4, True), (64, 0, False)])
def test_one_pass_by_loops(dataset_of, monkeypatch, chunk, dark, counts):
    """``dark``: width of the frame in which the probe is zero."""
    monkeypatch.setattr(refinement, "CHUNK_PIXELS", chunk * N**2)
    rng = np.random.default_rng(3)
    data = scan_of(dataset_of, rng)
    lit = np.pad(np.ones((N - 2 * dark,) * 2, np.float32), dark)
    photons = rng.poisson(8, data.amplitudes.shape)  # few, exactly ten, and more
    amplitudes = np.sqrt(photons).astype(np.float32)
    data = replace(data, probe=data.probe * lit, amplitudes=amplitudes, counts=counts)
    objects = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    expected, misfits = one_pass_by_loops(objects, data)
    assert np.abs(expected - objects).max() > 0.1
    for i in range(2):
        found = next(refinements(objects[i], data, i))
        assert found.object.dtype == np.complex64
        np.testing.assert_allclose(found.object, expected[i], atol=2e-4)
        assert found.misfit == pytest.approx(misfits[i], rel=1e-4)
    np.testing.assert_allclose(refine(objects, data, 1), expected, atol=2e-4)


def test_passes_are_repeated_updates_and_leave_their_input_alone(dataset_of):
    rng = np.random.default_rng(4)
    data = scan_of(dataset_of, rng)
    objects = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    before = objects.copy()
    twice = refine(refine(objects, data, 1), data, 1)
    np.testing.assert_array_equal(refine(objects, data, 2), twice)
    np.testing.assert_array_equal(objects, before)


def test_the_true_object_stays(dataset_of):
    rng = np.random.default_rng(5)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    data = measured_on(truth, scan_of(dataset_of, rng))
    np.testing.assert_allclose(after(3, truth, data), truth, atol=1e-3)


def at_noise(data, objects, rng, levels):
    """Counts that lie ``levels[i]`` times their standard deviation above or below those expected."""
    exact = measured_on(objects, replace(data, photon_scale=100.0))
    root, level = exact.amplitudes[:], np.array(levels)[data.image][:, None, None]
    counts = np.maximum(root**2 + rng.choice([-1, 1], root.shape) * level * root, 0)
    return replace(exact, amplitudes=np.sqrt(counts).astype(np.float32))


def test_weakly_lit_pixels_are_corrected_less(dataset_of):
    """A single pattern a tenth too strong asks for ΔΨ = 0.1 Ψ: O grows by 0.1 |P|² / (|P|² + ε₂ max |P|²) of
    itself, 0.1/1.01 under full light, 0.1/2 under the hundredth ε₂ of it, 0.1/101 under a ten-thousandth."""
    rng = np.random.default_rng(13)
    levels = rng.choice([1.0, 0.1, 0.01], (N, N), p=[0.4, 0.3, 0.3])
    probe = levels * np.exp(2j * np.pi * rng.random((N, N)))
    data = dataset_of([[3, 5]], [[0]], object_size=M, region_size=N, probe=probe, counts=False)
    truth = (2 + reference.random_complex(rng, (1, M, M))).astype(np.complex64)
    exact = measured_on(truth, data)
    strong = replace(exact, amplitudes=np.float32(1.1) * exact.amplitudes[:])
    growth = after(1, truth, strong)[0] / truth[0] - 1
    inside = growth[3 : 3 + N, 5 : 5 + N]
    for level, expected in ((1.0, 0.1 / 1.01), (0.1, 0.05), (0.01, 0.1 / 101)):
        np.testing.assert_allclose(inside[levels == level], expected, atol=3e-4)
    assert np.count_nonzero(np.abs(growth) > 1e-6) <= N**2


def test_an_object_is_done_at_the_level_of_photon_noise(dataset_of, caplog):
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(11)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    data = at_noise(scan_of(dataset_of, rng), truth, rng, (0.9, 1.1))
    found = refine(truth, data, 1)
    np.testing.assert_array_equal(found[0], truth[0])
    assert np.abs(found[1] - truth[1]).max() > 1e-4
    assert [record.getMessage() for record in caplog.records] == [
        "refinement: object 0 is at the level of photon noise after 0 of 1 passes"
    ]


def test_amplitudes_that_are_no_counts_have_no_such_level(dataset_of, caplog):
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(11)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    data = replace(at_noise(scan_of(dataset_of, rng), truth, rng, (0.9, 0.9)), counts=False)
    found = refine(truth, data, 2)
    assert np.abs(found - truth).max(axis=(1, 2)).min() > 1e-4 and not caplog.records
    milli = replace(data, amplitudes=data.amplitudes[:] / 1e3, photon_scale=data.photon_scale / 1e3)
    np.testing.assert_allclose(refine(truth, milli, 2), found, atol=1e-4)  # their unit does not matter


def test_the_pass_that_reaches_the_noise_is_the_last(dataset_of, caplog):
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(12)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    data = measured_on(truth, scan_of(dataset_of, rng, count=24))
    objects = truth + 0.3 * reference.random_complex(rng, truth.shape).astype(np.complex64)
    found = refine(objects, data, 200)
    for i, record in enumerate(caplog.records):
        best, good = objects[i], 0
        for update in refinements(objects[i], data, i):  # noise-free: an end is reached
            if update.misfit <= 1:
                break
            best, good = update.object, good + 1
        assert good > 1
        np.testing.assert_array_equal(found[i], best)
        assert record.getMessage().endswith(
            f"object {i} is at the level of photon noise after {good} of 200 passes"
        )
    assert len(caplog.records) == 2


def test_every_pass_lowers_the_misfit(dataset_of):
    rng = np.random.default_rng(6)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    data = measured_on(truth, scan_of(dataset_of, rng, count=24))
    objects = truth + 0.3 * reference.random_complex(rng, truth.shape).astype(np.complex64)
    misfits = [misfit(objects, data)]
    for _ in range(5):
        objects = after(1, objects, data)
        misfits.append(misfit(objects, data))
    assert np.all(np.diff(misfits) < 0) and misfits[-1] < 0.5 * misfits[0]


def test_progress_is_shown(dataset_of, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.0)
    monkeypatch.setattr(refinement, "CHUNK_PIXELS", 3 * N**2)
    rng = np.random.default_rng(8)
    data = scan_of(dataset_of, rng)  # four patterns of each of two images
    refine(np.ones((2, M, M), np.complex64), data, 2)
    lines = [record.getMessage().split(" patterns,")[0] for record in caplog.records]
    assert lines == [f"refinement: {done} of 16" for done in (4, 7, 8, 11, 12, 15, 16)]
    assert caplog.records[-1].getMessage().endswith(" patterns/s, 0 s left")


def test_patterns_in_a_file_give_the_same(dataset_of, tmp_path):
    rng = np.random.default_rng(7)
    data = scan_of(dataset_of, rng)
    objects = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    rows = FileArray.temporary(tmp_path, data.amplitudes.shape, np.float32)
    rows[:] = data.amplitudes
    stored = replace(data, amplitudes=rows)
    np.testing.assert_array_equal(refine(objects, stored, 2), refine(objects, data, 2))


def test_an_image_without_patterns_stays(dataset_of):
    rng = np.random.default_rng(9)
    both = scan_of(dataset_of, rng)
    objects = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    second = np.flatnonzero(both.image == 1)
    data = replace(
        both,
        amplitudes=both.amplitudes[second],
        positions=both.positions[second],
        image=both.image[second],
        groups=np.arange(len(second))[:, None],
    )
    found = refine(objects, data, 1)
    np.testing.assert_array_equal(found[0], objects[0])
    assert np.abs(found[1] - objects[1]).max() > 0.1


def test_arguments_that_do_not_fit(dataset_of):
    data = scan_of(dataset_of, np.random.default_rng(0))
    objects = np.ones((2, M, M), np.complex64)
    with pytest.raises(ConfigError, match="passes=0: must be at least 1"):
        refine(objects, data, 0)
    with pytest.raises(ConfigError, match=r"shape of the objects=\(2, 26, 27\): must be \(2, 27, 27\)"):
        refine(objects[:, 1:], data, 1)


@pytest.mark.parametrize("view", [lambda data: data, lambda data: data.single_patterns(1)])
def test_as_a_stitching(datasets, view):
    """It starts from the probe stitching and keeps to the covered part."""
    data = view(datasets["test"])
    rng = np.random.default_rng(8)
    shape = (data.n_groups, data.region_size, data.region_size)
    regions = (0.5 + 0.1 * reference.random_complex(rng, shape)).astype(np.complex64)
    found = stitch_each(regions, data, ("refined", "probe"), passes=2)
    probe, refined = found["probe"], found["refined"]
    np.testing.assert_array_equal(refined.mask, probe.mask)
    expected = np.where(probe.mask, refine(probe.objects, data, 2), 0)
    np.testing.assert_array_equal(refined.objects, expected)
    alone = stitch(regions, data, "refined", passes=2)
    np.testing.assert_array_equal(alone.objects, refined.objects)
