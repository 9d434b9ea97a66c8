"""Frames and positions of a live scan, written to the disk at once: a killed program loses none of them."""

from __future__ import annotations

import io
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig, KeyMap
from ptycho.files.file_array import gather
from ptycho.readers.raw_scan import RawScan, ReadOptions
from ptycho.readers.table import open_scan
from ptycho_live import scan_file
from ptycho_live.arrivals import FRAME, NO_POSITIONS, UNDESCRIBED, Description, Frame, ScanTable

NAME = "scan.h5"


class Store:
    """The file of a scan (:mod:`~ptycho_live.scan_file`); one thread writes, others may read meanwhile.

    ``slack``: bytes that are reserved beside the rows, for what HDF5 keeps of them. ConfigError: the existing
    file cannot be continued.
    """

    def __init__(self, folder: Path, slack: int = 2**20) -> None:
        self.folder, self.path, self._slack = folder, folder / NAME, slack
        folder.mkdir(parents=True, exist_ok=True)
        self._synced, self._syncing = 0.0, threading.Thread()
        self.description = UNDESCRIBED  # what the source has said of the scan, and why it has ended
        if not self.path.is_file():
            scan_file.create(self.path)
        try:
            self._file = scan_file.open_to_append(self.path)
            # the same value until something arrives
            self.table = ScanTable().extended(self._file["frames"][:], self._file["received"][:])
            if len(self._file["description"]):
                self.description = _description(self._file["description"][:].tobytes())
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
        description: Description = UNDESCRIBED,
    ) -> Counter[str]:
        """Keep frames, positions and the source's description; return the faults and their numbers.

        OSError: the disk is full, or gone; the same call may be repeated.
        """
        self._reserve(sum(frame.data.nbytes for frame in frames) + positions.nbytes)
        if description not in (UNDESCRIBED, self.description):
            self._describe(description)
        faults, new = Counter[str](), dict[int, Frame]()
        for frame in frames:
            if fault := self._fault(frame) or ("repeated" if frame.number in new else None):
                faults[fault] += 1
            else:
                new[frame.number] = frame
        rows = np.array([(frame.number, frame.time) for frame in new.values()], FRAME)
        if new:  # the numbers first: a row of the table stands for a frame that is whole
            data, patterns = np.stack([frame.data for frame in new.values()]), self._file["patterns"]
            scan_file.append(patterns, data.astype(patterns.dtype, copy=False), self.counts[0])
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
        self._describe(replace(self.description, ended=reason))
        _sync(self.path)

    def as_scan(
        self,
        config: DataConfig,  # of the live run, without what its source has settled
        moves: np.ndarray | float = 0.0,  # (J, 2), of the positions of the frames that have one
        probe: np.ndarray | None = None,  # modes (K, N, N) on the object's pixels; None: the source's
    ) -> DataConfig:
        """Make the file a scan like any other; return the section ``data`` that it is read with.

        ConfigError: the unit of the positions is not known. OSError: the disk is full, or gone.
        """
        table, said, stated = self.table, self.description, config.stated_quantities()
        unit, zero = config.unit or said.unit, config.zero_frequency or said.zero_frequency
        if unit is None:
            raise ConfigError("the source does not say the unit of the positions; set data.unit=")
        positions = table.frames["position"].copy()
        positions[table.rows] += moves
        values = vars(said) | stated | {"positions": positions}
        values |= {} if probe is None else {"probe": probe}
        known = {name: np.atleast_1d(values[name]) for name in scan_file.LATER if values[name] is not None}
        self._reserve(sum(value.nbytes for value in known.values()))
        for name, value in known.items():
            self._file[name].resize(value.shape)
            self._file[name][...] = value
        self._file["positions"].attrs.modify("units", np.array(unit.encode(), "S8"))
        self._file.flush()
        named = known.keys() - stated.keys()  # these take precedence over the file's values
        lacking = np.setdiff1d(np.arange(len(positions)), table.rows).tolist()
        return replace(
            config,
            file=(str(self.path),),
            keys=KeyMap(patterns="patterns", **{name: name for name in named}),
            drop=tuple(sorted({*config.drop, *lacking})),
            unit=unit,  # type: ignore[arg-type]  # checked when it is read
            domain=config.domain or said.domain,  # type: ignore[arg-type]
            zero_frequency=f"{zero[0]:g},{zero[1]:g}" if isinstance(zero, tuple) else zero,
        )

    def open_scan(self, section: DataConfig) -> RawScan:
        """Return the file as a scan, of the section ``data`` that :meth:`as_scan` has returned."""
        stated = section.stated_quantities()
        options = ReadOptions(keys=section.keys.stated(), unit=section.unit, stated=stated, growing=True)
        return replace(open_scan(self.path, options), probe_pixel_m=self.description.probe_pixel_m)

    def _begin(self, shape: tuple[int, int], dtype: np.dtype) -> None:
        """Have a file with room for frames; only positions were in it before."""
        self._file.close()
        frames = np.zeros((0, *shape), dtype.newbyteorder("<"))
        scan_file.create(self.path, frames, self.table.received)
        self._file = scan_file.open_to_append(self.path)
        self._describe(self.description)

    def _describe(self, description: Description) -> None:
        """Keep what the source has said, and why the scan has ended."""
        self.description, content = description, io.BytesIO()
        np.savez(content, **{name: value for name, value in vars(description).items() if value is not None})
        scan_file.append(self._file["description"], np.frombuffer(content.getvalue(), np.uint8), 0)

    def _fault(self, frame: Frame) -> str | None:
        """Why a frame is not kept."""
        data, said = frame.data, self.description
        if frame.number < 0 or data.dtype.kind not in "fiu" or data.ndim != 2:
            return "wrong shape" if data.ndim != 2 else "wrong dtype"
        if "patterns" not in self._file:
            self._begin(said.shape or data.shape, np.dtype(said.dtype or data.dtype))
        if self.has(frame.number):
            return "repeated"
        if data.shape != self._file["patterns"].shape[1:]:
            return "wrong shape"
        return None if np.can_cast(data.dtype, self._file["patterns"].dtype) else "wrong dtype"

    def _new_positions(self, positions: np.ndarray, faults: Counter[str]) -> np.ndarray:
        """Those that are finite and of no index that was there before."""
        finite = np.isfinite(positions["row"]) & np.isfinite(positions["col"])
        faults["position not finite"] += int(np.count_nonzero(~finite))
        positions = positions[finite]
        indices = positions["index"]
        first = np.zeros(len(indices), bool)
        first[np.unique(indices, return_index=True)[1]] = True
        return positions[(indices < 0) | (first & ~np.isin(indices, self.table.received["index"]))]

    def _reserve(self, size: int) -> None:
        """Reserve room for so many bytes, or raise the error of a full disk: HDF5 cannot go on after it."""
        end = self._file.id.get_filesize() + size + self._slack
        if self.path.stat().st_size < end and hasattr(os, "posix_fallocate"):
            with self.path.open("rb+") as file:
                os.posix_fallocate(file.fileno(), 0, end + 4 * self._slack)


def _sync(path: Path) -> None:
    """Make what was written survive a loss of power."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _description(content: bytes) -> Description:
    """Return what :meth:`Store._describe` has kept: numbers and texts, pairs, and images."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        values = {name: stored[name] for name in stored.files}
    pairs = {name: tuple(value.tolist()) for name, value in values.items() if value.ndim == 1}
    return Description(**values | pairs | {n: value.item() for n, value in values.items() if not value.ndim})
