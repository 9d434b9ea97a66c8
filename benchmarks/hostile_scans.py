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
        "entry_1/data_1/data": made.counts,
        "entry_1/data_1/translation": np.stack([x, y, 0 * x], axis=1),
        f"{DET}/distance": DISTANCE,
        f"{DET}/x_pixel_size": PITCH,
        f"{DET}/y_pixel_size": PITCH,
        f"{SRC}/energy": ENERGY * EV,
        f"{SRC}/illumination": made.probe,
    }, []


def nexus() -> tuple[Arrays, list[str]]:
    made = made_up()
    return {
        "entry_1/definition": "NXcxi_ptycho",
        f"{DET}/data": made.counts,
        f"{DET}/translation": -np.stack([*made.metres.T[::-1], np.zeros(J)], axis=1) * 1e6,
        f"{DET}/translation@units": "um",
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
        f"{EIGER}/detectorSpecific/pixel_mask": np.zeros((N, N), np.uint32),
    }, ["data.positions_file={table}"]


def keys_hdf5() -> tuple[Arrays, list[str]]:
    made = made_up()
    arrays = {"p": made.counts, "r": made.metres * 1e6, "e": ENERGY, "z": DISTANCE, "d": PITCH}
    return arrays, keys_npz()[1]


def tiff() -> tuple[Arrays, list[str]]:
    return {"pages": made_up().counts}, [*LENGTHS, "data.positions_file={table}"]


LENGTHS = [f"data.energy_eV={ENERGY}", f"data.distance_m={DISTANCE}", f"data.detector_pixel_m={PITCH}"]
NPZ = {"pinn": pinn, "ptychodus_npz": ptychodus_npz, "tike": tike, "keys_npz": keys_npz}
HDF5 = {"foldslice": foldslice, "cxi": cxi, "nexus": nexus, "ptyd": ptyd, "ptylab": ptylab}
HDF5 |= {"product": product, "eiger": eiger, "keys_hdf5": keys_hdf5}
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


@dataclass(frozen=True)
class ScanCase:
    """The fault, a function that returns the overrides, and a pattern of the line that the user sees.

    Attributes:
        doubtful: the scan is accepted, and the line is a warning.
    """

    name: str
    make: Callable[[ScanWorld], list[str]]
    message: str
    doubtful: bool = False


# ---- damaged scans


def bad(form: str, changes: Mapping[str, Any], *overrides: str) -> Callable[[ScanWorld], list[str]]:
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


def cut(form: str, fraction: float) -> Callable[[ScanWorld], list[str]]:
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


def flipped(form: str, key: str) -> Callable[[ScanWorld], list[str]]:
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


def npz_member(form: str, key: str, shape: tuple[int, ...]) -> Callable[[ScanWorld], list[str]]:
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


def table(content: str, form: str = "tiff") -> Callable[[ScanWorld], list[str]]:
    """Write another table of positions beside a valid file."""

    def make(world: ScanWorld) -> list[str]:
        overrides = world.made(form)
        world.table.write_text(content)
        return overrides

    return make


def table_times(factor: float) -> Callable[[ScanWorld], list[str]]:
    lines = [f"{x},{y}" for y, x in made_up().metres * factor]
    return table("\n".join(["x_um,y_um", *lines]))


def masked(image: np.ndarray) -> Callable[[ScanWorld], list[str]]:
    def make(world: ScanWorld) -> list[str]:
        np.save(world.folder / "mask.npy", image)
        return world.made("foldslice", {}, "data.mask_file={folder}/mask.npy")

    return make


def pipe(option: str, form: str) -> Callable[[ScanWorld], list[str]]:
    """Name a pipe as a file, which would wait for ever."""

    def make(world: ScanWorld) -> list[str]:
        import os

        os.mkfifo(world.folder / "pipe")
        overrides = [text for text in world.made(form) if not text.startswith(f"data.{option}=")]
        return [*overrides, f"data.{option}={world.folder}/pipe"]

    return make


def tiff_with(array: np.ndarray, **how: Any) -> Callable[[ScanWorld], list[str]]:
    def make(world: ScanWorld) -> list[str]:
        overrides = world.made("tiff")
        tifffile.imwrite(world.path("tiff"), array, **how)
        return overrides

    return make


