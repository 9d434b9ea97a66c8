"""Readers of measured scans in HDF5: what they refuse, and what they warn of."""

import shutil
import subprocess
import sys
import time
from dataclasses import replace

import h5py
import numpy as np
import pytest
from helpers.cli import ROOT
from helpers.hdf5 import (
    DET,
    NO,
    SRC,
    H,
    J,
    W,
    cxi_arrays,
    eiger_folder,
    made_up,
    product,
    refused,
    same,
    written,
)

from ptycho.config import ConfigError
from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.raw_scan import ReadOptions
from ptycho.readers.table import open_scan
from ptycho.readers.values import find_domain


@pytest.fixture(scope="module")
def made():
    return made_up()


# -- what an option says -------------------------------------------------------------------------------------


def test_the_users_unit_is_taken(tmp_path, made):
    arrays = {"dp": made.counts, "ppX": made.metres[:, 1] * 1e6, "ppY": made.metres[:, 0] * 1e6}
    scan = open_scan(written(tmp_path / "a.h5", arrays), ReadOptions(unit="um"))
    assert scan.unit == "um"
    np.testing.assert_allclose(scan.positions, made.metres * 1e6)


@pytest.mark.parametrize(
    "options, match",
    [
        (ReadOptions(keys={"positions": "x"}), "data.keys=positions: the format cxi does not need it"),
        (ReadOptions(patterns_file="b.h5"), "data.patterns_file=b.h5: the format cxi does not need it"),
    ],
)
def test_options_without_use_are_refused(tmp_path, made, options, match):
    refused(written(tmp_path / "a.cxi", cxi_arrays(made)), match, options)


@pytest.mark.parametrize(
    "keys, match",
    [
        ({"pattern": "a"}, "data.keys.pattern: must be one of patterns, positions"),
        (
            {"patterns": "a"},
            "needs either positions, or positions_row and positions_col, or data.positions_file",
        ),
        ({"patterns": "a", "positions": "c"}, "lacks patterns .a.; it has d, x"),
        ({"patterns": "d", "positions": "x"}, "x has no units attribute; add data.unit="),
        ({"patterns": "d", "positions": "x", "probe": "nothing/there"}, "lacks probe .nothing/there."),
    ],
)
def test_maps_that_do_not_fit(tmp_path, made, keys, match):
    path = written(tmp_path / "a.h5", {"d": made.counts, "x": made.metres})
    refused(path, match, ReadOptions(keys=keys))


# -- files that cannot be opened -----------------------------------------------------------------------------


def test_what_is_no_hdf5(tmp_path, made):
    refused(tmp_path / "none.cxi", "none.cxi: no such file")
    refused(tmp_path, "is a folder without TIFF files")
    refused("a\0b", "no such file")
    (tmp_path / "empty.cxi").touch()
    refused(tmp_path / "empty.cxi", "is empty")
    (tmp_path / "text.cxi").write_text("no HDF5 at all " * 99)
    refused(tmp_path / "text.cxi", "is no HDF5, NPZ or TIFF file; it begins with")
    np.savez(tmp_path / "a.npz", a=1)
    refused(tmp_path / "a.npz", "none of the layouts ptychopinn")
    path = written(tmp_path / "a.cxi", cxi_arrays(made))
    path.write_bytes(path.read_bytes()[:-1000])
    refused(path, "cut short; copy it again, or wait until it is written")


@pytest.mark.parametrize("version", range(-1, 4))
def test_random_bytes_behind_a_signature_are_not_open_for_writing(tmp_path, version):
    """Of each version of the block that follows the signature, and of none: HDF5 calls it the superblock."""
    start = b"\x89HDF\r\n\x1a\n" + (bytes([version]) if version >= 0 else b"\xc8")
    (tmp_path / "a.cxi").write_bytes(start + np.random.default_rng(version + 1).bytes(20_000))
    with pytest.raises(ConfigError, match="HDF5 cannot open it: it is damaged, or begins like") as caught:
        open_scan(tmp_path / "a.cxi", NO)
    assert "writing" not in str(caught.value) and "h5clear" not in str(caught.value)


