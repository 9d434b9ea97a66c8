"""Data sets from files: values in every stored form, and their positions."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import reference
from helpers.published import N, published, spot

from ptycho.config import ConfigError, UnrolledModel
from ptycho.datasets import inspect, load_dataset, to_arrays
from ptycho.files.file_array import FileArray
from ptycho.networks import build_pinn
from ptycho.reconstruction.inference import predict_regions
from ptycho.reconstruction.stitching import stitch
from ptycho.scan.batches import batch_of
from ptycho.training.competitors import geometry_of


@pytest.fixture
def save(tmp_path):
    def run(arrays, compressed=False, name="data.npz"):
        with (tmp_path / name).open("wb") as file:
            (np.savez_compressed if compressed else np.savez)(file, **arrays)
        return tmp_path / name

    return run


# ---- rows of a file


def test_rows_are_those_of_the_array(tmp_path):
    array = np.arange(5 * 3 * 2).reshape(5, 3, 2).astype(np.complex64) * 1.5
    (tmp_path / "file").write_bytes(b"1234567" + array.tobytes())
    rows = FileArray((tmp_path / "file").open("rb"), array.shape, np.complex64, start=7)
    assert len(rows) == 5 and rows.ndim == 3 and rows.shape == array.shape and rows.dtype == np.complex64
    indices = [np.array(some, int) for some in ([3], [4, 0, 0, 2], [[1, 2], [2, 1]], [])]
    for index in (slice(None), slice(1, 4), slice(4, 9), slice(3, 3), slice(-2, None), *indices):
        np.testing.assert_array_equal(rows[index], array[index])
    for beyond in ([5], [-1]):
        with pytest.raises(IndexError):
            rows[np.array(beyond)]


def test_temporary_rows_hold_what_is_written_and_leave_nothing(tmp_path):
    rows = FileArray.temporary(tmp_path, (6, 4), np.complex64)
    assert list(tmp_path.iterdir()) == []
    assert not rows[:].any()
    values = np.arange(8).reshape(2, 4) * (1 - 2j)
    rows[3:5] = values
    np.testing.assert_array_equal(rows[:], np.concatenate([np.zeros((3, 4)), values, np.zeros((1, 4))]))
    with pytest.raises(ValueError, match=r"does not fit"):
        rows[0:3] = values


def test_a_file_that_shrinks_is_an_error(tmp_path):
    (tmp_path / "file").write_bytes(bytes(40))
    rows = FileArray((tmp_path / "file").open("rb"), (10,), np.float32)
    (tmp_path / "file").write_bytes(bytes(20))
    with pytest.raises(OSError, match="ends before row 10"):
        rows[:]


# ---- a run's own dataset


FORMS = {
    "as written": lambda a: a,
    "big-endian": lambda a: a.astype(">f4"),
    "integers": lambda a: a.astype(np.uint16),
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_patterns_come_from_every_form(datasets, save, tmp_path, form, compressed):
    data = datasets["test"]
    amplitudes = np.round(data.amplitudes[:] / data.amplitudes[:].max() * 99)
    data = replace(data, amplitudes=amplitudes)
    path = save(to_arrays(data) | {"amplitudes": FORMS[form](amplitudes)}, compressed)
    before = sorted(tmp_path.iterdir())
    found = inspect(path).dataset(tmp_path)
    assert sorted(tmp_path.iterdir()) == before, "patterns were copied under a name"
    in_place = form == "as written" and not compressed
    assert (getattr(found.amplitudes._rows._file, "name", None) == str(path)) == in_place
    np.testing.assert_array_equal(found.amplitudes, amplitudes)
    assert found.normalisation == data.normalisation
    indices = np.array([3, 0, 40])
    for key, value in batch_of(data, indices).items():
        np.testing.assert_array_equal(batch_of(found, indices)[key], value)
    np.testing.assert_array_equal(load_dataset(path).amplitudes, amplitudes)


def test_empty_frames_are_accepted_where_the_dose_or_the_truth_explains_them(datasets, save):
    data = datasets["test"]
    weak = np.random.default_rng(0).poisson(0.02, data.amplitudes.shape).astype(np.float32)
    weak[5] = 0
    assert load_dataset(save(to_arrays(data) | {"amplitudes": weak})).amplitudes[5].sum() == 0
    dark, objects = np.array(data.amplitudes), data.objects.copy()
    dark[0] = 0
    with pytest.raises(ConfigError, match="1 of 256 patterns hold no photon"):
        load_dataset(save(to_arrays(data) | {"amplitudes": dark}))
    objects[0, :N, :N] = 0  # nothing to see at the first position
    load_dataset(save(to_arrays(data) | {"amplitudes": dark, "objects": objects}))


# ---- the published program's test split


STARTS = [(row, col) for row in range(0, 61, 12) for col in range(0, 61, 6)]
SPOTS = [(22, 71), (60, 33)]


@pytest.fixture(scope="module")
def disk():
    axis = np.arange(N) - N // 2
    return np.exp(-(np.hypot(axis[:, None] / 7, axis / 9) ** 4))  # another along columns than along rows


def test_published_files_are_read_as_documented(save, disk):
    objects = [spot(*where) for where in SPOTS]
    arrays = published(objects, disk, STARTS)
    more = {"norm_Y_I": np.array(2.0), "_metadata": np.array({"N": 64}, object)}  # a pickle is never read
    more |= {"YY_full": np.array(objects)[..., None], "YY_ground_truth": np.ones((5, 5, 1), np.complex64)}
    found = load_dataset(save(arrays | more, compressed=True))
    G = len(STARTS)
    assert arrays["diffraction"].shape == (2 * G, N, N, 4) and arrays["coords_offsets"].shape == (
        2 * G,
        1,
        2,
        4,
    )
    assert found.n_groups == 2 * G and found.group_size == 4 and found.region_size == N + 4
    assert found.object_size == 96 and found.photon_scale == 1
    np.testing.assert_allclose(found.objects, objects)
    np.testing.assert_array_equal(found.image[found.groups[:, 0]], np.repeat([0, 1], G))
    for group in (0, 7, G + 7):
        row, col = STARTS[group % G]
        expected = [[row, col], [row, col + 4], [row + 4, col], [row + 4, col + 4]]
        np.testing.assert_array_equal(found.positions[found.groups[group]], expected)
    for pattern in (0, 5, 4 * G + 30):
        truth = objects[found.image[pattern]]
        expected = reference.diffraction(truth, found.positions[pattern][None], disk)[0]
        np.testing.assert_allclose(found.amplitudes[pattern], expected, atol=1e-5)


def test_a_spot_is_reconstructed_where_it_is(save, disk, small_config):
    """Direction of both axes: an untrained unrolled network is a few iterations of the physics alone."""
    found = load_dataset(save(published([spot(*where) for where in SPOTS], disk, STARTS)))
    found = replace(found, photon_scale=1 / 3)  # the factor of probeGuess
    config = small_config(model=UnrolledModel(stages=8, width=1))
    model = build_pinn(config.model, geometry_of(found), config.xla, config.loss_weights, config.seed)
    stitched = stitch(predict_regions(model, found, 4, compile_xla=False), found, "probe")
    for image, mask, where in zip(stitched.objects, stitched.mask, SPOTS, strict=True):
        amplitude = np.where(mask, np.abs(image), 0)[12:-12, 12:-12]
        peak = np.unravel_index(amplitude.argmax(), amplitude.shape)
        np.testing.assert_allclose(np.add(peak, 12), where, atol=2)
        assert amplitude.max() > 1.5 * np.median(amplitude)


@pytest.mark.parametrize("pitch", [10, 5])
def test_a_part_of_the_truth_is_put_where_the_central_squares_tile(save, disk, pitch):
    """The published program cuts ⌈(N − pitch)/2 + extent/2⌉ pixels off, and keeps one pitch per group."""
    starts = [(r, c) for r in range(0, 61, pitch) for c in range(0, 61, pitch)]
    truth, per_axis = spot(22, 71), len(range(0, 61, pitch))
    first = int(np.ceil((N - pitch) / 2 + 4 / 2))
    part = truth[first : first + pitch * per_axis, first : first + pitch * per_axis, None]
    found = inspect(save(published([truth], disk, starts) | {"YY_ground_truth": part}))
    assert found.truth == (first, first, *part.shape[:2])
    top, left, height, width = found.truth
    np.testing.assert_allclose(
        found.values["objects"][0, top : top + height, left : left + width], part[..., 0]
    )


def test_a_file_without_probe_takes_the_initial_one(save, disk):
    arrays = published([spot(22, 71)], disk, STARTS)
    del arrays["probeGuess"]
    with pytest.raises(ConfigError, match="lacks probeGuess"):
        inspect(save(arrays))
    found = inspect(save(arrays), disk.astype(np.complex64))
    assert not found.own_probe and found.values["probe"].shape == (N, N)
    with pytest.raises(
        ConfigError, match=r"diffraction has shape .*, 4\); must be \(G, N, N, C\) = \(\d+, 16, 16, 4\)"
    ):
        inspect(save(arrays), np.ones((16, 16), np.complex64))
