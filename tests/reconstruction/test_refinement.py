"""Refinement of objects with a known beam: smaller errors, the truth as a fixed point, several images."""

import io
import logging
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from helpers import reference
from helpers.likelihood import intensity_of

from ptycho.config import ConfigError
from ptycho.progress import Progress
from ptycho.reconstruction import inference
from ptycho.reconstruction.inference import refine
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


@pytest.mark.parametrize("fractions, counts", [(False, True), (True, True), (True, False)])
def test_a_rough_object_gets_better(dataset_of, fractions, counts):
    """Both images improve; more steps bring them closer to the patterns and to the truth."""
    rng = np.random.default_rng(3)
    truth = complex_objects(rng)
    dense = replace(
        scan_of(dataset_of, rng, count=48, fractions=fractions), photon_scale=100.0, counts=counts
    )
    data = by_loops(truth, dense)
    objects = truth + 0.3 * complex_objects(rng)
    before = objects.copy()
    found = [refine(objects, data, steps) for steps in (1, 5, 40)]
    assert all(one.dtype == np.complex64 and one.shape == objects.shape for one in found)
    np.testing.assert_array_equal(objects, before)
    for i in range(2):
        misfits = [misfit_of(one, data, i) for one in (objects, *found)]
        assert misfits[0] > misfits[1] > misfits[2] > misfits[3] and misfits[3] < 0.1 * misfits[0]
        middle = np.s_[i, 6:-6, 6:-6]
        assert np.abs(found[2] - truth)[middle].mean() < 0.3 * np.abs(objects - truth)[middle].mean()


def by_loops(objects, data):
    """Return ``data`` with noise-free amplitudes of ``objects``; fractions of a pixel shift the probe."""
    measured = []
    for i, position in zip(data.image, data.positions.astype(float), strict=True):
        intensity = intensity_of(objects[i], data.photon_scale * data.probe, position)
        measured.append(np.fft.fftshift(np.sqrt(intensity)))
    return replace(data, amplitudes=np.array(measured, np.float32))


def misfit_of(objects, data, image):
    """RMS difference of the amplitudes of one image."""
    mine = np.flatnonzero(data.image == image)
    expected = by_loops(objects, data).amplitudes[mine]
    return float(np.sqrt(np.mean((expected - data.amplitudes[mine]) ** 2)))


def test_progress_is_shown(dataset_of, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(inference, "Progress", partial(Progress, line_s=0.0))
    data = scan_of(dataset_of, np.random.default_rng(8))  # four patterns of each of two images
    refine(np.ones((2, M, M), np.complex64), data, 2)
    lines = [record.getMessage().split(" patterns,")[0] for record in caplog.records]
    assert all(line.startswith("refinement: ") for line in lines)
    done = [int(line.split()[1]) for line in lines]
    assert done == sorted(done) and done[-1] >= 16
    assert [line.endswith(" of 16") for line in lines] == [count <= 16 for count in done]  # a line search


def test_an_image_without_patterns_stays(dataset_of):
    rng = np.random.default_rng(9)
    both = scan_of(dataset_of, rng)
    objects = complex_objects(rng)
    second = np.flatnonzero(both.image == 1)
    known = {"image": both.image[second], "groups": np.arange(len(second))[:, None]}
    data = replace(both, amplitudes=both.amplitudes[second], beam=both.beam.at(second), **known)
    found = refine(objects, data, 1)
    np.testing.assert_array_equal(found[0], objects[0])
    assert np.abs(found[1] - objects[1]).max() > 0.1


def test_arguments_that_do_not_fit(dataset_of):
    data = scan_of(dataset_of, np.random.default_rng(0))
    objects = np.ones((2, M, M), np.complex64)
    with pytest.raises(ConfigError, match="steps=0: must be at least 1"):
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