def test_a_file_that_was_left_open_for_writing(tmp_path):
    """A writer in SWMR mode that was killed leaves its mark in the file."""
    path = tmp_path / "a.cxi"
    script = (
        "import os, sys, h5py; file = h5py.File(sys.argv[1], 'w', libver='latest'); "
        "file.create_dataset('d', (3,)); file.swmr_mode = True; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    refused(path, "it is open for writing; wait until that ends, or run h5clear -s on a copy")


def test_damage_is_one_line(tmp_path, made):
    """Bytes turned over at many places: an error of one line, or a scan that can be read."""
    content = written(tmp_path / "a.cxi", cxi_arrays(made)).read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, 6000, 60):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "b.cxi").write_bytes(damaged)
        try:
            scan = open_scan(tmp_path / "b.cxi", NO)
            scan.patterns.read(slice(0, J))
            scan.patterns.close()
        except ConfigError as error:
            assert str(error).startswith(str(tmp_path / "b.cxi"))
            assert "\n" not in str(error)


def test_a_compound_whose_parts_overlap_is_not_read(tmp_path, made):
    """h5py takes a damaged float of four bytes for one of eight: reading would write beyond its memory."""
    path = written(tmp_path / "a.h5", {"d": made.counts, "x": made.metres})
    odd = h5py.h5t.IEEE_F32LE.copy()
    odd.set_ebias(1000)  # beyond what float32 can hold
    compound = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
    compound.insert(b"r", 0, odd)
    compound.insert(b"i", 4, h5py.h5t.IEEE_F32LE)
    with h5py.File(path, "a") as file:
        h5py.h5d.create(file.id, b"p", compound, h5py.h5s.create_simple((H, W)))
    keys = {"patterns": "d", "positions": "x", "probe": "p"}
    refused(path, "p (is damaged|cannot be read)", ReadOptions(keys=keys, unit="m"))


def test_a_chunk_that_cannot_be_unpacked_is_named(tmp_path, made):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("dp", data=made.counts, chunks=(1, H, W), compression="gzip")
        file["dp"].id.write_direct_chunk((6, 0, 0), b"no gzip at all")
        file["ppX"], file["ppY"] = made.metres.T
    scan = open_scan(path, NO)
    np.testing.assert_array_equal(scan.patterns.read(np.array([5])), made.counts[5:6])
    with pytest.raises(ConfigError, match=r"a.h5: dp: patterns 6 to 6 cannot be read"):
        scan.patterns.read(np.array([6]))
    with pytest.raises(IndexError, match="pattern 0 or 15 of 15"):
        scan.patterns.read(np.array([0, J]))
    with pytest.raises(IndexError, match="steps of one"):
        scan.patterns.read(slice(0, J, 2))


def test_a_missing_filter_is_named(tmp_path, made):
    path = written(tmp_path / "a.h5", {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]})
    with h5py.File(path, "a") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((1, H, W))
        plist.set_filter(32123, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple(made.counts.shape)
        h5py.h5d.create(file.id, b"dp", h5py.h5t.NATIVE_UINT16, space, plist)
    refused(path, "dp is packed by the HDF5 filter 32123, not installed: pip install hdf5plugin")


def test_bitshuffle_as_eiger_packs(tmp_path, made):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("dp", data=made.counts, chunks=(1, H, W), **hdf5plugin.Bitshuffle())
        file["ppX"], file["ppY"] = made.metres[:, 1], made.metres[:, 0]
    same(open_scan(tmp_path / "a.h5", NO), made)


# -- files that lack something or hold something else --------------------------------------------------------


def changed(made, **changes):
    arrays = {"dp": made.counts, "ppX": made.metres[:, 1], "ppY": made.metres[:, 0]} | changes
    return {key: value for key, value in arrays.items() if value is not None}


@pytest.mark.parametrize(
    "change, match",
    [
        (lambda m: {"dp": None}, "has no patterns; add data.patterns_file=; it has ppX, ppY"),
        (lambda m: {"ppX": None}, "lacks ppX and ppY; add data.positions_file=; it has dp, ppY"),
        (lambda m: {"ppX": m.metres[:9, 1]}, r"ppY \(15,\) and ppX \(9,\) do not fit 15 patterns"),
        (lambda m: {"ppX": np.full(J, b"a")}, "ppX .* is text or references; must be real numbers"),
        (lambda m: {"ppX": np.zeros(J, [("a", "f8"), ("b", "i4")])}, "is a compound of a, b; must be real"),
        (lambda m: {"dp": m.counts.astype(complex)}, "dp .* is complex128; must be real numbers"),
        (lambda m: {"dp": h5py.Empty("f4")}, "dp has shape None"),
    ],
)
def test_what_does_not_fit(tmp_path, made, change, match):
    path = written(tmp_path / "a.h5", changed(made, **change(made)))
    refused(path, match)


def test_links_in_a_circle(tmp_path, made):
    arrays = cxi_arrays(made, **{"entry_1/data_1/translation": h5py.SoftLink("/entry_1/data_1/translation")})
    refused(written(tmp_path / "a.cxi", arrays), "translation: more than 16 links that lead to links")


def test_all_problems_come_at_once(tmp_path, made):
    changes = {f"{DET}/mask": np.zeros((3, 3), int), f"{SRC}/energy": 6.2, f"{DET}/distance": 5e4}
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **changes))
    refused(path, "energy=6.2 J: .*; .*distance=50000 m: .*; the mask has shape")


