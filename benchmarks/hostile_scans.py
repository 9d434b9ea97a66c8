"""Measured scans that must be refused, or accepted with a warning: a function for each, and the message.

Every case starts from a valid file of one format (:class:`ScanWorld`) and damages one thing. Nothing here
imports TensorFlow.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import tifffile

EV = 1.602176634e-19  # joule
N, ROWS, COLS = 32, 5, 6
J = ROWS * COLS
ENERGY, DISTANCE, PITCH = 8000.0, 2.0, 75e-6  # eV, metres, metres
PIXEL = 1.239841984e-6 / ENERGY * DISTANCE / (N * PITCH)  # of the object, metres
DET, SRC = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"
BEAM = "entry_1/instrument_1/beam_1"
EIGER = "entry/instrument/detector"
EIGER_MASK = f"{EIGER}/detectorSpecific/pixel_mask"
DATA, MOVED = "entry_1/data_1/data", "entry_1/data_1/translation"
STAGE, WAVE = f"{DET}/translation", f"{SRC}/illumination"
Arrays = dict[str, Any]


@functools.cache
def made_up() -> SimpleNamespace:
    """Return a scan of 30 patterns (32, 32) of about 10⁴ photons, five rows of six, off the pixel grid."""
    rng = np.random.default_rng(7)
    object_ = np.exp(1j * rng.uniform(-1, 1, (64, 68))) * rng.uniform(0.5, 1, (64, 68))
    rows, cols = np.indices((N, N)) - N // 2
    probe = np.exp(-(rows**2 + 1.3 * cols**2) / 40 + 0.02j * rows * cols).astype(np.complex64)
    corners = np.array([(5 * a, 6 * b) for a in range(ROWS) for b in range(COLS)])
    waves = np.stack([probe * object_[r : r + N, c : c + N] for r, c in corners])
    intensity = np.abs(np.fft.fftshift(np.fft.fft2(waves, norm="ortho"), axes=(1, 2))) ** 2
    counts = rng.poisson(1e4 * intensity / intensity.sum(axis=(1, 2)).mean()).astype(np.uint16)
    places = corners + rng.uniform(-0.4, 0.4, corners.shape)
    return SimpleNamespace(counts=counts, places=places, metres=places * PIXEL, probe=probe, object=object_)


# ---- the valid files: arrays by key (``path@name``: an attribute), and the overrides that they need


def pinn() -> tuple[Arrays, list[str]]:
    made = made_up()
    middle = made.places + N // 2
    return {
        "diff3d": made.counts,
        "xcoords": middle[:, 1],
        "ycoords": middle[:, 0],
        "probeGuess": made.probe,
        "objectGuess": made.object.astype(np.complex64),
    }, []


def ptychodus_npz() -> tuple[Arrays, list[str]]:
    made = made_up()
    return {
        "patterns": made.counts,
        "indexes": np.arange(J),
        "bad_pixels": np.zeros((N, N), bool),
        "probe_position_indexes": np.arange(J),
        "probe_position_x_m": made.metres[:, 1],
        "probe_position_y_m": made.metres[:, 0],
        "probe": made.probe[None],
        "probe_energy_eV": np.asarray(ENERGY),
        "detector_object_distance_m": np.asarray(DISTANCE),
    }, [f"data.detector_pixel_m={PITCH}"]


def tike() -> tuple[Arrays, list[str]]:
    made = made_up()
    corner = np.fft.ifftshift(made.counts, axes=(1, 2))
    return {"data": corner[None], "scan": made.places[None].astype("f4"), "probe": made.probe[None, None]}, []


def keys_npz() -> tuple[Arrays, list[str]]:
    made = made_up()
    arrays = {"p": made.counts, "r": made.metres * 1e6, "e": ENERGY, "z": DISTANCE, "d": PITCH}
    keys = {"patterns": "p", "positions": "r", "energy_eV": "e", "distance_m": "z", "detector_pixel_m": "d"}
    return arrays, [*(f"data.keys.{name}={key}" for name, key in keys.items()), "data.unit=um"]


def foldslice() -> tuple[Arrays, list[str]]:
    made = made_up()
    return {"dp": made.counts, "ppX": made.metres[:, 1], "ppY": made.metres[:, 0]}, LENGTHS


def cxi() -> tuple[Arrays, list[str]]:
    made = made_up()
    x, y = -made.metres[:, 1], -made.metres[:, 0]
    return {
        "cxi_version": 160,
        DATA: made.counts,
        MOVED: np.stack([x, y, 0 * x], axis=1),
        f"{DET}/distance": DISTANCE,
        f"{DET}/x_pixel_size": PITCH,
        f"{DET}/y_pixel_size": PITCH,
        f"{SRC}/energy": ENERGY * EV,
        WAVE: made.probe,
    }, []


def nexus() -> tuple[Arrays, list[str]]:
    made = made_up()
    return {
        "entry_1/definition": "NXcxi_ptycho",
        f"{DET}/data": made.counts,
        STAGE: -np.stack([*made.metres.T[::-1], np.zeros(J)], axis=1) * 1e6,
        f"{STAGE}@units": "um",
        f"{DET}/distance": 1e3 * DISTANCE,
        f"{DET}/distance@units": "mm",
        f"{DET}/x_pixel_size": PITCH,
        f"{BEAM}/energy": ENERGY / 1e3,
        f"{BEAM}/energy@units": "keV",
        f"{DET}/pixel_mask": np.zeros((N, N), np.uint32),
    }, []


def ptyd() -> tuple[Arrays, list[str]]:
    made = made_up()
    arrays = {"meta/energy": ENERGY / 1e3, "meta/distance": DISTANCE, "meta/psize": PITCH}
    arrays |= {"meta/center": "fftshift"}
    for k, part in enumerate((slice(0, 12), slice(12, J))):
        arrays |= {f"chunks/{k}/data": made.counts[part], f"chunks/{k}/positions": made.metres[part]}
    return arrays, []


def ptylab() -> tuple[Arrays, list[str]]:
    made = made_up()
    return {
        "ptychogram": made.counts.astype("f4"),
        "encoder": made.metres,
        "wavelength": 1.239841984e-6 / ENERGY,
        "zo": DISTANCE,
        "dxd": PITCH,
    }, []


def product() -> tuple[Arrays, list[str]]:
    made = made_up()
    return {
        "probe_position_indexes": np.arange(J),
        "probe_position_x_m": made.metres[:, 1],
        "probe_position_y_m": made.metres[:, 0],
        "probe": made.probe[None],
        "probe@pixel_width_m": PIXEL,
        "probe@pixel_height_m": PIXEL,
        "@probe_energy_eV": ENERGY,
        "@detector_object_distance_m": DISTANCE,
        "raw_data/diffraction": np.sqrt(made.counts).astype("f4"),
    }, [f"data.detector_pixel_m={PITCH}"]


def eiger() -> tuple[Arrays, list[str]]:
    made = made_up()
    halves = {f"entry/data/data_{k + 1:06d}": half for k, half in enumerate(np.split(made.counts, 2))}
    return halves | {
        f"{EIGER}/detector_distance": DISTANCE,
        f"{EIGER}/x_pixel_size": PITCH,
        f"{EIGER}/y_pixel_size": PITCH,
        f"{EIGER}/detectorSpecific/photon_energy": ENERGY,
        EIGER_MASK: np.zeros((N, N), np.uint32),
    }, ["data.positions_file={table}"]


def tiff() -> tuple[Arrays, list[str]]:
    return {"pages": made_up().counts}, [*LENGTHS, "data.positions_file={table}"]


LENGTHS = [f"data.energy_eV={ENERGY}", f"data.distance_m={DISTANCE}", f"data.detector_pixel_m={PITCH}"]
NPZ = {"pinn": pinn, "ptychodus_npz": ptychodus_npz, "tike": tike, "keys_npz": keys_npz}
HDF5 = {"foldslice": foldslice, "cxi": cxi, "nexus": nexus, "ptyd": ptyd, "ptylab": ptylab}
HDF5 |= {"product": product, "eiger": eiger, "keys_hdf5": keys_npz}
FORMATS = NPZ | HDF5 | {"tiff": tiff}


class ScanWorld:
    """A folder with a table of positions, in which valid or damaged scans are made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        self.table = self.folder / "table.csv"
        lines = [f"{x:.9f},{y:.9f}" for y, x in made_up().metres * 1e6]
        self.table.write_text("\n".join(["x_um,y_um", *lines]))

    def path(self, form: str) -> Path:
        return self.folder / ("scan.npz" if form in NPZ else "scan.tif" if form == "tiff" else "scan.h5")

    def made(self, form: str, changes: Mapping[str, Any] | None = None, *overrides: str) -> list[str]:
        """Write a file of a format, and return the overrides that read it.

        Args:
            changes: arrays by key, functions of the valid arrays, or None, which omits an array.
            overrides: further overrides.
        """
        arrays, options = FORMATS[form]()
        for key, value in (changes or {}).items():
            arrays[key] = value(arrays[key]) if callable(value) else value
        arrays = {key: value for key, value in arrays.items() if value is not None}
        path = self.path(form)
        if form in NPZ:
            np.savez(path, **arrays)
        elif form == "tiff":
            tifffile.imwrite(path, arrays["pages"])
        else:
            _hdf5(path, arrays)
        filled = [text.format(table=self.table, folder=self.folder) for text in (*options, *overrides)]
        return [f"data.file={path}", *filled]


