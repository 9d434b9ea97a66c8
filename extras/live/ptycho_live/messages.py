"""Messages of a live scan, of two parts each: a header in JSON and the bytes of an array.

=============== ==============================================================================================
``type``        header
=============== ==============================================================================================
``start``       ``unit`` of the positions, and what is known of ``frames`` (how many), ``shape``, ``dtype``,
                ``domain``, ``zero_frequency`` (centre, corner, [row, col]), ``energy_eV``, ``distance_m``,
                ``detector_pixel_m`` (one length, or [row, col])
``mask``        ``shape``, ``dtype`` uint8: other than zero where a pixel is bad
``probe``       ``shape`` (K, h, w), ``dtype`` complex64
``frame``       ``index``, ``shape``, ``dtype``, ``encoding`` (``raw`` or ``bslz4``), ``time`` in s if known
``positions``   ``index``, ``row``, ``col``: lists of one length; ``time`` in place of ``index``
``end``         nothing more will come
=============== ==============================================================================================

Numbers are little-endian. ``bslz4`` is the format of Dectris detectors and of HDF5's filter 32008:
bitshuffled blocks, compressed by LZ4, behind the size in 8 bytes and the size of a block in 4 bytes, both
big-endian. HDF5 packs and unpacks it. Nothing is unpickled, and every size is checked before it is used.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import h5py
import hdf5plugin
import numpy as np

from ptycho.files.text import parse_json
from ptycho.readers.hdf5_checks import wrong_with_blocks
from ptycho.readers.raw_scan import DOMAINS, UNITS
from ptycho_live.arrivals import BY_TIME, Description, Frame, make_positions

FRAME_DTYPES = ("uint8", "uint16", "uint32", "int16", "int32", "float32", "float64")
SIZES = struct.Struct(">QI")  # before the blocks of bslz4


class BadMessage(ValueError):
    """Fault of a message, in a few words."""


def message(kind: str, content: np.ndarray | bytes | None = None, **header: Any) -> list[bytes]:
    """Return the parts of a message; None is left out, and an array ``(…)`` describes itself."""
    if isinstance(content, np.ndarray):
        header = {"shape": content.shape, "dtype": content.dtype.name} | header
        content = content.astype(content.dtype.newbyteorder("<")).tobytes()
    fields = {"type": kind} | {name: value for name, value in header.items() if value is not None}
    return [json.dumps(fields).encode(), *([] if content is None else [content])]


def start_message(description: Description) -> list[bytes]:
    """Return the message with which a scan begins."""
    names = ("unit", "domain", "energy_eV", "distance_m", "zero_frequency", "detector_pixel_m", "shape")
    dtype = None if description.dtype is None else str(description.dtype)
    stated = {name: getattr(description, name) for name in names}
    return message("start", **stated, dtype=dtype, frames=description.expected)


def frame_message(frame: Frame, encoding: str = "raw") -> list[bytes]:
    """Return the message of a frame."""
    data = np.ascontiguousarray(frame.data, frame.data.dtype.newbyteorder("<"))
    header: dict[str, Any] = {"index": frame.number, "encoding": encoding}
    header |= {"time": frame.time} if np.isfinite(frame.time) else {}
    if encoding == "raw":
        return message("frame", data, **header)
    return message("frame", packed(data), shape=data.shape, dtype=data.dtype.name, **header)


def positions_message(positions: np.ndarray) -> list[bytes]:
    """Return that of positions ``(n,)`` of :data:`~ptycho_live.arrivals.POSITION`."""
    by = "time" if (positions["index"] == BY_TIME).all() else "index"
    return message("positions", **{name: positions[name].tolist() for name in (by, "row", "col")})


def read_header(part: bytes, longest: int = 2**22) -> dict[str, Any]:
    """Return the header of a message; as all that follow, it raises :class:`BadMessage` where it is none."""
    if len(part) > longest:
        raise BadMessage("header too long")
    try:
        header = parse_json(part)
    except ValueError as error:
        raise BadMessage("header is no JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise BadMessage("header without a type")
    return header


def read_frame(header: dict[str, Any], content: bytes) -> Frame:
    """Return the frame of a message."""
    index: Any = header.get("index")
    moment = header.get("time", np.nan)
    if not (_is_index(index) and _is_number(moment)):
        raise BadMessage("index or time of a frame is no number")
    read = {"raw": _array, "bslz4": unpacked}.get(str(header.get("encoding", "raw")))
    if read is None:
        raise BadMessage("unknown encoding")
    return Frame(index, read(content, _shape(header, 2), _dtype(header, *FRAME_DTYPES)), float(moment))


def read_positions(header: dict[str, Any]) -> np.ndarray:
    """Return the positions of a message, ``(n,)`` of :data:`~ptycho_live.arrivals.POSITION`."""
    by = "index" if "index" in header else "time"
    lists = [value if isinstance(value := header.get(name), list) else [value] for name in (by, "row", "col")]
    if not all(_is_number(value) for values in lists for value in values):
        raise BadMessage("a position that is no number")
    if len({len(values) for values in lists}) != 1:
        raise BadMessage("lists of positions of different lengths")
    first, rows, cols = lists
    if by == "time":
        return make_positions(BY_TIME, rows, cols, first)
    if not all(map(_is_index, first)):
        raise BadMessage("index of a position is no whole number")
    return make_positions(first, rows, cols)


def read_start(header: dict[str, Any]) -> Description:
    """Return what the first message says of the scan."""
    fields = {name: value for name, value in header.items() if name in CHECKS and value is not None}
    wrong = [name for name, value in fields.items() if not CHECKS[name](value)]
    if wrong:
        raise BadMessage(f"start: {', '.join(wrong)} cannot be")
    pitch, zero = fields.get("detector_pixel_m"), fields.get("zero_frequency")
    if pitch is not None:
        fields["detector_pixel_m"] = tuple(map(float, pitch if isinstance(pitch, list) else (pitch, pitch)))
    if isinstance(zero, list):
        fields["zero_frequency"] = tuple(map(float, zero))
    fields |= {"shape": _shape(header, 2)} if "shape" in header else {}
    fields |= {"dtype": _dtype(header, *FRAME_DTYPES)} if "dtype" in header else {}
    return Description(expected=fields.pop("frames", None), **fields)


def read_mask(header: dict[str, Any], content: bytes) -> np.ndarray:
    """Return ``(H, W)`` bool, True where a pixel is good."""
    return _array(content, _shape(header, 2), _dtype(header, "uint8")) == 0


def read_probe(header: dict[str, Any], content: bytes) -> np.ndarray:
    """Return modes ``(K, h, w)`` complex64."""
    modes = _array(content, _shape(header, 3), _dtype(header, "complex64"))
    if not np.isfinite(modes).all():
        raise BadMessage("probe is not finite")
    return modes


def _shape(header: dict[str, Any], dimensions: int, largest: int = 2**14) -> Any:
    shape = header.get("shape")
    sides = shape if isinstance(shape, list) else []
    if len(sides) != dimensions or not all(type(n) is int and 0 < n <= largest for n in sides):
        raise BadMessage("shape cannot be")
    return tuple(sides)


def _dtype(header: dict[str, Any], *allowed: str) -> np.dtype:
    if header.get("dtype") not in allowed:
        raise BadMessage("dtype is none of those that are taken")
    return np.dtype(header["dtype"]).newbyteorder("<")


def _is_index(value: Any, most: int = 2**40) -> bool:
    return type(value) is int and 0 <= value < most


def _is_number(value: object) -> bool:
    """Whether it is a number that a float can hold; NaN is one."""
    return isinstance(value, int | float) and type(value) is not bool and not abs(value) > 1e300


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


def _is_pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


CHECKS = {
    "unit": lambda value: value in tuple(UNITS),
    "domain": lambda value: value in DOMAINS,
    "energy_eV": _is_positive,
    "distance_m": _is_positive,
    "detector_pixel_m": lambda value: (
        _is_positive(value) or (_is_pair(value) and all(map(_is_positive, value)))
    ),
    "zero_frequency": lambda value: value in ("centre", "corner") or _is_pair(value),
    "frames": lambda value: _is_index(value) and value > 0,
}


def _array(content: bytes, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise BadMessage("content is not as long as its shape says")
    return np.frombuffer(content, dtype).reshape(shape)


def packed(data: np.ndarray) -> bytes:
    """Return a frame ``(H, W)`` as bslz4."""
    with _memory() as file:
        array = _packing(file, data.shape, data.dtype)
        array[...] = data
        array.flush()
        return bytes(array.id.read_direct_chunk((0, 0))[1])


def unpacked(
    content: bytes, shape: tuple[int, ...], dtype: np.dtype, largest_block: int = 2**20
) -> np.ndarray:
    """Return a frame ``(H, W)`` from its bslz4; ``largest_block``: bytes before compression."""
    size = math.prod(shape) * dtype.itemsize
    if len(content) < SIZES.size:
        raise BadMessage("content ends early")
    whole, block = SIZES.unpack(content[: SIZES.size])
    if whole != size or block > largest_block or wrong_with_blocks(content, size, dtype.itemsize):
        raise BadMessage("content is not as long as its shape says, or as its blocks do")
    try:
        with _memory() as file:
            array = _packing(file, shape, dtype)
            array.id.write_direct_chunk((0, 0), content)
            return array[()]
    except (OSError, RuntimeError, ValueError) as error:
        raise BadMessage("content cannot be unpacked") from error


def _packing(file: h5py.File, shape: tuple[int, ...], dtype: np.dtype) -> h5py.Dataset:
    return file.create_dataset("frame", shape, dtype, chunks=shape, **hdf5plugin.Bitshuffle(cname="lz4"))


def _memory() -> h5py.File:
    """An HDF5 file that is on no disk."""
    return h5py.File("frame", "w", driver="core", backing_store=False)
