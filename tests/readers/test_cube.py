"""4D-STEM cubes without positions, each written by another program's writer: patterns, raster, refusals."""

import struct
import sys

import h5py
import numpy as np
import pytest
from helpers import cube_files as writers

import ptycho
from ptycho.config import ConfigError
from ptycho.config.data import DataConfig, KeyMap
from ptycho.readers.table import open_raw

A, B, H, W = 3, 4, 16, 18  # rows and columns of the raster and of a frame
CUBE = np.random.default_rng(1).poisson(30, (A, B, H, W)).astype(np.uint16)
STEP = {"scan_step_A": 2.5}


def opened(path, **keys):
    raw = open_raw(DataConfig(file=(str(path),), **{**STEP, **keys}))
    return raw, raw.patterns.read(np.arange(raw.patterns.shape[0]))


def grid(snake=False):
    """Row by row, by loops; metres."""
    places = []
    for row in range(A):
        columns = range(B)[::-1] if snake and row % 2 else range(B)
        places += [(2.5e-10 * row, 2.5e-10 * column) for column in columns]
    return np.array(places)


FILE_STEP = (5e-10, 2.5e-10)
WRITTEN = [  # writer, columns of a frame that the format allows, step that the file states
    (writers.hspy, W, FILE_STEP),
    (writers.emd, W, FILE_STEP),
    (writers.emdfile, W, FILE_STEP),
    (writers.zarr, W, FILE_STEP),
    (writers.blo, H, FILE_STEP),
    (writers.dm3, W, FILE_STEP),
    (writers.dm4, W, FILE_STEP),
    (writers.dm4_detector_first, W, FILE_STEP),
    (writers.merlin, W, None),
    (writers.merlin_quad, W, None),
    (writers.mrc, W, None),
    (writers.mrc_big_endian, W, None),
]


@pytest.mark.parametrize(("write", "columns", "step"), WRITTEN, ids=lambda of: getattr(of, "__name__", ""))
def test_a_file_of_another_program(tmp_path, write, columns, step):
    """Patterns, raster and step are those written; a specified step takes precedence over the file's."""
    cube = CUBE[..., :columns]
    path = write(tmp_path, cube)
    shape = {"scan_shape": (A, B)} if path.suffix == ".mrc" else {}
    raw, patterns = opened(path, **shape)
    assert raw.patterns.shape == (A * B, H, columns)
    np.testing.assert_array_equal(patterns, cube.reshape(A * B, H, columns))
    np.testing.assert_array_equal(raw.patterns.read(np.array([7, 2])), cube.reshape(-1, H, columns)[[7, 2]])
    np.testing.assert_allclose(raw.positions, grid())
    if step is None:
        with pytest.raises(ConfigError, match=r"state the step of the raster, data\.scan_step_A="):
            opened(path, scan_step_A=None)
    else:
        snake, _ = opened(path, scan_step_A=None, scan_path="snake")
        np.testing.assert_allclose(snake.positions, grid(snake=True) / 2.5e-10 * step)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.mib", b"MQ1,000001,00384,01,0016,0016,R64," * 20, "has pixels R64; must be U08, U16, U32"),
        ("a.mib", b"MQ1,000001,00384,01,0016,0016,U16,", "holds no frame of 16 × 16"),
        ("a.mrc", struct.pack("<4i", 4, 4, 9, 1) + bytes(1008 + 50), "declares 9 frames and ends after 1"),
        ("a.mrc", struct.pack("<4i", 4, 4, 1, 4) + bytes(2000), "has mode 4; must be one of 0, 1, 2"),
    ],
)
def test_damaged_files_of_detectors(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        opened(tmp_path / name, scan_shape=(A, B))


@pytest.mark.parametrize(
    ("module", "name", "extra"), [("zarr", "a.zarr/zarr.json", "zarr"), ("rsciio", "a.dm4", "stem")]
)
def test_a_package_that_is_missing_is_named(tmp_path, monkeypatch, module, name, extra):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match=rf"pip install 'ptychopinn\[{extra}\]'"):
        opened(next(tmp_path.iterdir()))


