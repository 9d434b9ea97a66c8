#!/usr/bin/env python
"""Faults of a live reconstruction: does the store keep every frame and position? A table.

    python benchmarks/live_faults.py            # all faults; some minutes
    python benchmarks/live_faults.py socket     # faults with this word in their names

Each row replays a small scan with one fault, and compares the store with the frames and positions that were
sent. The rows named ``live.py`` run the program itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[1]

from ptycho.config.data import DataConfig
from ptycho.readers.raw_scan import UNITS
from ptycho.readers.table import open_raw
from ptycho_live import messages
from ptycho_live.arrivals import Description, Frame, make_positions
from ptycho_live.collecting import CollectOptions, Collector
from ptycho_live.sources import open_source
from ptycho_live.store import NAME, Store

COUNT, N, RATE = 240, 32, 240
TIMEOUT_S = 4.0  # time without new data after which a scan has ended
CONNECTIONS = 10_000
IN_FLIGHT = 25  # messages lost with a process that is killed, because PUSH does not send them again


@dataclass(frozen=True)
class Case:
    """A scan on the disk, and a folder for the files of the test."""

    scan: Path
    folder: Path

    @property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        raw = open_raw(DataConfig(file=(str(self.scan),)))
        return raw.patterns.read(slice(0, COUNT)), raw.positions[:COUNT]


Test = Callable[[Case], tuple[bool, str]]


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def script(name: str, *words: str) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "scripts" / f"{name}.py"), *words]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def replaying(case: Case, to: str, *words: str) -> subprocess.Popen:
    return script("replay", f"data.file={case.scan}", f"to={to}", f"rate={RATE}", *words)


def collect(case: Case, watch: str, seconds: float = 60, **changes: int) -> Collector:
    """Collect the frames of the source ``watch`` until it ends, for at most ``seconds``."""
    store = Store(case.folder / "live")
    source = open_source(watch, DataConfig(file=("-",)), store.has, **changes)
    collector = Collector(source, store, CollectOptions(timeout_s=TIMEOUT_S, wait_s=20.0))
    collector.start()
    until = time.monotonic() + seconds
    while collector.ended is None and collector.error is None and time.monotonic() < until:
        time.sleep(0.05)
    collector.stop()
    store.close()
    return collector


def verdict(case: Case, collector: Collector, lost: int | None = 0) -> tuple[bool, str]:
    """Return whether every frame and position sent is in the store, bit for bit, and a text of the faults.

    Args:
        lost: number of frames that were never sent; None: at least one.
    """
    store = Store(case.folder / "live")
    table, description = store.table, store.description
    frames, positions = case.truth
    metres = table.frames["position"][table.rows]
    metres = metres * ((description.unit and UNITS[description.unit]) or 1.0)
    indices = table.frames["index"][table.rows]
    same = np.array_equal(store.read(table.rows), frames[indices])
    same = same and np.allclose(metres, positions[indices], rtol=0, atol=1e-12)
    missing, gaps = COUNT - len(indices), int(table.frames["index"].max(initial=-1)) + 1 - len(table.frames)
    store.close()
    good = same and collector.error is None and (missing == lost if lost is not None else missing > 0)
    faults = ", ".join(f"{fault} {count}" for fault, count in collector.faults.items()) or "no faults"
    return good, f"{len(indices)} of {COUNT} joined, gaps {gaps}; {faults}; {collector.ended}"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def place(case: Case, source: str) -> str:
    """Return what is watched: a file, a folder, or the address of a socket."""
    if source == "socket":
        return f"zmq://127.0.0.1:{free_port()}"
    return f"{case.folder}/frames/" if source == "folder" else str(case.folder / "growing.h5")


def replayed(
    source: str,
    *words: str,
    lost: int | None = 0,
    beside: Callable[[int], None] | None = None,
    largest: int = 2**28,
) -> Test:
    """Return a test that replays a scan; ``beside`` runs in a thread with the number of the socket's port."""

    def run(case: Case) -> tuple[bool, str]:
        watch = place(case, source)
        process = replaying(case, watch, *words)
        if beside is not None:
            threading.Thread(target=beside, args=[int(watch.rpartition(":")[2])], daemon=True).start()
        collector = collect(case, watch, largest=largest)
        process.wait()
        return verdict(case, collector, lost)

    return run


