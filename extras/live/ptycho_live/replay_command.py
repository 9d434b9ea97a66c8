"""Replay a scan of a file as a beamline would measure it: for tests, demonstrations, and training of staff.

:func:`schedule` lists the events and their times, with the faults that occur at beamlines. A writer sends
them, burst by burst, to an HDF5 file that is extended, a folder of files, or a socket. Nothing here imports
TensorFlow.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import h5py
import hdf5plugin
import numpy as np
import tifffile
import zmq

from ptycho.command_line.jobs import run_program
from ptycho.config import ConfigError, check
from ptycho.config.data import DataConfig
from ptycho.config.schema import Each, Flag, Integer, Number, Share, Text, key, settings
from ptycho.progress import Progress
from ptycho.readers.cxi import LAYOUT, PATTERNS, TRANSLATIONS
from ptycho.readers.raw_scan import UNITS, RawScan
from ptycho.readers.table import open_raw
from ptycho.readers.values import ELECTRON
from ptycho.run.record import check_output
from ptycho_live import messages
from ptycho_live.arrivals import Description, Frame, make_positions
from ptycho_live.scan_file import SUPERBLOCK
from ptycho_live.sources import SOCKET
from ptycho_live.sources.growing_folder import FINISHED, TABLE
from ptycho_live.sources.socket import prove, tcp_address

BadFrame = Literal["not_finite", "shape", "dtype", "garbage"]
Fault = Literal["repeats", "gaps", "late", "disorder", BadFrame]


@settings(kw_only=True)
class ReplayConfig:
    """The keys of ``conf/lite/replay.yaml``."""

    to: Text | None = key(None, "destination: an HDF5 file (.h5), a folder (ends with /), or zmq://host:port")
    rate: Number = key(100.0, "number of frames per second", gt=0, le=1e5, unit="Hz")
    n: Integer | None = key(None, "maximum number of frames; null: all", ge=3)
    burst_s: Number = key(0.1, "interval whose frames are written together", ge=0, le=60, unit="s")
    lag_s: Number = key(0.2, "delay from a frame to its position", ge=0, le=3600, unit="s")
    faults: Each[Fault] = key((), "faults: repeated, lost, bad frames; late, disordered positions; garbage")
    fault_share: Share = key(0.02, "fraction of the frames with each fault")
    seed: Integer = key(0, "seed of the faults", ge=0)
    probe: Flag = key(True, "send the probe of the file, too (HDF5, socket)")
    compressed: Flag = key(False, "compress frames by bitshuffle and LZ4 (HDF5, socket)")
    complete: Flag = key(True, "mark the scan as complete in the end; false: end like a killed detector")
    overwrite: Flag = key(False, "replace an existing file")
    curve_keys: Text | None = key(None, "file of a socket's CurveZMQ keys (public, secret, theirs)")
    data: DataConfig = key(..., "scan that is replayed")

    def __post_init__(self) -> None:
        check(bool(self.to), "to", self.to, f"an HDF5 file, a folder (ends with /), or {SOCKET}host:port")


def main(help_text: str | None) -> NoReturn:
    """End the process as ``ptycho replay``."""
    run_program("lite/replay", ReplayConfig, replay, help_text)


def replay(config: ReplayConfig) -> list[str]:
    """Play a scan; return what was played, a line each."""
    raw = open_raw(config.data)
    count = min(config.n or len(raw.positions), len(raw.positions))
    events = schedule(count, config.rate, config.lag_s, config.faults, config.fault_share, config.seed)
    writer = open_writer(config, as_played(raw, config.probe, count))
    began, latest = time.perf_counter(), 0.0
    with contextlib.closing(Progress("playing", count)) as progress:
        for _, burst in groupby(events, lambda event: event.moment // max(config.burst_s, 1e-9)):
            some = list(burst)
            time.sleep(max(0.0, some[-1].moment - (time.perf_counter() - began)))
            writer.write(some)
            latest = max(latest, time.perf_counter() - began - some[-1].moment)
            progress.advance(sum(event.kind == "frame" for event in some))
    seconds = time.perf_counter() - began
    writer.close(config.complete)
    frames = sum(event.kind == "frame" for event in events)
    speed = f"{frames} frames in {seconds:.1f} s, {frames / max(seconds, 1e-9):.0f} a second"
    return [f"{config.to}: {speed}; at most {latest:.2f} s behind"]


def open_writer(config: ReplayConfig, raw: RawScan) -> Hdf5Writer | FolderWriter | SocketWriter:
    """Return what the scan is played into; ConfigError: nothing can be."""
    to = str(config.to)
    if to.startswith(SOCKET):
        return SocketWriter(to, raw, config.compressed, config.curve_keys)
    path = Path(to)
    if to.endswith("/") or path.is_dir():
        if path.is_dir() and any(path.iterdir()):
            raise ConfigError(f"to={to}: is a folder that holds files; choose another")
        return FolderWriter(path, raw)
    known = path.suffix.lower() in (".h5", ".hdf5", ".cxi", ".nxs")
    check(known, "to", to, f"a file .h5 or .cxi, a folder (ends with /), or {SOCKET}host:port")
    check_output(path, config.overwrite, [Path(config.data.path)], "to")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return Hdf5Writer(path, raw, config.compressed)


class Event(NamedTuple):
    """Event played at a moment (s): a frame or a position by its number, or what is wrong with a frame."""

    moment: float
    kind: str  # frame, position, or one of BadFrame
    number: int


def as_played(raw: RawScan, probe: bool, count: int) -> RawScan:
    """Return the first ``count`` frames of a scan, in metres or pixels, with its ``probe`` or without."""
    check(raw.domain is not None, "data.domain", "null", "counts, intensity or amplitude; it is not detected")
    factor = UNITS[raw.unit]
    if factor is not None:
        raw = replace(raw, positions=raw.positions * factor, unit="m")
    if not probe:
        raw = replace(raw, probe=None, probe_pixel_m=None)
    return replace(raw, positions=raw.positions[:count])


def read_frame(raw: RawScan, number: int, kind: str = "frame") -> np.ndarray:
    """Return a frame ``(H, W)`` as a detector would write it, or wrong by the ``kind`` of an event."""
    data = raw.patterns.read(np.array([number]))[0]
    if raw.domain == "amplitude":
        data = np.square(data)
    if raw.domain != "intensity" and data.dtype.kind == "f":
        data = np.rint(data).astype(np.uint32)
    if kind == "not_finite":
        return np.full(data.shape, np.nan, np.float32)
    return data[:-1] if kind == "shape" else data.astype(float) if kind == "dtype" else data


def schedule(
    count: int,  # frames
    rate: float,  # of them in a second
    lag_s: float,  # from a frame to its position
    faults: Sequence[str],
    share: float,  # of the frames that have each of the faults
    seed: int,
    late_s: float = 3.0,  # added where a position comes late
    out_of_step: int = 6,  # positions among which their order changes
) -> list[Event]:
    """Return the events of a scan, in the order of the moments."""
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

    ConfigError: positions are in pixels, which the format does not know.
    """

    def __init__(self, path: Path, raw: RawScan, compressed: bool) -> None:
        first = read_frame(raw, 0)
        if raw.unit != "m":
            raise ConfigError(
                f"to={path}: CXI has positions in metres, and the scan's are in pixels; play it into a folder"
            )
        self._raw, self._path = raw, path
        self._file = file = h5py.File(path, "w", libver="latest")
        for name, value in _cxi(raw).items():
            file[name] = value

        def growing(names: Sequence[str], shape: tuple[int, ...], rows: int, **kinds: Any) -> h5py.Dataset:
            size = {"shape": (0, *shape), "maxshape": (None, *shape), "chunks": (rows, *shape)}
            file[names[0]] = h5py.SoftLink(f"/{names[1]}")
            return file.create_dataset(names[1], **size, **kinds)

        filters: dict[str, Any] = dict(hdf5plugin.Bitshuffle(cname="lz4")) if compressed else {}
        self._frames = growing(PATTERNS, first.shape, 1, dtype=first.dtype, **filters)
        self._places = growing(TRANSLATIONS, (3,), 1024, dtype=float, fillvalue=np.nan)
        self._places.attrs["units"] = "m"
        file.swmr_mode = True

    def write(self, events: Sequence[Event]) -> None:
        for kind, number in (event[1:] for event in events):
            row, col = self._raw.positions[number]
            rows, value = self._places, np.array([col, row, 0.0])  # of the sample: what the reader takes back
            if kind == "frame":
                rows, value = self._frames, read_frame(self._raw, number)
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

    def __init__(self, folder: Path, raw: RawScan) -> None:
        self._folder, self._raw = folder, raw
        folder.mkdir(parents=True, exist_ok=True)
        self._table = (folder / TABLE).open("a", buffering=1)
        unit, self._scale = ("px", 1.0) if raw.unit == "px" else ("um", 1e6)
        self._table.write(f"index,row_{unit},col_{unit}\n")

    def write(self, events: Sequence[Event]) -> None:
        for _, kind, number in events:
            if kind == "position":
                row, col = self._scale * self._raw.positions[number]
                self._table.write(f"{number},{row:.9g},{col:.9g}\n")
            elif kind == "garbage":
                (self._folder / f"frame_{number:06d}.tif").write_bytes(b"II*\0 not whole yet")
            else:
                name = f"{'frame' if kind == 'frame' else 'other'}_{number:06d}.tif"
                tifffile.imwrite(self._folder / name, read_frame(self._raw, number, kind))

    def close(self, complete: bool) -> None:
        self._table.close()
        if complete:
            (self._folder / FINISHED).touch()


