"""Stitching: true regions give the true object, for any phase of each group."""

import numpy as np
import pytest
from helpers import reference

from ptycho.config import ScanConfig, ZonePlateProbe
from ptycho.reconstruction.stitching import Layout, _weighted_mean, stitch, synchronise_phases
from ptycho.simulation.simulate import simulate

VARIANTS = {
    "gridsize_1": {"gridsize": 1},
    "gridsize_2": {"gridsize": 2},
    "odd_offset": {"gridsize": 2, "offset": 3},
    "gridsize_3": {"gridsize": 3, "size": 100},
    "jitter": {"gridsize": 2, "scan": ScanConfig(1.3)},
    "jitter_1": {"gridsize": 1, "scan": ScanConfig(0.7)},
    "two_images": {"gridsize": 1, "nimgs_test": 2, "probe": ZonePlateProbe()},
}


@pytest.fixture(scope="module", params=VARIANTS)
def scan(request, small_config):
    """A test dataset and its true regions."""
    data = simulate(small_config(**VARIANTS[request.param]))[0]["test"]
    return data, reference.true_regions(data)


def test_disagreement_by_a_loop(small_config):
    """Regions with independent noise: the spread about their weighted mean over the contrast of the mean."""
    data = simulate(small_config(gridsize=1))[0]["test"]
    rng, regions = np.random.default_rng(0), reference.true_regions(data).astype(np.complex64)
    regions *= 1 + 0.1 * rng.normal(size=regions.shape).astype(np.float32)
    made = stitch(regions, data, "probe")
    layout = Layout(data)
    factors = synchronise_phases(regions, Layout(data))
    by_sevens = Layout(data, chunk=7)
    np.testing.assert_array_equal(synchronise_phases(regions, by_sevens), factors)
    parts = _weighted_mean(regions, factors, by_sevens, Layout.illumination)
    np.testing.assert_allclose(parts.objects[made.mask], made.objects[made.mask], rtol=1e-5)
    weights = layout.illumination(slice(0, len(regions)))
    spread, total = 0.0, 0.0
    for w, region, factor, (row, col) in zip(weights, regions, factors, data.origins, strict=True):
        mean = made.objects[0, row : row + len(region), col : col + len(region)]
        there = mean != 0
        spread += np.sum(w[there] * np.abs(factor * region - mean)[there] ** 2)
    illumination = sum(
        np.pad(w, ((row, data.object_size - row - len(w)), (col, data.object_size - col - len(w))))
        for w, (row, col) in zip(weights, data.origins, strict=True)
    )[made.mask[0]]
    inside = made.objects[0][made.mask[0]]
    total = np.sum(illumination * np.abs(inside - np.average(inside, weights=illumination)) ** 2)
    np.testing.assert_allclose(made.disagreement[0], np.sqrt(spread / total), rtol=0.02)


def origin_of(data, group):
    places = data.positions[data.groups[group]]
    return [int(v) for v in reference.region_origin(places, data.region_size, data.N)]


def random_phases(n, seed=0):
    return np.exp(2j * np.pi * np.random.default_rng(seed).uniform(size=n))


@pytest.mark.parametrize("method", ["probe", "grid"])
def test_true_regions_of_random_phases_stitch_to_the_true_object(scan, method):
    data, regions = scan
    turned = regions * random_phases(len(regions))[:, None, None]
    result = stitch(turned.astype(np.complex64), data, method)
    assert result.objects.shape == data.objects.shape and result.objects.dtype == np.complex64
    assert result.mask.mean(axis=(1, 2)).min() > 0.3 and not result.objects[~result.mask].any()
    for found, mask, truth in zip(result.objects, result.mask, data.objects, strict=True):
        phase = np.angle(np.vdot(truth[mask], found[mask]))  # of all together, which is arbitrary
        np.testing.assert_allclose(found[mask] * np.exp(-1j * phase), truth[mask], atol=1e-4)


