"""Refinement: a pass by loops, the truth as its fixed point, its end at photon noise, batches from afar."""

import io
import logging
import sys
from dataclasses import replace

import numpy as np
import pytest
import reference
from ptycho.reconstruction.joint_state import State

from ptycho import progress
from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.reconstruction import joint, refinement
from ptycho.reconstruction.refinement import DAMPING, corrected, refine
from ptycho.reconstruction.stitching import stitch, stitch_each

N, M = 16, 27


def scan_of(dataset_of, rng, count=8, fractions=False):
    """A scan over two images with a complex probe; its last pattern is in no group."""
    positions = rng.uniform(0, M - N, (count, 2))
    positions[0] = M - N  # the corner
    return dataset_of(
        positions if fractions else np.round(positions),
        np.arange(count - 1)[:, None],
        object_size=M,
        region_size=N + 2,
        image=np.arange(count) % 2,
        probe=reference.random_complex(rng, (N, N)),
        exact=fractions,
    )


def complex_objects(rng, count=2):
    return reference.random_complex(rng, (count, M, M)).astype(np.complex64)


def measured_on(objects, data):
    """``data`` with the noise-free amplitudes of ``objects`` in counts."""
    amplitudes = [
        reference.diffraction(objects[i], [position], data.probe)[0]
        for i, position in zip(data.image, data.positions, strict=True)
    ]
    return replace(data, amplitudes=data.photon_scale * np.array(amplitudes, np.float32))


def all_at_once(monkeypatch):
    """Passes of one batch, however far the object is."""
    monkeypatch.setattr(refinement, "FAR", np.inf)


def one_pass_by_loops(objects, data):
    """The objects after a pass of all patterns at once, and ``Σ(n − λ)² / Σ n`` of each before it.

    ``O + α ΔO``, ``ΔO = B / (L + β max L)`` with ``B = Σ P̄ F⁻¹ΔΨ`` and ``L = Σ|P|²``, where α makes
    ``Σ|F⁻¹ΔΨ − α P ΔO|²`` smallest; fractions of a pixel move the probe.
    """
    f, side = data.normalisation, np.fft.fftfreq(N)
    updated, misfits = objects.astype(complex), []
    for i, image in enumerate(objects):
        back, light = np.zeros((M, M), complex), np.zeros((M, M))
        squares = photons = 0.0
        for k in np.flatnonzero(data.image == i):
            whole = np.floor(data.positions[k].astype(float) + 0.5).astype(int)
            rest = data.positions[k] - whole
            ramp = np.exp(-2j * np.pi * (rest[0] * side[:, None] + rest[1] * side))
            probe = np.fft.ifft2(np.fft.fft2(data.model_probe) * ramp)
            window = np.s_[whole[0] : whole[0] + N, whole[1] : whole[1] + N]
            far = np.fft.fft2(probe * image[window], norm="ortho")
            n = np.fft.ifftshift(data.amplitudes[k].astype(float)) ** 2
            root = np.abs(far) / f  # √λ
            step = np.sqrt(n) - root
            if data.counts:
                least = np.sqrt(0.05 * np.maximum(n, 1))
                step = np.where(n > 10.5, step, (n - root**2) / (2 * np.maximum(root, least)))
            revised = np.fft.ifft2(f * step * far / np.sqrt(np.abs(far) ** 2 + 1e-6), norm="ortho")
            back[window] += probe.conj() * revised
            light[window] += np.abs(probe) ** 2
            squares, photons = squares + ((n - root**2) ** 2).sum(), photons + n.sum()
        change = back / (light + DAMPING * light.max())
        updated[i] += change * np.vdot(change, back).real / np.sum(np.abs(change) ** 2 * light)
        misfits.append(squares / photons)
    return updated, misfits


def misfit(objects, data):
    """RMS difference of normalised amplitudes."""
    predicted = [
        reference.diffraction(objects[data.image[k]], [data.positions[k]], data.model_probe)[0]
        for k in range(len(data.image))
    ]
    measured = data.normalised(slice(None))
    return float(np.sqrt(np.mean((np.array(predicted) - measured) ** 2)))


@pytest.mark.parametrize("fractions, counts", [(False, True), (True, True), (True, False)])
def test_one_pass_by_loops(dataset_of, monkeypatch, fractions, counts):
    all_at_once(monkeypatch)
    monkeypatch.setattr(joint, "CHUNK_PIXELS", 3 * N**2)
    rng = np.random.default_rng(3)
    data = scan_of(dataset_of, rng, fractions=fractions)
    photons = rng.poisson(8, data.amplitudes.shape)  # few, exactly ten, and more
    data = replace(data, amplitudes=np.sqrt(photons).astype(np.float32), counts=counts)
    objects = complex_objects(rng)
    before = objects.copy()
    expected, misfits = one_pass_by_loops(objects, data)
    assert np.abs(expected - objects).max() > 0.1
    found = refine(objects, data, 1)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, expected, atol=3e-4)
    np.testing.assert_array_equal(objects, before)
    for i in range(2):
        one = data.subset(np.flatnonzero(data.image == i), 1)
        solver = joint.JointSolver(one, one, 0, compile_xla=False)
        state = State.of(one, objects[i])
        every = np.arange(len(one.positions))
        assert solver.misfit(state, every) == pytest.approx(misfits[i], rel=1e-4)


