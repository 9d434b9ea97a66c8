"""Several scans of one object: simulated by loops, one of them shifted, rotated and of another flux."""

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import N, Scan, beam, intensity_of, smooth_object

from ptycho.align.several_scans import correlate, place_on_the_largest, with_probe_of_each
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.preparation.geometry import place_scans
from ptycho.readers.raw_scan import Frames, RawScan
from ptycho.readers.table import join_scans
from ptycho.scan.beam import vary_probe

SHIFT, DEGREES, FLUX = np.array([3.3, -2.6]), 1.5, 1.2


def two_scans(other=None, probes=None):
    """Two scans of 36 and 25 patterns, the second with wrong nominal positions; and the true positions."""
    rng = np.random.default_rng(2)
    image = smooth_object(rng, 64, 0.3)
    modes, others = (1e3 * probe[None] for probe in probes or (beam(), beam()))
    places = [6 + step * np.stack(np.divmod(np.arange(n * n), n), axis=1) for n, step in ((6, 4.0), (5, 4.4))]
    places = [one + rng.uniform(-1, 1, one.shape) for one in places]
    intensity = [intensity_of(image, modes, r) for r in places[0]]
    intensity += [FLUX**2 * intensity_of(image if other is None else other, others, r) for r in places[1]]
    angle = np.deg2rad(DEGREES)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    stated = (places[1] - places[1].mean(axis=0)) @ turn + places[1].mean(axis=0) + SHIFT
    scan = Scan(image, modes, np.concatenate([places[0], stated]), np.ones(61), np.zeros((N, N)))
    return scan.dataset(rng, intensity, exact=True), np.repeat([0, 1], [36, 25]), places[1]


def test_shift_rotation_and_flux_between_two_scans_are_found():
    data, index, true = two_scans()
    placed = place_on_the_largest(data, index, False)
    place = placed.places[1]
    assert placed.first == 0 and place.refined >= 15
    np.testing.assert_allclose(place.of(data.positions[index == 1].astype(float)), true, atol=0.15)
    assert place.degrees == pytest.approx(-DEGREES, abs=0.3)
    assert place.flux == pytest.approx(FLUX, rel=0.02)


def test_each_scan_has_the_probe_of_its_own():
    """The second scan has the probe of another lens; both are refined from slightly wrong ones."""
    lens = beam(width=4.0, curvature=0.13)
    data, index, true = two_scans(probes=(beam(), lens))
    initial = {36: beam(), 25: beam(width=4.2, curvature=0.12)}
    placed = place_on_the_largest(data, index, True, lambda part: 1e3 * initial[len(part.positions)])
    there = placed.places[1].of(data.positions[index == 1].astype(float))
    np.testing.assert_allclose(there, true, atol=0.4)
    found = with_probe_of_each(data.beam, index, placed)
    assert found.opr_modes.shape == (1, N, N) and (found.opr_weights[:, 0] == index).all()
    probes = vary_probe(found.probe, found.opr_modes, found.opr_weights)[:, 0]
    for probe, wanted in ((probes[0], beam()), (probes[-1], lens)):
        alike = np.abs(np.vdot(probe, wanted)) / np.linalg.norm(probe) / np.linalg.norm(wanted)
        assert alike > 0.98


def test_a_scan_of_another_object_has_no_place():
    data, index, _ = two_scans(smooth_object(np.random.default_rng(9), 64, 0.3))
    assert place_on_the_largest(data, index, False).places == {1: None}


def test_the_correlation_of_masked_images_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    one, two = (rng.normal(size=(9, 10)).view(complex) for _ in range(2))
    two[2:, 1:] = 0.1 * two[2:, 1:] + one[:-2, :-1]
    masks = [rng.random(one.shape) < 0.8 for _ in range(2)]
    one, two = (np.where(mask, part, 0) for mask, part in zip(masks, (one, two), strict=True))
    best = {}
    for row in range(-6, 7):
        for col in range(-3, 4):
            a, b, pairs = 0j, 0.0, 0
            c = 0.0
            for r in range(9):
                for s in range(5):
                    y, x = r + row, s + col
                    if 0 <= y < 9 and 0 <= x < 5 and masks[1][r, s] and masks[0][y, x]:
                        a += one[y, x] * np.conj(two[r, s])
                        b, c, pairs = b + abs(one[y, x]) ** 2, c + abs(two[r, s]) ** 2, pairs + 1
            if pairs > 0.3 * min(mask.sum() for mask in masks):
                best[row, col] = abs(a) * np.sqrt(pairs / (b * c))
    shift, clear = correlate(one, two, *masks, overlap=0.3)
    top = max(best, key=best.get)
    assert top == (-2, -1) and np.abs(shift - top).max() <= 0.5
    assert clear == pytest.approx(best[top] / np.sqrt(np.mean(np.square(list(best.values())))), rel=1e-6)


