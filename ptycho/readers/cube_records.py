"""Frames that follow one another in a file, each a record of one length; they stay in the file.

=========== ==============================================================================================
EMPAD       float32, 130 × 128; the last two rows of a frame are no pixels
Merlin      ``.mib``: before every frame a header in text, ``MQ1,frame,length,chips,columns,rows,U16,…``;
            pixels big-endian, the last row first. The file ``.hdr`` beside it states the frames of a row
MRC         ``.mrc``: a header of 1024 bytes and what it says of an extended one
=========== ==============================================================================================

Sources: Tate et al., Microsc. Microanal. 22 (2016) 237; Quantum Detectors, Merlin user manual; Cheng et al.,
J. Struct. Biol. 192 (2015) 146 (MRC2014).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import FileArray
from ptycho.readers.cube_axes import Cube, listed
from ptycho.readers.raw_scan import Frames

EMPAD = (130, 128)  # rows and columns of a frame
MERLIN = {"U08": ">u1", "U16": ">u2", "U32": ">u4"}
MRC = {0: "u1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}  # 0 is signed in MRC2014; detectors write counts


@dataclass(frozen=True, eq=False)
class Records:
    """Patterns ``(J, H, W)`` in a file of records.

    Attributes:
        records: ``(J,)``, with the field ``frame``; what else they hold is not read.
        upside_down: the last row comes first.
    """

    records: FileArray
    upside_down: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        rows, columns = self.records.dtype["frame"].shape
        return len(self.records), rows, columns

    @property
    def dtype(self) -> np.dtype:
        return self.records.dtype["frame"].base

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        frames = self.records[index]["frame"]
        return frames[:, ::-1] if self.upside_down else frames

    def close(self) -> None:
        """Do nothing: only the file is open, and it closes with the last reference to it."""


def frames_in_file(path: Path, shape: tuple[int, ...], dtype: np.dtype, start: int) -> Cube:
    """Return frames ``(A, B, H, W)`` or ``(J, H, W)`` that follow each other from byte ``start`` on."""
    form, grid = listed(shape)
    if path.stat().st_size < start + (size := math.prod(form) * dtype.itemsize):
        raise ConfigError(f"declares {shape} of {dtype}, {size} bytes, and ends before")
    return Cube(Frames(FileArray(path.open("rb"), form, dtype, start)), grid)  # type: ignore[arg-type]


def read_empad(path: Path) -> Cube:
    """Return the frames of an EMPAD ``.raw``."""
    record, size = 4 * math.prod(EMPAD), path.stat().st_size
    if size == 0 or size % record:
        raise ConfigError(
            f"has {size} bytes; must be EMPAD frames of {EMPAD[0]} × {EMPAD[1]} float32, {record} bytes each"
        )
    return Cube(_records(path, (EMPAD[1], EMPAD[1]), "<f4", record), None)


def read_merlin(path: Path) -> Cube:
    """Return the complete frames of a Merlin ``.mib``, the upper row first, as HyperSpy has them."""
    with path.open("rb") as file:
        words = file.read(384).decode("ascii", "replace").split(",")
    if words[0] != "MQ1" or len(words) < 7:
        raise ConfigError("has no header of Merlin (MQ1,…)")
    if words[6] not in MERLIN:
        raise ConfigError(f"has pixels {words[6]}; must be {', '.join(MERLIN)}: save it as processed frames")
    head, columns, rows = int(words[2]), int(words[4]), int(words[5])
    record = head + rows * columns * np.dtype(MERLIN[words[6]]).itemsize
    source = _records(path, (rows, columns), MERLIN[words[6]], record, head=head, upside_down=True)
    return Cube(source, _merlin_grid(path.with_suffix(".hdr"), source.shape[0]))


def _merlin_grid(path: Path, count: int) -> tuple[int, int] | None:
    """Return the raster of ``count`` frames that the file beside them states; None: a list."""
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    said = [line.split(":", 1)[1].strip() for line in lines if line.startswith("Frames per Trigger")]
    columns = int(said[0]) if said and said[0].isdecimal() else 1
    return (count // columns, columns) if columns > 1 and count % columns == 0 else None


def read_mrc(path: Path) -> Cube:
    """Return the sections of an MRC file."""
    with path.open("rb") as file:
        header = file.read(1024)
    order = ">" if header[212:213] == b"\x11" else "<"
    columns, rows, count, mode = struct.unpack(f"{order}4i", header[:16])
    if mode not in MRC:
        raise ConfigError(f"has mode {mode}; must be one of {', '.join(map(str, MRC))}, real numbers")
    dtype = np.dtype(order + MRC[mode])
    start = 1024 + struct.unpack(f"{order}i", header[92:96])[0]
    source = _records(path, (rows, columns), dtype, rows * columns * dtype.itemsize, start)
    if source.shape[0] < count:
        raise ConfigError(f"declares {count} frames and ends after {source.shape[0]}")
    return Cube(source, None)


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
        raise ConfigError(f"has {path.stat().st_size} bytes; holds no frame of {frame[0]} × {frame[1]}")
    fields = {"names": ["frame"], "formats": [(dtype, frame)], "offsets": [head], "itemsize": record}
    return Records(FileArray(path.open("rb"), (count,), np.dtype(fields), start), upside_down)  # type: ignore[call-overload]
