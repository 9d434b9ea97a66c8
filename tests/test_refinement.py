"""Refinement: the update by loops, the truth as its fixed point, and less misfit with every pass."""

import itertools
import logging
from dataclasses import replace

import numpy as np
import pytest
import reference

from ptycho import progress, refinement
from ptycho.config import ConfigError
from ptycho.refinement import ILLUMINATION_FLOOR, refine, refinements
from ptycho.rows import Rows
from ptycho.stitching import stitch, stitch_each

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
    return data.with_amplitudes(data.photon_scale * np.array(amplitudes, np.float32), data.photon_scale)


def one_pass_by_loops(objects, data):
    """The objects after a pass, and ``Σ(n − λ)² / Σ n`` before it."""
    probe, f = data.model_probe.astype(complex), data.normalisation
    updated, squares = objects.astype(complex), 0.0
    for i, image in enumerate(objects):
        change, light = np.zeros((M, M), complex), np.zeros((M, M))
        for k in np.flatnonzero(data.image == i):
            wave = probe * reference.extract(image, data.positions[k], N)
            far = np.fft.fft2(wave, norm="ortho")
            n = np.fft.ifftshift(data.amplitudes[k].astype(float)) ** 2
            root = np.abs(far) / f  # √λ
            step = np.where(n > 10, np.sqrt(n) - root, (n - root**2) / (2 * np.maximum(root, np.sqrt(0.05))))
            revised = np.fft.ifft2(f * step * far / np.sqrt(np.abs(far) ** 2 + 1e-6), norm="ortho")
            change += reference.place(probe.conj() * revised, data.positions[k], (M, M))
            light += reference.place(np.abs(probe) ** 2, data.positions[k], (M, M)).real
            squares += ((n - root**2) ** 2).sum()
        updated[i] += change / (light + ILLUMINATION_FLOOR * light.max())
    return updated, squares / (data.amplitudes.astype(float) ** 2).sum()


def after(passes, objects, data):
    """The objects after some passes, whatever the misfit."""
    return next(itertools.islice(refinements(objects, data), passes - 1, None)).objects


def misfit(objects, data):
    """RMS difference of normalised amplitudes."""
    predicted = [
        reference.diffraction(objects[data.image[k]], [data.positions[k]], data.model_probe)[0]
        for k in range(len(data.image))
    ]
    measured = data.normalisation * data.amplitudes
    return float(np.sqrt(np.mean((np.array(predicted) - measured) ** 2)))


@pytest.mark.parametrize("chunk, dark", [(3, 0), (64, 0), (64, 4)])
def test_one_pass_by_loops(dataset_of, monkeypatch, chunk, dark):
    """``dark``: width of the frame in which the probe is zero."""
    monkeypatch.setattr(refinement, "CHUNK_PIXELS", chunk * N**2)
    rng = np.random.default_rng(3)
    data = scan_of(dataset_of, rng)
    lit = np.pad(np.ones((N - 2 * dark,) * 2, np.float32), dark)
    data = replace(data, probe=data.probe * lit)
    objects = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    few = data.amplitudes**2 <= 10
    assert 0.05 < few.mean() < 0.5  # of both kinds of pixels there are enough
    found = next(refinements(objects, data))
    assert found.objects.dtype == np.complex64
    expected, misfit_before = one_pass_by_loops(objects, data)
    assert np.abs(expected - objects).max() > 0.1
    np.testing.assert_allclose(found.objects, expected, atol=2e-4)
    assert found.misfit == pytest.approx(misfit_before, rel=1e-4)
    np.testing.assert_array_equal(refine(objects, data, 1), found.objects)


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


@pytest.mark.parametrize("noise, stays", [(0.9, True), (1.1, False)])
def test_it_ends_at_the_level_of_photon_noise(dataset_of, caplog, noise, stays):
    """Counts that lie ``noise`` times their standard deviation above or below the expected ones."""
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(11)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    exact = measured_on(truth, replace(scan_of(dataset_of, rng), photon_scale=100.0))
    root = exact.amplitudes
    sign = rng.choice([-1, 1], root.shape)
    counts = np.maximum(root**2 + sign * noise * root, 0)
    data = exact.with_amplitudes(np.sqrt(counts).astype(np.float32), 100.0)
    found = refine(truth, data, 2)
    assert np.array_equal(found, truth) == stays
    line = "refinement: at the level of photon noise after 0 of 2 passes"
    assert (line in [record.getMessage() for record in caplog.records]) == stays


def test_a_step_in_the_middle_may_be_the_last(dataset_of, caplog):
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(12)
    truth = reference.random_complex(rng, (2, M, M)).astype(np.complex64)
    data = measured_on(truth, scan_of(dataset_of, rng, count=24))
    objects = truth + 0.3 * reference.random_complex(rng, truth.shape).astype(np.complex64)
    updates = list(itertools.islice(refinements(objects, data), 200))
    good = next(k for k, update in enumerate(updates) if update.misfit <= 1)  # noise-free: there is one
    assert good > 1
    np.testing.assert_array_equal(refine(objects, data, 200), updates[good - 1].objects)
    assert caplog.records[-1].getMessage().endswith(f"after {good} of 200 passes")


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
    rows = Rows.temporary(tmp_path, data.amplitudes.shape, np.float32)
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
    found = stitch_each(regions, data, ("refined", "probe"), 8, passes=2)
    probe, refined = found["probe"], found["refined"]
    np.testing.assert_array_equal(refined.mask, probe.mask)
    expected = np.where(probe.mask, refine(probe.objects, data, 2), 0)
    np.testing.assert_array_equal(refined.objects, expected)
    alone = stitch(regions, data, "refined", 8, passes=2)
    np.testing.assert_array_equal(alone.objects, refined.objects)