def test_passes_are_repeated(dataset_of, monkeypatch):
    all_at_once(monkeypatch)
    rng = np.random.default_rng(4)
    data = scan_of(dataset_of, rng)
    objects = complex_objects(rng)
    twice = refine(refine(objects, data, 1), data, 1)
    np.testing.assert_allclose(refine(objects, data, 2), twice, atol=1e-5)


def test_the_true_object_stays(dataset_of):
    rng = np.random.default_rng(5)
    truth = complex_objects(rng)
    data = replace(measured_on(truth, scan_of(dataset_of, rng)), counts=False)
    np.testing.assert_allclose(refine(truth, data, 3), truth, atol=1e-3)


def test_from_afar_batches_are_faster(dataset_of, monkeypatch):
    """The same number of transforms, and an object that is far closer."""
    rng = np.random.default_rng(6)
    truth = complex_objects(rng)
    data = measured_on(truth, replace(scan_of(dataset_of, rng, count=48), photon_scale=100.0))
    objects = truth + 0.3 * complex_objects(rng)
    by_batches = misfit(refine(objects, data, 3), data)
    all_at_once(monkeypatch)
    assert by_batches < 0.5 * misfit(refine(objects, data, 3), data) < 0.3 * misfit(objects, data)


def test_near_the_noise_all_patterns_decide_together(dataset_of):
    """A misfit of a few: the pass is that of the loops, of all patterns at once."""
    rng = np.random.default_rng(3)
    truth = complex_objects(rng)
    data = at_noise(scan_of(dataset_of, rng), truth, rng, (2.0, 2.0))
    expected, misfits = one_pass_by_loops(truth, data)
    assert min(misfits) > 2 and max(misfits) < 8
    np.testing.assert_allclose(refine(truth, data, 1), expected, atol=3e-4)


def at_noise(data, objects, rng, levels):
    """Counts that lie ``levels[i]`` times their standard deviation above or below those expected."""
    exact = measured_on(objects, replace(data, photon_scale=100.0))
    root, level = exact.amplitudes[:], np.array(levels)[data.image][:, None, None]
    counts = np.maximum(root**2 + rng.choice([-1, 1], root.shape) * level * root, 0)
    return replace(exact, amplitudes=np.sqrt(counts).astype(np.float32))


def test_an_object_is_done_at_the_level_of_photon_noise(dataset_of, caplog):
    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(11)
    truth = complex_objects(rng)
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
    truth = complex_objects(rng)
    data = replace(at_noise(scan_of(dataset_of, rng), truth, rng, (0.9, 0.9)), counts=False)
    found = refine(truth, data, 2)
    assert np.abs(found - truth).max(axis=(1, 2)).min() > 1e-4 and not caplog.records
    milli = replace(data, amplitudes=data.amplitudes[:] / 1e3, photon_scale=data.photon_scale / 1e3)
    np.testing.assert_allclose(refine(truth, milli, 2), found, atol=1e-4)  # their unit does not matter


def test_the_pass_that_reaches_the_noise_is_the_last(dataset_of):
    rng = np.random.default_rng(12)
    truth = complex_objects(rng, 1)
    data = measured_on(truth, replace(scan_of(dataset_of, rng, count=24), image=np.zeros(24, np.int32)))
    start = truth[0] + 0.3 * complex_objects(rng, 1)[0]
    found, done = corrected(start, data, 200)
    assert 1 < done < 200
    solver, every = joint.JointSolver(data, data, 0, compile_xla=False), np.arange(24)
    assert solver.misfit(State.of(data, found), every) <= 1
    earlier, fewer = corrected(start, data, done - 1)
    assert fewer == done - 1 and solver.misfit(State.of(data, earlier), every) > 1


def test_progress_is_shown(dataset_of, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.0)
    data = scan_of(dataset_of, np.random.default_rng(8))  # four patterns of each of two images
    refine(np.ones((2, M, M), np.complex64), data, 2)
    lines = [record.getMessage().split(" patterns,")[0] for record in caplog.records]
    assert lines == [f"refinement: {done} of 16" for done in range(2, 17)]
    assert caplog.records[-1].getMessage().endswith(" patterns/s, 0 s left")


def test_patterns_in_a_file_give_the_same(dataset_of, tmp_path):
    rng = np.random.default_rng(7)
    data = scan_of(dataset_of, rng)
    objects = complex_objects(rng)
    rows = FileArray.temporary(tmp_path, data.amplitudes.shape, np.float32)
    rows[:] = data.amplitudes
    stored = replace(data, amplitudes=rows)
    np.testing.assert_array_equal(refine(objects, stored, 2), refine(objects, data, 2))


def test_an_image_without_patterns_stays(dataset_of):
    rng = np.random.default_rng(9)
    both = scan_of(dataset_of, rng)
    objects = complex_objects(rng)
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
