"""Files that are no scans, or not as their format says: one line with the file, the key and a remedy."""

import zipfile

import numpy as np
import pytest
from helpers.scans import J, Made, pinn, product, save_npz, tike
from numpy.lib import format as npy

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan


@pytest.fixture(scope="module")
def made():
    return Made()


@pytest.fixture
def save(tmp_path):
    """``save(**arrays)``: the path of an NPZ file with them."""
    return lambda file="scan.npz", /, **arrays: save_npz(tmp_path / file, **arrays)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        (lambda m: pinn(m, ycoords=None), r"lacks ycoords; it has xcoords, diff3d, probeGuess"),
        (lambda m: pinn(m, xcoords=m.col[1:]), r"ycoords \(7,\) and xcoords \(6,\) must be one list"),
        (
            lambda m: pinn(m, xcoords=m.col[1:], ycoords=m.row[1:]),
            r"diff3d \(7, 9, 12\) holds 7 patterns, and there are 6 positions",
        ),
        (lambda m: pinn(m, diff3d=m.counts.astype(object)), r"diff3d \(7, 9, 12\) holds Python objects"),
        (lambda m: pinn(m, diff3d=m.probe), r"diff3d \(2, 9, 12\) has dtype complex64; must be real numbers"),
        (
            lambda m: pinn(m, diff3d=m.counts[0]),
            r"diff3d has shape \(9, 12\); must be \(patterns, rows, columns\)",
        ),
        (
            lambda m: product(m, patterns=m.counts, bad_pixels=np.array("no")),
            r"bad_pixels \(\) has dtype <U2; must be real numbers or true and false",
        ),
        (lambda m: tike(m, scan=m.row), r"scan has shape \(7,\); must be \(J, 2\)"),
        (
            lambda m: product(m, patterns=m.counts, bad_pixels=m.bad[1:]),
            r"the mask has shape \(8, 12\); must be \(9, 12\)",
        ),
        (lambda m: product(m), r"has no patterns; add data\.patterns_file="),
        (
            lambda m: product(m, patterns=m.counts, indexes=np.arange(J) + 9),
            r"no pattern has a position.* 9 to 15,.*0 to 6",
        ),
        (
            lambda m: product(m, patterns=m.counts, indexes=np.arange(J) * 0.5),
            r"indexes has shape \(7,\) of float64; must be \(7,\) whole numbers",
        ),
        (
            lambda m: product(m, patterns=m.counts[1:], indexes=np.zeros(6, int)),
            r"6 patterns and 7 positions have numbers",
        ),
        (
            lambda m: {"a": m.counts, "b": m.row, "c": np.array("text")},
            r"has none of the layouts .*it holds a \(7, 9, 12\) uint16, b \(7,\) float64, c \(no numbers\); "
            r"name its arrays: data\.keys\.patterns=… data\.keys\.positions=… data\.unit=um",
        ),
        (lambda m: {}, "it holds no arrays"),
    ],
)
def test_archives_that_do_not_fit(made, save, arrays, match):
    path = save(**arrays(made))
    with pytest.raises(ConfigError, match=match) as caught:
        open_scan(path)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"keys": {"positions": "b"}, "unit": "m"},
            r"lacks patterns .entry/data/data or .*; it has a, b, c, d, e",
        ),
        (
            {"keys": {"patterns": "a", "positions": "c"}, "unit": "m"},
            r"c has shape \(7,\); must be \(7 or 12, 2\), a line for each pattern",
        ),
        (
            {"keys": {"patterns": "a", "positions": "b", "probe": "c"}, "unit": "m"},
            r"c has shape \(7,\); must be \(h, w\)",
        ),
        (
            {"keys": {"patterns": "a", "positions": "b", "detector_pixel_m": "d"}, "unit": "m"},
            r"d=-1: no pixel size; correct it",
        ),
        (
            {"keys": {"patterns": "a", "positions": "b", "good": "e", "bad": "f"}, "unit": "m"},
            r"must have one shape",
        ),
        (
            {
                "keys": {"patterns": "a", "positions_row": "c", "positions_col": "c"},
                "unit": "m",
                "axes": "xy",
            },
            r"data\.position_axes=xy: positions_row",
        ),
        ({"unit": "inch"}, r"data\.unit=inch: must be one of m, mm, um"),
        ({"format": "tikk"}, r"data\.format=tikk: must be one of .*tike"),
        ({"format": "cxi"}, r"data\.format=cxi: it is NPZ; must be one of ptychopinn"),
        ({"format": "tike"}, r"lacks patterns .data.; it has a, b"),
        ({"format": "ptychopinn", "keys": {"a": "b"}}, r"data\.keys=a: the format ptychopinn"),
    ],
)
def test_options_that_do_not_fit(made, save, options, match):
    both, one = np.stack([made.row, made.col], axis=1), np.array(-1.0)
    path = save(a=made.counts, b=both, c=made.row, d=one, e=made.bad, f=made.bad[1:])
    with pytest.raises(ConfigError, match=match) as caught:
        open_scan(path, ReadOptions(**options))
    assert "\n" not in str(caught.value)


def test_two_files_that_have_the_same(made, save):
    path = save(**product(made), patterns=made.counts)
    with pytest.raises(ConfigError, match=r"data\.patterns_file=.*does not need it"):
        open_scan(path, ReadOptions(patterns_file=str(path)))


def _spoilt(content, how):
    return {
        "cut": content[: len(content) // 2],
        "no end": content[:-30],
        "empty": b"",
        "text": b"diff3d = 4",
        "npy": b"\x93NUMPY\1\0",
        "matlab": b"MATLAB 5.0 MAT-file",
        "bzip2": b"BZh91AY",
    }[how]


@pytest.mark.parametrize(
    ("how", "match"),
    [
        ("cut", "not a readable .npz .it is cut short or damaged"),
        ("no end", "not a readable .npz"),
        ("empty", "is empty"),
        ("text", "is no HDF5, NPZ or TIFF file; it begins with b'diff3d"),
        ("npy", "holds patterns without positions"),
        ("matlab", r"data\.scan_step_A"),
        ("bzip2", "bunzip2"),
    ],
)
def test_files_that_are_no_archive(made, save, how, match):
    path = save(**pinn(made))
    path.write_bytes(_spoilt(path.read_bytes(), how))
    with pytest.raises(ConfigError, match=match):
        open_scan(path)


def test_no_file(tmp_path):
    with pytest.raises(ConfigError, match=r"no such file"):
        open_scan(tmp_path / "nothing.npz")
    with pytest.raises(ConfigError, match=r"is a folder without TIFF files"):
        open_scan(tmp_path)


def test_what_is_declared_is_compared_with_what_is_there(made, save, tmp_path):
    path = save(**pinn(made, diff3d=None))
    with zipfile.ZipFile(path, "a") as archive, archive.open("diff3d.npy", "w") as member:
        npy.write_array_header_1_0(
            member, {"descr": "<f4", "fortran_order": False, "shape": (J, 10**6, 10**6)}
        )
        member.write(b"0123")
    with pytest.raises(
        ConfigError, match=r"diff3d declares \(7, 1000000, 1000000\) of float32.* holds 4 bytes"
    ):
        open_scan(path)
    bomb = save("bomb.npz", compressed=True, **pinn(made, diff3d=np.zeros((5, 4096, 4096), np.uint8)))
    with pytest.raises(ConfigError, match=r"diff3d \(5, 4096, 4096\): .* expand to .*-fold is refused"):
        open_scan(bomb)
