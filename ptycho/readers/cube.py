"""A raster scan that is one array, as 4D-STEM writes it; its step is in the file, or ``data.scan_step_A=…``.

NPY and MATLAB 5 are known by their content, a Zarr store is a folder, others go by the ending of the name.
HDF5 and NPZ are read by ``keymap.py``. Sources: Savitzky et al., Microsc. Microanal. 27 (2021) 712; Tate et
al., ibid. 22 (2016) 237 (EMPAD); Quantum Detectors, Merlin user manual; Cheng et al., J. Struct. Biol. 192
(2015) 146 (MRC2014).
"""

from __future__ import annotations

import importlib
import math
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.files.file_array import FileArray
from ptycho.files.reading import FileError, damage_named, faults_of
from ptycho.readers.archive import container_of
from ptycho.readers.patterns import Patterns, as_list, largest, spread
from ptycho.readers.positions import Axis, complete, raster_positions, step_m
from ptycho.readers.raw_scan import Frames, RawScan, ReadOptions
from ptycho.readers.values import tell_domain

ARRAY = "the array"  # what to call it in an error


def reader_of(path: Path) -> Callable[[Path], Patterns] | None:
    """Return what reads a cube; None: it is none."""
    if path.is_dir():
        return read_zarr if any((path / name).is_file() for name in ZARR) else None
    by_content = {"NPY": _read_npy, "MATLAB": _read_matlab}
    return by_content.get(container_of(path)[0]) or BY_NAME.get(path.suffix.lower())


def read(path: Path, options: ReadOptions) -> RawScan:
    """Read a raster scan; its patterns stay in the file, but for MATLAB's and those of RosettaSciIO."""
    options.refuse_unused(path, "of one array")
    choose = reader_of(path)
    assert choose is not None
    if choose in (_read_npy, _read_matlab):  # which state no step: before anything is read
        complete(options.raster, None, path)
    with faults_of(path), damage_named("cannot be read"):
        source = choose(path)
    raster = complete(options.raster, source.step_m, path)
    positions = raster_positions(raster, source, path)
    domain = tell_domain(source.dtype, [source.read(spread(len(positions), 64))])
    notes = (f"patterns: {source.shape} of {source.dtype}; {domain.why}", raster.text)
    name = path.suffix.lower().lstrip(".") or "cube"
    return RawScan(name, source, domain.name, None, positions, "m", notes=notes)


def _read_npy(path: Path) -> Patterns:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not array.flags.c_contiguous:
        raise FileError(f"is an array {array.shape} in Fortran order; save np.ascontiguousarray of it")
    form, grid = as_list(ARRAY, array.shape, array.dtype)
    return Frames(FileArray(path.open("rb"), form, array.dtype, array.offset), grid)


def _read_matlab(path: Path) -> Patterns:
    from scipy.io import loadmat, whosmat

    shapes = {name: shape for name, shape, _ in whosmat(path)}
    name = largest(shapes)
    if 8 * (size := math.prod(shapes[name])) > 2**33:
        raise FileError(f"{name} has {size} numbers; save it with -v7.3, which is read by parts")
    cube = np.moveaxis(np.asarray(loadmat(path, variable_names=[name])[name]), (0, 1), (-2, -1))
    form, grid = as_list(name, cube.shape, cube.dtype)
    source = Frames(np.ascontiguousarray(cube.reshape(form)), grid)
    source.columns_first = grid is None
    return source