def garbage_bytes(port: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as one:
            one.sendall(rng.bytes(2000))


def many_connections(port: int) -> None:
    """Open ``CONNECTIONS`` connections, of which at most 400 stay open."""
    held: list[socket.socket] = []
    for _ in range(CONNECTIONS):
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(("127.0.0.1", port), 1))
        if len(held) > 400:
            held.pop(0).close()


def bad_messages(parts: Callable[[], Iterator[Sequence[bytes]]]) -> Callable[[int], None]:
    def beside(port: int) -> None:
        import zmq

        context = zmq.Context()
        sender = context.socket(zmq.PUSH)
        sender.connect(f"tcp://127.0.0.1:{port}")
        for message in parts():
            sender.send_multipart(message)
        sender.close(linger=2000)
        context.term()

    return beside


def wrong_headers() -> Iterator[Sequence[bytes]]:
    frame = messages.frame_message(Frame(1, np.zeros((N, N), np.uint32)))
    changes: tuple[dict[str, object], ...] = (
        {"shape": [2**40, 1]},
        {"dtype": "object"},
        {"index": -5},
        {"encoding": "pickle"},
        {"type": 3},
    )
    for change in changes:
        yield [json.dumps(json.loads(frame[0]) | change).encode(), frame[1]]
    yield [b"[" * 200_000]
    yield [json.dumps({"type": "start", "unit": "furlong"}).encode()]


def oversize() -> Iterator[Sequence[bytes]]:
    yield [b'{"type": "frame"}', bytes(50_000_000)]


def not_there_yet(case: Case) -> tuple[bool, str]:
    path = case.folder / "growing.h5"
    started: list[subprocess.Popen] = []
    threading.Timer(2.0, lambda: started.append(replaying(case, str(path)))).start()
    found = collect(case, str(path))
    return verdict(case, found)


def replaced(other: bool) -> Test:
    """Return a test in which a file, whose writer was killed, is replaced by its copy or by another scan."""

    def run(case: Case) -> tuple[bool, str]:
        path, whole = case.folder / "growing.h5", case.folder / "whole.h5"
        replaying(case, str(whole), "lag_s=0").wait()
        if other:
            with h5py.File(whole, "r+", libver="latest") as file:
                data = file["entry_1/instrument_1/detector_1/data"]
                data[:] = data[:] + 1
        replaying(case, str(path), "n=100", "complete=false", "lag_s=0").wait()
        threading.Timer(1.0, lambda: os.replace(whole, path)).start()
        found = collect(case, str(path))
        return verdict(case, found, lost=COUNT - 100 if other else 0)

    return run


