"""Power at the frequencies of a raster: photographs with a lattice of known strength, and without."""

import numpy as np
import pytest
import skimage.data

from ptycho.evaluation.raster_artefact import RasterOptions, lattice_frequencies, raster_artefact
from ptycho.evaluation.trust import shows_raster

SIDE, STEP = (150, 161), 7.3


def image(name="camera"):
    part = np.asarray(getattr(skimage.data, name)(), float)[: SIDE[0], : SIDE[1]] / 255
    return (0.6 + 0.4 * part) * np.exp(1j * part)


def lattice(step=STEP, jitter=0.0, slope=0.0):
    rows, cols = np.mgrid[0 : 140 / step, 0 : 150 / step].reshape(2, -1)
    places = step * np.stack([rows + slope * cols, cols], axis=1)
    return places + jitter * step * np.random.default_rng(1).uniform(-1, 1, places.shape)


def modulated(strength, step=STEP):
    rows, cols = np.ogrid[: SIDE[0], : SIDE[1]]
    wave = np.cos(2 * np.pi * rows / step + 1) + np.cos(2 * np.pi * cols / step)
    return image() * (1 + strength * wave)


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_the_frequencies_are_those_of_the_lattice(jitter):
    found = lattice_frequencies(lattice(jitter=jitter, slope=0.25), 150, RasterOptions(frequencies=2))
    reciprocal = np.linalg.inv(STEP * np.array([[1, 0.25], [0, 1]]))  # k with k·r whole for all r: its rows
    expected = {tuple(np.round(sign * k, 2)) for k in reciprocal for sign in (1, -1)}
    assert {tuple(np.round(k, 2)) for k in found} <= expected and len(found) == 2


@pytest.mark.parametrize("name", ["camera", "coins", "moon", "grass"])
@pytest.mark.parametrize("step", [5.0, 7.3, 12.0])
def test_photographs_do_not_show_a_raster(name, step):
    found = raster_artefact(image(name), lattice(step, jitter=0.1))
    assert found.excess < 4 and found.period_px == pytest.approx(step, rel=0.03)


def test_a_lattice_in_the_image_is_seen_and_measured():
    found = raster_artefact(modulated(0.06), lattice())
    window = np.outer(*(np.hanning(side + 2)[1:-1] for side in SIDE))
    added, whole = modulated(0.06) - image(), modulated(0.06)
    rest = whole - (window * whole).sum() / window.sum()
    expected = np.sum(np.abs(window * added) ** 2) / np.sum(np.abs(window * rest) ** 2)
    assert found.excess > 50 and found.share == pytest.approx(expected, rel=0.15)
    assert shows_raster(found.excess, found.share)


def test_a_sample_of_another_period_is_no_artefact():
    found = raster_artefact(modulated(0.3, step=9.1), lattice())
    assert not shows_raster(found.excess, found.share)


def test_a_spiral_and_random_positions_have_no_lattice():
    turn = np.arange(400)
    spiral = 4 * np.sqrt(turn)[:, None] * np.stack([np.cos(2.39996 * turn), np.sin(2.39996 * turn)], axis=1)
    random = np.random.default_rng(0).uniform(0, 140, (400, 2))
    assert raster_artefact(image(), spiral) is None and raster_artefact(image(), random) is None
    assert raster_artefact(image(), lattice(step=40.0)) is None  # too few periods
