"""Files and settings that inference must refuse: a function that makes each, and the message to the user.

Every case starts from valid files (:class:`World`) and damages one thing. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import io
import json
import pickle
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ptycho.config import RunConfig, UNetModel, UnrolledModel
from ptycho.config.mapping import to_mapping
from ptycho.files.atomic import sha256
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, regular_offsets, write_network
from ptycho.scan.probe import make_probe

CONFIG = RunConfig(
    N=32,
    size=96,
    nimgs_train=1,
    nimgs_test=1,
    batch_size=4,
    max_groups_train=16,
    models=("pinn",),
    model=UnrolledModel(stages=2, width=8),
)
N, G, C, M = CONFIG.N, 6, CONFIG.group_size, 96
P = G * C
SETUP = Setup(
    probe=make_probe(CONFIG.probe, N),
    photon_scale=30.0,
    normalisation=0.01,
    region_size=CONFIG.region_size,
    group_size=C,
    offsets=regular_offsets(CONFIG.offset, C),
    support=N,
)
WEIGHTS = {"pinn/generator/level": np.ones((), np.float32), "pinn/generator/a/b": np.ones(3, np.float32)}


def scan_arrays() -> dict[str, Any]:
    """Return the arrays of a data set as a run writes it: six groups of four patterns, 10⁴ photons each."""
    corners = np.array([[10 * g, 5 * g] for g in range(G)])
    inner = np.array([[0, 0], [0, 4], [4, 0], [4, 4]])
    positions = (corners[:, None] + inner).reshape(-1, 2)
    y, x = np.mgrid[:M, :M]
    truth = (0.6 + 0.3 * np.sin(y / 3) * np.cos(x / 5)).astype(np.complex64)
    waves = np.stack([SETUP.probe * truth[row : row + N, col : col + N] for row, col in positions])
    far_fields = np.fft.fftshift(np.fft.fft2(waves, norm="ortho"), axes=(1, 2))
    counts = np.random.default_rng(5).poisson(np.abs(SETUP.photon_scale * far_fields) ** 2)
    return {
        "format": np.asarray(1),
        "amplitudes": np.sqrt(counts).astype(np.float32),
        "positions": positions.astype(np.float32),
        "image": np.zeros(P, np.int32),
        "groups": np.arange(P, dtype=np.int32).reshape(G, C),
        "probe": SETUP.probe,
        "photon_scale": np.asarray(SETUP.photon_scale),
        "object_size": np.asarray(M),
        "region_size": np.asarray(CONFIG.region_size),
        "objects": truth[None],
    }


def published_arrays() -> dict[str, Any]:
    """Return the same data set in the format of the published program, without the truth."""
    own = scan_arrays()
    middles = own["positions"].reshape(G, C, 2).astype(np.float64) + (N - 1) / 2
    return {
        "diffraction": own["amplitudes"].reshape(G, C, N, N).transpose(0, 2, 3, 1) / 30,
        "coords_offsets": middles.transpose(0, 2, 1)[:, None],  # (G, 1, 2, C)
        "probeGuess": own["probe"],
    }


class World:
    """A folder with a valid run, in which valid or damaged files are made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run = folder, folder / "run"
        run = RunFolder(self.run)
        run.config(CONFIG)
        write_network(run, "pinn", WEIGHTS, {}, [])
        run.arrays("pinn/setup.npz", SETUP.arrays())

    def raw(self, content: bytes) -> Path:
        path = self.folder / "data.npz"
        path.write_bytes(content)
        return path

    def scan(self, compressed: bool = False, **changes: Any) -> Path:
        """Write the valid data set with some arrays replaced; None omits an array."""
        return self._save(scan_arrays(), changes, compressed)

    def published(self, **changes: Any) -> Path:
        return self._save(published_arrays(), changes, True)

    def _save(self, arrays: dict[str, Any], changes: dict[str, Any], compressed: bool) -> Path:
        arrays = {key: value for key, value in (arrays | changes).items() if value is not None}
        buffer = io.BytesIO()
        (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
        return self.raw(buffer.getvalue())

    def spoiled_run(self, spoil: Callable[[Path], object]) -> list[str]:
        """Return the overrides for a damaged copy of the run and the valid data set."""
        copy = self.folder / "spoilt"
        shutil.copytree(self.run, copy)
        spoil(copy)
        return [f"run={copy}", f"data={self.scan()}"]


@dataclass(frozen=True)
class Case:
    """The fault, a function that returns the overrides or the data file, and a pattern of the message."""

    name: str
    make: Callable[[World], Path | list[str]]
    message: str

    def overrides(self, world: World) -> list[str]:
        made = self.make(world)
        return [f"run={world.run}", f"data={made}"] if isinstance(made, Path) else made


# ---- damaged files


def changed(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


def spoilt_scan(key: str, index: Any, value: Any) -> Callable[[World], Path]:
    """Write the valid data set with one element (or slice) of an array changed."""
    return lambda world: world.scan(**{key: changed(scan_arrays()[key], index, value)})


def scan_with(**changes: Any) -> Callable[[World], Path]:
    return lambda world: world.scan(**changes)


def published_with(**changes: Any) -> Callable[[World], Path]:
    return lambda world: world.published(**changes)


def flipped(key: str, offset: int) -> Callable[[World], Path]:
    """Change one bit of a member, ``offset`` bytes after its start."""

    def make(world: World) -> Path:
        path = world.scan()
        content = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            start = archive.getinfo(f"{key}.npy").header_offset
        start = content.index(b"\x93NUMPY", start)
        content[start + offset] ^= 4
        return world.raw(bytes(content))

    return make


def member(header: dict[str, Any], data: bytes, compression: int = zipfile.ZIP_STORED) -> Any:
    """Write the valid data set with another header and other bytes of the amplitudes."""

    def make(world: World) -> Path:
        path = world.scan(amplitudes=None)
        with zipfile.ZipFile(path, "a", compression) as archive, archive.open("amplitudes.npy", "w") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for _ in range(max(1, len(data) // 2**20)):
                file.write(data[: 2**20])
        return path

    return make


def float_header(*shape: int, dtype: str = "<f4", fortran: bool = False) -> dict[str, Any]:
    return {"descr": dtype, "fortran_order": fortran, "shape": shape}


def forged_size(world: World) -> Path:
    """Write a file whose central directory claims 4 GB for the amplitudes, and whose header claims 40 TB."""
    path = member(float_header(10**7, 1000, 1000), b"1234" * 100)(world)
    content = bytearray(path.read_bytes())
    entry = content.index(b"PK\x01\x02")
    while content[entry + 46 : entry + 60] != b"amplitudes.npy":
        entry = content.index(b"PK\x01\x02", entry + 4)
    content[entry + 20 : entry + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    return world.raw(bytes(content))


def patched(offset: int, value: bytes) -> Callable[[World], Path]:
    """Replace some bytes in every entry of the central directory."""

    def make(world: World) -> Path:
        content = world.scan().read_bytes()
        entry = b"PK\x01\x02" + rb".{%d}" % (offset - 4) + rb".{%d}" % len(value)
        return world.raw(re.sub(entry, lambda m: m[0][: -len(value)] + value, content, flags=re.S))

    return make


def duplicated(world: World) -> Path:
    path = world.scan()
    with zipfile.ZipFile(path) as archive:
        content = archive.read("groups.npy")
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("groups.npy", content)
    return path


def cut(fraction: float) -> Callable[[World], Path]:
    def make(world: World) -> Path:
        content = world.scan().read_bytes()
        return world.raw(content[: int(len(content) * fraction)])

    return make


def single_npy(world: World) -> Path:
    buffer = io.BytesIO()
    np.save(buffer, scan_arrays()["amplitudes"])
    return world.raw(buffer.getvalue())


def folder_as_data(world: World) -> Path:
    (world.folder / "data.npz").mkdir()
    return world.folder / "data.npz"


A, Q = scan_arrays(), published_arrays()
OBJECTS = np.empty((G, C), object)
BOMB = member(float_header(2**15, N, N), bytes(2**27), zipfile.ZIP_DEFLATED)

FILES = [
    Case("no such file", lambda w: w.folder / "nowhere.npz", r"nowhere.npz: no such file"),
    Case("a folder", folder_as_data, r"data.npz: is no file"),
    Case("empty file", lambda w: w.raw(b""), r"not a readable .npz \(it is empty\)"),
    Case("text called .npz", lambda w: w.raw(b"1 2 3\n" * 99), r"not a readable .npz \(it is no ZIP"),
    Case("pickle called .npz", lambda w: w.raw(pickle.dumps([1, 2])), r"not a readable .npz \(it is no ZIP"),
    Case("a single .npy", single_npy, r"not a readable .npz \(it is a single .npy array\)"),
    Case("cut in half", cut(0.5), r"not a readable .npz \(it is cut short or damaged\)"),
    Case("last bytes missing", cut(0.999), r"not a readable .npz \(it is cut short or damaged\)"),
    Case("only the first bytes", cut(0.001), r"not a readable .npz \(it is cut short or damaged\)"),
    Case("bit flip in the patterns", flipped("amplitudes", 5000), r"amplitudes is damaged \(Bad CRC-32"),
    Case("bit flip in the positions", flipped("positions", 200), r"positions is damaged \(Bad CRC-32"),
    Case("bit flip in a header", flipped("amplitudes", 2), r"amplitudes is damaged \("),
    Case("encrypted", patched(8, b"\x01\x00"), r"is damaged \(.*(encrypted|password)"),
    Case("unknown compression", patched(10, b"\x63\x00"), r"is damaged \(.*compression"),
    Case(
        "declares more than it holds",
        member(float_header(10**6, N, N), b"1234"),
        r"amplitudes declares \(1000000, 32, 32\) of float32, 4096000000 bytes, but holds 4 bytes",
    ),
    Case(
        "declares 40 TB",
        member(float_header(10**7, 1000, 1000), b"1234"),
        r"amplitudes declares \(10000000, 1000, 1000\) .* 40000000000000 bytes, but holds 4",
    ),
    Case("archive claims 4 GB", forged_size, r"amplitudes declares .* but holds|is damaged"),
    Case("ZIP bomb", BOMB, r"amplitudes \(32768, 32, 32\): \d+ bytes that expand to \d+; more than 200-fold"),
    Case("negative shape", member(float_header(-1, N, N), b"1234"), r"amplitudes (declares|is damaged)"),
    Case(
        "structured numbers",
        member(float_header(1, dtype=[("a", "<f4")]), b"1234"),  # type: ignore[arg-type]
        r"amplitudes \(1,\) has dtype \[\('a', '<f4'\)\]; must be real numbers",
    ),
    Case(
        "patterns in Fortran order",
        scan_with(amplitudes=np.asfortranarray(A["amplitudes"])),
        r"amplitudes \(24, 32, 32\) is in Fortran order",
    ),
    Case("a key twice", duplicated, r"data.npz: groups is there more than once"),
]
KEYS = [
    Case("no known key", lambda w: w._save({"a": np.ones(3)}, {}, False), r"is no dataset: .* it has a$"),
    Case("empty archive", lambda w: w._save({}, {}, False), r"is no dataset: .* it has none$"),
    Case("keys missing", scan_with(groups=None, probe=None), r"lacks probe, groups \(it has format, "),
    Case("no amplitudes", scan_with(amplitudes=None), r"lacks amplitudes"),
    Case("unknown key", scan_with(extra=np.ones(3)), r"extra is an unknown key"),
    Case("other format", scan_with(format=np.asarray(7)), r"format must be 1; the file comes from another"),
    Case("objects for numbers", scan_with(groups=OBJECTS), r"groups \(6, 4\) holds Python objects"),
    Case(
        "objects for patterns",
        scan_with(amplitudes=np.empty((P, N, N), object)),
        r"amplitudes \(24, 32, 32\) holds Python objects; only numbers are read",
    ),
    Case(
        "complex patterns", scan_with(amplitudes=A["amplitudes"] * 1j), r"has dtype complex64; must be real"
    ),
    Case("text", scan_with(amplitudes=np.full((P, N, N), "a")), r"has dtype <U1; must be real numbers"),
    Case("true or false", scan_with(amplitudes=A["amplitudes"] > 3), r"has dtype bool; must be real"),
    Case("fractional groups", scan_with(groups=A["groups"] / 2), r"groups .* has dtype float64; must be int"),
    Case(
        "huge indices",
        scan_with(groups=A["groups"] + np.int64(2**40)),
        r"groups \(6, 4\) holds numbers beyond",
    ),
    Case("fractional size", scan_with(object_size=np.asarray(96.5)), r"object_size \(\) has dtype float64"),
    Case(
        "size is a list",
        scan_with(object_size=np.asarray([96])),
        r"object_size has shape \(1,\); must be one",
    ),
]
SHAPES = [
    Case(
        "one pattern missing",
        scan_with(amplitudes=A["amplitudes"][1:]),
        r"amplitudes has shape \(23, 32, 32\)",
    ),
    Case(
        "pattern axis last",
        scan_with(amplitudes=A["amplitudes"].transpose(1, 2, 0).copy()),
        r"amplitudes has shape \(32, 32, 24\); must be \(J, N, N\) = \(24, 32, 32\)",
    ),
    Case(
        "not square", scan_with(amplitudes=A["amplitudes"][:, :, 1:]), r"amplitudes has shape \(24, 32, 31\)"
    ),
    Case(
        "channel axis", scan_with(amplitudes=A["amplitudes"][..., None]), r"has shape \(24, 32, 32, 1\); must"
    ),
    Case(
        "positions (2, P)",
        scan_with(positions=A["positions"].T),
        r"positions has shape \(2, 24\); must be \(J, 2\) = \(24, 2",
    ),
    Case(
        "positions missing",
        scan_with(positions=A["positions"][1:]),
        r"positions has shape \(23, 2\); must be",
    ),
    Case("image too short", scan_with(image=A["image"][1:]), r"image has shape|= \(23"),
    Case(
        "groups without axis",
        scan_with(groups=A["groups"].ravel()),
        r"groups has shape \(24,\); must be \(G, C",
    ),
    Case("no groups", scan_with(groups=A["groups"][:0]), r"groups has shape \(0, 4\); must be \(G, C\)"),
    Case(
        "no patterns",
        scan_with(**{k: A[k][:0] for k in ("amplitudes", "positions", "image")}),
        r"amplitudes has",
    ),
    Case("probe not square", scan_with(probe=A["probe"][1:]), r"probe has shape \(31, 32\); must be"),
    Case(
        "objects of another size", scan_with(objects=A["objects"][:, 1:]), r"objects has shape \(1, 95, 96\)"
    ),
    Case("truth of no object", scan_with(objects=A["objects"][:0]), r"objects has shape \(0, 96, 96\)"),
    Case(
        "several at once",
        scan_with(
            positions=A["positions"][1:],
            groups=A["groups"] * 0.5,
            probe=A["probe"] * np.nan,
            extra=A["image"],
        ),
        r"extra is an unknown key; groups .*float64.*; positions has shape .*; probe is zero, or holds NaN",
    ),
]
VALUES = [
    Case(
        "NaN",
        spoilt_scan("amplitudes", (3, 4, 5), np.nan),
        r"NaN or infinity in 1 and negative numbers in 0 of 24",
    ),
    Case("infinity", spoilt_scan("amplitudes", (3, 4, 5), np.inf), r"amplitudes holds NaN, infinity"),
    Case(
        "negative",
        spoilt_scan("amplitudes", (slice(0, 2), 0, 0), -1),
        r"negative numbers in 2 of 24 patterns",
    ),
    Case(
        "beyond float32",
        scan_with(amplitudes=A["amplitudes"] * np.float64(1e200)),
        r"amplitudes holds NaN, infinity",
    ),
    Case("all zero", spoilt_scan("amplitudes", slice(None), 0), r"amplitudes is zero everywhere; no photon"),
    Case(
        "dead frames",
        spoilt_scan("amplitudes", [7, 9], 0),
        r"2 of 24 patterns hold no photon \(the first is 7\)",
    ),
    Case(
        "tiny",
        scan_with(amplitudes=A["amplitudes"] * np.float64(1e-42)),
        r"amplitudes .* float32|zero everywhere",
    ),
    Case("NaN position", spoilt_scan("positions", (3, 1), np.nan), r"positions holds NaN or infinity"),
    Case(
        "positions outside",
        spoilt_scan("positions", (3, 1), 70),
        r"positions reach from 0 to 70; must lie within \[0, 64\] .* \(1 of 24 do not\)",
    ),
    Case("positions below zero", spoilt_scan("positions", (0, 0), -3), r"positions reach from -3 to"),
    Case(
        "positions in metres",
        scan_with(positions=A["positions"] * np.float64(1e30)),
        r"positions reach from 0 to .*e\+3",
    ),
    Case("image index", spoilt_scan("image", 3, 5), r"image points outside the 1 objects"),
    Case("image below zero", spoilt_scan("image", 3, -1), r"image points outside the 1 objects"),
    Case("group index", spoilt_scan("groups", (2, 2), 24), r"groups points outside the 24 patterns"),
    Case("group index below zero", spoilt_scan("groups", (2, 2), -1), r"groups points outside the 24"),
    Case(
        "group across images",
        lambda w: w.scan(image=changed(A["image"], 3, 1), objects=np.ones((2, M, M), np.complex64)),
        r"a group mixes patterns of different images",
    ),
    Case("zero probe", scan_with(probe=A["probe"] * 0), r"probe is zero, or holds NaN"),
    Case("NaN in the probe", spoilt_scan("probe", (4, 4), np.nan), r"probe is zero, or holds NaN"),
    Case("NaN in the truth", spoilt_scan("objects", (0, 4, 4), np.nan), r"objects holds NaN"),
    Case("photon scale 0", scan_with(photon_scale=np.asarray(0.0)), r"photon_scale=0.0; must be a finite"),
    Case("photon scale NaN", scan_with(photon_scale=np.asarray(np.nan)), r"photon_scale=nan; must be"),
    Case(
        "photon scale 1e300", scan_with(photon_scale=np.asarray(1e300)), r"photon_scale times probe is out of"
    ),
    Case(
        "gigantic object",
        scan_with(object_size=np.asarray(10**9), objects=None),
        r"object_size=1000000000: 1 objects of .* pixels; at most 2\^28 pixels in all",
    ),
    Case(
        "a billion images",
        scan_with(image=A["image"] + 10**9, objects=None),
        r"objects of 96 × 96 pixels; at most",
    ),
    Case(
        "small regions",
        scan_with(region_size=np.asarray(34)),
        r"region_size=34 does not cover the groups; 1 px",
    ),
]


def of_a_unet(**changes: Any) -> Callable[[World], list[str]]:
    """Return overrides for a run whose weights need N = 32 and groups of four, and a scan of other sizes."""

    def make(world: World) -> list[str]:
        def spoil(run: Path) -> None:
            settings = to_mapping(replace(CONFIG, model=UNetModel()))
            (run / "config.yaml").write_text(yaml.safe_dump(settings))

        asked = world.spoiled_run(spoil)
        return [*asked[:1], f"data={world.scan(**changes)}"]

    return make


GEOMETRY = [
    Case(
        "other N",
        of_a_unet(
            amplitudes=A["amplitudes"][:, 8:24, 8:24],
            probe=A["probe"][8:24, 8:24],
            region_size=np.asarray(20),
        ),
        r"has N=16, group_size=4; pinn was trained for N=32, group_size=4",
    ),
    Case(
        "other gridsize",
        of_a_unet(groups=A["groups"][:, :1], region_size=np.asarray(32)),
        r"has N=32, group_size=1; pinn was trained for N=32, group_size=4",
    ),
    Case(
        "regrouped",
        lambda w: [*of_a_unet()(w), "group_size=2"],
        r"has N=32, group_size=2; pinn was trained for N=32, group_size=4",
    ),
    Case(
        "more than there are",
        lambda w: [*asked()(w), "group_size=25"],
        r"group_size=25: must be from 1 to 24",
    ),
]
IMPLAUSIBLE = [
    Case(
        "counts for their roots",
        scan_with(amplitudes=np.rint(A["amplitudes"] ** 2)),
        r"amplitudes holds whole numbers alone, up to \d+: .* must hold their square roots",
    ),
    Case(
        "intensities of another scale",
        scan_with(amplitudes=1.7 * A["amplitudes"] ** 2),
        r"amplitudes holds .* times the intensity that photon_scale and the probe predict: intensities",
    ),
    Case(
        "zero frequency in the corner",
        scan_with(amplitudes=np.fft.ifftshift(A["amplitudes"], axes=(1, 2))),
        r"amplitudes has its zero frequency in the corner, .* apply np.fft.fftshift",
    ),
    Case(
        "published: zero frequency in the corner",
        published_with(diffraction=np.fft.ifftshift(Q["diffraction"], axes=(1, 2))),
        r"diffraction has its zero frequency in the corner",
    ),
    Case(
        "hot pixel",
        spoilt_scan("amplitudes", (3, 4, 5), 1e15),
        r"times the intensity that photon_scale and the probe predict: .* a hot pixel",
    ),
    Case(
        "published: a number of 1e30",
        published_with(diffraction=changed(Q["diffraction"], (3, 16, 16, 0), 1e30)),
        r"diffraction reaches 1e\+30; must be at most 1e\+18",
    ),
]
PUBLISHED = [
    Case("published: no positions", published_with(coords_offsets=None), r"data.npz: lacks coords_offsets"),
    Case(
        "published: positions (G, 2)",
        published_with(coords_offsets=Q["coords_offsets"][:, 0, :, 0]),
        r"coords_offsets has shape \(6, 2\); must be \(G, 1, 2, C\) = \(6, 1, 2, 4\)",
    ),
    Case(
        "published: three channels",
        published_with(diffraction=Q["diffraction"][..., :3]),
        r"coords_offsets has shape \(6, 1, 2, 4\); must be \(G, 1, 2, C\) = \(6, 1, 2, 3\)",
    ),
    Case(
        "published: no channels",
        published_with(diffraction=Q["diffraction"][..., 0]),
        r"diffraction has shape",
    ),
    Case(
        "published: a training split", published_with(YY_full=np.ones((1, M, M, 1))), r"is a training split"
    ),
    Case(
        "published: probe",
        published_with(probeGuess=A["probe"][1:]),
        r"probeGuess has shape \(31, 32\); must",
    ),
    Case(
        "published: no photons",
        published_with(diffraction=Q["diffraction"] * 0),
        r"diffraction is zero every",
    ),
    Case(
        "published: dead frame",
        published_with(diffraction=changed(Q["diffraction"], (2, slice(None), slice(None), 1), 0)),
        r"diffraction: 1 of 24 patterns hold no photon \(the first is 9\)",
    ),
    Case(
        "published: NaN",
        published_with(
            diffraction=changed(Q["diffraction"], 0, np.nan),
            coords_offsets=changed(Q["coords_offsets"], 0, np.nan),
            probeGuess=A["probe"] * np.nan,
        ),
        r"probeGuess is zero, or holds NaN.*; coords_offsets, .* holds NaN.*; diffraction holds NaN",
    ),
    Case(
        "published: objects",
        published_with(diffraction=np.empty((G, N, N, C), object)),
        r"diffraction .* Python",
    ),
    Case(
        "published: truth too large",
        published_with(YY_ground_truth=np.ones((200, 200, 1), np.complex64)),
        r"YY_ground_truth has shape \(200, 200\), more than the",
    ),
    Case(
        "published: truth of three axes",
        published_with(YY_full=np.ones((1, M, M)), YY_ground_truth=np.ones((30, 30, 1))),
        r"YY_full has shape \(1, 96, 96\); must be \(I, M, M, 1\)",
    ),
    Case(
        "published: positions outside",
        published_with(YY_full=np.ones((1, 70, 70, 1)), YY_ground_truth=np.ones((30, 30, 1))),
        r"coords_offsets, less \(N − 1\)/2, reach from 0 to 54; must lie within \[0, 38\]",
    ),
]


# ---- damaged runs


def written(name: str, content: str | bytes) -> Callable[[World], list[str]]:
    data = content.encode() if isinstance(content, str) else content
    return lambda world: world.spoiled_run(lambda run: (run / name).write_bytes(data))


def removed(name: str) -> Callable[[World], list[str]]:
    return lambda world: world.spoiled_run(lambda run: (run / name).unlink())


def config_with(old: str, new: str) -> Callable[[World], list[str]]:
    def spoil(run: Path) -> None:
        text = (run / "config.yaml").read_text()
        assert old in text
        (run / "config.yaml").write_text(text.replace(old, new, 1))

    return lambda world: world.spoiled_run(spoil)


def recorded(run: Path) -> None:
    """Write the hashes of the present files into ``files.json`` and ``model.json``."""
    record = {f"pinn/{name}": sha256(run / "pinn" / name) for name in ("weights.npz", "setup.npz")}
    (run / "files.json").write_text(json.dumps(record))
    (run / "pinn" / "model.json").write_text(json.dumps({"weights_sha256": record["pinn/weights.npz"]}))


def weights_with(rehash: bool = True, **changes: Any) -> Callable[[World], list[str]]:
    """Change weights; with ``rehash`` also their hashes."""

    def spoil(run: Path) -> None:
        weights = WEIGHTS | {key.replace("__", "/"): value for key, value in changes.items()}
        np.savez(run / "pinn" / "weights.npz", **weights)
        if rehash:
            recorded(run)

    return lambda world: world.spoiled_run(spoil)


def setup_with(rehash: bool = True, **changes: Any) -> Callable[[World], list[str]]:
    def spoil(run: Path) -> None:
        np.savez(run / "pinn" / "setup.npz", **replace(SETUP, **changes).arrays())
        if rehash:
            recorded(run)

    return lambda world: world.spoiled_run(spoil)


def cut_file(name: str) -> Callable[[World], list[str]]:
    def spoil(run: Path) -> None:
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[: len(content) // 2])

    return lambda world: world.spoiled_run(spoil)


RUNS = [
    Case("no such run", lambda w: [f"run={w.folder}/no", f"data={w.scan()}"], r"run=.*no: no such folder"),
    Case("a file for a run", lambda w: [f"run={w.scan()}", f"data={w.scan()}"], r"run=.*: no such folder"),
    Case("no config.yaml", removed("config.yaml"), r"holds no run; there is no config.yaml in it"),
    Case("config.yaml is no YAML", written("config.yaml", "a: [1"), r"config.yaml: is damaged"),
    Case("config.yaml is binary", written("config.yaml", b"\x00\xff\xfe"), r"config.yaml: is damaged"),
    Case("config.yaml runs code", written("config.yaml", "!!python/object/apply:os.abort []"), r"is damaged"),
    Case("config.yaml cut short", cut_file("config.yaml"), r"config.yaml: .*(incomplete|damaged|must be)"),
    Case(
        "config.yaml of 2 MB",
        written("config.yaml", "#" * 2**21),
        r"is damaged .it has more than 1048576 bytes",
    ),
    Case(
        "config.yaml with another key",
        config_with("N: 32", "N: 32\nnn: 3"),
        r"config.yaml: nn=3: unknown key",
    ),
    Case(
        "config.yaml with another N",
        config_with("N: 32", "N: 64"),
        r"setup.npz: probe has shape \(32, 32\); must",
    ),
    Case("config.yaml with N=1000", config_with("N: 32", "N: 1000"), r"config.yaml: N=1000: must be a power"),
    Case(
        "no network",
        lambda w: w.spoiled_run(lambda r: shutil.rmtree(r / "pinn")),
        r"holds no trained network",
    ),
    Case(
        "network that was not trained",
        lambda w: [f"run={w.run}", f"data={w.scan()}", "models=[baseline]"],
        r"run: holds no trained network baseline",
    ),
    Case("no weights", removed("pinn/weights.npz"), r"pinn: weights.npz: no such file"),
    Case("weights cut short", cut_file("pinn/weights.npz"), r"weights.npz: not a readable .npz"),
    Case("weights are text", written("pinn/weights.npz", "weights"), r"weights.npz: not a readable .npz"),
    Case(
        "NaN weights", weights_with(pinn__generator__level=np.float32(np.nan)), r"level holds NaN or infinity"
    ),
    Case(
        "other weights",
        weights_with(False, pinn__generator__level=np.float32(2)),
        r"weights.npz: has another SHA-256 than files.json says",
    ),
    Case(
        "weights are objects", weights_with(False, pinn__x=OBJECTS), r"weights.npz: pinn/x .* Python objects"
    ),
    Case("model.json is garbage", written("pinn/model.json", "{"), r"model.json: is damaged"),
    Case(
        "model.json without hash",
        written("pinn/model.json", "{}"),
        r"model.json: is damaged .*no weights_sha",
    ),
    Case(
        "model.json of another network",
        written("pinn/model.json", '{"weights_sha256": "0"}'),
        r"model.json: speaks of other weights than weights.npz holds",
    ),
    Case("files.json is garbage", written("files.json", "{"), r"files.json: is damaged"),
    Case("files.json of numbers", written("files.json", '{"a": 1}'), r"is damaged .*names and hashes"),
    Case("model.json of brackets", written("pinn/model.json", "[" * 99999), r"model.json: is damaged"),
    Case("no setup", removed("pinn/setup.npz"), r"setup.npz: no such file"),
    Case("setup cut short", cut_file("pinn/setup.npz"), r"setup.npz: not a readable .npz"),
    Case(
        "changed setup",
        setup_with(False, photon_scale=31.0),
        r"setup.npz: has another SHA-256 than files.json says",
    ),
    Case(
        "setup with NaN", setup_with(photon_scale=np.nan), r"setup.npz: photon_scale, normalisation = \(nan"
    ),
    Case(
        "setup with odd support", setup_with(support=31), r"setup.npz: support=31; must be even and at most"
    ),
    Case(
        "setup of another group", setup_with(group_size=9), r"setup.npz: group_size=9, .* config.yaml makes"
    ),
    Case(
        "several damaged files",
        lambda w: w.spoiled_run(lambda r: [(r / "pinn" / f).unlink() for f in ("setup.npz", "weights.npz")]),
        r"weights.npz: no such file; setup.npz: no such file",
    ),
]


def asked(*overrides: str) -> Callable[[World], list[str]]:
    return lambda world: [f"run={world.run}", f"data={world.scan()}", *overrides]


def loop(world: World) -> Path:
    """Return a link to itself."""
    (world.folder / "loop").symlink_to(world.folder / "loop")
    return world.folder / "loop"


def output_that_holds_a_run(world: World) -> list[str]:
    RunFolder(world.folder / "held").text("metrics.json", "{}")
    return [f"run={world.run}", f"data={world.scan()}", f"output_dir={world.folder / 'held'}"]


def output_that_holds_a_file_of_others(world: World) -> list[str]:
    (world.folder / "held").mkdir()
    (world.folder / "held" / "metrics.json").write_text("{}")
    return [*asked()(world), f"output_dir={world.folder / 'held'}", "overwrite=true"]


def over_a_training(keep: str) -> Callable[[World], list[str]]:
    """Return overrides with ``overwrite=true`` for a copy of the run that only has ``keep``."""

    def make(world: World) -> list[str]:
        other = world.folder / "other"
        shutil.copytree(world.run, other)
        for path in other.iterdir():
            if path.name not in (keep, "files.json"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return [*asked()(world), f"output_dir={other}", "overwrite=true"]

    return make


COMMANDS = [
    Case("no setting", lambda w: [], r"run=null: must be the folder of a run"),
    Case("no data", lambda w: [f"run={w.run}"], r"data=null: must be an .npz file"),
    Case("unknown setting", asked("nn=3"), r"nn=3: unknown key; known are batch_size, data"),
    Case("misspelt key", asked("batchsize=3"), r"batchsize=3: unknown key; did you mean batch_size\?"),
    Case("added key", asked("+nn=3"), r"nn=3: unknown key"),
    Case("unknown model", asked("models=[gan]"), r"models=\[gan\]: must be a non-empty list drawn from"),
    Case("no model", asked("models=[]"), r"models=\[\]: must be a non-empty list"),
    Case("unknown stitching", asked("stitch=glue"), r"stitch=glue: must be one of probe, grid, refined"),
    Case("passes of a group", asked("stitch.passes=9"), r"stitch.passes=9: unknown key; did"),
    Case("misspelt passes", asked("stitch=refined", "pases=9"), r"did you mean passes\?"),
    Case("no passes", asked("stitch=refined", "passes=0"), r"passes=0: must be an integer from 1"),
    Case("groups of nothing", asked("group_size=0"), r"group_size=0: must be an integer from 1 to 512"),
    Case(
        "groups of a thousand", asked("group_size=1000"), r"group_size=1000: must be an integer from 1 to 51"
    ),
    Case("batch of nothing", asked("batch_size=0"), r"batch_size=0: must be an integer from 1"),
    Case("batch of words", asked("batch_size=many"), r"batch_size=many: must be an integer"),
    Case("overwrite of words", asked("overwrite=maybe"), r"overwrite=maybe: must be true or false"),
    Case("no output", asked("output_dir=null"), r"output_dir=null: must be the path of a folder"),
    Case("output holds a run", output_that_holds_a_run, r"held: holds another run \(files.json, metr"),
    Case(
        "output holds a file of others",
        output_that_holds_a_file_of_others,
        r"held: holds metrics.json, which no run of this program has listed in files.json as its own",
    ),
    Case(
        "overwrite the run that is used",
        lambda w: [f"run={w.run}", f"data={w.scan()}", f"output_dir={w.run}", "overwrite=true"],
        r"output_dir=.*run: holds run=.*, which overwrite=true would remove",
    ),
    Case(
        "overwrite another training run",
        over_a_training("pinn"),
        r"other: holds a training run \(files.json, pinn\), which results of an inference never",
    ),
    Case(
        "overwrite a training run that has just begun",
        over_a_training("config.yaml"),
        r"other: holds a training run \(config.yaml, files.json\), which results of an inference never",
    ),
    Case(
        "output in a file", lambda w: [*asked()(w), f"output_dir={w.folder}/data.npz/x"], r"cannot be written"
    ),
    Case("output in a loop", lambda w: [*asked()(w), f"output_dir={loop(w)}"], r"loop: cannot be written \("),
    Case(
        "output below a loop",
        lambda w: [*asked()(w), f"output_dir={loop(w)}/x"],
        r"loop/x: cannot be written \(",
    ),
    Case("data in a loop", lambda w: [f"run={w.run}", f"data={loop(w)}"], r"loop: cannot be read \(Too many"),
    Case("run in a loop", lambda w: [f"run={loop(w)}", f"data={w.scan()}"], r"run=.*loop: no such folder"),
]
CASES = [*FILES, *KEYS, *SHAPES, *VALUES, *GEOMETRY, *IMPLAUSIBLE, *PUBLISHED, *RUNS, *COMMANDS]
