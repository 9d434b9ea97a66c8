"""Measured scans in TIFF, and tables of positions: round trips, and errors."""

import logging

import numpy as np
import pytest
import tifffile
from helpers.scans import SMALL, J, equal

from ptycho.config import ConfigError
from ptycho.preparation.good_pixels import read_mask
from ptycho.readers.positions_table import read_table
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan
from ptycho.readers.tiff import read_image


@pytest.fixture
def table(tmp_path):
    lines = [f"{x},{y}\n" for x, y in zip(SMALL.col, SMALL.row, strict=True)]
    (tmp_path / "p.csv").write_text("x_um,y_um\n" + "".join(lines))
    return str(tmp_path / "p.csv")


@pytest.mark.parametrize("kind", ["plain", "big-endian", "deflated", "ImageJ", "apart", "pages"])
def test_tiff_stack(tmp_path, table, kind):
    path = tmp_path / "stack.dat"
    if kind in ("apart", "pages"):
        with tifffile.TiffWriter(path) as writer:
            for frame in SMALL.counts:
                writer.write(frame, contiguous=False, metadata=None if kind == "pages" else {})
    else:
        options = {"big-endian": {"byteorder": ">"}, "deflated": {"compression": "zlib"}}
        options["ImageJ"] = {"imagej": True}
        tifffile.imwrite(path, SMALL.counts, **options.get(kind, {}))
    scan = open_scan(path, ReadOptions(positions_file=table))
    assert (scan.format, scan.domain, scan.zero_frequency, scan.unit) == ("tiff", "counts", None, "um")
    equal(scan.patterns, SMALL.counts)
    np.testing.assert_array_equal(scan.positions, np.stack([SMALL.row, SMALL.col], axis=1))


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_tiff_folder_is_in_the_order_of_its_numbers(tmp_path, table, compression):
    folder = tmp_path / "frames"
    folder.mkdir()
    for k, name in enumerate(("a1.tif", "a2.TIFF", "a9.tif", "a10.tif", "b1_2.tif")):
        tifffile.imwrite(folder / name, SMALL.counts[k], compression=compression)
    tifffile.imwrite(folder / "b1_10.tif", SMALL.counts[5:], compression=compression)
    (folder / "._a1.tif").write_bytes(b"of another system")
    (folder / "notes.txt").write_text("no pattern")
    equal(open_scan(folder, ReadOptions(positions_file=table)).patterns, SMALL.counts)


def _huge(folder):
    content = bytearray((folder / "6.tif").read_bytes())
    for tag in (256, 257):  # width and length, little-endian longs or shorts
        place = content.find(tag.to_bytes(2, "little"))
        kind, value = (4).to_bytes(2, "little"), (200_000).to_bytes(4, "little")
        content[place + 2 : place + 12] = kind + b"\1\0\0\0" + value
    (folder / "6.tif").write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda folder: (folder / "6.tif").write_text("text"), r"6\.tif: cannot be read .*copy it anew"),
        (
            lambda folder: tifffile.imwrite(folder / "7.tif", SMALL.counts[0, :-1]),
            r"7\.tif: holds patterns \(8, 12\) of uint16, and .*0\.tif \(9, 12\)",
        ),
        (_huge, r"6\.tif: declares .*200000"),
    ],
)
def test_tiff_errors(tmp_path, table, spoil, match, caplog):
    folder = tmp_path / "frames"
    folder.mkdir()
    for k in range(J):
        tifffile.imwrite(folder / f"{k}.tif", SMALL.counts[k])
    spoil(folder)
    with pytest.raises(ConfigError, match=match) as caught:
        open_scan(folder, ReadOptions(positions_file=table))
    assert "\n" not in str(caught.value) and not caplog.records, "it is said once"
    assert logging.getLogger("tifffile").level == logging.NOTSET, "others who use it still hear of it"


SIDE = 20_000


@pytest.fixture
def bomb(tmp_path):
    """An image of 400 million pixels, 3.2 GB, in a file of some kB: each strip has the bytes of the first."""
    path = tmp_path / "bomb.tif"
    tifffile.imwrite(path, np.zeros((100, SIDE)), compression="zlib", rowsperstrip=100)
    content = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].tags["ImageLength"].valueoffset
    content[offset : offset + 2] = (SIDE).to_bytes(2, "little")
    path.write_bytes(content)
    return path


def test_an_image_that_declares_more_than_it_holds_is_refused(bomb):
    with pytest.raises(ConfigError, match=rf"declares \({SIDE}, {SIDE}\) of float64: .* to 3200000000"):
        read_image(bomb)
    with pytest.raises(ConfigError, match=r"^data\.mask_file=|-fold is refused"):
        read_mask(bomb, (SIDE, SIDE))


