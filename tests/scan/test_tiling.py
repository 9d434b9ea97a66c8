"""The lattice of the groups: specified in simulated scans, stored with them, estimated for others."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.scans import save_npz

from ptycho.config import ConfigError, RunConfig
from ptycho.scan.dataset_file import load_dataset, to_arrays
from ptycho.scan.groups import Tiling, estimated_tiling
from ptycho.scan.positions import nested_grid
from ptycho.simulation.simulate import nested_tiling, scan_images

N = 32


def scan_data(dataset_of, config, n_images=1, seed=0):
    rngs = [np.random.default_rng([seed, i]) for i in range(n_images)]
    grid = nested_grid(config.size, config.N, config.gridsize, config.offset, config.outer_pitch("test"))
    scan = scan_images(*grid, config.size - config.N, config.scan.jitter, rngs)
    return dataset_of(
        scan.positions,
        scan.groups,
        N=config.N,
        object_size=config.size,
        region_size=config.region_size,
        image=scan.image,
        amplitudes=np.ones((len(scan.positions), config.N, config.N), np.float32),
    )


def estimate(scans, region_size, object_size=200):
    image = np.repeat(np.arange(len(scans)), [len(scan) for scan in scans])
    return estimated_tiling(np.concatenate(scans), image, N, region_size, object_size)


def test_the_published_test_scan_by_hand():
    """Groups of side 64 + 4 start at 0, 10 … 320; squares of side 10 in their middle begin at 34 − 5."""
    tiling = nested_tiling(392, 68, 10)
    assert tiling == Tiling(pitch=10, top=29, left=29, height=330, width=330)
    assert tiling.rectangle == (29, 29, 330, 330)


@pytest.mark.parametrize("gridsize, offset", [(1, 4), (2, 4), (2, 3)])
@pytest.mark.parametrize("pitch", [3, 8, 11])
@pytest.mark.parametrize("size, n_images", [(96, 1), (111, 2)])
def test_the_estimate_is_exact_on_the_nested_grid(dataset_of, gridsize, offset, pitch, size, n_images):
    sizes = {"N": N, "size": size, "gridsize": gridsize, "offset": offset, "outer_offset_test": 2 * pitch}
    config = RunConfig(**sizes, max_groups_train=16)
    data = scan_data(dataset_of, config, n_images)
    assert data.stated_tiling is None
    assert data.tiling == nested_tiling(config.size, config.group_extent, pitch)


@pytest.mark.parametrize("region_size, first", [(32, 8), (36, 10)])
def test_a_single_group_is_a_square_of_half_a_pattern(region_size, first):
    assert estimate([np.array([[7, 20]])], region_size) == Tiling(16, 7 + first, 20 + first, 16, 16)
    twice = np.array([[7, 20], [7, 20]])  # the same place again is no other group
    assert estimate([twice], region_size) == estimate([twice[:1]], region_size)


def test_what_is_stated_stands_also_for_other_groups_of_the_patterns(datasets):
    data = replace(datasets["test"], stated_tiling=Tiling(7, 10, 11, 70, 63))
    for view in (data, data.single_patterns(1), data.regrouped(3)):
        assert view.tiling == (7, 10, 11, 70, 63)


@pytest.mark.parametrize(
    "tiling, message",
    [
        ([0, 14, 14, 64, 64], r"tiling is \[0, 14, 14, 64, 64\]; must be \(pitch, top, left"),
        ([8, 14, -1, 64, 64], r"a rectangle inside the object of 96 × 96 pixels"),
        ([8, 14, 14, 64], r"tiling has shape \(4,\); must be \(5\)"),
    ],
)
def test_a_lattice_that_cannot_be_is_refused(datasets, tmp_path, tiling, message):
    arrays = to_arrays(datasets["test"]) | {"tiling": np.array(tiling)}
    with pytest.raises(ConfigError, match=message):
        load_dataset(save_npz(tmp_path / "data.npz", **arrays))