def disk_full(case: Case) -> tuple[bool, str]:
    """Limit the size of files for three seconds, as if the disk were full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    threading.Timer(3.0, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))).start()
    good, text = replayed("socket")(case)
    return good and ("disk full" in text or "disk error" in text), text


def half_a_record(case: Case) -> tuple[bool, str]:
    store = Store(case.folder / "live")
    frames, positions = case.truth
    some = make_positions(range(50), *positions[:50].T)
    store.add([Frame(k, frames[k]) for k in range(50)], some, Description(unit="m", domain="counts"))
    store.close()
    with h5py.File(case.folder / "live" / NAME, "r+", libver="latest") as file:
        file["patterns"].resize(51, axis=0)  # the last row is never written
        file["frames"].resize(51, axis=0)
    return replayed("hdf5")(case)


def stopped(number: int, source: str) -> Test:
    """Return a test in which live.py gets the signal ``number`` in the middle of a scan, and is resumed."""

    def run(case: Case) -> tuple[bool, str]:
        watch, out = place(case, source), case.folder / "out"
        keys = ["final=false", "finish_s=2", "refresh_s=1", "timeout_s=8"]
        live = script("live", f"watch={watch}", f"output_dir={out}", *keys)
        time.sleep(9)
        player = replaying(case, watch, "rate=30")
        time.sleep(4)
        live.send_signal(number)
        first = live.wait()
        time.sleep(1)
        again = script("live", f"resume={out}")
        player.wait()
        second = again.wait()
        numbers = json.loads((out / "live.json").read_text())
        wanted = 128 + number if number != signal.SIGKILL else -number
        lost = COUNT - numbers["patterns"]
        whole = lost == 0 if source == "hdf5" else lost <= IN_FLIGHT
        good = whole and numbers["state"] == "complete" and (first, second) == (wanted, 0)
        return good, f"exit {first}, then {second}; {numbers['patterns']} of {COUNT}, {numbers['state']}"

    return run


def killed_detector(case: Case) -> tuple[bool, str]:
    path, out = case.folder / "growing.h5", case.folder / "out"
    replaying(case, str(path), "complete=false", "n=150").wait()
    keys = ["final=false", "finish_s=2", "timeout_s=5", f"output_dir={out}"]
    code = script("live", f"watch={path}", *keys).wait()
    numbers = json.loads((out / "live.json").read_text())
    good = code == 0 and numbers["patterns"] == 150
    return good, f"{numbers['patterns']} patterns; ended: {numbers['ended']}"


CASES: dict[str, Test] = {
    "no fault, HDF5": replayed("hdf5"),
    "no fault, packed HDF5": replayed("hdf5", "compressed=true"),
    "no fault, folder": replayed("folder"),
    "no fault, socket, packed": replayed("socket", "compressed=true"),
    "frames repeated (socket)": replayed("socket", "faults=[repeats]", "fault_share=0.1"),
    "frames lost (HDF5)": replayed("hdf5", "faults=[gaps]", "fault_share=0.1", lost=None),
    "frames lost (socket)": replayed("socket", "faults=[gaps]", "fault_share=0.1", lost=None),
    "positions 3 s late (HDF5)": replayed("hdf5", "faults=[late]", "fault_share=0.1"),
    "positions out of order (HDF5)": replayed("hdf5", "faults=[disorder]"),
    "positions 1.5 s after their frames (folder)": replayed("folder", "lag_s=1.5"),
    "files cut short, then whole (folder)": replayed("folder", "faults=[garbage]", "fault_share=0.1"),
    "frames of another shape (socket)": replayed("socket", "faults=[shape]", "fault_share=0.1"),
    "frames of another dtype (socket)": replayed("socket", "faults=[dtype]", "fault_share=0.1"),
    "frames of NaN (socket)": replayed("socket", "faults=[not_finite]", "fault_share=0.1"),
    "writer killed (HDF5)": replayed("hdf5", "complete=false"),
    "file not there yet (HDF5)": not_there_yet,
    "file replaced by its copy (HDF5)": replaced(other=False),
    "file replaced by another scan (HDF5)": replaced(other=True),
    "messages of another format (socket)": replayed("socket", "faults=[garbage]", "fault_share=0.1"),
    "bytes that follow no protocol (socket)": replayed("socket", beside=garbage_bytes),
    f"{CONNECTIONS} connections (socket)": replayed("socket", beside=many_connections),
    "a message of 50 MB where 1 MB is allowed (socket)": replayed(
        "socket", beside=bad_messages(oversize), largest=1_000_000
    ),
    "wrong headers (socket)": replayed("socket", beside=bad_messages(wrong_headers)),
    "disk full, then not (socket)": disk_full,
    "an incomplete row in the store": half_a_record,
    "everything at once (socket)": replayed(
        "socket", "faults=[repeats,gaps,late,disorder,not_finite,shape,dtype,garbage]", lost=None
    ),
    "detector killed: live.py": killed_detector,
    "Ctrl-C, then resume: live.py": stopped(signal.SIGINT, "hdf5"),
    "SIGKILL, then resume (HDF5): live.py": stopped(signal.SIGKILL, "hdf5"),
    "SIGKILL, then resume (socket): live.py": stopped(signal.SIGKILL, "socket"),
}


def main(words: Sequence[str]) -> int:
    """Print the table of the cases whose names hold the ``words``; return 1 if anything was lost."""
    chosen = [name for name in CASES if all(word in name for word in words)]
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        scan = Path(scratch) / "scan.cxi"
        script("simulate_scan", f"output={scan}", f"n_positions={COUNT}", f"N={N}", "seed=1").wait()
        print("| fault | | kept data, and messages |\n|---|---|---|")
        for number, name in enumerate(chosen):
            case = Case(scan, Path(scratch) / str(number))
            case.folder.mkdir()
            try:
                good, text = CASES[name](case)
            except Exception as error:
                good, text = False, f"{type(error).__name__}: {error}"
            failed += not good
            print(f"| {name} | {'ok' if good else '**lost**'} | {text} |", flush=True)
            shutil.rmtree(case.folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