COUNTS = made_up().counts
WHOLE_MASK = np.ones((N, N), np.uint32)
HALF_MASK = np.ones((N, N), np.uint32)
HALF_MASK[8:24, 8:24] = 0
EQUAL = np.full(J, 3e-6)
MANY = (10**9, N, N)

FILES = [
    ScanCase("no such file", lambda w: [f"data.file={w.folder}/none.h5"], r"none\.h5: no such file"),
    ScanCase("cxi: cut in half", cut("cxi", 0.5), r"scan\.h5: it is cut short; copy it again"),
    ScanCase("ptyd: last bytes missing", cut("ptyd", 0.99), r"scan\.h5: it is cut short"),
    ScanCase("eiger: the first bytes alone", cut("eiger", 0.01), r"scan\.h5: it is cut short"),
    ScanCase("pinn: cut in half", cut("pinn", 0.5), r"not a readable \.npz \(it is cut short or damaged"),
    ScanCase("tiff: cut in half", cut("tiff", 0.5), r"scan\.tif: .*cut short.*; copy it anew"),
    ScanCase(
        "foldslice: a filter that is not installed",
        bad("foldslice", {"dp": Packed(32123)}),
        r"dp is packed by the HDF5 filter 32123, not installed: pip install hdf5plugin",
    ),
    ScanCase(
        "cxi: a filter that is not installed",
        bad("cxi", {"entry_1/data_1/data": Packed(32987)}),
        r"entry_1/data_1/data is packed by the HDF5 filter 32987, not installed",
    ),
    ScanCase(
        "eiger: a part that is gone",
        bad("eiger", {"entry/data/data_000002": h5py.ExternalLink("gone.h5", "entry/data/data")}),
        r"data_000002 refers to the file gone\.h5, which is not there; copy it to ",
    ),
    ScanCase(
        "eiger: a part outside the folder",
        linked_away,
        r"data_000002 refers to the file \.\./secret\.h5, which is .*, outside the folder .*; copy it there",
    ),
    ScanCase(
        "ptyd: positions in a file of the system",
        bad("ptyd", {"chunks/1/positions": h5py.ExternalLink("/etc/hostname", "x")}),
        r"chunks/1/positions refers to the file /etc/hostname, which is .*outside the folder",
    ),
    ScanCase(
        "nexus: a link in a circle",
        bad("nexus", {f"{DET}/data": h5py.SoftLink(f"/{DET}/data")}),
        r"links that lead to links",
    ),
    ScanCase(
        "ptylab: raw storage outside HDF5",
        bad("ptylab", {"ptychogram": Elsewhere("/etc/hostname")}),
        r"ptychogram keeps its numbers outside HDF5 .*h5repack",
    ),
    ScanCase("foldslice: a virtual dataset of nothing", virtual_of_nowhere, r"refers to the file gone\.h5"),
    ScanCase("pinn: a damaged header of 9000 bytes", long_name_flipped, r"diff3d is damaged \(.{1,200}\)$"),
    ScanCase("npz: keys with line ends", strange_keys, r"has none of the layouts .{1,600}$"),
    ScanCase("hdf5: keys with line ends", strange_datasets, r"has none of the layouts .{1,600}$"),
    ScanCase("foldslice: a chunk that cannot be unpacked", damaged_chunk, r"dp: pattern 6 cannot be read"),
    ScanCase("pinn: a bit flip", flipped("pinn", "diff3d"), r"its checksum does not fit; .*copy it anew"),
    ScanCase("tike: a bit flip", flipped("tike", "data"), r"its checksum does not fit; .*copy it anew"),
    ScanCase("pinn: a ZIP bomb", bomb, r"diff3d \(30, 2048, 2048\): .* more than 200-fold is refused"),
    ScanCase(
        "positions in a pipe", pipe("positions_file", "tiff"), r"data\.positions_file=.*pipe: is no file"
    ),
    ScanCase("a mask in a pipe", pipe("mask_file", "cxi"), r"data\.mask_file=.*pipe: is no file"),
]
SHAPES = [
    ScanCase(
        "pinn: declares 10⁹ patterns",
        npz_member("pinn", "diff3d", MANY),
        r"diff3d declares \(1000000000, 32, 32\) of uint16, \d+ bytes, but holds 4 bytes",
    ),
    ScanCase(
        "tike: declares a frame of 10⁶ × 10⁶",
        npz_member("tike", "data", (J, 10**6, 10**6)),
        r"data declares \(30, 1000000, 1000000\) .* but holds 4",
    ),
    ScanCase(
        "foldslice: declares 10⁹ patterns",
        bad("foldslice", {"dp": Declared(MANY, chunks=(1, N, N))}),
        r"dp: none of its 1000000000 patterns was ever written",
    ),
    ScanCase(
        "cxi: a frame of 2 GB",
        bad("cxi", {"entry_1/data_1/data": Declared((J, 2**15, 2**15), chunks=(1, 64, 64))}),
        r"entry_1/data_1/data .* has patterns of more than \d+ bytes",
    ),
    ScanCase(
        "ptylab: declares 10¹⁰ positions",
        bad("ptylab", {"encoder": Declared((10**10, 2), "f8", (1000, 2))}),
        r"encoder \(10000000000, 2\) takes 160000000000 bytes; at most",
    ),
    ScanCase(
        "keys_hdf5: declares 10⁹ patterns and positions",
        bad(
            "keys_hdf5", {"p": Declared(MANY, chunks=(1, N, N)), "r": Declared((10**9, 2), "f4", (10**6, 2))}
        ),
        r"p: none of its 1000000000 patterns was ever written",
    ),
    ScanCase(
        "cxi: positions of another length",
        bad("cxi", {"entry_1/data_1/translation": first(29)}),
        r"data holds 30 patterns, and there are 29 positions; .*data\.frames=29 .*data\.drop=",
    ),
    ScanCase(
        "foldslice: positions of another length",
        bad("foldslice", {"ppX": first(29), "ppY": first(29)}),
        r"dp holds 30 patterns, and there are 29 positions; exclude",
    ),
    ScanCase(
        "tike: positions of another length",
        bad("tike", {"scan": lambda scan: scan[:, :-1]}),
        r"data \(30, 32, 32\) holds 30 patterns, and there are 29 positions; exclude",
    ),
    ScanCase(
        "pinn: positions of another length",
        bad("pinn", {"xcoords": first(29), "ycoords": first(29)}),
        r"diff3d \(30, 32, 32\) holds 30 patterns, and there are 29 positions",
    ),
    ScanCase(
        "tiff: positions of another length",
        table("x_um,y_um\n" + "1,2\n" * 29),
        r"holds 30 patterns, and there are 29 positions",
    ),
    ScanCase(
        "ptyd: positions of another length",
        bad("ptyd", {"chunks/1/positions": first(3)}),
        r"chunks/1/positions holds 3 positions; must be \(18, 2\)",
    ),
    ScanCase(
        "product: numbers of patterns that are not there",
        bad("product", {"probe_position_indexes": np.arange(J) + 1000}),
        r"no pattern has a position: .* are 0 to 29, those of the positions 1000 to 1029",
    ),
    ScanCase(
        "product: a pattern at two positions",
        bad("product", {"probe_position_indexes": put(7, 6)}),
        r"numbers of patterns or positions repeat, 1 of 30: they are paired in the order",
        doubtful=True,
    ),
    ScanCase(
        "ptychodus_npz: a pattern at two positions",
        bad("ptychodus_npz", {"probe_position_indexes": put(7, 6)}),
        r"numbers of patterns or positions repeat",
        doubtful=True,
    ),
    ScanCase(
        "ptyd: a pitch of three numbers",
        bad("ptyd", {"meta/psize": [PITCH] * 3}),
        r"meta/psize has 3 values; must be one length, or \(row, col\)",
    ),
    ScanCase("ptylab: no pattern at all", bad("ptylab", {"ptychogram": first(0)}), r"must be \(patterns"),
    ScanCase(
        "nexus: a single image",
        bad("nexus", {f"{DET}/data": COUNTS[0]}),
        r"data has shape \(32, 32\); must be \(patterns, rows, columns\)",
    ),
    ScanCase(
        "product: a probe that is not square",
        bad("product", {"probe": lambda probe: probe[..., :20]}),
        r"the probe of the file has shape \(1, 32, 20\) and is not square; it is estimated instead",
        doubtful=True,
    ),
]
NUMBERS = [
    ScanCase(
        "cxi: complex patterns", bad("cxi", {"entry_1/data_1/data": times(1j)}), r"must be real numbers"
    ),
    ScanCase(
        "tike: patterns of text", bad("tike", {"data": COUNTS.astype("U5")}), r"data .*must be real|hold n"
    ),
    ScanCase(
        "pinn: Python objects", bad("pinn", {"diff3d": COUNTS.astype(object)}), r"diff3d .* Python objects"
    ),
    ScanCase(
        "eiger: halves of two types",
        bad("eiger", {"entry/data/data_000002": COUNTS[15:].astype("u4")}),
        r"data_000001, entry/data/data_000002 differ in dtype or detector",
    ),
    ScanCase("nexus: positions as text", bad("nexus", {f"{DET}/translation": [b"a"] * J}), r"is text or ref"),
    ScanCase(
        "tiff: colours", tiff_with(np.zeros((J, N, N, 3), "u1"), photometric="rgb"), r"must be grey images"
    ),
    ScanCase(
        "ptylab: NaN in a pattern",
        bad("ptylab", {"ptychogram": put((3, 4, 5), np.nan)}),
        r"patterns: 1 of the pixels .*NaN or infinity.*data\.mask_file=",
    ),
    ScanCase(
        "keys_npz: infinity in a pattern",
        bad("keys_npz", {"p": put((29, 4, 5), np.inf)}),
        r"patterns: 1 of the pixels .*NaN or infinity.*data\.mask_file=",
    ),
    ScanCase(
        "foldslice: NaN among the positions",
        bad("foldslice", {"ppX": put(9, np.nan)}),
        r"positions: 1 of 30 frames have none \(NaN\), 9; .*data\.drop=\[9\]",
    ),
    ScanCase("pinn: NaN among the positions", bad("pinn", {"xcoords": put(9, np.nan)}), r"data\.drop=\[9\]"),
    ScanCase(
        "tiff: infinity in the table",
        table("x_um,y_um\n1,2\ninf,3\n"),
        r"line 3 is 'inf,3'; must be 2 finite",
    ),
    ScanCase(
        "cxi: NaN in the probe", bad("cxi", {f"{SRC}/illumination": put((1, 2), np.nan)}), r"not finite"
    ),
    ScanCase(
        "pinn: NaN in the probe",
        bad("pinn", {"probeGuess": put((1, 2), np.nan)}),
        r"skipped: probeGuess .* not finite, the first at \[1, 2\]",
        doubtful=True,
    ),
    ScanCase(
        "product: a dark probe", bad("product", {"probe": times(0)}), r"file is zero; .*probe=", doubtful=True
    ),
    ScanCase(
        "cxi: a probe beyond measure",
        bad("cxi", {f"{SRC}/illumination": times(1e25)}),
        r"the probe of the file reaches 1e\+25, and more than 1e\+15 is refused; it is estimated instead",
        doubtful=True,
    ),
    ScanCase(
        "tike: a dark probe", bad("tike", {"probe": times(0)}), r"file is zero; .*probe=", doubtful=True
    ),
    ScanCase("foldslice: dark patterns", bad("foldslice", {"dp": times(0)}), r"patterns: dark, all values"),
    ScanCase("tike: dark patterns", bad("tike", {"data": times(0)}), r"patterns: dark, all values"),
    ScanCase(
        "keys_hdf5: negative patterns",
        bad("keys_hdf5", {"p": -COUNTS.astype("i4") - 1}),
        r"patterns: their sum over 30 inspected patterns is negative; is a background",
    ),
    ScanCase(
        "ptylab: NaN as distance",
        bad("ptylab", {"zo": np.nan}),
        r"set data\.distance_m= \(zo=nan: no distance; taken as not given\)",
    ),
    ScanCase(
        "ptychodus_npz: a negative distance",
        bad("ptychodus_npz", {"detector_object_distance_m": np.asarray(-2.0)}),
        r"set data\.distance_m= \(.*detector_object_distance_m=-2: no distance",
    ),
    ScanCase(
        "foldslice: a pattern that was taken twice",
        bad("foldslice", {"dp": put(8, COUNTS[7])}),
        r"frames 7 and 8 are the same",
        doubtful=True,
    ),
    ScanCase(
        "pinn: patterns that all are one",
        bad("pinn", {"diff3d": np.repeat(COUNTS[:1], J, axis=0)}),
        r"patterns: all .* are the same",
    ),
]
POSITIONS = [
    ScanCase(
        "foldslice: micrometres taken for metres",
        bad("foldslice", {"ppX": times(1e6), "ppY": times(1e6)}),
        r"positions: the scan is 2\.6\d m × 3\.9\d m in the unit m; .*data\.unit=um",
    ),
    ScanCase(
        "cxi: micrometres taken for metres",
        bad("cxi", {"entry_1/data_1/translation": times(1e6)}),
        r"positions: the scan is .* m in the unit m; .*data\.unit",
    ),
    ScanCase(
        "product: micrometres taken for metres",
        bad("product", {"probe_position_x_m": times(1e6), "probe_position_y_m": times(1e6)}),
        r"positions: the scan is .* m in the unit m; .*data\.unit",
    ),
    ScanCase(
        "ptyd: nanometres taken for metres",
        bad("ptyd", {f"chunks/{k}/positions": times(1e9) for k in (0, 1)}),
        r"positions: the scan is .* m in the unit m; .*data\.unit=nm",
    ),
    ScanCase(
        "keys_npz: metres taken for micrometres",
        bad("keys_npz", {"r": times(1e-6)}),
        r"positions: .* object pixels? .*data\.unit=m",
    ),
    ScanCase(
        "tiff: metres taken for micrometres", table_times(1), r"positions: .* object pixels? .*data\.unit=m"
    ),
    ScanCase(
        "tike: metres taken for pixels", bad("tike", {"scan": times(PIXEL)}), r"positions: .*data\.unit"
    ),
    ScanCase(
        "keys_hdf5: nanometres taken for micrometres",
        bad("keys_hdf5", {"r": times(1e3)}),
        r"positions: .*object pixels.*overlap.*data\.unit=nm",
    ),
    ScanCase(
        "pinn: pixels beyond reason",
        bad("pinn", {"xcoords": times(1e9), "ycoords": times(1e9)}),
        r"positions: .*object pixels.*overlap",
    ),
    ScanCase(
        "pinn: one pattern",
        bad("pinn", {key: first(1) for key in ("diff3d", "xcoords", "ycoords")}),
        r"positions: there is only one",
    ),
    ScanCase(
        "foldslice: one pattern",
        bad("foldslice", {key: first(1) for key in ("dp", "ppX", "ppY")}),
        r"positions: there is only one",
    ),
    ScanCase(
        "cxi: two patterns",
        bad("cxi", {f"entry_1/data_1/{key}": first(2) for key in ("data", "translation")}),
        r"data\.file=.*: 2 of its patterns can be used; must be at least 3",
    ),
    ScanCase(
        "nexus: all positions equal",
        bad("nexus", {f"{DET}/translation": times(0)}),
        r"positions: all 30 are equal; nothing was scanned",
    ),
    ScanCase(
        "pinn: all positions equal",
        bad("pinn", {"xcoords": times(0), "ycoords": times(0)}),
        r"positions: all 30 are equal",
    ),
    ScanCase("ptylab: all positions equal", bad("ptylab", {"encoder": times(0)}), r"all 30 are equal"),
    ScanCase("tiff: all positions equal", table("x_um,y_um\n" + "1,2\n" * J), r"all 30 are equal"),
    ScanCase(
        "keys_hdf5: one position far away",
        bad("keys_hdf5", {"r": put(4, 60.0)}),
        r"1 isolated positions \(the first is frame 4\); data\.drop=\[4\] excludes them",
        doubtful=True,
    ),
]
UNITS = [
    ScanCase(
        "cxi: energy in keV",
        bad("cxi", {f"{SRC}/energy": 8.0}),
        r"source_1/energy=8 J: a photon energy must be from 10 to 1e\+06 eV; is it in keV\?",
    ),
    ScanCase("cxi: energy in eV", bad("cxi", {f"{SRC}/energy": 8000.0}), r"energy=8000 J: .*is it in eV"),
    ScanCase(
        "product: energy in keV", bad("product", {"@probe_energy_eV": 8.0}), r"energy_eV=8 eV: .*in keV\?"
    ),
    ScanCase(
        "ptychodus_npz: energy in J",
        bad("ptychodus_npz", {"probe_energy_eV": np.asarray(8000 * EV)}),
        r"probe_energy_eV=1\.28\d*e-15 eV: a photon energy must be from 10 to 1e\+06 eV; is it in J\?",
    ),
    ScanCase(
        "ptyd: energy in eV", bad("ptyd", {"meta/energy": 8000.0}), r"meta/energy=8000 keV: .*is it in eV"
    ),
    ScanCase(
        "keys_npz: energy in keV", bad("keys_npz", {"e": 8.0}), r"e=8 eV: a photon energy .*is it in keV"
    ),
    ScanCase(
        "nexus: distance in furlongs",
        bad("nexus", {f"{DET}/distance@units": "furlong"}),
        r"units=furlong: must be one of m, cm, mm",
    ),
    ScanCase("ptylab: distance in mm", bad("ptylab", {"zo": 2e5}), r"zo=200000 m: a distance .*in .*mm"),
    ScanCase(
        "eiger: pitch in µm", bad("eiger", {f"{EIGER}/{k}_pixel_size": 75.0 for k in "xy"}), r"is it in .*um"
    ),
    ScanCase("keys_npz: pitch in µm", bad("keys_npz", {"d": 75.0}), r"d=75 m: a pixel size .*is it in .*um"),
    ScanCase(
        "keys_npz: distance in mm", bad("keys_npz", {"z": 2e5}), r"z=200000 m: a distance must be .*in .*mm"
    ),
    ScanCase(
        "ptylab: wavelength in nm", bad("ptylab", {"wavelength": 0.155}), r"wavelength=0\.155 m: .*in .*nm"
    ),
]
MASKS = [
    ScanCase(
        "nexus: an inverted mask that leaves nothing",
        bad("nexus", {f"{DET}/pixel_mask": WHOLE_MASK}),
        r"mask: no pixel is good \(the file's mask\); is it inverted\?",
    ),
    ScanCase(
        "ptychodus_npz: an inverted mask that leaves nothing",
        bad("ptychodus_npz", {"bad_pixels": np.ones((N, N), bool)}),
        r"mask: no pixel is good \(the file's mask\); is it inverted\?",
    ),
    ScanCase("data.mask_file, inverted", masked(WHOLE_MASK), r"no pixel is good \(1024 in data\.mask_file\)"),
    ScanCase(
        "eiger: an inverted mask that leaves some",
        bad("eiger", {f"{EIGER}/detectorSpecific/pixel_mask": HALF_MASK}),
        r"only 2\d % of the pixels are good \(the file's mask.*: is the mask inverted\?",
        doubtful=True,
    ),
    ScanCase(
        "data.mask_file, inverted, leaves some",
        masked(HALF_MASK),
        r"only 2\d % of the pixels are good \(768 in data",
        doubtful=True,
    ),
    ScanCase(
        "data.mask_file of another shape", masked(WHOLE_MASK[1:]), r"data\.mask_file=.*must be an image of"
    ),
    ScanCase(
        "data.mask_file with NaN",
        masked(np.where(HALF_MASK, 1, np.nan)),
        r"data\.mask_file=.*(NaN|not finite)",
    ),
    ScanCase(
        "nexus: a mask of another shape",
        bad("nexus", {f"{DET}/pixel_mask": WHOLE_MASK[1:]}),
        r"the mask has shape \(31, 32\); must be \(32, 32\)",
    ),
]
SCAN_CASES = [*FILES, *SHAPES, *NUMBERS, *POSITIONS, *UNITS, *MASKS]