def raw(seed, **changes):
    frames = np.random.default_rng(seed).poisson(5, (7 + seed, 8, 6)).astype(np.uint16)
    values = {"format": "npz", "domain": "counts", "zero_frequency": "centre", "unit": "um"}
    return RawScan(patterns=Frames(frames), positions=np.full((7 + seed, 2), float(seed)), **values | changes)


def test_scans_are_joined_frame_by_frame():
    good = np.ones((2, 8, 6), bool)
    good[0, 1, 2] = good[1, 3, 4] = False
    scans = [raw(k, good=good[k], energy_eV=8e3 * (1 + 1e-6 * k), warnings=("odd",)[:k]) for k in range(2)]
    joined = join_scans(scans, ["a", "b"])
    every = np.concatenate([scan.patterns.array for scan in scans])
    assert joined.patterns.shape == (15, 8, 6) and joined.warnings == ("b: odd",)
    np.testing.assert_array_equal(joined.patterns.read(slice(5, 9)), every[5:9])
    np.testing.assert_array_equal(joined.patterns.read(np.array([12, 0, 7])), every[[12, 0, 7]])
    assert joined.scan_index.tolist() == [0] * 7 + [1] * 8 == joined.positions[:, 0].astype(int).tolist()
    np.testing.assert_array_equal(joined.good, good.all(axis=0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "nm"}, "unit is um in a and nm in b; set data.unit"),
        ({"energy_eV": 9e3}, "energy_eV is 8000.0 in a and 9000.0 in b; set data.energy_eV"),
        ({"patterns": Frames(np.zeros((8, 6, 6)))}, r"size of a frame is \(8, 6\) in a and \(6, 6\) in b"),
    ],
)
def test_scans_that_cannot_be_joined(changes, message):
    with pytest.raises(ConfigError, match=message):
        join_scans([raw(0, energy_eV=8e3), replace(raw(1, energy_eV=8e3), **changes)], ["a", "b"])


def test_scans_of_different_objects_lie_beside_each_other():
    rng = np.random.default_rng(1)
    positions, index = rng.uniform(-20, 20, (30, 2)), np.repeat([0, 1, 2], 10)
    placed = place_scans(positions, index, 16, "probe", [])
    size = int(placed.max()) + 18
    illumination = np.stack([cut_illumination(placed[index == k], size) for k in range(3)])
    assert (illumination.sum(axis=0) <= 1).all() and illumination.any(axis=(1, 2)).all()
    for k in range(3):
        moves = (placed - positions)[index == k]
        np.testing.assert_allclose(moves, np.tile(np.round(moves[0]), (10, 1)), atol=1e-9)


def cut_illumination(positions, size):
    """Return which pixels are in a window of 16."""
    touched = np.zeros((size, size), bool)
    for row, col in np.floor(positions).astype(int):
        touched[row : row + 17, col : col + 17] = True
    return touched


def test_scans_of_one_object_stay_where_their_files_place_them_unless_that_is_far():
    positions, index = np.random.default_rng(1).uniform(0, 40, (20, 2)), np.repeat([0, 1], 10)
    near = positions + np.where(index == 1, 30.0, 0)[:, None]
    np.testing.assert_array_equal(place_scans(near, index, 16, "both", []), near)
    far = place_scans(positions + 1000.0 * index[:, None], index, 16, "object", found := [])
    middles = [far[index == k].min(axis=0) + far[index == k].max(axis=0) for k in (0, 1)]
    assert np.abs(middles[0] - middles[1]).max() <= 1 and "middle on middle" in str(found[0])
    with pytest.raises(ConfigError, match=r"data\.shared=both: the scans have 17, 3 patterns"):
        place_scans(positions, np.repeat([0, 1], [17, 3]), 16, "both", [])


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("solver.slices=2", {"solver": SolverConfig(slices=2, slice_thickness_m=1e-6)}),
        ("solver.probe_variation=1", {"solver": SolverConfig(probe_variation=1)}),
        ("start=run", {"start": "run"}),
    ],
)
def test_a_probe_of_each_scan_excludes_others(key, values):
    data = DataConfig(file=("a.h5", "b.h5"), shared="object")
    with pytest.raises(ConfigError, match=rf"{re.escape(key)}, data\.shared=object"):
        ScanRunConfig(data=data, **values)
