"""Replay a scan of a file as a beamline would measure it: for tests, demonstrations, and training of staff.

:func:`schedule` lists the events and their times, with the faults that occur at beamlines. A writer sends
them, burst by burst, to an HDF5 file that is extended, a folder of files, or a socket.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import h5py
import hdf5plugin
import numpy as np
import tifffile
import zmq

from ptycho.config import ConfigError
from ptycho.readers.cxi import LAYOUT, PATTERNS, TRANSLATIONS
from ptycho.readers.raw_scan import UNITS, RawScan
from ptycho.readers.values import ELECTRON
from ptycho_live import messages
from ptycho_live.arrivals import Description, Frame, make_positions
from ptycho_live.scan_file import SUPERBLOCK
from ptycho_live.sources.growing_folder import FINISHED, TABLE
from ptycho_live.sources.socket import prove, tcp_address

BadFrame = Literal["not_finite", "shape", "dtype", "garbage"]
Fault = Literal["repeats", "gaps", "late", "disorder", BadFrame]


class Event(NamedTuple):
    """Event played at a moment (s): a frame or a position by its number, or what is wrong with a frame."""

    moment: float
    kind: str  # frame, position, or one of BadFrame
    number: int


@dataclass(frozen=True, eq=False)
class Played:
    """A scan that is replayed, its positions in metres or in pixels.

    Attributes:
        domain: of the frames that are sent, counts or intensity.
        count: how many frames there are.
    """

    raw: RawScan
    domain: str
    count: int

    def frame(self, number: int, kind: str = "frame") -> np.ndarray:
        """Return a frame ``(H, W)`` as a detector would write it: photons, where amplitudes are stored.

        ``kind``: of an event, by which something is wrong with it.
        """
        data = self.raw.patterns.read(np.array([number]))[0]
        if self.raw.domain == "amplitude":
            data = np.square(data)
        if self.domain == "counts" and data.dtype.kind == "f":
            data = np.rint(data).astype(np.uint32)
        wrong = {
            "not_finite": lambda: np.full(data.shape, np.nan, np.float32),
            "shape": lambda: data[:-1],
            "dtype": lambda: data.astype(np.float64),
        }
        return wrong.get(kind, lambda: data)()


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
    return Played(raw, "intensity" if raw.domain == "intensity" else "counts", count)


def schedule(
    count: int,
    rate: float,
    lag_s: float,
    faults: Sequence[str],
    share: float,
    seed: int,
    late_s: float = 3.0,
    out_of_step: int = 6,
) -> list[Event]:
    """Return what is played, in the order of the moments.

    Args:
        count: how many frames.
        rate: frames in a second.
        lag_s, late_s: from a frame to its position; and what is added where that comes late.
        faults: some of :data:`Fault`.
        share: of the frames that have a fault, for each.
        out_of_step: positions among which their order changes.
    """
    rng, moments = np.random.default_rng(seed), np.arange(count) / rate
    drawn = {fault: rng.random(count) < share for fault in get_args(Fault)}  # each has a stream of its own
    chosen = {fault: some & (fault in faults) for fault, some in drawn.items()}
    there, placed = ~chosen["gaps"], moments + lag_s + late_s * chosen["late"]
    if "disorder" in faults:
        placed = placed + rng.permutation(count) % out_of_step / rate
    played = [("frame", there, moments), ("position", np.ones(count, bool), placed)]
    played += [("frame", there & chosen["repeats"], moments + 1 / rate)]
    # a bad frame comes before the right one, so that it is not taken for one that is repeated
    played += [(bad, there & chosen[bad], moments - 1e-6) for bad in get_args(BadFrame)]
    events = [Event(at[k], kind, k) for kind, some, at in played for k in np.flatnonzero(some).tolist()]
    return sorted(events, key=lambda event: event.moment)


class Hdf5Writer:
    """CXI file whose frames and positions grow, written by SWMR; what has not come is NaN.

    Raises:
        ConfigError: positions are in pixels, which the format does not know.
    """

    def __init__(self, path: Path, played: Played, compressed: bool) -> None:
        raw, first = played.raw, played.frame(0)
        if raw.unit != "m":
            raise ConfigError(
                f"to={path}: CXI has positions in metres, and the scan's are in pixels; play it into a folder"
            )
        self._played, self._path = played, path
        self._file = file = h5py.File(path, "w", libver="latest")
        for name, value in _cxi(raw).items():
            file[name] = value

        def growing(name: str, link: str, shape: tuple[int, ...], rows: int, **kinds: Any) -> h5py.Dataset:
            size = {"shape": (0, *shape), "maxshape": (None, *shape), "chunks": (rows, *shape)}
            file[link] = h5py.SoftLink(f"/{name}")
            return file.create_dataset(name, **size, **kinds)

        filters: dict[str, Any] = dict(hdf5plugin.Bitshuffle(cname="lz4")) if compressed else {}
        self._frames = growing(PATTERNS[1], PATTERNS[0], first.shape, 1, dtype=first.dtype, **filters)
        self._places = growing(TRANSLATIONS[1], TRANSLATIONS[0], (3,), 1024, dtype=float, fillvalue=np.nan)
        self._places.attrs["units"] = "m"
        file.swmr_mode = True

    def write(self, events: Sequence[Event]) -> None:
        for kind, number in (event[1:] for event in events):
            row, col = self._played.raw.positions[number]
            rows, value = self._places, np.array([col, row, 0.0])  # of the sample: what the reader takes back
            if kind == "frame":
                rows, value = self._frames, self._played.frame(number)
            if kind in ("frame", "position"):
                rows.resize(max(len(rows), number + 1), axis=0)
                rows[number] = value
        self._frames.flush()
        self._places.flush()

    def close(self, complete: bool) -> None:
        """End the writing; ``complete``: say that the scan has ended; else leave all as if killed."""
        with self._path.open("rb") as file:
            marked = file.read(SUPERBLOCK)
        self._file.close()
        if not complete:  # the mark of a writer that was killed
            with self._path.open("rb+") as file:
                file.write(marked)


def _cxi(raw: RawScan) -> dict[str, Any]:
    """Return what a CXI file says of a scan, by its paths there."""
    pitch, zero = raw.detector_pixel_m or (None, None), raw.zero_frequency
    middle = tuple(side // 2 for side in raw.patterns.shape[1:])
    centre = (None, None) if zero == "corner" else zero if isinstance(zero, tuple) else middle
    values = dict(zip((*LAYOUT.pixel, *LAYOUT.centre), (*pitch, *centre), strict=True)) | {
        LAYOUT.distance[0]: raw.distance_m,
        next(iter(LAYOUT.masks)): None if raw.good is None else (~raw.good).astype(np.uint32),
        LAYOUT.probe[0]: raw.probe,
        LAYOUT.energy[0]: None if raw.energy_eV is None else raw.energy_eV * ELECTRON,
    }
    return {"cxi_version": 160} | {name: value for name, value in values.items() if value is not None}


class FolderWriter:
    """Folder with a TIFF for each frame, and a table of positions that grows."""

    def __init__(self, folder: Path, played: Played) -> None:
        self._folder, self._played = folder, played
        folder.mkdir(parents=True, exist_ok=True)
        self._table = (folder / TABLE).open("a", buffering=1)
        unit, self._scale = ("px", 1.0) if played.raw.unit == "px" else ("um", 1e6)
        self._table.write(f"index,row_{unit},col_{unit}\n")

    def write(self, events: Sequence[Event]) -> None:
        for _, kind, number in events:
            if kind == "position":
                row, col = self._scale * self._played.raw.positions[number]
                self._table.write(f"{number},{row:.9g},{col:.9g}\n")
            elif kind == "garbage":
                (self._folder / f"frame_{number:06d}.tif").write_bytes(b"II*\0 not whole yet")
            else:
                name = f"{'frame' if kind == 'frame' else 'other'}_{number:06d}.tif"
                tifffile.imwrite(self._folder / name, self._played.frame(number, kind))

    def close(self, complete: bool) -> None:
        """End the writing; ``complete``: say that the scan has ended."""
        self._table.close()
        if complete:
            (self._folder / FINISHED).touch()


class SocketWriter:
    """Socket that sends messages to a receiver that waits at an address; it tries for half a minute.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, address: str, played: Played, compressed: bool, keys: str | None) -> None:
        self._played, self._address, raw = played, address, played.raw
        self._encoding = "bslz4" if compressed else "raw"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.sndtimeo = self._socket.linger = 30_000
        if keys is not None:
            prove(self._socket, self._context, keys, server=False)
        self._socket.connect(tcp_address(address))
        stated = {"domain": played.domain, "shape": raw.patterns.shape[1:], "expected": played.count}
        self._send(messages.start_message(Description.of(raw, **stated)))
        if raw.good is not None:
            self._send(messages.message("mask", (~raw.good).astype(np.uint8)))
        if raw.probe is not None:
            self._send(messages.message("probe", raw.probe.astype(np.complex64)))

    def write(self, events: Sequence[Event]) -> None:
        for _, kind, number in events:
            if kind == "garbage":
                self._send([b"\x00 no message", b"at all"])
            elif kind != "position":
                frame = Frame(number, self._played.frame(number, kind))
                self._send(messages.frame_message(frame, self._encoding if kind == "frame" else "raw"))
        placed = [event.number for event in events if event.kind == "position"]
        if placed:
            places = make_positions(placed, *self._played.raw.positions[placed].T)
            self._send(messages.positions_message(places))

    def close(self, complete: bool) -> None:
        """End the writing; ``complete``: say that the scan has ended."""
        with contextlib.suppress(ConfigError):
            if complete:
                self._send(messages.message("end"))
        self._socket.close()
        self._context.term()

    def _send(self, parts: list[bytes]) -> None:
        try:
            self._socket.send_multipart(parts)
        except zmq.Again as error:
            raise ConfigError(f"to={self._address}: no receiver is connected; start live.py there") from error


Writer = Hdf5Writer | FolderWriter | SocketWriter
