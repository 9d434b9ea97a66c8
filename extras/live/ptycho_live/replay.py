"""Replay a scan of a file as a beamline would measure it: for tests, demonstrations, and training of staff.

:func:`schedule` lists the events and their times, with the faults that occur at beamlines. A writer sends
them to an HDF5 file that is extended, a folder of files, or a socket.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args

import h5py
import hdf5plugin
import numpy as np
import tifffile

from ptycho.config import ConfigError
from ptycho.readers.cxi import DETECTOR, SOURCE
from ptycho.readers.raw_scan import UNITS, RawScan
from ptycho.readers.values import ELECTRON
from ptycho_live import messages
from ptycho_live.arrivals import Description, Frame, make_positions
from ptycho_live.scan_file import SUPERBLOCK
from ptycho_live.sources.growing_folder import FINISHED, TABLE
from ptycho_live.sources.socket import prove, require_zmq, tcp_address

BadFrame = Literal["not_finite", "shape", "dtype", "garbage"]
Fault = Literal["repeats", "gaps", "late", "disorder", BadFrame]
LATE_S = 3.0  # of a position that comes late
OUT_OF_STEP = 6  # positions among which their order changes


class Event(NamedTuple):
    """Event played at a moment (s): a frame or a position by its number, or what is wrong with a frame."""

    moment: float
    kind: str  # frame, position, or one of BadFrame
    number: int


@dataclass(frozen=True, eq=False)
class Played:
    """A scan that is replayed, its positions in metres or in pixels, and its description."""

    raw: RawScan
    description: Description

    def frame(self, index: int) -> np.ndarray:
        """Return a frame ``(H, W)`` as a detector would write it: photons, where amplitudes are stored."""
        data = self.raw.patterns.read(np.array([index]))[0]
        if self.raw.domain == "amplitude":
            data = np.square(data)
        is_float = self.description.domain == "counts" and data.dtype.kind == "f"
        return np.rint(data).astype(np.uint32) if is_float else data


def play(raw: RawScan, probe: bool, count: int) -> Played:
    """Return a scan as it is played.

    Args:
        probe: whether what the file knows of it is sent.
        count: how many frames.

    Raises:
        ConfigError: what its numbers are is not known.
    """
    if raw.domain is None:
        raise ConfigError("data.domain=null: cannot be detected; set counts, intensity or amplitude")
    factor = UNITS[raw.unit]
    if factor is not None:
        raw = replace(raw, positions=raw.positions * factor, unit="m")
    if not probe:
        raw = replace(raw, probe=None, probe_pixel_m=None)
    domain = "intensity" if raw.domain == "intensity" else "counts"
    return Played(raw, Description.of(raw, domain=domain, shape=raw.patterns.shape[1:], expected=count))


def schedule(
    count: int, rate: float, lag_s: float, faults: Sequence[str], share: float, seed: int
) -> list[Event]:
    """Return what is played, in the order of the moments.

    Args:
        count: how many frames.
        rate: frames in a second.
        lag_s: from a frame to its position.
        faults: some of :data:`Fault`.
        share: of the frames that have a fault, for each.
    """
    rng, moments = np.random.default_rng(seed), np.arange(count) / rate
    drawn = {fault: rng.random(count) < share for fault in get_args(Fault)}  # each has a stream of its own
    chosen = {fault: some & (fault in faults) for fault, some in drawn.items()}
    there, placed = ~chosen["gaps"], moments + lag_s + LATE_S * chosen["late"]
    if "disorder" in faults:
        placed = placed + rng.permutation(count) % OUT_OF_STEP / rate
    played = [("frame", there, moments), ("position", np.ones(count, bool), placed)]
    played += [("frame", there & chosen["repeats"], moments + 1 / rate)]
    # a bad frame comes before the right one, so that it is not taken for one that is repeated
    played += [(bad, there & chosen[bad], moments - 1e-6) for bad in get_args(BadFrame)]
    events = [Event(at[k], kind, k) for kind, some, at in played for k in np.flatnonzero(some).tolist()]
    return sorted(events, key=lambda event: event.moment)


def spoilt(event: Event, played: Played) -> np.ndarray:
    """Return the frame ``(H, W)`` of an event, as it is when something is wrong with it."""
    data = played.frame(event.number)
    wrong = {
        "frame": data,
        "not_finite": np.full(data.shape, np.nan, np.float32),
        "shape": data[:-1],
        "dtype": data.astype(np.float64),
    }
    return wrong[event.kind]


class Writer(Protocol):
    """Writer of what is played, burst by burst."""

    def write(self, events: Sequence[Event]) -> None:
        """Write frames, positions and faults that are due at one moment."""

    def close(self, complete: bool) -> None:
        """End the writing; ``complete``: say that the scan has ended; else leave all as if killed."""
        ...


class Hdf5Writer:
    """CXI file whose frames and positions grow, written by SWMR; what has not come is NaN.

    Raises:
        ConfigError: positions are in pixels, which the format does not know.
    """

    def __init__(self, path: Path, played: Played, compressed: bool) -> None:
        if played.raw.unit != "m":
            raise ConfigError(
                f"to={path}: CXI has positions in metres, and the scan's are in pixels; play it into a folder"
            )
        self._played, self._path = played, path
        self._file = file = h5py.File(path, "w", libver="latest")
        for name, value in _cxi(played).items():
            file[name] = value
        filters: dict[str, Any] = dict(hdf5plugin.Bitshuffle(cname="lz4")) if compressed else {}
        shape = played.raw.patterns.shape[1:]
        self._frames = file.create_dataset(
            f"{DETECTOR}/data",
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
                row, col = self._played.raw.positions[event.number]
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
    """Return what a CXI file says of a scan, by its paths there."""
    description = played.description
    pitch, zero = description.detector_pixel_m or (None, None), description.zero_frequency
    middle = tuple(side // 2 for side in played.raw.patterns.shape[1:])
    centre = (None, None) if zero == "corner" else zero if isinstance(zero, tuple) else middle
    values = {
        f"{DETECTOR}/y_pixel_size": pitch[0],
        f"{DETECTOR}/x_pixel_size": pitch[1],
        f"{DETECTOR}/distance": description.distance_m,
        f"{DETECTOR}/beam_center_y": centre[0],
        f"{DETECTOR}/beam_center_x": centre[1],
        f"{DETECTOR}/mask": None if description.good is None else (~description.good).astype(np.uint32),
        f"{SOURCE}/illumination": description.probe,
        f"{SOURCE}/energy": None if description.energy_eV is None else description.energy_eV * ELECTRON,
    }
    return {"cxi_version": 160} | {name: value for name, value in values.items() if value is not None}


def _put(rows: h5py.Dataset, row: int, value: Any) -> None:
    if row >= len(rows):
        rows.resize(row + 1, axis=0)
    rows[row] = value


class FolderWriter:
    """Folder with a TIFF for each frame, and a table of positions that grows."""

    def __init__(self, folder: Path, played: Played) -> None:
        self._folder, self._played = folder, played
        folder.mkdir(parents=True, exist_ok=True)
        self._table = (folder / TABLE).open("a", buffering=1)
        unit, self._scale = ("px", 1.0) if played.raw.unit == "px" else ("um", 1e6)
        self._table.write(f"index,row_{unit},col_{unit}\n")

    def write(self, events: Sequence[Event]) -> None:
        for event in events:
            path = self._folder / f"frame_{event.number:06d}.tif"
            if event.kind == "position":
                row, col = self._scale * self._played.raw.positions[event.number]
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
    """Socket that sends messages to a receiver that waits at an address; it tries for half a minute.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, address: str, played: Played, compressed: bool, keys: str | None) -> None:
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
            self._send(
                messages.positions_message(make_positions(placed, *self._played.raw.positions[placed].T))
            )

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
