"""The dataset value: normalisation, patterns and their statistics, checks, files, other groupings."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import reference
from helpers.scans import save_npz

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.scan.dataset_file import load_dataset, to_arrays
from ptycho.scan.patterns import Patterns, Statistics
from ptycho.training.fitting import batch_of

KEYS = ("amplitudes", "positions", "image", "groups", "probe", "objects")
CORNERS = [[0, 0], [0, 4], [4, 0], [4, 4]]


@pytest.fixture(scope="module")
def plain(dataset_of):
    positions = [[3 * k, 2 * k] for k in range(8)]
    return dataset_of(positions, [[k, k + 1] for k in range(7)], region_size=20)


def test_mean_energy_of_the_normalised_patterns_is_a_quarter_of_N_squared(datasets):
    for data in datasets.values():
        x = data.normalisation * np.asarray(data.amplitudes, np.float64)
        assert np.mean(np.sum(x**2, axis=(1, 2))) == pytest.approx(data.N**2 / 4, rel=1e-9)


def test_the_truth_and_the_model_probe_predict_the_normalised_amplitudes(datasets):
    data = datasets["train"]
    pattern = int(data.groups[4, 2])
    predicted = reference.diffraction(data.objects[0], data.positions[pattern][None], data.model_probe[0])[0]
    x = batch_of(data, np.array([4]))["x"].numpy()[0, 2]
    noise = data.normalisation / 2  # of √n, for n large
    assert np.sqrt(np.mean((predicted - x) ** 2)) < 1.5 * noise


def test_patterns_are_the_rows_and_hand_out_no_way_to_change_them_unnoticed():
    rows = np.arange(5 * 2 * 2, dtype=np.float32).reshape(5, 2, 2)
    kept = Patterns(rows)
    assert len(kept) == 5 and kept.shape == (5, 2, 2) and kept.dtype == np.float32
    for index in (slice(1, 4), np.array([[3, 0], [0, 1]])):
        np.testing.assert_array_equal(kept[index], rows[index])
    assert np.asarray(kept, np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(kept), rows) and not np.shares_memory(np.array(kept), rows)


def test_statistics_by_loops_however_the_patterns_are_cut_and_kept(tmp_path):
    rows = np.random.default_rng(0).poisson(0.4, (17, 8, 8)).astype(np.float32)
    rows[4] *= -1
    rows[9, 3, 3], rows[11, 0, 0] = np.inf, np.nan
    stored = FileArray.temporary(tmp_path, rows.shape, np.float32)
    stored[:] = rows
    blocks = [Statistics.of(rows[k : k + 5] for k in range(0, 17, 5))]
    blocks += [Statistics.of(Patterns(some).blocks(pixels=3 * 64)) for some in (rows, stored)]
    for found in (*blocks, Patterns(rows).statistics):
        for k, row in enumerate(rows):
            expected = sum(float(value) ** 2 for value in row.ravel())
            np.testing.assert_equal(found.energies[k], expected)
        np.testing.assert_array_equal(found.lacking, np.sum(rows < 0, axis=(1, 2)))
    good = Patterns(rows[:9]).statistics
    assert good.mean_energy == np.sum(rows[:9].astype(float) ** 2) / 9
    np.testing.assert_allclose(good.mean_intensity, np.mean(rows[:9].astype(float) ** 2, axis=0))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"amplitudes": np.ones((4, 16, 15), np.float32)}, r"amplitudes has shape \(4, 16, 15\); must be"),
        ({"image": np.array([0, 0, 0, 1])}, r"a group mixes patterns of different images"),
        ({"positions": np.array([[0, 0], [0, 4], [4, 0], [4, np.nan]])}, r"positions holds NaN"),
        ({"positions": np.array([[0, 0], [0, 4], [4, 0], [4, 49]])}, r"to 49; must lie within \[0, 48\]"),
        (
            {"amplitudes": np.full((4, 16, 16), np.inf, np.float32)},
            "amplitudes holds NaN or infinity in 4 of",
        ),
        ({"objects": np.ones((1, 64, 64), np.complex64), "image": np.ones(4, np.int32)}, "the 1 objects"),
    ],
)
def test_impossible_datasets_are_refused(dataset_of, changes, message):
    values = {"positions": CORNERS, "groups": [[0, 1, 2, 3]], "region_size": 20} | changes
    with pytest.raises(ConfigError, match=message):
        dataset_of(**values)


@pytest.mark.parametrize("truth", [True, False])
def test_a_dataset_survives_its_file(datasets, tmp_path, truth):
    data = datasets["train"] if truth else replace(datasets["train"], objects=None)
    found = load_dataset(save_npz(tmp_path / "data.npz", **to_arrays(data)))
    for key in KEYS:
        np.testing.assert_array_equal(getattr(found, key), getattr(data, key), err_msg=key)
        if getattr(data, key) is not None:
            assert getattr(found, key).dtype == getattr(data, key).dtype
    for key in ("photon_scale", "object_size", "region_size", "normalisation", "n_images", "tiling"):
        assert getattr(found, key) == getattr(data, key)
        assert type(getattr(found, key)) is type(getattr(data, key))
    np.testing.assert_array_equal(found.offsets, data.offsets)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": np.full((7, 2), 2**32)}, r"groups \(7, 2\) holds numbers beyond 2147483647"),
        ({"object_size": np.array([64, 64])}, r"object_size has shape \(2,\); must be one number"),
        ({"format": np.array(2)}, "the file comes from another version"),
        ({"positions": np.full((8, 2), "a")}, "positions .* must be"),
        ({"region_size": None}, "lacks region_size"),
        ({"amplitudes": -np.ones((4, 16, 16), np.float32)}, "amplitudes holds negative numbers"),
    ],
)
def test_files_that_are_no_dataset_are_refused(plain, tmp_path, change, message):
    arrays = {key: value for key, value in (to_arrays(plain) | change).items() if value is not None}
    with pytest.raises(ConfigError, match=rf"data.npz: .*{message}"):
        load_dataset(save_npz(tmp_path / "data.npz", **arrays))


def test_single_patterns_at_sub_pixel_positions_leave_room(dataset_of):
    data = dataset_of([[0.4, 3.6], [4.5, 7.2]], [[0, 1]], region_size=24)
    single = data.single_patterns(None)
    assert single.region_size == 18
    assert np.abs(single.offsets).max() <= 0.5
    np.testing.assert_allclose(single.centres + single.offsets[:, 0], data.positions, atol=1e-6)


def test_a_dataset_makes_no_groups_that_its_patterns_cannot_fill(plain):
    assert plain.regrouped(9).groups.shape == (8, 8)
    assert plain.tiled(9).groups.shape == (2, 8)
    assert plain.subset(np.array([4, 0, 2]), 9).groups.tolist() == [[0, 2, 1], [1, 2, 0], [2, 1, 0]]
