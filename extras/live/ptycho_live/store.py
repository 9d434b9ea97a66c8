"""Frames and positions of a live scan, written to the disk at once: a killed program loses none of them."""

from __future__ import annotations

import io
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.file_array import gather
from ptycho_live import scan_file
from ptycho_live.arrivals import FRAME, NO_POSITIONS, Description, Frame
from ptycho_live.joining import ScanTable

NAME = "scan.h5"


class Store:
    """The file of a scan (:mod:`~ptycho_live.scan_file`); one thread writes, others may read meanwhile.

    Attributes:
        table: the frames with their positions; the same value until something arrives.
        description: the source's description of the scan; None: none yet.
        ended: why the scan has ended; None: it has not.
        shape, dtype: of a frame; None: there is none yet.

    Raises:
        ConfigError: the existing file cannot be continued.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / NAME
        folder.mkdir(parents=True, exist_ok=True)
        self._synced, self._syncing = 0.0, threading.Thread()
        self.description: Description | None = None
        self.ended: str | None = None
        if not self.path.is_file():
            scan_file.create(self.path, None, None)
        try:
            self._open()
            self.table = ScanTable().extended(self._file["frames"][:], self._file["received"][:])
            if len(self._file["description"]):
                self.description, self.ended = _described(self._file["description"][:].tobytes())
        except (OSError, KeyError, ValueError, RuntimeError) as error:
            raise ConfigError(f"{self.path}: is damaged ({error}); choose another folder") from error
        self._indices = set(self.table.frames["index"].tolist())

    def close(self) -> None:
        """Close the file, which is then one like any other, without the room that was reserved behind it."""
        self._file.close()
        with self.path.open("rb+") as closed:  # whose superblock says how long it is
            closed.truncate(int.from_bytes(closed.read(scan_file.SUPERBLOCK)[28:36], "little"))

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of frames and of positions that are kept."""
        return len(self.table.frames), len(self.table.received)

    def has(self, index: int) -> bool:
        """Return whether the frame of an index is kept."""
        return index in self._indices

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return frames ``(K, H, W)`` of some rows ``(K,)``."""
        patterns = self._file["patterns"]

        def fill(first: int, into: np.ndarray) -> None:
            patterns.read_direct(into, np.s_[first : first + len(into)])

        return gather(rows, patterns.shape, patterns.dtype, fill)

    def add(
        self,
        frames: Sequence[Frame],
        positions: np.ndarray = NO_POSITIONS,
        description: Description | None = None,
    ) -> Counter[str]:
        """Keep frames, positions and the source's description; return the faults and their numbers.

        Raises:
            OSError: the disk is full, or gone; the same call may be repeated.
        """
        self._reserve(sum(frame.data.nbytes for frame in frames) + positions.nbytes)
        if description is not None and description is not self.description:
            self._describe(description, self.ended)
        faults, new = Counter[str](), dict[int, Frame]()
        for frame in frames:
            if fault := self._fault(frame) or ("repeated" if frame.number in new else None):
                faults[fault] += 1
            else:
                new[frame.number] = frame
        rows = np.array([(frame.number, frame.time) for frame in new.values()], FRAME)
        if new:  # the numbers first: a row of the table stands for a frame that is whole
            data = np.stack([frame.data for frame in new.values()]).astype(self.dtype, copy=False)
            scan_file.append(self._file["patterns"], data, self.counts[0])
            scan_file.append(self._file["frames"], rows, self.counts[0])
        places = self._new_positions(positions, faults)
        if len(places):
            scan_file.append(self._file["received"], places, self.counts[1])
        if new or len(places):
            self.table = self.table.extended(rows, places)
            self._indices |= new.keys()
        if time.monotonic() - self._synced > 2.0 and not self._syncing.is_alive():
            self._syncing, self._synced = threading.Thread(target=_sync, args=[self.path]), time.monotonic()
            self._syncing.start()  # a disk may take seconds, and a socket does not wait
        return +faults

    def end(self, reason: str) -> None:
        """Note that nothing more will come."""
        self._describe(self.description or Description(), reason)
        _sync(self.path)

    def complete(self, values: Mapping[str, Any], unit: str) -> None:
        """Write what makes the file a scan: of :data:`~ptycho_live.scan_file.LATER`, what is known.

        Args:
            unit: of the positions.
        """
        for name, value in values.items():
            value = np.atleast_1d(value)
            self._file[name].resize(value.shape)
            self._file[name][...] = value
        self._file["positions"].attrs.modify("units", np.array(unit.encode(), "S8"))
        self._file.flush()

    def _open(self) -> None:
        self._file = scan_file.open_to_append(self.path)
        patterns = self._file.get("patterns")
        self.shape: tuple[int, int] | None = None if patterns is None else patterns.shape[1:]
        self.dtype: np.dtype | None = None if patterns is None else patterns.dtype

    def _begin(self, shape: tuple[int, int], dtype: np.dtype) -> None:
        """Have a file with room for frames; only positions were in it before."""
        self._file.close()
        begun = self.path.with_name("begun.h5")
        scan_file.create(begun, shape, np.dtype(dtype).newbyteorder("<"))
        with scan_file.open_to_append(begun) as file:
            scan_file.append(file["received"], self.table.received, 0)
        begun.replace(self.path)
        self._open()
        self._describe(self.description or Description(), self.ended)

    def _describe(self, description: Description, ended: str | None) -> None:
        """Keep the source's description, and why the scan has ended."""
        self.description, self.ended, content = description, ended, io.BytesIO()
        values = vars(description) | {
            "ended": ended,
            "dtype": None if description.dtype is None else description.dtype.str,
        }
        np.savez(content, **{name: value for name, value in values.items() if value is not None})
        scan_file.append(self._file["description"], np.frombuffer(content.getvalue(), np.uint8), 0)

    def _fault(self, frame: Frame) -> str | None:
        """Why a frame is not kept."""
        data, description = frame.data, self.description or Description()
        if frame.number < 0 or data.dtype.kind not in "fiu" or data.ndim != 2:
            return "wrong shape" if data.ndim != 2 else "wrong dtype"
        if self.shape is None:
            self._begin(description.shape or data.shape, description.dtype or data.dtype)
        if self.has(frame.number):
            return "repeated"
        if data.shape != self.shape:
            return "wrong shape"
        return None if np.can_cast(data.dtype, self.dtype) else "wrong dtype"  # type: ignore[arg-type]

    def _new_positions(self, positions: np.ndarray, faults: Counter[str]) -> np.ndarray:
        """Those that are finite and of no index that was there before."""
        finite = np.isfinite(positions["row"]) & np.isfinite(positions["col"])
        faults["position not finite"] += int(np.count_nonzero(~finite))
        positions = positions[finite]
        indices = positions["index"]
        first = np.zeros(len(indices), bool)
        first[np.unique(indices, return_index=True)[1]] = True
        return positions[(indices < 0) | (first & ~np.isin(indices, self.table.received["index"]))]

    def _reserve(self, size: int, slack: int = 2**20) -> None:
        """Reserve room for so many bytes, or raise the error of a full disk: HDF5 cannot continue after it.

        ``slack``: bytes beside the rows, for what HDF5 keeps of them.
        """
        end = self._file.id.get_filesize() + size + slack
        if self.path.stat().st_size < end and hasattr(os, "posix_fallocate"):
            with self.path.open("rb+") as file:
                os.posix_fallocate(file.fileno(), 0, end + 4 * slack)


def _sync(path: Path) -> None:
    """Make what was written survive a loss of power."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _described(content: bytes) -> tuple[Description | None, str | None]:
    """Return the source's description, and why the scan has ended."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        values: dict[str, Any] = {name: stored[name] for name in stored.files}
    for name in values.keys() - {"probe", "good", "dark", "flat"}:
        values[name] = tuple(values[name].tolist()) if values[name].ndim else values[name].item()
    ended = values.pop("ended", None)
    if "dtype" in values:
        values["dtype"] = np.dtype(values["dtype"])
    return Description(**values) if values else None, ended
