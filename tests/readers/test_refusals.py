"""Files that readers refuse, in one line with file, key and remedy, and warnings.

The cases of ``test_hostile_scans.py`` are not repeated here.
"""

import os
import subprocess
import sys
from dataclasses import replace

import h5py
import numpy as np
import pytest
from helpers import scans
from helpers.hdf5 import MADE, H, J, W, eiger_folder, product, refused, same, written

from ptycho.config import ConfigError
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan


def foldslice(**changes):
    arrays = {"dp": MADE.counts, "ppX": MADE.metres[:, 1], "ppY": MADE.metres[:, 0]} | changes
    return {key: value for key, value in arrays.items() if value is not None}


BY_KEYS = {"patterns": "a", "positions": "b"}


@pytest.mark.parametrize(
    ("keys", "options", "match"),
    [
        (BY_KEYS | {"positions": "c"}, {}, r"c has shape \(7,\); must be \(7 or 12, 2\), a line for each"),
        (BY_KEYS | {"detector_pixel_m": "d"}, {}, r"d=-1: no pixel size; correct it"),
        (BY_KEYS, {"unit": None}, r"b has no units attribute; add data.unit="),
        ({"pattern": "a"}, {}, "data.keys.pattern: must be one of patterns, positions"),
        ({}, {"format": "cxi"}, r"data\.format=cxi: must be one of ptychopinn.*is NPZ"),
    ],
)
def test_options_that_do_not_fit(tmp_path, keys, options, match):
    m = scans.SMALL
    arrays = {"a": m.counts, "b": np.stack([m.row, m.col], axis=1), "c": m.row, "d": np.array(-1.0)}
    path = scans.save_npz(tmp_path / "a.npz", **arrays, e=m.bad)
    with pytest.raises(ConfigError, match=match) as caught:
        open_scan(path, ReadOptions(keys=keys, **{"unit": "m"} | options))
    assert "\n" not in str(caught.value)


def test_a_second_file_that_is_of_no_use(tmp_path):
    path = product(tmp_path / "a.h5", patterns=MADE.counts)
    refused(path, r"data\.patterns_file=.*does not need it", ReadOptions(patterns_file=str(path)))
    path, odd = product(tmp_path / "a.h5"), written(tmp_path / "b.h5", {"something": MADE.counts})
    refused(path, "has no patterns; add data.patterns_file=")
    for other in (odd, scans.save_npz(tmp_path / "b.npz", something=MADE.probe)):
        options = ReadOptions(patterns_file=str(other))
        refused(path, "b.*: has none of the layouts .*it holds something", options)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (lambda npz: b"", "is empty"),
        (lambda npz: b"diff3d = 4", "is no HDF5, NPZ or TIFF file; it begins with b'diff3d"),
        (lambda npz: b"\x93NUMPY\1\0", "holds patterns without positions"),
        (lambda npz: b"MATLAB 5.0 MAT-file", r"data\.scan_step_A"),
    ],
)
def test_files_that_are_no_archive(tmp_path, content, match):
    path = scans.save_npz(tmp_path / "a.npz", **scans.pinn())
    path.write_bytes(content(path.read_bytes()))
    refused(path, match)


def test_no_file(tmp_path):
    refused(tmp_path / "nothing.npz", "no such file")
    refused("a\0b", "no such file")
    refused(tmp_path, "is a folder without TIFF files")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is no file")


def test_a_file_that_was_left_open_for_writing(tmp_path):
    """A killed writer in SWMR mode leaves a mark in the file."""
    path = tmp_path / "a.cxi"
    script = (
        "import os, sys, h5py; file = h5py.File(sys.argv[1], 'w', libver='latest'); "
        "file.create_dataset('d', (3,)); file.swmr_mode = True; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    refused(path, "it is open for writing; wait until that ends, or run h5clear -s on a copy")


def test_a_compound_whose_parts_overlap_is_not_read(tmp_path):
    """h5py takes a damaged float of four bytes for one of eight: reading would write beyond its memory."""
    path = written(tmp_path / "a.h5", {"d": MADE.counts, "x": MADE.metres})
    odd = h5py.h5t.IEEE_F32LE.copy()
    odd.set_ebias(1000)  # beyond what float32 can hold
    compound = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
    compound.insert(b"r", 0, odd)
    compound.insert(b"i", 4, h5py.h5t.IEEE_F32LE)
    with h5py.File(path, "a") as file:
        h5py.h5d.create(file.id, b"p", compound, h5py.h5s.create_simple((H, W)))
    keys = {"patterns": "d", "positions": "x", "probe": "p"}
    refused(path, "p (is damaged|cannot be read)", ReadOptions(keys=keys, unit="m"))


def test_patterns_that_are_not_there_and_a_chunk_that_cannot_be_unpacked(tmp_path):
    path = written(tmp_path / "a.h5", foldslice(dp=None))
    with h5py.File(path, "a") as file:
        file.create_dataset("dp", data=MADE.counts, chunks=(1, H, W), compression="gzip")
        file["dp"].id.write_direct_chunk((6, 0, 0), b"no gzip at all")
    source = open_scan(path).patterns
    np.testing.assert_array_equal(source.read(np.array([5])), MADE.counts[5:6])
    with pytest.raises(ConfigError, match=r"a.h5: dp: pattern 6 cannot be read"):
        source.read(np.array([6]))
    with pytest.raises(IndexError, match="pattern 0 or 15 of 15"):
        source.read(np.array([0, J]))
    with pytest.raises(IndexError, match="steps of one"):
        source.read(slice(0, J, 2))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"dp": None}, "has no patterns; add data.patterns_file=; it has ppX, ppY"),
        ({"ppX": None}, "lacks ppX and ppY; add data.positions_file=; it has dp, ppY"),
        ({"ppX": np.zeros(J, [("a", "f8"), ("b", "i4")])}, "is a compound of a, b; must be real"),
    ],
)
def test_what_does_not_fit_in_hdf5(tmp_path, change, match):
    refused(written(tmp_path / "a.h5", foldslice(**change)), match)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        (scans.pinn(ycoords=None), r"lacks ycoords; it has xcoords, diff3d, probeGuess"),
        (scans.pinn(diff3d=scans.SMALL.counts[0]), r"diff3d has shape \(9, 12\); must be \(patterns, row"),
        (scans.pinn(xcoords=scans.SMALL.col[1:]), r"ycoords \(7,\) and xcoords \(6,\) must be one list"),
        (
            product(None, patterns=MADE.counts, indexes=np.arange(15) * 0.5),
            r"indexes has shape \(15,\) of float64; must be \(15,\) whole numbers",
        ),
        (
            {"a": scans.SMALL.counts, "b": scans.SMALL.row, "c": np.array("text")},
            r"has none of the layouts .*it holds a \(7, 9, 12\) uint16, b \(7,\) float64, c \(no numbers\); "
            r"name its arrays: data\.keys\.patterns=… data\.keys\.positions=… data\.unit=um",
        ),
    ],
)
def test_what_does_not_fit_in_npz(tmp_path, arrays, match):
    path = scans.save_npz(tmp_path / "a.npz", **arrays)
    refused(path, f"^{path}: .*{match}")


