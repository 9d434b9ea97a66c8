"""What a growing scan is sent as: messages of two parts, a header in JSON and the bytes of an array.

=============== ==============================================================================================
``type``        header
=============== ==============================================================================================
``start``       ``unit`` of the positions, and what is known of ``frames`` (how many), ``shape``, ``dtype``,
                ``domain``, ``zero_frequency`` (centre, corner, [row, col]), ``energy_eV``, ``distance_m``,
                ``detector_pixel_m`` (one length, or [row, col])
``mask``        ``shape``, ``dtype`` uint8: other than nought where a pixel is bad
``probe``       ``shape`` (K, h, w), ``dtype`` complex64
``frame``       ``index``, ``shape``, ``dtype``, ``encoding`` (``raw`` or ``bslz4``), ``time`` in s if known
``positions``   ``index``, ``row``, ``col``: lists of one length; ``time`` in place of ``index``
``end``         nothing more will come
=============== ==============================================================================================

Numbers are little-endian. ``bslz4`` is what detectors of Dectris send and what HDF5's filter 32008 stores:
bitshuffled, in blocks that LZ4 has compressed, behind the size as 8 and the size of a block as 4 bytes,
big-endian. HDF5 itself packs and unpacks it. Nothing is unpickled, and no size is believed before it is
checked.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any, Protocol

import h5py
import hdf5plugin
import numpy as np

from ptycho.files.json_file import parse_json
from ptycho.live.arrivals import BY_TIME, Description, Frame, make_positions
from ptycho.readers.hdf5_chunks import wrong_with_blocks
from ptycho.readers.raw_scan import DOMAINS, UNITS

FRAME_DTYPES = ("uint8", "uint16", "uint32", "int16", "int32", "float32", "float64")
ENCODINGS = ("raw", "bslz4")
LONGEST_HEADER = 2**22  # bytes
LARGEST_SIDE = 2**14  # pixels
LARGEST_INDEX, LARGEST_NUMBER = 2**40, 1e300
SIZES = struct.Struct(">QI")  # before the blocks of bslz4
LARGEST_BLOCK = 2**20  # bytes, before they are compressed
NUMBERS = ("energy_eV", "distance_m")
WORDS = {"unit": tuple(UNITS), "domain": DOMAINS}


class BadMessage(ValueError):
    """What is wrong with a message, in a few words."""


class Bytes(Protocol):
    """The bytes of a part of a message."""

    def __len__(self) -> int: ...


def start_message(told: Description, frames: int | None) -> list[bytes]:
    """That with which a scan begins."""
    header: dict[str, Any] = {"type": "start", "unit": told.unit, "frames": frames, "domain": told.domain}
    header |= {name: getattr(told, name) for name in NUMBERS}
    header |= {"zero_frequency": told.zero_frequency, "detector_pixel_m": told.detector_pixel_m}
    header |= {"shape": told.shape, "dtype": None if told.dtype is None else str(told.dtype)}
    return _message({name: value for name, value in header.items() if value is not None})


def mask_message(good: np.ndarray) -> list[bytes]:
    bad = (~good).astype(np.uint8)
    return _message({"type": "mask", "shape": bad.shape, "dtype": "uint8"}, bad.tobytes())


def probe_message(modes: np.ndarray) -> list[bytes]:
    return _message(
        {"type": "probe", "shape": modes.shape, "dtype": "complex64"}, modes.astype("<c8").tobytes()
    )


def frame_message(frame: Frame, encoding: str = "raw") -> list[bytes]:
    data = np.ascontiguousarray(frame.data, frame.data.dtype.newbyteorder("<"))
    header: dict[str, Any] = {"type": "frame", "index": frame.number, "shape": data.shape}
    header |= {"dtype": data.dtype.name, "encoding": encoding}
    header |= {"time": frame.time} if np.isfinite(frame.time) else {}
    return _message(header, packed(data) if encoding == "bslz4" else data.tobytes())


def positions_message(positions: np.ndarray) -> list[bytes]:
    """That of positions ``(n,)`` of :data:`~ptycho.live.arrivals.POSITION`."""
    by = "time" if (positions["index"] == BY_TIME).all() else "index"
    return _message({"type": "positions"} | {name: positions[name].tolist() for name in (by, "row", "col")})


END: list[bytes] = [b'{"type": "end"}']


def _message(header: dict[str, Any], content: bytes | None = None) -> list[bytes]:
    return [json.dumps(header).encode(), *([] if content is None else [content])]


def read_header(part: bytes) -> dict[str, Any]:
    """The header of a message.

    Raises:
        BadMessage: it is none.
    """
    if len(part) > LONGEST_HEADER:
        raise BadMessage("header too long")
    try:
        header = parse_json(part)
    except ValueError as error:
        raise BadMessage("header is no JSON") from error
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise BadMessage("header without a type")
    return header


def read_frame(header: dict[str, Any], content: bytes) -> Frame:
    """The frame of a message.

    Raises:
        BadMessage: header and content do not fit.
    """
    index, moment = header.get("index"), header.get("time", np.nan)
    if not (type(index) is int and 0 <= index < LARGEST_INDEX) or not _number(moment):
        raise BadMessage("index or time of a frame is no number")
    shape, dtype = read_shape(header, 2), _dtype(header, FRAME_DTYPES)
    encoding = header.get("encoding", "raw")
    if encoding not in ENCODINGS:
        raise BadMessage("unknown encoding")
    if encoding == "bslz4":
        return Frame(index, unpacked(content, shape, dtype), float(moment))
    return Frame(index, _array(content, shape, dtype), float(moment))


def read_positions(header: dict[str, Any]) -> np.ndarray:
    """The positions of a message, ``(n,)`` of :data:`~ptycho.live.arrivals.POSITION`.

    Raises:
        BadMessage: its lists do not fit.
    """
    by = "index" if "index" in header else "time"
    first, rows, cols = (_numbers(header.get(name)) for name in (by, "row", "col"))
    if len({len(first), len(rows), len(cols)}) != 1:
        raise BadMessage("lists of positions of different lengths")
    if by == "time":
        return make_positions(BY_TIME, rows, cols, first)
    if not all(type(k) is int and 0 <= k < LARGEST_INDEX for k in first):
        raise BadMessage("index of a position is no whole number")
    return make_positions(first, rows, cols)


def _numbers(value: object) -> list[int | float]:
    """A list of numbers, or one."""
    listed: list[Any] = value if isinstance(value, list) else [value]
    if not all(map(_number, listed)):
        raise BadMessage("a position that is no number")
    return listed


def read_start(header: dict[str, Any]) -> Description:
    """What the first message says of the scan.

    Raises:
        BadMessage: something in it cannot be.
    """
    numbers = {name: header.get(name) for name in NUMBERS}
    pitch, zero = header.get("detector_pixel_m"), header.get("zero_frequency")
    pair = [pitch, pitch] if isinstance(pitch, int | float) else pitch
    wrong = [name for name, value in numbers.items() if value is not None and not _positive(value)]
    wrong += [] if pair is None or (_pair(pair) and all(map(_positive, pair))) else ["detector_pixel_m"]
    wrong += [] if zero in (None, "centre", "corner") or _pair(zero) else ["zero_frequency"]
    frames = header.get("frames")
    wrong += [] if frames is None or (type(frames) is int and 0 < frames < LARGEST_INDEX) else ["frames"]
    wrong += [name for name, words in WORDS.items() if header.get(name) not in (None, *words)]
    if wrong:
        raise BadMessage(f"start: {', '.join(wrong)} cannot be")
    return Description(
        unit=header.get("unit"),
        domain=header.get("domain"),
        zero_frequency=tuple(map(float, zero)) if isinstance(zero, list) else zero,  # type: ignore[arg-type]
        detector_pixel_m=None if pair is None else (float(pair[0]), float(pair[1])),
        shape=read_shape(header, 2) if "shape" in header else None,  # type: ignore[arg-type]
        dtype=_dtype(header, FRAME_DTYPES) if "dtype" in header else None,
        expected=frames,
        **numbers,
    )


def read_mask(header: dict[str, Any], content: bytes) -> np.ndarray:
    """``(H, W)`` bool, True where a pixel is good."""
    return _array(content, read_shape(header, 2), _dtype(header, ("uint8",))) == 0


def read_probe(header: dict[str, Any], content: bytes) -> np.ndarray:
    """Modes ``(K, h, w)`` complex64."""
    modes = _array(content, read_shape(header, 3), _dtype(header, ("complex64",)))
    if not np.isfinite(modes).all():
        raise BadMessage("probe is not finite")
    return modes


def read_shape(header: dict[str, Any], dimensions: int) -> tuple[int, ...]:
    shape = header.get("shape")
    sides = shape if isinstance(shape, list) else []
    if len(sides) != dimensions or not all(type(n) is int and 0 < n <= LARGEST_SIDE for n in sides):
        raise BadMessage("shape cannot be")
    return tuple(sides)


def _dtype(header: dict[str, Any], allowed: tuple[str, ...]) -> np.dtype:
    name = header.get("dtype")
    if name not in allowed:
        raise BadMessage("dtype is none of those that are taken")
    return np.dtype(name).newbyteorder("<")


def _number(value: object) -> bool:
    """Whether it is a number that a float can hold; NaN is one."""
    return isinstance(value, int | float) and type(value) is not bool and not abs(value) > LARGEST_NUMBER


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and _number(value) and value > 0


def _pair(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_number, value))


def _array(content: bytes, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise BadMessage("content is not as long as its shape says")
    return np.frombuffer(content, dtype).reshape(shape)


def packed(data: np.ndarray) -> bytes:
    """A frame ``(H, W)`` as bslz4."""
    with _memory() as file:
        array = file.create_dataset(
            "frame", data=data, chunks=data.shape, **hdf5plugin.Bitshuffle(cname="lz4")
        )
        return bytes(array.id.read_direct_chunk((0, 0))[1])


def unpacked(content: bytes, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A frame ``(H, W)`` from its bslz4.

    Raises:
        BadMessage: it is none, or of another size.
    """
    size = math.prod(shape) * dtype.itemsize
    if len(content) < SIZES.size:
        raise BadMessage("content ends early")
    whole, block = SIZES.unpack(content[: SIZES.size])
    if whole != size or block > LARGEST_BLOCK or wrong_with_blocks(content, size, dtype.itemsize):
        raise BadMessage("content is not as long as its shape says, or as its blocks do")
    try:
        with _memory() as file:
            array = file.create_dataset(
                "frame", shape, dtype, chunks=shape, **hdf5plugin.Bitshuffle(cname="lz4")
            )
            array.id.write_direct_chunk((0, 0), content)
            return array[()]
    except (OSError, RuntimeError, ValueError) as error:
        raise BadMessage("content cannot be unpacked") from error


def _memory() -> h5py.File:
    """An HDF5 file that is on no disk."""
    return h5py.File("frame", "w", driver="core", backing_store=False)
