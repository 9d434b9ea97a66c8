"""Frames and positions of a growing scan on the disk: only appended to, so that a killed program loses none.

=================== ==========================================================================================
``store.json``      dtype and shape of a frame, written before the first
``frames.bin``      a record a frame: index, time, CRC-32 of the numbers, the numbers
``positions.bin``   a record a position: index, time, row, col, CRC-32 of these
``description.npz`` what the source says of the scan
``ended.json``      there once nothing more will come, with the reason
=================== ==========================================================================================

A record that a killed program has left half written is cut off when the store is opened again, and so is
what a power cut has left at the end with a wrong checksum.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.atomic import write_atomically
from ptycho.files.file_array import FileArray
from ptycho.files.json_file import read_json
from ptycho.files.npz import NpzError, read_all
from ptycho.live.arrivals import Description, Frame, Place
from ptycho.live.joining import FrameList, PlaceList

HEADER, FRAMES, PLACES = "store.json", "frames.bin", "positions.bin"
DESCRIPTION, ENDED = "description.npz", "ended.json"
PLACE = np.dtype([("index", "<i8"), ("time", "<f8"), ("row", "<f8"), ("col", "<f8"), ("crc", "<u4")])
LOOKED_AT = 256  # records at the end whose checksums are looked at
SYNC_S = 2.0  # seconds between two times that the disk is told to keep what was written
REPEATED, OTHER_SHAPE, OTHER_DTYPE, NOT_FINITE = (
    "repeated",
    "wrong shape",
    "wrong dtype",
    "position not finite",
)


class Store:
    """Frames and positions in a folder; one writes, others may read meanwhile.

    Raises:
        ConfigError: the folder holds another store than this program writes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._record: np.dtype | None = None
        self._frames, self._places = _Rows(), _Rows()
        self._values: list[tuple[float, float]] = []
        self._synced = 0.0
        self._handles = {name: (folder / name).open("ab+", buffering=0) for name in (FRAMES, PLACES)}
        self._recover()
        self._restored = frozenset(self._places.known)  # which a source may give again

    def close(self) -> None:
        for handle in self._handles.values():
            handle.close()

    @property
    def frames(self) -> FrameList:
        """The frames that are kept, by their row."""
        with self._lock:
            return FrameList(*self._frames.arrays())

    @property
    def places(self) -> PlaceList:
        """The positions that are kept."""
        with self._lock:
            return PlaceList(*self._places.arrays(), np.array(self._values, float).reshape(-1, 2))

    @property
    def counts(self) -> tuple[int, int]:
        """How many frames and positions are kept."""
        return len(self._frames.indices), len(self._places.indices)

    @property
    def shape(self) -> tuple[int, int] | None:
        """Of a frame; None: there is none yet."""
        return None if self._record is None else self._record["frame"].shape

    @property
    def dtype(self) -> np.dtype | None:
        return None if self._record is None else self._record["frame"].base

    def has(self, index: int) -> bool:
        """Whether the frame of an index is kept."""
        return index in self._frames.known

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Frames ``(K, H, W)`` of some rows ``(K,)``."""
        assert self._record is not None
        array = FileArray(self._handles[FRAMES], (len(self._frames.indices),), self._record)
        return array[np.asarray(rows)]["frame"]

    def add(
        self, frames: Sequence[Frame], places: Sequence[Place], description: Description | None
    ) -> Counter[str]:
        """Keep what arrived; what was wrong with some of it, and how often.

        Raises:
            OSError: the disk is full, or gone; what is not kept may be given again.
        """
        faults: Counter[str] = Counter()
        for frame in frames:
            if fault := self._unfit(frame, description):
                faults[fault] += 1
            else:
                self._keep_frame(frame)
        for place in places:
            if not np.isfinite([place.row, place.col]).all():
                faults[NOT_FINITE] += 1
            elif place.number >= 0 and place.number in self._places.known:
                faults["position repeated"] += place.number not in self._restored
            else:
                self._keep_place(place)
        if time.monotonic() - self._synced > SYNC_S:
            self.sync()
        return +faults

    def sync(self) -> None:
        """Make what was written survive a loss of power."""
        for handle in self._handles.values():
            os.fsync(handle.fileno())
        self._synced = time.monotonic()

    def describe(self, description: Description) -> None:
        """Keep what the source says of the scan."""
        arrays = {name: np.array(value) for name, value in _stated(description).items()}
        write_atomically(self.folder / DESCRIPTION, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    @property
    def description(self) -> Description | None:
        """What the source has said of the scan; None: nothing yet."""
        path = self.folder / DESCRIPTION
        if not path.is_file():
            return None
        try:
            found = read_all(path, "biufcU")
        except NpzError as error:
            raise ConfigError(f"{path}: {error}; remove it, if the source is still there") from error
        return Description(**{name: _plain(name, value) for name, value in found.items()})

    def end(self, reason: str) -> None:
        """Note that nothing more will come."""
        self.sync()
        text = json.dumps({"reason": reason}) + "\n"
        write_atomically(self.folder / ENDED, lambda file: file.write(text.encode()))

    @property
    def ended(self) -> str | None:
        """Why nothing more will come; None: it may."""
        path = self.folder / ENDED
        return str(read_json(path)["reason"]) if path.is_file() else None

    def _unfit(self, frame: Frame, description: Description | None) -> str | None:
        """Why a frame cannot be kept."""
        if frame.number < 0 or frame.data.ndim != 2 or frame.data.dtype.kind not in "fiu":
            return OTHER_SHAPE if frame.data.ndim != 2 else OTHER_DTYPE
        if self._record is None:
            shape = (description and description.shape) or frame.data.shape
            self._begin(shape, (description and description.dtype) or frame.data.dtype)
        if self.has(frame.number):
            return REPEATED
        if frame.data.shape != self.shape:
            return OTHER_SHAPE
        return None if np.can_cast(frame.data.dtype, self.dtype) else OTHER_DTYPE  # type: ignore[arg-type]

    def _begin(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        header = {"shape": list(shape), "dtype": np.dtype(dtype).newbyteorder("<").str}
        write_atomically(self.folder / HEADER, lambda file: file.write(json.dumps(header).encode()))
        self._record = _record_of(header)

    def _keep_frame(self, frame: Frame) -> None:
        record = np.zeros((), self._record)
        record["index"], record["time"], record["frame"] = frame.number, frame.time, frame.data
        record["crc"] = zlib.crc32(record["frame"].tobytes())
        _append(self._handles[FRAMES], record.tobytes(), len(self._frames.indices))
        with self._lock:
            self._frames.add(frame.number, frame.time)

    def _keep_place(self, place: Place) -> None:
        record = np.array((place.number, place.time, place.row, place.col, 0), PLACE)
        record["crc"] = _place_sum(record)
        _append(self._handles[PLACES], record.tobytes(), len(self._places.indices))
        with self._lock:
            self._values.append((place.row, place.col))
            self._places.add(place.number, place.time)

    def _recover(self) -> None:
        """What a program before has left."""
        header = self.folder / HEADER
        try:
            self._record = _record_of(read_json(header)) if header.is_file() else None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{header}: is damaged ({error}); choose another folder") from error
        if self._record is not None:
            whole = _whole(
                self._handles[FRAMES], self._record, lambda one: zlib.crc32(one["frame"].tobytes())
            )
            if whole:
                rows = np.memmap(self.folder / FRAMES, self._record, "r", shape=(whole,))
                for index, moment in zip(rows["index"].tolist(), rows["time"].tolist(), strict=True):
                    self._frames.add(index, moment)
        whole = _whole(self._handles[PLACES], PLACE, _place_sum)
        for one in FileArray(self._handles[PLACES], (whole,), PLACE)[0:whole]:
            self._values.append((float(one["row"]), float(one["col"])))
            self._places.add(int(one["index"]), float(one["time"]))


class _Rows:
    """Index, time and moment of arrival of records, in their order."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.times: list[float] = []
        self.arrived: list[float] = []
        self.known: set[int] = set()

    def add(self, index: int, moment: float) -> None:
        self.indices.append(index)
        self.times.append(moment)
        self.arrived.append(time.monotonic())
        self.known.add(index)

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.array(self.indices, np.int64), np.array(self.times, float), np.array(self.arrived, float)


