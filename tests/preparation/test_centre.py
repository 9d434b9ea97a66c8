"""The zero frequency of mean patterns that are drawn around a known point."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from ptycho.config import ConfigError
from ptycho.preparation.window import find_centre

H, W = 101, 116
TRUE = (47, 61)


def radius(centre=TRUE, shape=(H, W)):
    rows, cols = np.indices(shape)
    return np.hypot(rows - centre[0], cols - centre[1])


def off(mean, good=None, true=TRUE):
    """Return the distance of the centre found from the true one, px, the larger of row and column."""
    good = np.ones(mean.shape, bool) if good is None else good
    return np.abs(np.subtract(find_centre(np.where(good, mean, 0), good)[:2], true)).max()


DISK = gaussian_filter((radius() < 18).astype(float), 1)
RING = gaussian_filter(((radius() < 20) & (radius() > 9)).astype(float), 1)
SPOT = np.exp(-(radius() ** 2) / 40)
SPECKLE = gaussian_filter(np.random.default_rng(3).normal(size=(H, W)), 2)
CURVED = np.clip(DISK * (1 + 4 * SPECKLE), 0, None)  # a beam out of focus: uneven inside a sharp outline
BEAMS = {"disk": DISK, "ring": RING, "spot": SPOT, "curved": CURVED}
every_beam = pytest.mark.parametrize("beam", BEAMS.values(), ids=BEAMS)


@every_beam
def test_a_beam_alone(beam):
    assert off(beam) == 0 if beam is not CURVED else off(beam) <= 1


@every_beam
@pytest.mark.parametrize("column", [55, 66])
def test_dead_columns_anywhere_in_the_beam(beam, column):
    good = np.ones((H, W), bool)
    good[:, column : column + 2] = False
    assert off(beam, good) <= (2 if beam is CURVED else 1)
    shining = np.where(good, beam, 50.0)  # values of bad pixels do not matter
    assert find_centre(shining, good) == find_centre(np.where(good, beam, 0), good)


@every_beam
def test_diffuse_intensity_and_a_sloping_background_do_not_shift_the_centre(beam):
    """Each has half the intensity of the beam."""
    diffuse = np.exp(-(radius((67, 41)) ** 2) / (2 * 20**2))
    slope = np.broadcast_to(np.arange(W) / W, (H, W))
    assert off(beam + 0.5 * beam.sum() * diffuse / diffuse.sum()) <= 1
    assert off(beam + beam.sum() * slope / slope.sum()) <= 1


@pytest.mark.parametrize("part", [0.05, 0.4])
def test_a_bright_field_disk_between_pixels(part):
    shape, true = (256, 256), (126.0, 127.7)
    disk = gaussian_filter((radius(true, shape) < 40).astype(float), 1)
    diffuse = np.exp(-(radius((150, 105), shape) ** 2) / (2 * 45**2))
    mean = np.random.default_rng(1).poisson(20 * (disk + part * diffuse), (16, *shape)).mean(axis=0)
    found = find_centre(mean, np.ones(shape, bool))
    assert abs(found.row - true[0]) <= 0.5 and abs(found.col - true[1]) <= 1
    assert "agree" in found.why and found.warning is None


def test_two_ways_that_do_not_agree_are_a_warning():
    """A sharp disk with a bright spot beside its middle, which is the more symmetric: the outline decides."""
    found = find_centre(DISK + 5 * (radius((47, 66)) < 3), np.ones((H, W), bool))
    assert found.warning is not None and "data.zero_frequency='row,col'" in found.warning
    assert found[:2] == TRUE and "sharp outline" in found.why


def test_no_intensity_is_refused():
    with pytest.raises(ConfigError, match="mean pattern is dark"):
        find_centre(np.zeros((H, W)), np.ones((H, W), bool))