def test_an_image_is_read(tmp_path):
    image = np.random.default_rng(0).integers(0, 2, (5, 7), np.uint8)
    tifffile.imwrite(tmp_path / "a.tif", image)
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif"), image)
    np.testing.assert_array_equal(read_mask(tmp_path / "a.tif", (5, 7)), image != 0)
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((2, 5, 7), np.uint8))
    with pytest.raises(ConfigError, match="holds 2 images; must be one"):
        read_image(tmp_path / "b.tif")


@pytest.mark.parametrize(
    ("content", "unit", "wanted"),
    [
        ("x_um,y_um\n1,2\n3,4\n", "um", [[2, 1], [4, 3]]),
        ("y [nm]; x [nm]\n1; 2;\n3; 4;\n", "nm", [[1, 2], [3, 4]]),
        ("# scan 12\n# index  row (px)   col (px)\n0 1 2\n# lost\n\n1 3 4\n", "px", [[1, 2], [3, 4]]),
        ('"col_m"\t"row_m"\n1e-6\t2e-6\n', "m", [[2e-6, 1e-6]]),
        ("pos_x_µm,pos_y_micron\n1,2\n", "um", [[2, 1]]),
        ("x_um;y_um\n1,5;-2,25\n3;4e-1\n", "um", [[-2.25, 1.5], [0.4, 3]]),
        (
            "index,timestamp,x_um,y_um\n0,2024-05-01T12:00:00.5,1.5,2\n1,2024-05-01,3,nan\n",
            "um",
            [[2, 1.5], [np.nan, 3]],
        ),
        ("x,y,time\num,um,s\n1,2,3\n", "um", [[2, 1]]),
        (
            "#F a\n#S 42 dmesh samx -1 1 samy -1 1\n#N 3\n#L x (um)  y (um)  Det A\n1 2 3\n#C end\n",
            "um",
            [[2, 1]],
        ),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_a_table_says_its_axes_and_unit(tmp_path, content, unit, wanted, encoding):
    (tmp_path / "t").write_bytes(content.encode(encoding))
    table, _ = read_table(tmp_path / "t")
    assert table.unit == unit
    np.testing.assert_allclose(table.positions, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("content", "chosen", "axes", "wanted"),
    [
        ("x_set_um,y_set_um,x_rb_um,y_rb_um\n1,2,3,4\n", ("x_rb", "y_rb"), None, [4, 3]),
        ("#S 1 mesh\n#L samx  samy  Two Theta\n1 2 3\n", ("samx", "samy"), None, [2, 1]),
        ("1 2 3 4\n", ("3", "4"), "rc", [3, 4]),
    ],
)
def test_chosen_columns(tmp_path, content, chosen, axes, wanted):
    (tmp_path / "t").write_text(content)
    table, _ = read_table(tmp_path / "t", "um", axes, chosen)
    assert table.positions.tolist() == [wanted] and table.unit == "um"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"once upon a time\n", "holds no line of numbers; its first is 'once upon a time'"),
        (b"x_um,y_um\n1,2\n3,four\n", "line 3 is '3,four'; must be 2 finite numbers"),
        (b"1 2 3\n", r"has 3 columns and no header.*data\.position_columns=\[1,2\]"),
        (b"#S 1 mesh\n#L x  y\n1 2\n#S 2 mesh\n#L x  y\n1 2\n", r"holds 2 scans of SPEC \(1, 2"),
        (b"x [A], y [A]\n1,2\n", r"its unit A is none that is known; add data\.unit= .*angstrom"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, content, match):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ConfigError, match=match) as caught:
        read_table(tmp_path / "t")
    assert "\n" not in str(caught.value) and str(tmp_path / "t") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "unit", "axes", "chosen", "match"),
    [
        ("1 2\n3 4\n", "um", None, None, r"have no names; add data.position_axes=xy or"),
        ("x_um y_um\n3 4\n", None, "rc", None, r"data.position_axes=rc: the names of its columns"),
        ("x y\n1 2\n", None, None, ("x_no", "y"), r"position_columns=\[x_no,y\]: x_no must be one of x, y"),
    ],
)
def test_tables_that_ask(tmp_path, content, unit, axes, chosen, match):
    (tmp_path / "t").write_text(content)
    with pytest.raises(ConfigError, match=match):
        read_table(tmp_path / "t", unit, axes, chosen)


@pytest.mark.parametrize("array", [np.zeros((3, 3)), np.array([["a", "b"]]), np.array([{}, {}])])
def test_npy_tables_that_cannot_be_read(tmp_path, array):
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(ConfigError, match=r"must be real numbers|no array of numbers can be read"):
        read_table(tmp_path / "t.npy", "px", "rc")