OVERRIDDEN = {  # specified lengths take precedence over those of the file, however wrong these are
    "cxi": ({f"{SRC}/energy": 8.0, f"{DET}/distance": 1e9, f"{DET}/x_pixel_size": 75.0}, LENGTHS),
    "nexus": (
        {f"{BEAM}/energy@units": "cubit", f"{DET}/distance": 1e30, f"{DET}/x_pixel_size": 75.0},
        LENGTHS,
    ),
    "ptyd": ({"meta/energy": 8000.0, "meta/distance": 1e9, "meta/psize": [PITCH] * 3}, LENGTHS),
    "ptylab": ({"wavelength": 0.155, "zo": 2e5, "dxd": "wide"}, LENGTHS),
    "product": ({"@probe_energy_eV": 8.0, "@detector_object_distance_m": -1.0}, LENGTHS[:2]),
    "ptychodus_npz": ({"probe_energy_eV": 8.0, "detector_object_distance_m": np.nan}, LENGTHS[:2]),
    "eiger": (
        {f"{EIGER}/detectorSpecific/photon_energy": 8.0, f"{EIGER}/detector_distance": 1e9},
        LENGTHS[:2],
    ),
    "keys_npz": ({"e": 8.0, "z": -1.0, "d": [1.0, 2.0, 3.0]}, LENGTHS),
    "keys_hdf5": ({"e": 8.0, "z": 1e9, "d": 75.0}, LENGTHS),
}