def _record_of(header: dict[str, Any]) -> np.dtype:
    frame = (np.dtype(header["dtype"]), tuple(header["shape"]))
    return np.dtype([("index", "<i8"), ("time", "<f8"), ("crc", "<u4"), ("frame", *frame)])


def _append(handle: Any, content: bytes, count: int) -> None:
    """Write a record behind ``count`` whole ones; what a full disk has taken of it is cut off again."""
    try:
        written = handle.write(content)
        if written != len(content):
            raise OSError(28, "No space left on device")
    except OSError:
        handle.truncate(count * len(content))
        raise


def _whole(handle: Any, record: np.dtype, checksum: Any) -> int:
    """How many records of a file are whole; what follows them is cut off."""
    count = os.fstat(handle.fileno()).st_size // record.itemsize
    array = FileArray(handle, (count,), record)
    while count and any(one["crc"] != checksum(one) for one in array[max(0, count - LOOKED_AT) : count]):
        count -= 1
    handle.truncate(count * record.itemsize)
    return count


def _place_sum(record: np.ndarray) -> int:
    return zlib.crc32(record.tobytes()[: -PLACE["crc"].itemsize])


def _stated(description: Description) -> dict[str, Any]:
    found = {field.name: getattr(description, field.name) for field in fields(description)}
    return {name: str(v) if name == "dtype" else v for name, v in found.items() if v is not None}


def _plain(name: str, value: np.ndarray) -> Any:
    """An array of a file as the attribute of a description."""
    if value.dtype.kind == "U":
        return np.dtype(str(value)) if name == "dtype" else str(value)
    if name in ("probe", "good", "dark", "flat"):
        return value
    return tuple(value.tolist()) if value.ndim else value.item()
