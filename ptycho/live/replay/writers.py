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
from ptycho.live.scan_file import SUPERBLOCK
from ptycho.live.sources.growing_folder import FINISHED, TABLE
from ptycho.live.sources.socket import prove, require_zmq, tcp_address
from ptycho.readers.quantities import ELECTRON


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
        self._played, self._path = played, path
        self._file = file = h5py.File(path, "w", libver="latest")
        for name, value in _cxi(played).items():
            file[name] = value
        filters: dict[str, Any] = dict(hdf5plugin.Bitshuffle(cname="lz4")) if compressed else {}
        shape = played.frames.shape[1:]
        self._frames = file.create_dataset(
            "entry_1/instrument_1/detector_1/data",
            (0, *shape),
            played.frame(0).dtype,
            maxshape=(None, *shape),
            chunks=(1, *shape),
            **filters,
        )
        self._places = file.create_dataset(
            "entry_1/sample_1/geometry_1/translation",
            (0, 3),
            float,
            maxshape=(None, 3),
            chunks=(1024, 3),
            fillvalue=np.nan,
        )
        self._places.attrs["units"] = "m"
        for rows in (self._frames, self._places):
            file[f"entry_1/data_1/{rows.name.rpartition('/')[2]}"] = h5py.SoftLink(rows.name)
        file.swmr_mode = True

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind == "frame":
                _put(self._frames, event.number, self._played.frame(event.number))
            elif event.kind == "position":
                row, col = self._played.positions[event.number]
                _put(self._places, event.number, (col, row, 0.0))  # of the sample: what the reader takes back
        self._frames.flush()
        self._places.flush()

    def close(self, complete: bool) -> None:
        with self._path.open("rb") as file:
            marked = file.read(SUPERBLOCK)
        self._file.close()
        if not complete:  # the mark of a writer that was killed
            with self._path.open("rb+") as file:
                file.write(marked)


def _cxi(played: Played) -> dict[str, Any]:
    """What a CXI file says of a scan, by its paths there."""
    description, (height, width) = played.description, played.frames.shape[1:]
    pitch, zero = description.detector_pixel_m or (None, None), description.zero_frequency
    centre = zero if isinstance(zero, tuple) else (height // 2, width // 2)
    detector: dict[str, Any] = {
        "y_pixel_size": pitch[0],
        "x_pixel_size": pitch[1],
        "distance": description.distance_m,
        "mask": None if description.good is None else (~description.good).astype(np.uint32),
        "beam_center_y": None if zero == "corner" else float(centre[0]),
        "beam_center_x": None if zero == "corner" else float(centre[1]),
    }
    source: dict[str, Any] = {"illumination": description.probe}
    source["energy"] = None if description.energy_eV is None else np.float64(description.energy_eV * ELECTRON)
    said = {f"entry_1/instrument_1/detector_1/{name}": value for name, value in detector.items()}
    said |= {f"entry_1/instrument_1/source_1/{name}": value for name, value in source.items()}
    return {"cxi_version": 160} | {name: value for name, value in said.items() if value is not None}


def _put(rows: h5py.Dataset, row: int, value: Any) -> None:
    if row >= len(rows):
        rows.resize(row + 1, axis=0)
    rows[row] = value


class FolderWriter:
    """A TIFF for each frame, and a table of positions that grows."""

    def __init__(self, folder: Path, played: Played) -> None:
        self._folder, self._played = folder, played
        folder.mkdir(parents=True, exist_ok=True)
        self._table = (folder / TABLE).open("a", buffering=1)
        unit, self._scale = ("px", 1.0) if played.unit == "px" else ("um", 1e6)
        self._table.write(f"index,row_{unit},col_{unit}\n")

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            path = self._folder / f"frame_{event.number:06d}.tif"
            if event.kind == "position":
                row, col = self._scale * self._played.positions[event.number]
                self._table.write(f"{event.number},{row:.9g},{col:.9g}\n")
            elif event.kind == "garbage":
                path.write_bytes(b"II*\0 not whole yet")
            else:
                name = path.name if event.kind == "frame" else f"other_{event.number:06d}.tif"
                tifffile.imwrite(path.with_name(name), spoilt(event, self._played))

    def close(self, complete: bool) -> None:
        self._table.close()
        if complete:
            (self._folder / FINISHED).touch()


class SocketWriter:
    """Messages to who waits at an address, for half a minute.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, address: str, played: Played, compressed: bool, keys: Path | None) -> None:
        self._zmq, self._played, self._address = require_zmq(), played, address
        self._encoding = "bslz4" if compressed else "raw"
        self._context = self._zmq.Context()
        self._socket = self._context.socket(self._zmq.PUSH)
        for option in (self._zmq.SNDTIMEO, self._zmq.LINGER):
            self._socket.setsockopt(option, 30_000)
        if keys is not None:
            prove(self._socket, self._context, keys, server=False)
        self._socket.connect(tcp_address(address))
        description = played.description
        self._send(messages.start_message(description))
        if description.good is not None:
            self._send(messages.message("mask", (~description.good).astype(np.uint8)))
        if description.probe is not None:
            self._send(messages.message("probe", description.probe.astype(np.complex64)))

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind == "garbage":
                self._send([b"\x00 no message", b"at all"])
            elif event.kind != "position":
                encoding = self._encoding if event.kind == "frame" else "raw"
                frame = Frame(event.number, spoilt(event, self._played))
                self._send(messages.frame_message(frame, encoding))
        placed = [event.number for event in events if event.kind == "position"]
        if placed:
            self._send(messages.positions_message(make_positions(placed, *self._played.positions[placed].T)))

    def close(self, complete: bool) -> None:
        with contextlib.suppress(ConfigError):
            if complete:
                self._send(messages.message("end"))
        self._socket.close()
        self._context.term()

    def _send(self, parts: list[bytes]) -> None:
        try:
            self._socket.send_multipart(parts)
        except self._zmq.Again as error:
            raise ConfigError(f"to={self._address}: no receiver is connected; start live.py there") from error


def spoilt(event: Event, played: Played) -> np.ndarray:
    """Return the frame of an event, as it is when something is wrong with it."""
    data = played.frame(event.number)
    wrong = {
        "frame": data,
        "not_finite": np.full(data.shape, np.nan, np.float32),
        "shape": data[:-1],
        "dtype": data.astype(np.float64),
    }
    return wrong[event.kind]