def test_grid_takes_every_pixel_from_the_group_whose_centre_is_nearest(datasets):
    data = datasets["test"]
    regions = np.broadcast_to(np.arange(1, 65)[:, None, None], (64, 36, 36)).astype(np.complex64)
    found = stitch(regions, data, "grid").objects[0].real
    assert np.unique(found).tolist() == list(range(65))
    for group in (0, 9, 63):
        row, col = origin_of(data, group)
        tile = found[row + 14 : row + 22, col + 14 : col + 22]
        np.testing.assert_array_equal(tile, group + 1)


def test_probe_mask_and_weights_by_loops(small_config):
    data = simulate(small_config(size=48, scan=ScanConfig(0.6), max_groups_train=1, batch_size=1))[0]["test"]
    rng = np.random.default_rng(0)
    values = rng.uniform(0.5, 1, data.n_groups)
    regions = np.broadcast_to(values[:, None, None], (data.n_groups, *[data.region_size] * 2))
    total, weight = np.zeros((48, 48)), np.zeros((48, 48))
    for group, value in zip(data.groups, values, strict=True):
        for k in group:
            illumination = reference.place(np.abs(data.probe[0]) ** 2, data.positions[k], (48, 48)).real
            total, weight = total + value * illumination, weight + illumination
    result = stitch(regions.astype(np.complex64), data, "probe")
    expected = weight > 1e-3 * weight.max()
    sure = np.abs(weight / (1e-3 * weight.max()) - 1) > 1e-3
    np.testing.assert_array_equal(result.mask[0][sure], expected[sure])
    inner = result.mask[0] & expected
    np.testing.assert_allclose(result.objects[0][inner], (total / np.maximum(weight, 1e-9))[inner], rtol=1e-3)


def wave_regions(data, noise=0.0):
    """Regions cut from a smooth complex object, with noise that differs from group to group."""
    rng = np.random.default_rng(3)
    row, col = np.mgrid[: data.object_size, : data.object_size]
    truth = (1 + 0.3 * np.sin(row / 5)) * np.exp(1j * np.cos(col / 7 + row / 9))
    origins = (origin_of(data, group) for group in range(data.n_groups))
    regions = np.array([reference.cut(truth, origin, data.region_size) for origin in origins])
    spoilt = noise * np.arange(data.n_groups)[:, None, None] / data.n_groups
    return regions + spoilt * reference.random_complex(rng, regions.shape)


@pytest.mark.parametrize("sizes", [(4, 4), (5, 2), (1, 6), (3, 1, 4)])
def test_groups_that_do_not_overlap_are_synchronised_apart(dataset_of, sizes):
    positions = [[22 * c + 2 * k % 5, 20 * c + k] for c, size in enumerate(sizes) for k in range(size)]
    data = dataset_of(positions, [[k] for k in range(len(positions))])
    for noise in (0.0, 0.3):
        phases = random_phases(data.n_groups)
        regions = (wave_regions(data, noise) * phases[:, None, None]).astype(np.complex64)
        rest = synchronise_phases(regions, Layout(data)) * phases
        for members in np.split(rest, np.cumsum(sizes)[:-1]):
            np.testing.assert_allclose(np.angle(members / members[0]), 0, atol=1e-3 + 0.3 * noise)


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_a_collapsed_or_broken_network_still_stitches(datasets, value):
    data = datasets["test"]
    regions = np.full((64, 36, 36), value, np.complex64)
    np.testing.assert_array_equal(synchronise_phases(regions, Layout(data)), np.ones(64))
    for method in ("probe", "grid"):
        result = stitch(regions, data, method)
        assert result.mask.any()
        np.testing.assert_array_equal(np.isnan(result.objects[result.mask]), np.isnan(value))


def test_what_a_network_leaves_empty_does_not_darken_its_neighbours(small_config):
    data = simulate(small_config(probe=ZonePlateProbe()))[0]["test"]  # a probe that reaches beyond the centre
    regions = reference.true_regions(data)
    centre_only = np.zeros_like(regions)
    inner = slice(data.N // 4, data.region_size - data.N // 4)
    centre_only[:, inner, inner] = regions[:, inner, inner]
    result = stitch(centre_only, data, "probe")
    found = result.objects != 0
    assert found.mean() > 0.3
    np.testing.assert_allclose(result.objects[found], data.objects[found], atol=2e-5)
