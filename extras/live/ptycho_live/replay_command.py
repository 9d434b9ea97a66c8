"""A scan of a file, played as a beamline would measure it; nothing here imports TensorFlow."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import NoReturn

from ptycho.command_line.jobs import run_program
from ptycho.config import ConfigError, check
from ptycho.config.data import DataConfig
from ptycho.config.schema import Each, Flag, Integer, Number, Share, Text, key, settings
from ptycho.progress import Progress
from ptycho.readers.table import open_raw
from ptycho.run.record import check_output
from ptycho_live.replay import Fault, FolderWriter, Hdf5Writer, Played, SocketWriter, Writer, play, schedule
from ptycho_live.sources import SOCKET

log = logging.getLogger(__name__)


@settings(kw_only=True)
class ReplayConfig:
    """The keys of ``conf/lite/replay.yaml``."""

    to: Text | None = key(None, "destination: an HDF5 file (.h5), a folder (ends with /), or zmq://host:port")
    rate: Number = key(100.0, "number of frames per second", gt=0, le=1e5, unit="Hz")
    n: Integer | None = key(None, "maximum number of frames; null: all", ge=3)
    burst_s: Number = key(0.1, "interval whose frames are written together", ge=0, le=60, unit="s")
    lag_s: Number = key(0.2, "delay from a frame to its position", ge=0, le=3600, unit="s")
    faults: Each[Fault] = key(
        (), "simulated faults: repeated, lost or bad frames, late or disordered positions, garbage"
    )
    fault_share: Share = key(0.02, "fraction of the frames with each fault")
    seed: Integer = key(0, "seed of the faults", ge=0)
    probe: Flag = key(True, "send the probe of the file, too (HDF5, socket)")
    compressed: Flag = key(False, "compress frames by bitshuffle and LZ4 (HDF5, socket)")
    complete: Flag = key(
        True, "mark the scan as complete at the end; false: end like a detector that was killed"
    )
    overwrite: Flag = key(False, "replace an existing file")
    curve_keys: Text | None = key(
        None, "file with the keys of CurveZMQ (public, secret, theirs), for a socket; null: none"
    )
    data: DataConfig = key(..., "scan that is replayed")

    def __post_init__(self) -> None:
        check(bool(self.to), "to", self.to, f"an HDF5 file, a folder (ends with /), or {SOCKET}host:port")


def main(help_text: str | None) -> NoReturn:
    """End the process as ``ptycho replay``."""
    run_program("lite/replay", ReplayConfig, replay, help_text)


def replay(config: ReplayConfig) -> list[str]:
    """Play a scan; what was played, a line each."""
    raw = open_raw(config.data)
    count = min(config.n or len(raw.positions), len(raw.positions))
    played = play(raw, config.probe, count)
    events = schedule(count, config.rate, config.lag_s, config.faults, config.fault_share, config.seed)
    writer = open_writer(config, played)
    began, latest = time.perf_counter(), 0.0
    with closing(Progress("playing", count)) as progress:
        for _, burst in groupby(events, lambda event: event.moment // max(config.burst_s, 1e-9)):
            some = list(burst)
            time.sleep(max(0.0, some[-1].moment - (time.perf_counter() - began)))
            writer.write(some)
            latest = max(latest, time.perf_counter() - began - some[-1].moment)
            progress.advance(sum(event.kind == "frame" for event in some))
    seconds = time.perf_counter() - began
    writer.close(config.complete)
    frames = sum(event.kind == "frame" for event in events)
    return [
        f"{config.to}: {frames} frames in {seconds:.1f} s, {frames / max(seconds, 1e-9):.0f} a second; "
        f"at most {latest:.2f} s behind"
    ]


def open_writer(config: ReplayConfig, played: Played) -> Writer:
    """Where the scan is played into; ConfigError: it cannot be."""
    to = str(config.to)
    if to.startswith(SOCKET):
        return SocketWriter(to, played, config.compressed, config.curve_keys)
    path = Path(to)
    if to.endswith("/") or path.is_dir():
        if path.is_dir() and any(path.iterdir()):
            raise ConfigError(f"to={to}: is a folder that holds files; choose another")
        return FolderWriter(path, played)
    known = path.suffix.lower() in (".h5", ".hdf5", ".cxi", ".nxs")
    check(known, "to", to, f"a file .h5 or .cxi, a folder (ends with /), or {SOCKET}host:port")
    check_output(path, config.overwrite, [Path(config.data.path)], "to")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return Hdf5Writer(path, played, config.compressed)