def _hdf5(path: Path, arrays: Arrays) -> None:
    with h5py.File(path, "w") as file:
        for key, value in sorted(arrays.items(), key=lambda item: "@" in item[0]):
            if "@" in key:
                node, name = key.split("@")
                file[node or "/"].attrs[name] = value
            elif callable(getattr(value, "into", None)):
                value.into(file, key)
            else:
                file[key] = value


Make = Callable[["ScanWorld"], list[str]]


@dataclass(frozen=True)
class ScanCase:
    """The fault, a function that returns the overrides, and a pattern of the line that the user sees.

    Attributes:
        doubtful: the scan is accepted, and the line is a warning.
    """

    name: str
    make: Make
    message: str
    doubtful: bool = False


# ---- damaged scans


def bad(form: str, changes: Mapping[str, Any], *overrides: str) -> Make:
    return lambda world: world.made(form, changes, *overrides)


def put(index: Any, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Replace one element, or slice, of an array; integers stay integers if the value is one."""

    def change(array: np.ndarray) -> np.ndarray:
        array = np.array(array, np.result_type(array, np.asarray(value)))
        array[index] = value
        return array

    return change


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: array * factor


def first(count: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: array[:count]


def cut(form: str, fraction: float) -> Make:
    """Cut a file off after a fraction of its bytes."""

    def make(world: ScanWorld) -> list[str]:
        overrides, path = world.made(form), world.path(form)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * fraction)])
        return overrides

    return make


@dataclass(frozen=True)
class Declared:
    """An HDF5 data set without written chunks."""

    shape: tuple[int, ...]
    dtype: str = "u2"
    chunks: tuple[int, ...] | None = None

    def into(self, file: h5py.File, key: str) -> None:
        file.create_dataset(key, self.shape, self.dtype, chunks=self.chunks)


@dataclass(frozen=True)
class Packed:
    """Patterns packed by an HDF5 filter that is not installed."""

    code: int

    def into(self, file: h5py.File, key: str) -> None:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((1, N, N))
        plist.set_filter(self.code, h5py.h5z.FLAG_OPTIONAL)
        space = h5py.h5s.create_simple((J, N, N))
        name = key.rpartition("/")
        h5py.h5d.create(
            file.require_group(name[0] or "/").id, name[2].encode(), h5py.h5t.NATIVE_UINT16, space, plist
        )


@dataclass(frozen=True)
class Elsewhere:
    """Patterns in an external raw file, which HDF5 would read from any folder."""

    name: str

    def into(self, file: h5py.File, key: str) -> None:
        file.create_dataset(key, (J, N, N), "u2", external=self.name)


def linked_away(world: ScanWorld) -> list[str]:
    """Link the second half of an Eiger master file to a file outside its folder."""
    outside = world.folder.parent / "secret.h5"
    _hdf5(outside, {"entry/data/data": made_up().counts[15:]})
    return world.made(
        "eiger", {"entry/data/data_000002": h5py.ExternalLink("../secret.h5", "entry/data/data")}
    )


def damaged_chunk(world: ScanWorld) -> list[str]:
    """Write packed patterns, one of which is damaged."""
    overrides = world.made("foldslice", {"dp": None})
    with h5py.File(world.path("foldslice"), "a") as file:
        file.create_dataset("dp", data=made_up().counts, chunks=(1, N, N), compression="gzip")
        file["dp"].id.write_direct_chunk((6, 0, 0), b"no gzip at all")
    return overrides


def flipped(form: str, key: str) -> Make:
    """Change one bit of the patterns."""

    def make(world: ScanWorld) -> list[str]:
        overrides, path = world.made(form), world.path(form)
        with zipfile.ZipFile(path) as archive:
            start = archive.getinfo(f"{key}.npy").header_offset
        content = bytearray(path.read_bytes())
        content[start + 5000] ^= 4
        path.write_bytes(content)
        return overrides

    return make


def virtual_of_nowhere(world: ScanWorld) -> list[str]:
    overrides = world.made("foldslice", {"dp": None})
    layout = h5py.VirtualLayout((J, N, N), "u2")
    layout[:] = h5py.VirtualSource("gone.h5", "d", shape=(J, N, N))
    with h5py.File(world.path("foldslice"), "a") as file:
        file.create_virtual_dataset("dp", layout)
    return overrides


def npz_member(form: str, key: str, shape: tuple[int, ...]) -> Make:
    """Write a member whose header declares more bytes than it has."""

    def make(world: ScanWorld) -> list[str]:
        overrides = world.made(form, {key: None})
        header = {"descr": "<u2", "fortran_order": False, "shape": shape}
        with zipfile.ZipFile(world.path(form), "a") as archive, archive.open(f"{key}.npy", "w") as member:
            np.lib.format.write_array_header_1_0(member, header)
            member.write(b"0123")
        return overrides

    return make


def bomb(world: ScanWorld) -> list[str]:
    """Write packed patterns of zeros that expand a thousandfold."""
    arrays, _ = pinn()
    arrays["diff3d"] = np.zeros((J, 2048, 2048), np.uint8)
    np.savez_compressed(world.path("pinn"), **arrays)
    return [f"data.file={world.path('pinn')}"]


def long_name_flipped(world: ScanWorld) -> list[str]:
    """Write an archive with a member of a very long name, and a header of 9000 line ends."""
    overrides = world.made("pinn", {"diff3d": None})
    name = "diff3d.npy"
    with zipfile.ZipFile(world.path("pinn"), "a") as archive:
        archive.writestr(zipfile.ZipInfo("x" * 3000), b"")
        archive.writestr(name, b"\x93NUMPY\x01\x00\xff\xff{" + b"\n" * 9000)
    return overrides


def strange_keys(world: ScanWorld) -> list[str]:
    np.savez(world.path("pinn"), **{"a\nb" * 200: np.ones(3), "c\x1b[31m": np.ones(2)})
    return [f"data.file={world.path('pinn')}"]


def strange_datasets(world: ScanWorld) -> list[str]:
    _hdf5(world.path("cxi"), {"a\nb" * 200: np.ones(3), "c\x1b[31m": np.ones(2)})
    return [f"data.file={world.path('cxi')}"]


def table(content: str, form: str = "tiff") -> Make:
    """Write another table of positions beside a valid file."""

    def make(world: ScanWorld) -> list[str]:
        overrides = world.made(form)
        world.table.write_text(content)
        return overrides

    return make


def table_times(factor: float) -> Make:
    lines = [f"{x},{y}" for y, x in made_up().metres * factor]
    return table("\n".join(["x_um,y_um", *lines]))


def masked(image: np.ndarray) -> Make:
    def make(world: ScanWorld) -> list[str]:
        np.save(world.folder / "mask.npy", image)
        return world.made("foldslice", {}, "data.mask_file={folder}/mask.npy")

    return make


def pipe(option: str, form: str) -> Make:
    """Name a pipe as a file, which would wait for ever."""

    def make(world: ScanWorld) -> list[str]:
        import os

        os.mkfifo(world.folder / "pipe")
        overrides = [text for text in world.made(form) if not text.startswith(f"data.{option}=")]
        return [*overrides, f"data.{option}={world.folder}/pipe"]

    return make


def tiff_with(array: np.ndarray, **how: Any) -> Make:
    def make(world: ScanWorld) -> list[str]:
        overrides = world.made("tiff")
        tifffile.imwrite(world.path("tiff"), array, **how)
        return overrides

    return make


COUNTS = made_up().counts
WHOLE_MASK = np.ones((N, N), np.uint32)
HALF_MASK = np.ones((N, N), np.uint32)
HALF_MASK[8:24, 8:24] = 0
MANY = (10**9, N, N)
HUGE = {"p": Declared(MANY, chunks=(1, N, N)), "r": Declared((10**9, 2), "f4", (10**6, 2))}
PIXEL_3, SYSTEM, AWAY = (3, 4, 5), "/etc/hostname", "detector_object_distance_m"
PARTS, XY = [f"chunks/{k}/positions" for k in (0, 1)], [f"probe_position_{axis}_m" for axis in "xy"]
PINN, FOLDSLICE = ("diff3d", "xcoords", "ycoords"), ("dp", "ppX", "ppY")
# lines of several cases
TOO_FEW = r"holds 30 patterns, and there are 29 positions"
TWICE = r"numbers of patterns or positions repeat, 1 of 30: they are paired in the order"
NOT_FINITE = r"patterns: 1 of the pixels .*NaN or infinity.*data\.mask_file="
IN_METRES = r"positions: the scan is .* m in the unit m; .*data\.unit"
ALL_BAD = r"mask: no pixel is good \(the file's mask\); is it inverted\?"


def case(name: str, damage: Make | Mapping[str, Any], message: str, doubtful: bool = False) -> ScanCase:
    """Return a case; ``damage``: changes of a valid file, whose form begins the name, or a function."""
    make = damage if callable(damage) else bad(name.partition(": ")[0], damage)
    return ScanCase(name, make, message, doubtful)


def doubt(name: str, damage: Make | Mapping[str, Any], message: str) -> ScanCase:
    return case(name, damage, message, doubtful=True)


SCAN_CASES = [
    # damaged files and links
    case("no such file", lambda w: [f"data.file={w.folder}/none.h5"], r"none\.h5: no such file"),
    case("cxi: cut in half", cut("cxi", 0.5), r"scan\.h5: it is cut short; copy it again"),
    case("ptyd: last bytes missing", cut("ptyd", 0.99), r"scan\.h5: it is cut short"),
    case("eiger: the first bytes alone", cut("eiger", 0.01), r"scan\.h5: it is cut short"),
    case("pinn: cut in half", cut("pinn", 0.5), r"not a readable \.npz \(it is cut short or damaged"),
    case("tiff: cut in half", cut("tiff", 0.5), r"scan\.tif: .*cut short.*; copy it anew"),
    case(
        "foldslice: an unknown filter",
        {"dp": Packed(32123)},
        r"dp is packed .* 32123, not installed: pip install",
    ),
    case("cxi: an unknown filter", {DATA: Packed(32987)}, r"data is packed by the HDF5 filter 32987, not"),
    case(
        "eiger: a part is gone",
        {"entry/data/data_000002": h5py.ExternalLink("gone.h5", "x")},
        r"gone\.h5, .* not there; copy it to ",
    ),
    case("eiger: a part outside", linked_away, r"\.\./secret\.h5, .*, outside the folder .*; copy it"),
    case("ptyd: a system file", {PARTS[1]: h5py.ExternalLink(SYSTEM, "x")}, r"file /etc/hostname, .*outside"),
    case("nexus: a link in a circle", {f"{DET}/data": h5py.SoftLink(f"/{DET}/data")}, r"that lead to links"),
    case("ptylab: raw storage", {"ptychogram": Elsewhere(SYSTEM)}, r"keeps its numbers outside .*h5repack"),
    case("foldslice: a virtual dataset of nothing", virtual_of_nowhere, r"refers to the file gone\.h5"),
    case("pinn: a damaged header of 9000 bytes", long_name_flipped, r"diff3d is damaged \(.{1,200}\)$"),
    case("npz: keys with line ends", strange_keys, r"has none of the layouts .{1,600}$"),
    case("hdf5: keys with line ends", strange_datasets, r"has none of the layouts .{1,600}$"),
    case("foldslice: a chunk that cannot be unpacked", damaged_chunk, r"dp: pattern 6 cannot be read"),
    case("pinn: a bit flip", flipped("pinn", "diff3d"), r"its checksum does not fit; .*copy it anew"),
    case("tike: a bit flip", flipped("tike", "data"), r"its checksum does not fit; .*copy it anew"),
    case("pinn: a ZIP bomb", bomb, r"diff3d \(30, 2048, 2048\): .* more than 200-fold is refused"),
    case("positions in a pipe", pipe("positions_file", "tiff"), r"data\.positions_file=.*pipe: is no file"),
    case("a mask in a pipe", pipe("mask_file", "cxi"), r"data\.mask_file=.*pipe: is no file"),
    # numbers of patterns and positions, and shapes
    case(
        "pinn: 10⁹ patterns",
        npz_member("pinn", "diff3d", MANY),
        r"declares .* uint16, \d+ bytes, but holds 4",
    ),
    case("tike: frames of 10¹²", npz_member("tike", "data", (J, 10**6, 10**6)), r"declares .* but holds 4"),
    case(
        "foldslice: 10⁹ patterns",
        {"dp": Declared(MANY, chunks=(1, N, N))},
        r"dp: none of .* was ever written",
    ),
    case("cxi: a frame of 2 GB", {DATA: Declared((J, 2**15, 2**15))}, r"patterns of more than \d+ bytes"),
    case(
        "ptylab: 10¹⁰ positions",
        {"encoder": Declared((10**10, 2), "f8", (1000, 2))},
        r"takes 160+ bytes; at most",
    ),
    case("keys_hdf5: declares 10⁹ of all", HUGE, r"p: none of its 1000000000 patterns was ever written"),
    case("cxi: 29 positions", {MOVED: first(29)}, r"are 29 positions; .*data\.frames=29 .*data\.drop="),
    case("foldslice: 29 positions", dict.fromkeys(FOLDSLICE[1:], first(29)), rf"dp {TOO_FEW}"),
    case("tike: 29 positions", {"scan": lambda scan: scan[:, :-1]}, rf"data .* {TOO_FEW}"),
    case("pinn: 29 positions", dict.fromkeys(PINN[1:], first(29)), rf"diff3d .* {TOO_FEW}"),
    case("tiff: 29 positions", table("x_um,y_um\n" + "1,2\n" * 29), TOO_FEW),
    case("ptyd: 29 positions", {PARTS[1]: first(3)}, r"holds 3 positions; must be \(18, 2\)"),
    case(
        "product: numbers",
        {"probe_position_indexes": np.arange(J) + 1000},
        r"0 to 29, .* positions 1000 to 1029",
    ),
    doubt("product: two positions", {"probe_position_indexes": put(7, 6)}, TWICE),
    doubt("ptychodus_npz: two positions", {"probe_position_indexes": put(7, 6)}, TWICE),
    case(
        "ptyd: a pitch of three numbers", {"meta/psize": [PITCH] * 3}, r"psize has 3 values; .*\(row, col\)"
    ),
    case("ptylab: no pattern at all", {"ptychogram": first(0)}, r"must be \(patterns"),
    case("nexus: a single image", {f"{DET}/data": COUNTS[0]}, r"shape \(32, 32\); must be \(patterns, "),
    doubt("product: no square probe", {"probe": lambda p: p[..., :20]}, r"not square; it is estimated"),
    # kinds of numbers, and values
    case("cxi: complex patterns", {DATA: times(1j)}, r"must be real numbers"),
    case("tike: patterns of text", {"data": COUNTS.astype("U5")}, r"data .*must be real|hold n"),
    case("pinn: Python objects", {"diff3d": COUNTS.astype(object)}, r"diff3d .* Python objects"),
    case("eiger: two types", {"entry/data/data_000002": COUNTS[15:].astype("u4")}, r"differ in dtype"),
    case("nexus: positions as text", {STAGE: [b"a"] * J}, r"is text or ref"),
    case("tiff: colours", tiff_with(np.zeros((J, N, N, 3), "u1"), photometric="rgb"), r"must be grey images"),
    case("ptylab: NaN in a pattern", {"ptychogram": put(PIXEL_3, np.nan)}, NOT_FINITE),
    case("keys_npz: infinity in a pattern", {"p": put(PIXEL_3, np.inf)}, NOT_FINITE),
    case(
        "foldslice: NaN for a position", {"ppX": put(9, np.nan)}, r"have none \(NaN\), 9; .*data\.drop=\[9\]"
    ),
    case("pinn: NaN for a position", {"xcoords": put(9, np.nan)}, r"data\.drop=\[9\]"),
    case(
        "tiff: infinity in the table",
        table("x_um,y_um\n1,2\ninf,3\n"),
        r"line 3 is 'inf,3'; must be 2 finite",
    ),
    case("cxi: NaN in the probe", {WAVE: put((1, 2), np.nan)}, r"not finite"),
    doubt(
        "pinn: NaN in the probe", {"probeGuess": put((1, 2), np.nan)}, r"skipped: .* the first at \[1, 2\]"
    ),
    doubt("product: a dark probe", {"probe": times(0)}, r"file is zero; .*probe="),
    doubt("cxi: a huge probe", {WAVE: times(1e25)}, r"reaches 1e\+25, .* 1e\+15 is refused; it is estimated"),
    doubt("tike: a dark probe", {"probe": times(0)}, r"file is zero; .*probe="),
    case("foldslice: dark patterns", {"dp": times(0)}, r"patterns: dark, all values"),
    case("tike: dark patterns", {"data": times(0)}, r"patterns: dark, all values"),
    case("keys_hdf5: negative", {"p": -COUNTS.astype("i4") - 1}, r"patterns: their sum .* is negative;"),
    case("ptylab: NaN as distance", {"zo": np.nan}, r"set data\.distance_m= \(zo=nan: no distance; taken as"),
    case(
        "ptychodus_npz: a negative distance",
        {AWAY: np.asarray(-2.0)},
        r"data\.distance_m= .*=-2: no distance",
    ),
    doubt(
        "foldslice: a pattern that was taken twice", {"dp": put(8, COUNTS[7])}, r"frames 7 and 8 are the same"
    ),
    case("pinn: all the same", {"diff3d": np.repeat(COUNTS[:1], J, axis=0)}, r"all .* are the same"),
    # positions in wrong units, or without a scan
    case("foldslice: µm taken for m", dict.fromkeys(FOLDSLICE[1:], times(1e6)), rf"{IN_METRES}=um"),
    case("cxi: µm taken for m", {MOVED: times(1e6)}, IN_METRES),
    case("product: µm taken for m", dict.fromkeys(XY, times(1e6)), IN_METRES),
    case("ptyd: nm taken for m", dict.fromkeys(PARTS, times(1e9)), rf"{IN_METRES}=nm"),
    case("keys_npz: m taken for µm", {"r": times(1e-6)}, r"positions: .* object pixels? .*data\.unit=m"),
    case("tiff: m taken for µm", table_times(1), r"positions: .* object pixels? .*data\.unit=m"),
    case("tike: m taken for pixels", {"scan": times(PIXEL)}, r"positions: .*data\.unit"),
    case(
        "keys_hdf5: nm taken for µm", {"r": times(1e3)}, r"positions: .*object pixels.*overlap.*data\.unit=nm"
    ),
    case("pinn: pixels beyond reason", dict.fromkeys(PINN[1:], times(1e9)), r".*object pixels.*overlap"),
    case("pinn: one pattern", dict.fromkeys(PINN, first(1)), r"positions: there is only one"),
    case("foldslice: one pattern", dict.fromkeys(FOLDSLICE, first(1)), r"positions: there is only one"),
    case("cxi: two patterns", {DATA: first(2), MOVED: first(2)}, r"data\.file=.*: 2 of its patterns"),
    case(
        "nexus: all positions equal", {STAGE: times(0)}, r"positions: all 30 are equal; nothing was scanned"
    ),
    case("pinn: all positions equal", dict.fromkeys(PINN[1:], times(0)), r"positions: all 30 are equal"),
    case("ptylab: all positions equal", {"encoder": times(0)}, r"all 30 are equal"),
    case("tiff: all positions equal", table("x_um,y_um\n" + "1,2\n" * J), r"all 30 are equal"),
    doubt(
        "keys_hdf5: one position far away", {"r": put(4, 60.0)}, r"1 isolated positions .*; data\.drop=\[4\]"
    ),
    # lengths in wrong units
    case("cxi: energy in keV", {f"{SRC}/energy": 8.0}, r"energy=8 J: .* 10 to 1e\+06 eV; is it in keV\?"),
    case("cxi: energy in eV", {f"{SRC}/energy": 8000.0}, r"energy=8000 J: .*is it in eV"),
    case("product: energy in keV", {"@probe_energy_eV": 8.0}, r"energy_eV=8 eV: .*in keV\?"),
    case("ptychodus_npz: energy in J", {"probe_energy_eV": 8000 * EV}, r"=1\.28\d*e-15 eV: .*; is it in J\?"),
    case("ptyd: energy in eV", {"meta/energy": 8000.0}, r"meta/energy=8000 keV: .*is it in eV"),
    case("keys_npz: energy in keV", {"e": 8.0}, r"e=8 eV: a photon energy .*is it in keV"),
    case(
        "nexus: distance in furlongs", {f"{DET}/distance@units": "furlong"}, r"=furlong: must be one of m, cm"
    ),
    case("ptylab: distance in mm", {"zo": 2e5}, r"zo=200000 m: a distance .*in .*mm"),
    case("eiger: pitch in µm", {f"{EIGER}/{k}_pixel_size": 75.0 for k in "xy"}, r"is it in .*um"),
    case("keys_npz: pitch in µm", {"d": 75.0}, r"d=75 m: a pixel size .*is it in .*um"),
    case("keys_npz: distance in mm", {"z": 2e5}, r"z=200000 m: a distance must be .*in .*mm"),
    case("ptylab: wavelength in nm", {"wavelength": 0.155}, r"wavelength=0\.155 m: .*in .*nm"),
    # masks
    case("nexus: an inverted mask", {f"{DET}/pixel_mask": WHOLE_MASK}, ALL_BAD),
    case("ptychodus_npz: an inverted mask", {"bad_pixels": np.ones((N, N), bool)}, ALL_BAD),
    case("data.mask_file, inverted", masked(WHOLE_MASK), r"no pixel is good \(1024 in data\.mask_file\)"),
    doubt("eiger: an inverted mask", {EIGER_MASK: HALF_MASK}, r"only 2\d % .* is the mask inverted\?"),
    doubt("data.mask_file, half", masked(HALF_MASK), r"only 2\d % of the pixels are good \(768 in data"),
    case("data.mask_file of another shape", masked(WHOLE_MASK[1:]), r"data\.mask_file=.*must be an image of"),
    case(
        "data.mask_file with NaN", masked(np.where(HALF_MASK, 1, np.nan)), r"data\.mask_file=.*NaN|not finite"
    ),
    case("nexus: a small mask", {f"{DET}/pixel_mask": WHOLE_MASK[1:]}, r"mask has shape \(31, 32\); must be"),
]
