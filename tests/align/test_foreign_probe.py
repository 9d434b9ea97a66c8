"""A wrong probe in the file: an object in its place is not used as the initial probe; a rough probe is."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, Scan, beam

import ptycho
from ptycho.align.aligned import AlignedScan
from ptycho.align.initial_probe import check_probe
from ptycho.config import ScanRunConfig, ZonePlateProbe
from ptycho.scan.beam import Beam


def read_with(stored, **keys):
    """Return the aligned scan, and the data set, of a file with this probe."""
    truth = Scan.of(np.random.default_rng(1), 1e4, count=6)
    data = truth.dataset(np.random.default_rng(2))
    scan = ptycho.Scan.from_arrays(np.rint(data.amplitudes[:] ** 2), data.positions, stored, counts=True)
    config = ScanRunConfig(data=scan.data, **keys)
    data = replace(data, beam=Beam(np.asarray(stored, np.complex64), data.positions))
    return check_probe(AlignedScan(scan.geometry, data, config)), data


def object_as_probe():
    """A weak object whose phase differs from sample to sample, which scatters all over the detector."""
    return np.exp(2j * np.pi * np.random.default_rng(3).random((N, N)))


@pytest.mark.parametrize("probe", [beam(), beam(curvature=0.04), beam(1.0, -0.5)])
def test_a_rough_probe_is_begun_with(probe):
    aligned, before = read_with(probe)
    assert aligned.data is before and aligned.scan.probe is not None and not aligned.decisions


def test_an_object_in_place_of_the_probe_is_not():
    aligned, before = read_with(object_as_probe())
    (warning,), data = aligned.decisions, aligned.data
    assert "the probe of the file does not belong to the patterns" in str(warning) and warning.warns
    assert aligned.scan.probe is None
    assert data.beam.power == pytest.approx(before.beam.power, rel=1e-5)
    mean = np.sqrt(data.amplitudes.statistics.mean_intensity)
    far = np.abs(np.fft.fftshift(np.fft.fft2(data.probe[0])))
    assert np.corrcoef(mean.ravel(), far.ravel())[0, 1] > 0.9


def test_a_probe_that_the_user_states_is_taken():
    aligned, before = read_with(object_as_probe(), probe=ZonePlateProbe())
    assert aligned.data is before and aligned.scan.probe is not None
