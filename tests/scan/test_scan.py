"""Positions, groups and regions of the nested grid; bands of rows, each row once."""

import itertools

import numpy as np
import pytest
from helpers import reference

from ptycho.config import ConfigError, RunConfig, ScanConfig
from ptycho.scan.groups import (
    draw_neighbours,
    group_centres,
    group_offsets,
    nearest_groups,
    smallest_region,
    tiled_groups,
)
from ptycho.scan.positions import nested_grid
from ptycho.scan.windows import bands, inner_product
from ptycho.simulation.simulate import scan_images


def scan_of(config, role, n_images=1):
    grid = nested_grid(config.size, config.N, config.gridsize, config.offset, config.outer_pitch(role))
    rngs = [np.random.default_rng(i) for i in range(n_images)]
    return scan_images(*grid, config.size - config.N, config.scan.jitter, rngs)


@pytest.mark.parametrize("gridsize", [1, 2, 3])
@pytest.mark.parametrize("offset", [3, 4])
def test_nested_grid_by_loops(gridsize, offset):
    size, N, pitch = 61, 32, 5
    positions, groups = nested_grid(size, N, gridsize, offset, pitch)
    starts = [a for a in range(size) if a % pitch == 0 and a + N + (gridsize - 1) * offset <= size]
    expected = [
        [(r + offset * i, c + offset * j) for i, j in itertools.product(range(gridsize), repeat=2)]
        for r, c in itertools.product(starts, repeat=2)
    ]
    np.testing.assert_array_equal(positions[groups], expected)
    assert len({tuple(p) for p in positions}) == len(positions)
    assert [tuple(p) for p in positions] == sorted(tuple(p) for p in positions)
    assert set(groups.ravel()) == set(range(len(positions)))


@pytest.mark.parametrize("gridsize, offset, jitter", [(1, 4, 0.8), (2, 4, 0.0), (2, 3, 0.7), (3, 5, 2.5)])
def test_regions_start_on_whole_pixels_and_hold_every_patch(gridsize, offset, jitter):
    sizes = {"N": 32, "size": 96, "gridsize": gridsize, "offset": offset, "outer_offset_train": 6}
    config = RunConfig(**sizes, scan=ScanConfig(jitter))
    scan, R = scan_of(config, "train"), config.region_size
    half = (R - 32) / 2
    centres = group_centres(scan.positions, scan.groups, R, 32)
    origins = centres - half
    np.testing.assert_array_equal(origins, np.round(origins))
    for g in range(0, len(scan.groups), 17):
        assert origins[g].tolist() == reference.region_origin(scan.positions[scan.groups[g]], R, 32)
    inside_region = group_offsets(scan.positions, scan.groups, R, 32) + half
    assert inside_region.min() >= 0 and inside_region.max() <= R - 32


@pytest.mark.parametrize("scale", [1, 0.37, 6.4])
def test_smallest_region_by_trying_every_side(scale):
    """The first side at which the region in the middle of every group holds its patches."""
    N, rng = 16, np.random.default_rng(8)
    for _ in range(40):
        positions = np.round(rng.uniform(0, 5, (9, 2)) * scale, rng.integers(0, 3)).astype(np.float32)
        groups = rng.permuted(np.tile(np.arange(9), (3, 1)), axis=1)[:, :3]

        def holds(side, groups=groups, positions=positions):
            origins = [reference.region_origin(positions[group], side, N) for group in groups]
            inside = positions[groups] - np.array(origins)[:, None]
            return np.min(inside) >= -1e-3 and np.max(inside) <= side - N + 1e-3

        found = smallest_region(positions, groups, N)
        assert found == next(side for side in itertools.count(N) if holds(side))


def nearest_by_loops(positions, image, group_size):
    """Return for every pattern the distances to the members of its group; itself first."""
    groups = []
    for k, where in enumerate(positions.astype(float)):
        others = [j for j in range(len(positions)) if image[j] == image[k] and j != k]
        distances = sorted(float(np.hypot(*(positions[j] - where))) for j in others)
        groups.append([0.0, *distances[: group_size - 1]])
    return groups


@pytest.mark.parametrize("group_size", [1, 2, 4, 7])
@pytest.mark.parametrize("lattice", [False, True], ids=["anywhere", "ties and equal positions"])
def test_nearest_groups_by_loops(group_size, lattice):
    rng = np.random.default_rng(9)
    positions = rng.integers(0, 4, (60, 2)) if lattice else rng.uniform(0, 30, (60, 2))
    positions, image = positions.astype(np.float32), rng.permutation(np.repeat([0, 1, 2], [30, 20, 10]))
    found = nearest_groups(positions, image, group_size)
    assert found.shape == (60, group_size) and found.dtype == np.int32
    np.testing.assert_array_equal(found[:, 0], np.arange(60))
    np.testing.assert_array_equal(image[found], np.broadcast_to(image[:, None], found.shape))
    assert all(len(set(group)) == group_size for group in found.tolist())
    distances = np.linalg.norm(positions[found].astype(float) - positions[:, None], axis=-1)
    np.testing.assert_allclose(distances, nearest_by_loops(positions, image, group_size), atol=1e-6)