def places_for(folder):
    np.save(folder / "p.npy", MADE.metres)
    return ReadOptions(positions_file=str(folder / "p.npy"), unit="m", axes="rc")


@pytest.mark.parametrize("name", ["../secret.h5", "near.h5"])
def test_links_that_lead_away_are_refused(tmp_path, name):
    inside = tmp_path / "inside"
    inside.mkdir()
    secret = written(tmp_path / "secret.h5", {"entry/data/data": MADE.counts})
    (inside / "near.h5").symlink_to(secret)
    path = written(inside / "m.h5", {"entry/data/data_000001": h5py.ExternalLink(name, "/entry/data/data")})
    places = places_for(tmp_path)
    refused(path, f"which is {secret}, outside the folder {inside}; .*set data.links_root={tmp_path}", places)
    same(open_scan(path, replace(places, links_root=str(tmp_path))))
    refused(path, f"outside the folder {inside} and /usr", replace(places, links_root="/usr"))


def test_parts_that_are_missing(tmp_path):
    master, options = eiger_folder(tmp_path), places_for(tmp_path)
    written(tmp_path / "s_data_000002.h5", {"other": 1})
    refused(master, "refers to /entry/data/data in s_data_000002.h5, which is not there", options)
    (tmp_path / "s_data_000002.h5").write_text("text")
    refused(master, r"s_data_000002\.h5, and cannot read it: not an HDF5 file", options)
    with h5py.File(master, "a") as file:
        del file["entry/data/data_000002"]
    refused(master, "has entry/data/data_000001 to entry/data/data_000003, but not data_000002", options)
    empty = {"meta/a": 1, "chunks/0/data": np.zeros((0, 2, 2))}
    refused(written(tmp_path / "c.ptyd", empty), "chunks holds no patterns")


def virtual(path, sources):
    layout = h5py.VirtualLayout(MADE.counts.shape, MADE.counts.dtype)
    for k, (name, shape) in enumerate(sources):
        layout[5 * k : 5 * k + 5] = h5py.VirtualSource(name, "d", shape=shape)[:5]
    with h5py.File(written(path, foldslice(dp=None)), "a") as file:
        file.create_virtual_dataset("dp", layout)
    return path


def test_virtual_datasets(tmp_path):
    sources = [(f"v{k}.h5", (5, H, W)) for k in range(3)]
    path = virtual(tmp_path / "v.h5", sources)
    for k in range(3):
        written(tmp_path / f"v{k}.h5", {"d": MADE.counts[5 * k : 5 * k + 5]})
    scan = open_scan(path)
    assert scan.warnings == ()
    same(scan)
    written(tmp_path / "v1.h5", {"d": MADE.counts[5:8]})
    assert any("dp: 2 of 15 patterns were never written" in line for line in open_scan(path).warnings)
    written(tmp_path / "v1.h5", {"e": MADE.counts[5:8]})
    refused(path, "the virtual dataset dp refers to d in v1.h5, which is not there")
    short = virtual(tmp_path / "w.h5", sources[:1])
    assert any("10 of 15 patterns were never written" in line for line in open_scan(short).warnings)


def test_a_killed_acquisition_is_noticed(tmp_path):
    """Chunks of two patterns, in two halves each; the last four patterns and half of another are missing."""
    path = written(tmp_path / "a.h5", foldslice(dp=None))
    with h5py.File(path, "a") as file:
        dp = file.create_dataset("dp", MADE.counts.shape, "f4", chunks=(2, 6, W))
        dp[:10] = MADE.counts[:10]
        dp[10, :6] = MADE.counts[10, :6]
    scan = open_scan(path)
    scan.patterns.close()
    assert any("dp: 5 of 15 patterns were never written and read as zeros" in line for line in scan.warnings)
    assert scan.domain == "counts"
    with h5py.File(path, "a") as file:
        del file["dp"]
        file.create_dataset("dp", MADE.counts.shape, "f4")  # contiguous, and nothing in it
    refused(path, "dp: none of its 15 patterns was ever written; was the acquisition stopped")