EMPAD = (130, 128)  # rows and columns of a frame
MERLIN = {"U08": ">u1", "U16": ">u2", "U32": ">u4"}
MRC = {0: "u1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}  # 0 is signed in MRC2014; detectors write counts


class Records(Patterns):
    """Patterns ``(J, H, W)`` in the field ``frame`` of ``records (J,)``; ``upside_down``: last row first."""

    def __init__(self, records: FileArray, upside_down: bool = False) -> None:
        self.records, self._rows = records, slice(None, None, -1 if upside_down else 1)
        rows, columns = records.dtype["frame"].shape
        self.shape, self.dtype = (len(records), rows, columns), records.dtype["frame"].base

    def fill(self, first: int, into: np.ndarray) -> None:
        into[:] = self.records[first : first + len(into)]["frame"][:, self._rows]


def read_empad(path: Path) -> Patterns:
    """Return the frames of an EMPAD ``.raw``: float32, the last two rows of a frame are no pixels."""
    record, size = 4 * math.prod(EMPAD), path.stat().st_size
    if size == 0 or size % record:
        raise FileError(
            f"has {size} bytes; must be EMPAD frames of {EMPAD[0]} × {EMPAD[1]} float32, {record} bytes each"
        )
    return _records(path, (EMPAD[1], EMPAD[1]), "<f4", record)


def read_merlin(path: Path) -> Patterns:
    """Return the complete frames of a Merlin ``.mib``, the upper row first, as HyperSpy has them.

    Before every frame is a header, ``MQ1,frame,length,chips,columns,rows,U16,…``; pixels are big-endian, the
    last row first. The file ``.hdr`` beside it states the frames of a row.
    """
    with path.open("rb") as file:
        words = file.read(384).decode("ascii", "replace").split(",")
    if words[0] != "MQ1" or len(words) < 7:
        raise FileError("has no header of Merlin (MQ1,…)")
    if words[6] not in MERLIN:
        raise FileError(f"has pixels {words[6]}; must be {', '.join(MERLIN)}: save it as processed frames")
    head, columns, rows = int(words[2]), int(words[4]), int(words[5])
    record = head + rows * columns * np.dtype(MERLIN[words[6]]).itemsize
    source = _records(path, (rows, columns), MERLIN[words[6]], record, head=head, upside_down=True)
    beside, count = path.with_suffix(".hdr"), source.shape[0]
    lines = beside.read_text("utf-8", "replace").splitlines() if beside.is_file() else []
    said = [line.split(":", 1)[1].strip() for line in lines if line.startswith("Frames per Trigger")]
    line = int(said[0]) if said and said[0].isdecimal() else 1
    source.grid = (count // line, line) if line > 1 and count % line == 0 else None
    return source


def read_mrc(path: Path) -> Patterns:
    """Return the sections of an MRC file."""
    with path.open("rb") as file:
        header = file.read(1024)
    order = ">" if header[212:213] == b"\x11" else "<"
    columns, rows, count, mode = struct.unpack(f"{order}4i", header[:16])
    if mode not in MRC:
        raise FileError(f"has mode {mode}; must be one of {', '.join(map(str, MRC))}, real numbers")
    dtype = np.dtype(order + MRC[mode])
    start = 1024 + struct.unpack(f"{order}i", header[92:96])[0]
    source = _records(path, (rows, columns), dtype, rows * columns * dtype.itemsize, start)
    if source.shape[0] < count:
        raise FileError(f"declares {count} frames and ends after {source.shape[0]}")
    return source


def _records(
    path: Path,
    frame: tuple[int, int],
    dtype: str | np.dtype,
    record: int,
    start: int = 0,
    head: int = 0,
    upside_down: bool = False,
) -> Records:
    """Return the complete records of a file from byte ``start`` on; a frame is behind ``head`` bytes."""
    if min(frame) < 1 or min(start, head) < 0 or (count := (path.stat().st_size - start) // record) < 1:
        raise FileError(f"has {path.stat().st_size} bytes; holds no frame of {frame[0]} × {frame[1]}")
    fields = {"names": ["frame"], "formats": [(dtype, frame)], "offsets": [head], "itemsize": record}
    return Records(FileArray(path.open("rb"), (count,), np.dtype(fields), start), upside_down)  # type: ignore[call-overload]


ZARR = (".zgroup", ".zarray", "zarr.json")


class LazyPatterns(Patterns):
    """Patterns ``(J, H, W)`` of an array of Zarr or Dask, ``(A, B, H, W)`` or ``(J, H, W)``."""

    def __init__(self, array: Any) -> None:
        self._array, self.dtype = array, np.dtype(array.dtype)
        self.shape, self.grid = as_list(ARRAY, tuple(array.shape), self.dtype)

    def fill(self, first: int, into: np.ndarray) -> None:
        line = self._array.shape[-3]  # a reading stays within a line of the raster
        while len(into):
            row, column = divmod(first, line)
            count = min(len(into), line - column)
            lead = () if self.grid is None else (row,)
            into[:count] = np.asarray(self._array[(*lead, slice(column, column + count))])
            first, into = first + count, into[count:]


def read_zarr(path: Path) -> Patterns:
    """Return the largest array of a store."""
    try:
        import zarr
    except ImportError as error:
        raise FileError("is a Zarr store, which zarr reads; pip install 'ptychopinn[zarr]'") from error
    store = zarr.open(str(path), mode="r")
    members = [("", store)] if isinstance(store, zarr.Array) else list(store.members(max_depth=None))
    arrays = {key: member for key, member in members if isinstance(member, zarr.Array)}
    key = largest({name: array.shape for name, array in arrays.items()})
    if "pickle" in str(arrays[key].metadata.to_dict()):
        raise FileError(f"{key} is packed by pickle, and nothing is unpickled")
    beside = {name: dict(member.attrs) for name, member in members}
    group = key.rpartition("/")[0]
    axes = [beside.get(f"{group}/axis-{number}".lstrip("/"), {}) for number in range(arrays[key].ndim - 2)]
    source = LazyPatterns(arrays[key])
    source.step_m = step_m([_axis(axis) for axis in axes])
    return source


def read_by_rosettasciio(path: Path) -> Patterns:
    """Return the largest array of a file in a format of electron microscopy."""
    try:
        import rsciio
    except ImportError as error:
        raise FileError(f"{path.suffix} is read by RosettaSciIO; pip install 'ptychopinn[stem]'") from error
    ending = path.suffix.lower().lstrip(".")
    plugin = next(entry for entry in rsciio.IO_PLUGINS if ending in entry["file_extensions"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        signals = importlib.import_module(plugin["api"]).file_reader(str(path), lazy=True)
    signal = signals[largest({number: one["data"].shape for number, one in enumerate(signals)})]
    cube, axes = signal["data"], [_axis(axis) for axis in signal["axes"]]
    source: Patterns = LazyPatterns(cube)
    if len(axes) == 4 and _detector_first(signal["original_metadata"].get("ImageList"), axes):
        if cube.nbytes > 2**33:
            raise FileError(f"takes {cube.nbytes} bytes; at most 8 GiB are read at once; save it as .hspy")
        turned = np.ascontiguousarray(np.asarray(cube).transpose(2, 3, 0, 1))
        source, axes = LazyPatterns(turned), axes[2:] + axes[:2]
    source.step_m = step_m(axes[:-2])
    return source


def _detector_first(images: dict[str, Any] | None, axes: list[Axis]) -> bool:
    """Return whether the tags of DigitalMicrograph, or in older files the axes, say so."""
    if not images:
        return False
    swapped = images["TagGroup0"].get("ImageTags", {}).get("Meta Data", {}).get("Data Order Swapped")
    looks_so = step_m(axes[:2]) is None or step_m(axes[2:]) is not None
    return looks_so if swapped is None else not int(swapped)


def _axis(axis: dict[str, Any]) -> Axis:
    scale, unit = axis.get("scale"), axis.get("units")
    return (float(scale) if isinstance(scale, int | float) else 0.0), unit if isinstance(unit, str) else ""


BY_NAME: dict[str, Callable[[Path], Patterns]] = {
    ".raw": read_empad,
    ".mib": read_merlin,
    ".mrc": read_mrc,
    ".dm3": read_by_rosettasciio,
    ".dm4": read_by_rosettasciio,
    ".blo": read_by_rosettasciio,
}