def test_a_list_needs_the_shape_and_may_run_back_and_forth(tmp_path):
    np.save(tmp_path / "a.npy", CUBE.reshape(-1, H, W))
    raw, _ = opened(tmp_path / "a.npy", scan_shape=(A, B), scan_path="snake")
    np.testing.assert_allclose(raw.positions, grid(snake=True))
    with pytest.raises(ConfigError, match=r"12 patterns in a list; set data.scan_shape=\[rows,columns\]"):
        opened(tmp_path / "a.npy")
    with pytest.raises(ConfigError, match=r"scan_shape=\[3, 5\]: is a raster of 15 .* 12 patterns"):
        opened(tmp_path / "a.npy", scan_shape=(3, 5))


def test_empad_frames_lose_the_rows_that_are_no_pixels(tmp_path):
    frames = np.random.default_rng(2).normal(100, 5, (6, 130, 128)).astype("<f4")
    frames.tofile(tmp_path / "scan_x2_y3.raw")
    raw, patterns = opened(tmp_path / "scan_x2_y3.raw", scan_shape=(3, 2), domain="intensity")
    np.testing.assert_array_equal(patterns, frames[:, :128])
    assert raw.patterns.shape == (6, 128, 128)
    (tmp_path / "cut.raw").write_bytes(frames.tobytes()[:-5])
    with pytest.raises(ConfigError, match="bytes; must be EMPAD frames of 130 × 128"):
        opened(tmp_path / "cut.raw", scan_shape=(3, 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: np.save(path, CUBE[0, 0]), r"array has shape \(16, 18\); must be \(patterns, rows, c"),
        (lambda path: np.save(path, np.array([None, {}], object), allow_pickle=True), "Python objects"),
        (lambda path: (np.save(path, CUBE), path.write_bytes(path.read_bytes()[:-9])), "greater than file"),
    ],
)
def test_what_is_no_cube_is_refused(tmp_path, make, message):
    path = tmp_path / "a.npy"
    make(path)
    with pytest.raises(ConfigError, match=message):
        opened(path)


def test_axes_and_a_map_of_positions_are_not_overruled(tmp_path):
    """A specified raster with rows and columns exchanged is refused, and so are specified positions."""
    np.save(tmp_path / "a.npy", CUBE)
    with pytest.raises(ConfigError, match=r"scan_shape=\[4, 3\]: .* with axes \[3, 4\]"):
        opened(tmp_path / "a.npy", scan_shape=(B, A))
    np.savez(tmp_path / "a.npz", small=np.ones((2, 2, 2)), cube=CUBE)
    with pytest.raises(ConfigError, match=r"belong to a raster; add data\.scan_step_A"):
        opened(tmp_path / "a.npz", scan_step_A=None, scan_path="snake")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["datacube_root/datacube/data"] = CUBE
    with pytest.raises(ConfigError, match=r"data\.keys\.positions: .* a raster"):
        opened(tmp_path / "a.h5", keys=KeyMap(patterns="datacube_root/datacube/data", positions="p"))


def test_a_cube_is_the_scan_that_positions_would_make(tmp_path):
    """The same patterns and places as arrays, under a known pixel."""
    cube = np.random.default_rng(3).poisson(20, (5, 6, 32, 32))
    np.save(tmp_path / "a.npy", cube)
    lengths = {"energy_eV": 8e3, "distance_m": 1.0, "detector_pixel_m": 1e-4}
    scan = ptycho.open_scan(tmp_path / "a.npy", scan_step_nm=200.0, zero_frequency="centre", **lengths)
    places = np.stack(np.meshgrid(np.arange(5), np.arange(6), indexing="ij"), -1).reshape(-1, 2)
    steps = (scan.positions_m - scan.positions_m[0]) / 200e-9
    np.testing.assert_allclose(steps, places, atol=1e-6)
    assert len(scan) == 30 and scan.counts
