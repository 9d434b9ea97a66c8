"""Transposed and flipped frames: the zero frequency stays in place, and rows stay rows."""

import itertools

import numpy as np
import pytest
from helpers.scans import METRES, finding_on, raw_scan

from ptycho.config.data import DataConfig, KeyMap
from ptycho.preparation.prepare import interpret

J, N = 6, 16
SHAPES = [(24, 30), (25, 31), (31, 24)]
WAYS = list(itertools.product((False, True), repeat=3))  # transposed, rows flipped, columns flipped
FRINGES = (3, -5)  # periods of the source's modulation over the frame, in rows and in columns


def far_field(shape):
    """``|F(1 + e^{2πi(3r/H − 5c/W)} / 2)|²`` by its closed form: 400 at frequency zero, 100 at (3, −5).

    The zero frequency at sample 0, where a discrete Fourier transform has it.
    """
    pattern = np.zeros(shape)
    pattern[0, 0], pattern[FRINGES] = 400, 100
    return pattern


def raw(shape, zero, stored=None):
    """Six frames with the zero frequency where ``zero`` says; or at the pixel ``stored``."""
    frame = far_field(shape)
    if zero == "centre":
        frame = np.roll(frame, (shape[0] // 2, shape[1] // 2), axis=(0, 1))
    if stored is not None:
        frame = np.roll(frame, stored, axis=(0, 1))
    values = np.stack([frame + k for k in range(J)]).astype(np.uint16)
    grid = np.stack(np.divmod(np.arange(J), 3), axis=1).astype(float)
    stated = METRES | {"zero_frequency": zero, "detector_pixel_m": (75e-6, 50e-6)}
    return raw_scan(values, 8e-7 * grid, **stated)


def config(way, **changes):
    turned = dict(zip(("transpose", "flip_rows", "flip_cols"), way, strict=True))
    return DataConfig(file="scan", **({"N": N, "hot_pixels": False} | turned | changes))


def check(scan, way):
    """The pattern holds 400 and 100: transposed, then each axis reversed about the zero frequency."""
    (pattern,), (transpose, flip_rows, flip_cols) = scan.patterns(slice(0, 1)), way
    row, col = FRINGES[::-1] if transpose else FRINGES
    side = N // 2 + (-row if flip_rows else row), N // 2 + (-col if flip_cols else col)
    assert (pattern[N // 2, N // 2], pattern[side]) == (20, 10)
    assert np.count_nonzero(pattern) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("zero", ["centre", "corner"])
def test_the_zero_frequency_stays_in_the_middle(shape, zero, way):
    check(interpret(raw(shape, zero), config(way)), way)


@pytest.mark.parametrize("way", WAYS[::3])
@pytest.mark.parametrize("shape", SHAPES[1:])
def test_a_stated_zero_frequency_is_a_pixel_of_the_stored_frame(shape, way):
    stored = shape[0] // 2 - 2, shape[1] // 2 + 1
    scan = interpret(raw(shape, None, stored), config(way, zero_frequency=f"{stored[0]},{stored[1]}"))
    check(scan, way)
    finding = str(finding_on(scan, "zero frequency"))
    assert f"row {stored[0]}, column {stored[1]}" in finding
    assert ("before reorientation" in finding) == any(way)


def test_turning_a_frame_does_not_halve_the_pattern():
    """A flipped even frame has one row less before its zero frequency; the missing row is bad."""
    for way in WAYS:
        scan = interpret(raw((32, 32), "centre"), config(way, N=None))
        assert scan.N == 32
        _, flip_rows, flip_cols = way
        good = np.ones((32, 32), bool)
        good[: int(flip_rows)] = False
        good[:, : int(flip_cols)] = False
        np.testing.assert_array_equal(scan.detector.good_pixels, good)


@pytest.mark.parametrize("transpose", [False, True])
def test_the_pitch_is_turned_with_the_frame(transpose):
    """λz/(N p): 0.15498 nm · 2 m / 16 over 75 µm and 50 µm; positions stay those of the object."""
    scan = interpret(raw((24, 30), "centre"), config((transpose, False, False)))
    tall, wide = 0.1549802e-9 * 2 / 16 / 75e-6, 0.1549802e-9 * 2 / 16 / 50e-6
    pixel = (wide, tall) if transpose else (tall, wide)
    np.testing.assert_allclose(scan.pixel.metres, pixel, rtol=1e-5)
    step = scan.positions[3] - scan.positions[0], scan.positions[1] - scan.positions[0]
    np.testing.assert_allclose(step, [[8e-7 / pixel[0], 0], [0, 8e-7 / pixel[1]]], rtol=1e-5, atol=1e-9)
    assert scan.pitch_m == ((50e-6, 75e-6) if transpose else (75e-6, 50e-6))


def test_columns_are_exchanged_before_they_become_pixels():
    scan = interpret(raw((24, 30), "centre"), config((False, False, False), position_axes="xy"))
    step = scan.positions[3] - scan.positions[0]
    np.testing.assert_allclose(step, [0, 8e-7 / scan.pixel.metres[1]], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("how", ["array", "table"])
def test_columns_that_the_reader_has_exchanged_stay(tmp_path, how):
    """``data.position_axes=xy`` exchanges columns of an array or an unnamed table once, not twice."""
    from ptycho.readers.table import open_raw

    xy = np.stack(np.meshgrid(np.arange(4) * 3.0, np.arange(3) * 2.0), axis=-1).reshape(-1, 2)  # x is fast
    patterns = np.random.default_rng(0).poisson(40, (12, 16, 16)).astype(np.uint16)
    np.savez(tmp_path / "scan.npz", data=patterns, xy=xy)
    np.savetxt(tmp_path / "xy.csv", xy, delimiter=",")
    named = {"patterns": "data", "positions": "xy"}
    table = {"positions_file": str(tmp_path / "xy.csv")}
    where = {"keys": KeyMap(**named)} if how == "array" else {"keys": KeyMap(patterns="data"), **table}
    settings = DataConfig(file=str(tmp_path / "scan.npz"), unit="px", position_axes="xy", N=16, **where)
    positions = interpret(open_raw(settings), settings).positions
    np.testing.assert_allclose(positions[1] - positions[0], [0, 3])
    np.testing.assert_allclose(positions[4] - positions[0], [2, 0])
