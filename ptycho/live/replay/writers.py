"""Where a scan is played into: an HDF5 file that grows, a folder that fills, a socket."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import h5py
import hdf5plugin
import numpy as np
import tifffile

from ptycho.config import ConfigError
from ptycho.live import messages
from ptycho.live.arrivals import Frame, make_positions
from ptycho.live.replay.playing import Event, Played
from ptycho.live.sources.growing_folder import FINISHED, TABLE
from ptycho.live.sources.socket import prove, require_zmq, tcp_address
from ptycho.readers.quantities import ELECTRON

SUPERBLOCK = 48  # bytes, of version 3
PATIENCE_MS = 30_000  # for who should take what is sent
DETECTOR, SOURCE = "entry_1/instrument_1/detector_1", "entry_1/instrument_1/source_1"


class Writer(Protocol):
    """Takes what is played, burst by burst."""

    def write(self, events: Sequence[Event]) -> None: ...

    def close(self, complete: bool) -> None:
        """``complete``: say that the scan has ended; else leave all as a killed detector would."""
        ...


class Hdf5Writer:
    """CXI, its frames and positions growing, written by SWMR; what has not come is NaN.

    Raises:
        ConfigError: positions are in pixels, which the format does not know.
    """

    def __init__(self, path: Path, played: Played, compressed: bool) -> None:
        if played.unit != "m":
            raise ConfigError(
                f"to={path}: CXI has positions in metres, and the scan's are in pixels; play it into a folder"
            )
        self._played = played
        self._file = h5py.File(path, "w", libver="latest")
        told, file = played.told, self._file
        height, width = played.frames.shape[1:]
        file["cxi_version"] = 160
        detector, source = file.create_group(DETECTOR), file.create_group(SOURCE)
        filters: dict[str, Any] = dict(hdf5plugin.Bitshuffle(cname="lz4")) if compressed else {}
        self._frames = detector.create_dataset(
            "data",
            (0, height, width),
            played.frame(0).dtype,
            maxshape=(None, height, width),
            chunks=(1, height, width),
            **filters,
        )
        place = file.create_group("entry_1/sample_1/geometry_1")
        self._places = place.create_dataset(
            "translation", (0, 3), float, maxshape=(None, 3), chunks=(1024, 3), fillvalue=np.nan
        )
        self._places.attrs["units"] = "m"
        for name in ("data_1/data", "data_1/translation"):
            target = self._frames.name if name.endswith("data") else self._places.name
            file[f"entry_1/{name}"] = h5py.SoftLink(target)
        if told.detector_pixel_m is not None:
            detector["y_pixel_size"], detector["x_pixel_size"] = told.detector_pixel_m
        if told.distance_m is not None:
            detector["distance"] = told.distance_m
        if told.energy_eV is not None:
            source["energy"] = told.energy_eV * ELECTRON
        if told.probe is not None:
            source["illumination"] = told.probe
        if told.good is not None:
            detector["mask"] = (~told.good).astype(np.uint32)
        if told.zero_frequency != "corner":
            zero = (
                told.zero_frequency if isinstance(told.zero_frequency, tuple) else (height // 2, width // 2)
            )
            detector["beam_center_y"], detector["beam_center_x"] = map(float, zero)
        file.swmr_mode = True

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind == "frame":
                if event.number >= len(self._frames):
                    self._frames.resize(event.number + 1, axis=0)
                self._frames[event.number] = self._played.frame(event.number)
            elif event.kind == "position":
                if event.number >= len(self._places):
                    self._places.resize(event.number + 1, axis=0)
                row, col = self._played.positions[event.number]
                self._places[event.number] = col, row, 0.0  # of the sample: what the reader takes back
        self._frames.flush()
        self._places.flush()

    def close(self, complete: bool) -> None:
        path = Path(self._file.filename)
        with path.open("rb") as file:
            marked = file.read(SUPERBLOCK)
        self._file.close()
        if not complete:  # the mark of a writer that was killed
            with path.open("rb+") as file:
                file.write(marked)


class FolderWriter:
    """A TIFF for each frame, and a table of positions that grows."""

    def __init__(self, folder: Path, played: Played) -> None:
        self._folder, self._played = folder, played
        folder.mkdir(parents=True, exist_ok=True)
        self._table = (folder / TABLE).open("a", buffering=1)
        self._unit, self._scale = ("px", 1.0) if played.unit == "px" else ("um", 1e6)
        self._table.write(f"index,row_{self._unit},col_{self._unit}\n")

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            path = self._folder / f"frame_{event.number:06d}.tif"
            if event.kind == "position":
                row, col = self._scale * self._played.positions[event.number]
                self._table.write(f"{event.number},{row:.9g},{col:.9g}\n")
            elif event.kind == "frame":
                tifffile.imwrite(path, self._played.frame(event.number))
            elif event.kind == "garbage":
                path.write_bytes(b"II*\0 not whole yet")
            else:
                tifffile.imwrite(path.with_name(f"other_{event.number:06d}.tif"), spoilt(event, self._played))

    def close(self, complete: bool) -> None:
        self._table.close()
        if complete:
            (self._folder / FINISHED).touch()


class SocketWriter:
    """Messages to who waits at an address.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, address: str, played: Played, compressed: bool, keys: Path | None) -> None:
        self._zmq, self._played = require_zmq(), played
        self._encoding = "bslz4" if compressed else "raw"
        self._context = self._zmq.Context()
        self._socket = self._context.socket(self._zmq.PUSH)
        self._socket.setsockopt(self._zmq.SNDTIMEO, PATIENCE_MS)
        self._socket.setsockopt(self._zmq.LINGER, PATIENCE_MS)
        if keys is not None:
            prove(self._socket, self._context, keys, server=False)
        self._address = address
        self._socket.connect(tcp_address(address))
        told = played.told
        self._send(messages.start_message(told, told.expected))
        if told.good is not None:
            self._send(messages.mask_message(told.good))
        if told.probe is not None:
            self._send(messages.probe_message(told.probe))

    def write(self, events: Sequence[Event]) -> None:
        placed = [event.number for event in events if event.kind == "position"]
        for event in events:
            if event.kind == "frame":
                self._send(
                    messages.frame_message(
                        Frame(event.number, self._played.frame(event.number)), self._encoding
                    )
                )
            elif event.kind == "garbage":
                self._send([b"\x00 no message", b"at all"])
            elif event.kind != "position":
                self._send(messages.frame_message(Frame(event.number, spoilt(event, self._played))))
        if placed:
            self._send(messages.positions_message(make_positions(placed, *self._played.positions[placed].T)))

    def close(self, complete: bool) -> None:
        with contextlib.suppress(ConfigError):
            if complete:
                self._send(messages.END)
        self._socket.close()
        self._context.term()

    def _send(self, parts: list[bytes]) -> None:
        try:
            self._socket.send_multipart(parts)
        except self._zmq.Again as error:
            raise ConfigError(f"to={self._address}: no receiver is connected; start live.py there") from error


def spoilt(event: Event, played: Played) -> np.ndarray:
    """The frame of an event as it is when something is wrong with it."""
    data = played.frame(event.number)
    if event.kind == "not_finite":
        return np.full(data.shape, np.nan, np.float32)
    return data[:-1] if event.kind == "shape" else data.astype(np.float64)
