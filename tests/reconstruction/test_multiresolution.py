"""Multiresolution start of objects, of a scan whose object is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.large_patterns import smooth_scan

from ptycho.reconstruction.blocks import Blockwise, estimate_of, multiresolution_start
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import Objective
from ptycho.scan.coarser import coarser
from ptycho.scan.dataset import Dataset


@pytest.fixture(scope="module")
def scan() -> tuple[Dataset, np.ndarray]:
    return smooth_scan(1 / 40)


def start_of(data: Dataset) -> tuple[Objective, Estimate]:
    return Objective(likelihood_of(data)), Estimate.of(data, np.ones((data.object_size,) * 2))


def error_of(estimate: Estimate, truth: np.ndarray) -> float:
    """Return the relative error weighted by illumination, up to a constant factor."""
    illumination = object_illumination(estimate)
    found, illumination = estimate.object, np.where(illumination > 0.1 * illumination.max(), illumination, 0)
    factor = np.sum(illumination * found.conj() * truth) / np.sum(illumination * np.abs(found) ** 2)
    left = np.sum(illumination * np.abs(factor * found - truth) ** 2)
    return float(
        np.sqrt(left / np.sum(illumination * np.abs(truth - np.average(truth, weights=illumination)) ** 2))
    )


@pytest.mark.parametrize("blockwise", [None, Blockwise(patterns=5)])
def test_what_varies_slowly_is_found(scan: tuple[Dataset, np.ndarray], blockwise: Blockwise | None) -> None:
    data, truth = scan
    objective, start = start_of(data)
    found = multiresolution_start(objective, start, 60, blockwise)
    assert found is not None and found.modes is start.modes and found.positions is start.positions
    assert error_of(found, truth) < 0.25 < error_of(start, truth)
    mirrored = replace(found, object=found.object[:, ::-1])
    assert error_of(mirrored, truth) > 0.5


def test_photons_that_are_held_out_stay_out(scan: tuple[Dataset, np.ndarray]) -> None:
    """The data set only has the mean pattern; the object follows from the likelihood's own amplitudes."""
    data, truth = scan
    mean = np.sqrt(data.amplitudes.statistics.mean_intensity).astype(np.float32)
    dull = replace(data, amplitudes=np.broadcast_to(mean, data.amplitudes.shape).copy())
    objective, start = start_of(dull)
    objective = replace(objective, likelihood=replace(objective.likelihood, instead=data.amplitudes[:]))
    found = multiresolution_start(objective, start, 60)
    assert found is not None and error_of(found, truth) < 0.25


def test_the_downsampled_beam_is_the_same_beam_and_a_ramp_turns_four_times_as_far_in_a_pixel(
    scan: tuple[Dataset, np.ndarray],
) -> None:
    data, _ = scan
    view, start = coarser(data), start_of(data)[1]
    assert view is not None
    estimate = estimate_of(view, start)
    assert np.allclose(estimate.positions, data.positions / 4) and (estimate.object == 1).all()
    modes = Estimate.of(view.data, estimate.object, None, data.normalisation).modes
    assert np.allclose(estimate.modes, modes, atol=1e-5 * np.abs(modes).max())
    row, col = np.indices(start.object.shape)
    ramp = np.exp(0.01j * row - 0.02j * col).astype(np.complex64)
    image = estimate_of(view, replace(start, object=ramp)).object
    np.testing.assert_allclose(image[1:] / image[:-1], np.exp(0.04j), atol=1e-3)
    np.testing.assert_allclose(image[:, 1:] / image[:, :-1], np.exp(-0.08j), atol=1e-3)