@pytest.mark.parametrize(
    "energy, units, likely", [(6.2, None, "is it in keV[?]"), (6.2, "eV", "is it in keV[?]")]
)
def test_energies_of_the_wrong_unit(tmp_path, made, energy, units, likely):
    changes = {f"{SRC}/energy": energy} | ({f"{SRC}/energy@units": units} if units else {})
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **changes))
    refused(path, f"photon energy must be from 10 to 1e[+]06 eV; {likely} correct it or its units attribute")


def test_numbers_that_are_not_set(tmp_path, made):
    path = written(tmp_path / "a.cxi", cxi_arrays(made, **{f"{DET}/distance": 0.0, f"{SRC}/energy": np.nan}))
    scan = open_scan(path, NO)
    assert scan.distance_m is None and scan.energy_eV is None
    assert [line.split(":")[1].strip() for line in scan.warnings] == [
        "no photon energy; taken as not given",
        "no distance; taken as not given",
    ]


def test_a_product_needs_patterns(tmp_path, made):
    path = product(tmp_path / "a.h5", made)
    refused(path, "has no patterns; add data.patterns_file=")
    odd = written(tmp_path / "b.h5", {"something": made.counts})
    refused(
        path,
        "has none of the layouts .*it holds something",
        ReadOptions(patterns_file=str(odd)),
    )
    far = product(
        tmp_path / "c.h5",
        made,
        **{"probe_position_indexes": np.arange(J) + 12, "raw_data/diffraction": made.counts},
    )
    scan = open_scan(far, NO)
    assert scan.patterns.shape[0] == 3
    assert any("12 of 15 positions are excluded" in line for line in scan.warnings)
    short = {"probe_position_x_m": made.metres[:4, 1], "raw_data/diffraction": made.counts}
    refused(
        product(tmp_path / "d.h5", made, **short),
        r"y_m \(15,\) and probe_position_x_m \(4,\) must be one list",
    )


def test_a_chunk_without_positions(tmp_path, made):
    arrays = {
        "meta/energy": 6.2,
        "chunks/0/data": made.counts,
        "chunks/1/data": made.counts,
        "chunks/0/positions": made.metres,
    }
    refused(written(tmp_path / "a.ptyd", arrays), "lacks positions .chunks/1/positions.")
    arrays["chunks/1/positions"] = made.metres[:3]
    refused(written(tmp_path / "b.ptyd", arrays), r"chunks/1/positions holds 3 positions; must be \(15, 2\)")
    refused(written(tmp_path / "c.ptyd", {"meta/a": 1, "chunks/0/data": np.zeros((0, 2, 2))}), "no patterns")


# -- other files ---------------------------------------------------------------------------------------------


def places_for(folder, made):
    np.save(folder / "p.npy", made.metres)
    return ReadOptions(positions_file=str(folder / "p.npy"), unit="m", axes="rc")


def test_links_to_nowhere(tmp_path, made):
    master, options = eiger_folder(tmp_path, made), places_for(tmp_path, made)
    (tmp_path / "s_data_000002.h5").unlink()
    refused(master, "data_000002 refers to the file s_data_000002.h5, which is not there", options)
    written(tmp_path / "s_data_000002.h5", {"other": 1})
    refused(
        master,
        "data_000002 refers to /entry/data/data in s_data_000002.h5, which is not there",
        options,
    )
    (tmp_path / "s_data_000002.h5").write_text("text")
    refused(master, "s_data_000002.h5, and cannot read it: not an HDF5 file", options)
    with h5py.File(master, "a") as file:
        del file["entry/data/data_000002"]
    refused(master, "has entry/data/data_000001 to entry/data/data_000003, but not data_000002", options)


