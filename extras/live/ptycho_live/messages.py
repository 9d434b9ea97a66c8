"""Messages of a live scan, of two parts each: a header in JSON and the bytes of an array.

The classes below define the fields of each header. Numbers are little-endian. ``bslz4`` is the format of
Dectris detectors and of HDF5's filter 32008: bitshuffled blocks, compressed by LZ4, behind the size in 8
bytes and the size of a block in 4 bytes, both big-endian. HDF5 packs and unpacks it. Nothing is unpickled,
and every size is checked before it is used.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import h5py
import hdf5plugin
import numpy as np
from annotated_types import Ge, Gt, Le, Lt, MinLen, Predicate
from pydantic import BaseModel, BeforeValidator, FailFast, Field, Strict, TypeAdapter, ValidationError

from ptycho.readers.hdf5_checks import read_packed, wrong_with_blocks
from ptycho.readers.raw_scan import DOMAINS, UNITS
from ptycho_live.arrivals import BY_TIME, Description, Frame, make_positions

SIZES = struct.Struct(">QI")  # before the blocks of bslz4
Index = Annotated[int, Strict(), Ge(0), Lt(2**40)]
Real = Annotated[float, Strict(), Predicate(lambda value: not math.isinf(value))]  # NaN is one
Positive = Annotated[float, Strict(), Gt(0), Lt(1e300)]
Side = Annotated[int, Strict(), Gt(0), Le(2**14)]
FrameType = Literal["uint8", "uint16", "uint32", "int16", "int32", "float32", "float64"]


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _pair(value: Any) -> Any:
    return value if isinstance(value, list) else [value, value]


class BadMessage(ValueError):
    """Fault of a message, in a few words."""


class Start(BaseModel):
    """The first message: what is known of the scan."""

    type: Literal["start"]
    unit: Annotated[str, Predicate(lambda value: value in UNITS)] | None = None  # of the positions
    frames: Annotated[Index, Gt(0)] | None = None  # how many
    shape: tuple[Side, Side] | None = None  # of a frame: rows, columns
    dtype: FrameType | None = None
    domain: Annotated[str, Predicate(lambda value: value in DOMAINS)] | None = None
    zero_frequency: Literal["centre", "corner"] | tuple[Real, Real] | None = None  # (row, col) in pixels
    energy_eV: Positive | None = None
    distance_m: Positive | None = None
    # one length, or (row, col)
    detector_pixel_m: Annotated[tuple[Positive, Positive], BeforeValidator(_pair)] | None = None

    def read(self, content: bytes) -> dict[str, Any]:
        """Return values of a :class:`Description` by their names."""
        return self.model_dump(exclude={"type", "frames"}) | {"expected": self.frames}


class Mask(BaseModel):
    """Other than zero where a pixel is bad."""

    type: Literal["mask"]
    shape: tuple[Side, Side]
    dtype: Literal["uint8"]

    def read(self, content: bytes) -> dict[str, Any]:
        return {"good": _array(content, self.shape, self.dtype) == 0}


class Probe(BaseModel):
    """Modes ``(K, h, w)``."""

    type: Literal["probe"]
    shape: tuple[Side, Side, Side]
    dtype: Literal["complex64"]

    def read(self, content: bytes) -> dict[str, Any]:
        modes = _array(content, self.shape, self.dtype)
        if not np.isfinite(modes).all():
            raise BadMessage("probe is not finite")
        return {"probe": modes}


class FrameHeader(BaseModel):
    """A frame."""

    type: Literal["frame"]
    index: Index
    shape: tuple[Side, Side]
    dtype: FrameType
    encoding: Literal["raw", "bslz4"] = "raw"
    time: Real = math.nan  # in s, if known

    def read(self, content: bytes) -> Frame:
        unpack = _array if self.encoding == "raw" else unpacked
        return Frame(self.index, unpack(content, self.shape, self.dtype), self.time)


class Positions(BaseModel):
    """Lists of one length; ``time`` in place of ``index``."""

    type: Literal["positions"]
    index: Annotated[list[Index], FailFast(), BeforeValidator(_listed)] = []
    time: Annotated[list[Real], FailFast(), BeforeValidator(_listed)] = []
    row: Annotated[list[Real], FailFast(), BeforeValidator(_listed), MinLen(1)]
    col: Annotated[list[Real], FailFast(), BeforeValidator(_listed)]

    def read(self, content: bytes) -> np.ndarray:
        """Return positions ``(n,)`` of :data:`~ptycho_live.arrivals.POSITION`."""
        if not len(self.index or self.time) == len(self.row) == len(self.col):
            raise BadMessage("lists of positions of different lengths")
        times: Any = math.nan if self.index else self.time
        return make_positions(self.index or BY_TIME, self.row, self.col, times)


class End(BaseModel):
    """Nothing more will come."""

    type: Literal["end"]

    def read(self, content: bytes) -> None:
        return None


Header = Start | Mask | Probe | FrameHeader | Positions | End
HEADER: TypeAdapter[Header] = TypeAdapter(Annotated[Header, Field(discriminator="type")])


def read(parts: list[bytes], longest: int = 2**22) -> Frame | np.ndarray | dict[str, Any] | None:
    """Return a frame, positions, values of a :class:`Description`, or at the end of the scan None.

    BadMessage: a part is missing, too much, or wrong.
    """
    if len(parts) > 2 or len(parts[0]) > longest:
        raise BadMessage("more than two parts" if len(parts) > 2 else "header too long")
    try:
        header = HEADER.validate_json(parts[0])
    except ValidationError as error:
        places = [fault["loc"] for fault in error.errors(include_input=False)]  # type, field, …
        names = ", ".join(sorted({str(place[1]) for place in places if len(place) > 1}))
        raise BadMessage(f"{places[0][0]}: {names} cannot be" if names else "header: unknown type") from error
    return header.read(b"".join(parts[1:]))


def message(kind: str, content: np.ndarray | bytes | None = None, **header: Any) -> list[bytes]:
    """Return the parts of a message; None is left out, and an array ``(…)`` describes itself."""
    if isinstance(content, np.ndarray):
        header = {"shape": content.shape, "dtype": content.dtype.name} | header
        content = content.astype(content.dtype.newbyteorder("<")).tobytes()
    fields = {"type": kind} | {name: value for name, value in header.items() if value is not None}
    return [json.dumps(fields).encode(), *([] if content is None else [content])]


def start_message(description: Description) -> list[bytes]:
    """Return the message with which a scan begins."""
    stated = {name: value for name, value in vars(description).items() if name in Start.model_fields}
    return message("start", **stated, frames=description.expected)


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


def _array(content: bytes, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(dtype).newbyteorder("<")
    if len(content) != math.prod(shape) * kind.itemsize:
        raise BadMessage("content is not as long as its shape says")
    return np.frombuffer(content, kind).reshape(shape)


def packed(data: np.ndarray) -> bytes:
    """Return a frame ``(H, W)`` as bslz4."""
    with _packing(data.shape, data.dtype) as array:
        array[...] = data
        array.flush()
        return read_packed(array, (0, 0))


def unpacked(content: bytes, shape: tuple[int, ...], dtype: str, largest_block: int = 2**20) -> np.ndarray:
    """Return a frame ``(H, W)`` from its bslz4; ``largest_block``: bytes before compression."""
    kind = np.dtype(dtype).newbyteorder("<")
    size = math.prod(shape) * kind.itemsize
    if len(content) < SIZES.size:
        raise BadMessage("content ends early")
    whole, block = SIZES.unpack(content[: SIZES.size])
    if whole != size or block > largest_block or wrong_with_blocks(content, size, kind.itemsize):
        raise BadMessage("content is not as long as its shape says, or as its blocks do")
    try:
        with _packing(shape, kind) as array:
            array.id.write_direct_chunk((0, 0), content)
            return array[()]
    except (OSError, RuntimeError, ValueError) as error:
        raise BadMessage("content cannot be unpacked") from error


@contextlib.contextmanager
def _packing(shape: tuple[int, ...], dtype: np.dtype) -> Iterator[h5py.Dataset]:
    """A frame of one chunk in an HDF5 file that is on no disk."""
    filters = hdf5plugin.Bitshuffle(cname="lz4")
    with h5py.File("frame", "w", driver="core", backing_store=False) as file:
        yield file.create_dataset("frame", shape, dtype, chunks=shape, **filters)
