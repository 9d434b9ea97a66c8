"""A socket on which frames and positions arrive (ZeroMQ, PUSH to PULL); see :mod:`ptycho.live.messages`.

``zmq://127.0.0.1:5555`` waits at this address for who sends. What is no message of ours, too large or cut
short is counted and dropped. With ``curve_keys`` (CurveZMQ) one other key alone can send, and nobody listens.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.files.json_file import read_json
from ptycho.live import messages
from ptycho.live.arrivals import Arrivals, Description, Frame, Place
from ptycho.live.messages import BadMessage
from ptycho.live.sources import Watching

ADDRESS = re.compile(r"zmq://([^/:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})/?")
LOOK_S, PAUSE_MS = 0.2, 50
AT_ONCE = 2**26  # bytes that are taken in one look
WAITING = 20  # messages that ZeroMQ holds for us, lost where we are killed; then who sends waits


class SocketSource:
    """See the module's text; a :class:`~ptycho.live.arrivals.Source`.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, watch: str, how: Watching) -> None:
        zmq = require_zmq()
        self._largest, self._zmq = how.largest, zmq
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.MAXMSGSIZE, how.largest)
        self._socket.setsockopt(zmq.RCVHWM, WAITING)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._description: Description | None = None
        self._ended, self._guard = False, None
        try:
            if how.keys is not None:
                self._guard = prove(self._socket, self._context, how.keys, server=how.bind)
            (self._socket.bind if how.bind else self._socket.connect)(tcp_address(watch))
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"watch={watch}: cannot be used ({error}); choose another port") from error

    @property
    def description(self) -> Description | None:
        return self._description

    def poll(self) -> Arrivals:
        frames, places, faults = list[Frame](), list[Place](), Counter[str]()
        until, size, patience = time.monotonic() + LOOK_S, 0, PAUSE_MS
        while time.monotonic() < until and size < AT_ONCE and not self._ended:
            if not self._socket.poll(patience):
                break
            patience = 0  # what is here is put on the disk before more is waited for
            parts = self._socket.recv_multipart()
            size += sum(map(len, parts))
            try:
                self._take(parts, frames, places)
            except BadMessage as error:
                faults[f"message dropped: {error}"] += 1
        return Arrivals(tuple(frames), tuple(places), faults, self._ended)

    def close(self) -> None:
        self._socket.close()
        if self._guard is not None:
            self._guard.stop()
        self._context.destroy(linger=0)

    def _take(self, parts: list[bytes], frames: list[Frame], places: list[Place]) -> None:
        if len(parts) > 2:
            raise BadMessage("more than two parts")
        header = messages.read_header(parts[0])
        kind, content = header["type"], parts[1] if len(parts) == 2 else b""
        told = self._description or Description()
        if kind == "frame":
            frames.append(messages.read_frame(header, content))
        elif kind == "positions":
            places += messages.read_positions(header)
        elif kind == "start":
            self._description = replace(messages.read_start(header), good=told.good, probe=told.probe)
        elif kind == "mask":
            self._description = replace(told, good=messages.read_mask(header, content))
        elif kind == "probe":
            self._description = replace(told, probe=messages.read_probe(header, content))
        elif kind == "end":
            self._ended = True
        else:
            raise BadMessage("unknown type")


def tcp_address(watch: str) -> str:
    """``zmq://host:port`` as ZeroMQ has it.

    Raises:
        ConfigError: it is none.
    """
    found = ADDRESS.fullmatch(watch)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ConfigError(f"{watch}: must be zmq://host:port, as zmq://127.0.0.1:5555")
    return f"tcp://{found[1]}:{found[2]}"


def require_zmq() -> Any:
    """The package pyzmq.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import zmq
    except ImportError as error:
        raise ConfigError("zmq://…: needs pyzmq; pip install 'ptychopinn[live]'") from error
    return zmq


def prove(socket: Any, context: Any, path: Path, server: bool) -> Any:
    """Set the keys of CurveZMQ from a JSON file with ``public``, ``secret`` and ``theirs`` (Z85, 40 letters).

    Returns:
        Of a server who lets the other in, to be stopped in the end; else None.

    Raises:
        ConfigError: the file has none.
    """
    try:
        keys = read_json(path)
        own, secret, theirs = (keys[name].encode("ascii") for name in ("public", "secret", "theirs"))
        socket.curve_publickey, socket.curve_secretkey = own, secret
    except Exception as error:
        raise ConfigError(
            f"curve_keys={path}: must be JSON with public, secret and theirs, 40 letters each ({error})"
        ) from error
    if not server:
        socket.curve_serverkey = theirs
        return None
    from zmq.auth.thread import ThreadAuthenticator

    guard = ThreadAuthenticator(context)
    guard.start()
    guard.configure_curve_callback("*", credentials_provider=_Only(theirs))
    socket.curve_server = True
    return guard


class _Only:
    """Lets one key in, 40 letters of Z85."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        return key == self._key