@pytest.mark.parametrize("how", ["relative", "absolute", "symlink"])
def test_links_that_lead_away_are_refused(tmp_path, made, how):
    inside = tmp_path / "inside"
    inside.mkdir()
    secret = written(tmp_path / "secret.h5", {"entry/data/data": made.counts})
    if how == "symlink":
        (inside / "near.h5").symlink_to(secret)
    name = {"relative": "../secret.h5", "absolute": str(secret), "symlink": "near.h5"}[how]
    path = written(inside / "m.h5", {"entry/data/data_000001": h5py.ExternalLink(name, "/entry/data/data")})
    places = places_for(tmp_path, made)
    match = f"which is {secret}, outside the folder {inside}; .*set data.links_root={tmp_path}"
    refused(path, match, places)
    same(open_scan(path, replace(places, links_root=str(tmp_path))), made)
    refused(path, f"outside the folder {inside} and /usr", replace(places, links_root="/usr"))


def test_links_below_and_moved_masters(tmp_path, made):
    """A link may go down; of an absolute one that leads nowhere, the file of that name beside is taken."""
    (tmp_path / "below").mkdir()
    eiger_folder(tmp_path / "below", made)
    links = {f"entry/data/data_{k:06d}": f"below/s_data_{k:06d}.h5" for k in (1, 2, 3)}
    links["entry/data/data_000002"] = "/beamline/gone/s_data_000002.h5"
    shutil.copy(tmp_path / "below/s_data_000002.h5", tmp_path)
    arrays = {key: h5py.ExternalLink(name, "/entry/data/data") for key, name in links.items()}
    same(open_scan(written(tmp_path / "m.h5", arrays), places_for(tmp_path, made)), made)


def virtual(path, made, sources):
    layout = h5py.VirtualLayout(made.counts.shape, made.counts.dtype)
    for k, (name, shape) in enumerate(sources):
        layout[5 * k : 5 * k + 5] = h5py.VirtualSource(name, "d", shape=shape)[:5]
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("dp", layout)
        file["ppX"], file["ppY"] = made.metres[:, 1], made.metres[:, 0]
    return path


def test_virtual_datasets(tmp_path, made):
    sources = [(f"v{k}.h5", (5, H, W)) for k in range(3)]
    path = virtual(tmp_path / "v.h5", made, sources)
    for k in range(3):
        written(tmp_path / f"v{k}.h5", {"d": made.counts[5 * k : 5 * k + 5]})
    scan = open_scan(path, NO)
    assert scan.warnings == ()
    same(scan, made)
    written(tmp_path / "v1.h5", {"d": made.counts[5:8]})
    assert any("dp: 2 of 15 patterns were never written" in line for line in open_scan(path, NO).warnings)
    written(tmp_path / "v1.h5", {"e": made.counts[5:8]})
    refused(path, "the virtual dataset dp refers to d in v1.h5, which is not there")
    (tmp_path / "v1.h5").unlink()
    refused(path, "the virtual dataset dp refers to the file v1.h5, which is not there")
    short = virtual(tmp_path / "w.h5", made, sources[:1])
    assert any("10 of 15 patterns were never written" in line for line in open_scan(short, NO).warnings)


def test_storage_outside_hdf5_is_refused(tmp_path, made):
    (tmp_path / "raw.bin").write_bytes(made.counts.tobytes())
    path = written(tmp_path / "a.h5", {"ppX": made.metres[:, 1], "ppY": made.metres[:, 0]})
    with h5py.File(path, "a") as file:
        external = [(str(tmp_path / "raw.bin"), 0, made.counts.nbytes)]
        file.create_dataset("dp", made.counts.shape, "u2", external=external)
    refused(path, "dp keeps its numbers outside HDF5 .*raw.bin.*h5repack")


# -- large and unfinished ------------------------------------------------------------------------------------