@pytest.mark.parametrize("group_size", [0, 3])
def test_groups_that_an_image_cannot_fill_are_refused(group_size):
    image = np.array([0, 0, 0, 1, 1])
    with pytest.raises(ConfigError, match=rf"group_size={group_size}: must be from 1 to [23], the patterns"):
        nearest_groups(np.arange(10.0).reshape(5, 2), image, group_size)


@pytest.mark.parametrize("group_size", [1, 2, 5, 12])
def test_tiles_share_the_patterns(group_size):
    rng = np.random.default_rng(2)
    positions = rng.uniform(0, 60, (140, 2)).astype(np.float32)
    image = rng.permutation(np.repeat([0, 1], [90, 50]))
    found = tiled_groups(positions, image, group_size)
    assert found.dtype == np.int32 and found.shape[1] == group_size
    assert set(found.ravel()) == set(range(140)), "a pattern is in no group"
    assert all(len(set(group)) == group_size for group in found.tolist())
    np.testing.assert_array_equal(image[found], np.broadcast_to(image[found[:, :1]], found.shape))
    assert found.size <= 2.2 * 140 or group_size < 5, "the groups hardly share"


def test_tiles_are_compact():
    """On a square grid of 12 × 12, groups of 12 span no more than 6 steps, and no pattern is alone."""
    positions = np.stack(np.divmod(np.arange(144), 12), axis=1).astype(np.float32)
    found = tiled_groups(positions, np.zeros(144, int), 12)
    assert np.ptp(positions[found], axis=1).max() <= 6


def test_jitter_moves_positions_within_its_bounds_and_inside_the_object():
    configs = (RunConfig(N=32, size=96, outer_offset_train=8, scan=ScanConfig(j)) for j in (0.0, 1.5))
    regular, moved = (scan_of(config, "train", 2) for config in configs)
    shift = moved.positions - regular.positions
    assert np.abs(shift).max() <= 1.5 + 1e-5
    assert moved.positions.min() >= 0 and moved.positions.max() <= 96 - 32
    inner = np.all((regular.positions >= 2) & (regular.positions <= 62), axis=1)
    assert abs(shift[inner].mean()) < 0.1
    assert shift[inner].std() == pytest.approx(1.5 / np.sqrt(3), rel=0.1)
    np.testing.assert_array_equal(moved.groups, regular.groups)
    half = len(shift) // 2
    assert np.abs(shift[:half] - shift[half:]).max() > 0.1, "every image has a jitter of its own"


def test_neighbours_are_near_distinct_and_not_the_groups_own():
    config = RunConfig(N=32, size=96, outer_offset_train=16)
    scan = scan_of(config, "train", n_images=2)
    centres = group_centres(scan.positions, scan.groups, config.region_size, config.N)
    drawn = draw_neighbours(scan, centres, 5, 9.0, np.random.default_rng(0))
    assert drawn.shape == (len(scan.groups), 5) and drawn.dtype == np.int32
    for group, centre, near in zip(scan.groups, centres, drawn, strict=True):
        within = np.hypot(*(scan.positions - centre).T) <= 9.0
        candidates = {*np.flatnonzero(within & (scan.image == scan.image[group[0]]))} - {*group}
        assert set(near) <= candidates and len(set(near)) == min(5, len(candidates))


@pytest.mark.parametrize("shape, halo", [((17, 5), 0), ((17, 5), 3), ((4, 5), 2), ((3, 10**7), 1)])
def test_each_row_belongs_to_one_band(shape, halo):
    parts = list(bands(shape, halo, 20))
    own = [row for part in parts for row in range(part.start + halo, part.stop - halo)]
    assert own == list(range(halo, shape[0] - halo))
    assert all(part.start >= 0 and part.stop <= shape[0] for part in parts)
    heights = [part.stop - part.start - 2 * halo for part in parts]
    assert all(height == 1 or height * np.prod(shape[1:]) <= 20 for height in heights)


def test_an_inner_product_does_not_lose_digits_of_single_precision():
    one, two = (np.full((2000, 2000), value, np.complex64) for value in (1 + 1e-3j, 1 - 1j))
    assert inner_product(one, two) == pytest.approx(4e6 * (1 - 1e-3j - 1j - 1e-3), rel=1e-7)
