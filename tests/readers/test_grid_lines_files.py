"""Files of grid lines as measured scans: datasets of this program, test splits of the published one."""

import numpy as np
import pytest
from helpers import reference
from helpers.published import N, published, spot
from helpers.scans import save_npz

from ptycho.config import ConfigError
from ptycho.readers.table import open_scan
from ptycho.scan.dataset_file import to_arrays

STARTS = [(row, col) for row in range(0, 61, 12) for col in range(0, 61, 6)]
SPOTS = [(22, 71), (60, 33)]
PART = {"YY_ground_truth": np.ones((5, 5, 1))}


@pytest.fixture
def save(tmp_path):
    return lambda arrays, compressed=False: save_npz(tmp_path / "a.npz", compressed=compressed, **arrays)


@pytest.fixture(scope="module")
def disk():
    axis = np.arange(N) - N // 2
    return np.exp(-(np.hypot(axis[:, None] / 7, axis / 9) ** 4))  # another along columns than along rows


def centred(scan):
    """Positions of the probe's first sample on the object of the file."""
    middle = np.array(scan.object_centre_m) + N // 2 - np.array(scan.object.shape) / 2
    return scan.positions - middle


@pytest.mark.parametrize("compressed", [False, True])
def test_a_dataset_of_a_run_is_a_scan_of_its_first_object(datasets, save, compressed):
    data = datasets["train"]
    image = np.array(data.image)
    image[::3] = 1
    objects = np.concatenate([data.objects[:1], 2 * data.objects[:1]])
    scan = open_scan(save(to_arrays(data) | {"image": image, "objects": objects}, compressed))
    first = np.flatnonzero(image == image[0])
    np.testing.assert_array_equal(scan.patterns.read(slice(0, 999)), data.amplitudes[first])
    np.testing.assert_allclose(centred(scan), data.positions[first], atol=1e-6)
    np.testing.assert_array_equal(scan.object, objects[image[0]])
    assert (scan.format, scan.unit, scan.domain) == ("grid_lines", "px", "amplitude")
    assert f"holds patterns of 2 objects: the {len(first)} of the first are read" in scan.warnings
    assert not any("object" in text for text in open_scan(save(to_arrays(data))).warnings)


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize("gridsize", [1, 2])
def test_published_files_are_read_as_documented(save, disk, gridsize, images):
    objects = [spot(*where) for where in SPOTS[:images]]
    more = {"norm_Y_I": np.array(2.0), "_metadata": np.array({"N": 64}, object)}  # a pickle is never read
    more |= {"YY_full": np.array(objects)[..., None], "YY_ground_truth": np.ones((5, 5, 1), np.complex64)}
    scan = open_scan(save(published(objects, disk, STARTS, gridsize) | more, compressed=True))
    inner = [(4 * i, 4 * j) for i in range(gridsize) for j in range(gridsize)]
    expected = [(row + i, col + j) for row, col in STARTS for i, j in inner]
    assert scan.format == "published_grid_lines" and scan.patterns.shape == (len(expected), N, N)
    np.testing.assert_allclose(centred(scan), expected, atol=1e-6)
    np.testing.assert_allclose(scan.object, objects[0], atol=1e-6)
    patterns = scan.patterns.read(slice(0, len(expected)))
    for number in (0, 5, len(expected) - 2):
        position = np.array([expected[number]], np.float32)
        wanted = reference.diffraction(objects[0], position, disk)[0]
        np.testing.assert_allclose(patterns[number], wanted, atol=1e-5)
    some = np.array([59, 2, 43, 25, 46])
    np.testing.assert_array_equal(scan.patterns.read(some), patterns[some])


@pytest.mark.parametrize("with_truth", [False, True])
def test_positions_that_were_measured_twice_are_no_second_image(save, disk, with_truth):
    """With the truth its number of images counts, also where every position is there twice."""
    starts = [start for start in STARTS for _ in range(2)] if with_truth else [STARTS[0], *STARTS[:-1]]
    arrays = published([spot(22, 71)], disk, starts, gridsize=1)
    if with_truth:
        arrays |= {"YY_full": spot(22, 71)[None, ..., None], "YY_ground_truth": np.ones((5, 5, 1))}
    scan = open_scan(save(arrays))
    assert scan.patterns.shape == (len(starts), N, N) and not scan.warnings
    np.testing.assert_allclose(scan.positions, starts, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"YY_full": np.ones((1, 96, 96, 1))}, "is a training split of the published program"),
        ({"diffraction": np.ones((4, N, N - 1, 4))}, r"must be \(G, N, N, C\), in C order"),
        ({"coords_offsets": np.full((66, 1, 2, 4), np.nan)}, "coords_offsets .* not finite"),
        ({"coords_offsets": np.ones((2, 1, 2, 4))}, r"must be \(G, 1, 2, C\) = \(66, 1, 2, 4\)"),
        ({"YY_full": np.ones((5, 96, 96, 1)), **PART}, "images do not share 66 groups"),
    ],
)
def test_published_files_that_are_refused(save, disk, change, message):
    with pytest.raises(ConfigError, match=message):
        open_scan(save(published([spot(22, 71)], disk, STARTS) | change))