def test_a_killed_acquisition_is_noticed(tmp_path, made):
    """Chunks of two patterns, in two halves each; the last four patterns and half of another are missing."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        dp = file.create_dataset("dp", made.counts.shape, "f4", chunks=(2, 6, W))
        dp[:10] = made.counts[:10]
        dp[10, :6] = made.counts[10, :6]
        file["ppX"], file["ppY"] = made.metres[:, 1], made.metres[:, 0]
    scan = open_scan(path, NO)
    scan.patterns.close()
    assert any("dp: 5 of 15 patterns were never written and read as zeros" in line for line in scan.warnings)
    assert scan.domain == "counts"
    with h5py.File(path, "a") as file:
        del file["dp"]
        file.create_dataset("dp", made.counts.shape, "f4")  # contiguous, and nothing in it
    refused(path, "dp: none of its 15 patterns was ever written; was the acquisition stopped")


@pytest.mark.parametrize(
    ("written", "answer"), [(0, "none of its 10000000 patterns was ever written"), (3, "nothing was scanned")]
)
def test_a_sparse_file_of_any_size_is_answered_at_once(tmp_path, written, answer):
    """335 TB are declared, of which a few hundred kB are there."""
    path, count = tmp_path / "sparse.h5", 10**7
    with h5py.File(path, "w") as file:
        data = file.create_dataset("p", (count, 4096, 4096), "u2", chunks=(1, 1024, 4096), compression="gzip")
        for k in range(written):
            data[k, ::1024, 2000:2100] = 9
        file.create_dataset("xy", (count, 2), "f8", chunks=(10**5, 2))
    assert path.stat().st_size < 2e6
    keys = ("data.keys.patterns=/p", "data.keys.positions=/xy", "data.unit=m")
    script = (
        "import resource, sys; from scripts.inspect_scan import main; code = main(); "
        "use = resource.getrusage(resource.RUSAGE_SELF); "  # its ru_maxrss may be that of the parent
        "peak = next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')); "
        "print(code, use.ru_utime + use.ru_stime, peak)"
    )
    command = [sys.executable, "-c", script, str(path), *keys, f"output={tmp_path / 'picture.png'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    code, seconds, kilobytes = done.stdout.split()
    assert answer in done.stderr and len(done.stderr.splitlines()) == 1
    assert code == "2" and float(seconds) < 10 and float(kilobytes) < 1e6


def test_a_large_file_opens_at_once(tmp_path):
    """Five gigabytes declared; only the patterns that are asked for are read."""
    count, path = 10_000, tmp_path / "large.h5"
    with h5py.File(path, "w") as file:
        dp = file.create_dataset("dp", (count, 512, 512), "u2", chunks=(1, 512, 512), compression="gzip")
        dp[4321] = 7
        file["ppX"] = file["ppY"] = np.arange(count) * 1e-8
    assert count * 512 * 512 * 2 > 5e9
    start = time.perf_counter()
    scan = open_scan(path, NO)
    assert time.perf_counter() - start < 0.5
    assert scan.patterns.shape == (count, 512, 512)
    (warning,) = scan.warnings
    assert f"dp: {count - 1} of {count} patterns were never written and read as zeros; was the" in warning
    found = scan.patterns.read(np.array([9000, 4321, 12]))
    np.testing.assert_array_equal(found.mean(axis=(1, 2)), [0, 7, 0])


def test_chunks_along_the_scan(tmp_path, made):
    """Such as h5py makes by itself: small along the detector. Larger than HDF5's own room for chunks."""
    rng = np.random.default_rng(1)
    values = rng.integers(0, 4, (40, 256, 128)).astype(np.uint16)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("dp", data=values, chunks=(20, 32, 32), compression="lzf")
        file["ppX"] = file["ppY"] = np.arange(40) * 1e-8
    scan = open_scan(tmp_path / "a.h5", NO)
    for k in (0, 39, 7, 20):
        np.testing.assert_array_equal(scan.patterns.read(np.array([k])), values[k : k + 1])
    np.testing.assert_array_equal(scan.patterns.read(slice(13, 29)), values[13:29])


def test_arrays_too_large_for_memory_are_refused(tmp_path, made):
    path = written(tmp_path / "a.h5", {"dp": made.counts, "ppY": made.metres[:, 0]})
    with h5py.File(path, "a") as file:
        file.create_dataset("ppX", (10**12,), "f8", chunks=(1000,))
    refused(path, r"ppX \(1000000000000,\) takes 8000000000000 bytes; at most")
    with h5py.File(path, "a") as file:
        del file["ppX"], file["dp"]
        file["ppX"] = made.metres[:, 1]
        file.create_dataset("dp", (J, 2**16, 2**16), "u2", chunks=(1, 64, 64))
    refused(path, "patterns of more than 1073741824 bytes")


def test_domains_are_told_from_a_few_patterns(tmp_path, made):
    for name, values, said, domain in [
        ("a", made.intensity, None, None),
        ("b", made.counts.astype("f8"), None, "counts"),
        ("c", np.sqrt(made.counts), None, "amplitude"),
        ("d", made.intensity / 1e3, "intensity", "intensity"),
    ]:
        with Hdf5Archive(written(tmp_path / f"{name}.h5", {"d": values})) as file:
            assert find_domain(file, file.patterns("d"), said) == domain
            assert bool(file.warnings) == (name == "d")
            file.close()