class SocketWriter:
    """Socket that sends messages to a receiver that waits at an address; it tries for half a minute.

    ConfigError: the address cannot be used.
    """

    def __init__(self, address: str, raw: RawScan, compressed: bool, keys: str | None) -> None:
        self._raw, self._address = raw, address
        self._encoding = "bslz4" if compressed else "raw"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.sndtimeo = self._socket.linger = 30_000
        if keys is not None:
            prove(self._socket, self._context, keys, server=False)
        self._socket.connect(tcp_address(address))
        sent = Description.of(raw, shape=raw.patterns.shape[1:], expected=len(raw.positions))
        domain = "intensity" if raw.domain == "intensity" else "counts"
        self._send(messages.start_message(replace(sent, domain=domain)))
        if raw.good is not None:
            self._send(messages.message("mask", (~raw.good).astype(np.uint8)))
        if raw.probe is not None:
            self._send(messages.message("probe", raw.probe.astype(np.complex64)))

    def write(self, events: Sequence[Event]) -> None:
        for _, kind, number in events:
            if kind == "garbage":
                self._send([b"\x00 no message", b"at all"])
            elif kind != "position":
                frame = Frame(number, read_frame(self._raw, number, kind))
                self._send(messages.frame_message(frame, self._encoding if kind == "frame" else "raw"))
        placed = [event.number for event in events if event.kind == "position"]
        if placed:
            places = make_positions(placed, *self._raw.positions[placed].T)
            self._send(messages.positions_message(places))

    def close(self, complete: bool) -> None:
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
