"""The zero frequency of mean patterns that are drawn about a known point."""

import numpy as np
import pytest
from helpers.scans import raw_scan
from scipy.ndimage import gaussian_filter

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.preparation.centre import find_centre
from ptycho.preparation.prepare import interpret

H, W = 101, 116
TRUE = (47, 61)


def radius(centre=TRUE, shape=(H, W)):
    rows, cols = np.indices(shape)
    return np.hypot(rows - centre[0], cols - centre[1])


def off(mean, good=None, true=TRUE):
    """Pixels between the centre that is found and the true one, the larger of row and column."""
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
@pytest.mark.parametrize("photons", [300, 30_000])
def test_a_weak_scan(beam, photons):
    rng = np.random.default_rng(1)
    mean = rng.poisson(photons * beam / beam.sum(), (64, H, W)).mean(axis=0)
    assert off(mean) <= 1


@every_beam
@pytest.mark.parametrize("column", [55, 61, 66])
def test_dead_columns_anywhere_in_the_beam(beam, column):
    good = np.ones((H, W), bool)
    good[:, column : column + 2] = False
    assert off(beam, good) <= (2 if beam is CURVED else 1)
    shining = np.where(good, beam, 50.0)  # what bad pixels read has no say
    assert find_centre(shining, good) == find_centre(np.where(good, beam, 0), good)


@every_beam
def test_a_stop_over_half_of_the_beam(beam):
    good = (radius() > 6) & ~((abs(np.arange(H) - TRUE[0]) < 2)[:, None] & (np.arange(W) > TRUE[1]))
    assert off(beam, good) <= 2


@every_beam
def test_diffuse_light_and_a_sloping_background_do_not_pull(beam):
    """Half as much light as the beam's in one, as much in the other."""
    diffuse = np.exp(-(radius((67, 41)) ** 2) / (2 * 20**2))
    slope = np.broadcast_to(np.arange(W) / W, (H, W))
    assert off(beam + 0.5 * beam.sum() * diffuse / diffuse.sum()) <= 1
    assert off(beam + beam.sum() * slope / slope.sum()) <= 1


def test_strong_scattering_to_one_side():
    """A third of the light in a lobe beside the disk, as bright as a third of it."""
    lobe = np.exp(-(radius((52, 90)) ** 2) / (2 * 8**2))
    assert off(DISK + 0.4 * lobe) == 0


@pytest.mark.parametrize("part", [0.05, 0.2, 0.4])
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


def test_a_spot_without_an_edge_beside_a_lobe():
    """A third more light in a lobe beside it: there is no sharp outline, and the symmetry decides."""
    lobe = np.exp(-(radius((50, 73)) ** 2) / (2 * 3**2))
    found = find_centre(SPOT + 0.3 * SPOT.sum() * lobe / lobe.sum(), np.ones((H, W), bool))
    assert np.abs(np.subtract(found[:2], TRUE)).max() <= 1 and found.warning is not None


def test_where_the_beam_is_covered_the_outline_decides():
    good = radius() > 11
    found = find_centre(np.where(good, DISK, 0), good)
    assert "outline" in found.why and "% of which is bad" in found.why and found.warning is None
    assert np.abs(np.subtract(found[:2], TRUE)).max() <= 1


def test_no_light_is_refused():
    with pytest.raises(ConfigError, match="mean pattern is dark"):
        find_centre(np.zeros((H, W)), np.ones((H, W), bool))


@pytest.mark.parametrize("column", [29, 31, 33])
def test_dead_columns_do_not_cost_half_of_the_detector(column):
    """64 × 64 pixels, the beam in their middle, and two dead columns in it: all of them are used."""
    rng = np.random.default_rng(0)
    spot = np.exp(-(radius((32, 32), (64, 64)) ** 2) / 18)
    frames = rng.poisson(200 * spot * rng.uniform(0.7, 1.3, (30, 1, 1))).astype(np.uint16)
    good = np.ones((64, 64), bool)
    good[:, column : column + 2] = False
    frames[:, ~good] = 0
    grid = 4.0 * np.stack(np.divmod(np.arange(30), 6), axis=1)
    raw = raw_scan(frames, grid, zero_frequency=None, good=good)
    scan = interpret(raw, DataConfig(file="scan"))
    assert scan.detector.centre == (32, 32) and scan.N == 64 and not scan.warnings
    stated = interpret(raw, DataConfig(file="scan", zero_frequency="30,31", N=32))
    assert stated.detector.centre == (30, 31)
