"""A socket on which frames and positions arrive (ZeroMQ, PUSH to PULL); see :mod:`ptycho_live.messages`.

``zmq://127.0.0.1:5555`` waits at this address for a sender. A message that is unknown, too large or cut short
is counted and dropped. With ``curve_keys`` (CurveZMQ) messages are encrypted; only one other key can send.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.files.text import read_json
from ptycho_live import messages
from ptycho_live.arrivals import NO_POSITIONS, Arrivals, Description, Frame, Source
from ptycho_live.messages import BadMessage
from ptycho_live.sources import SourceOptions

ADDRESS = re.compile(r"zmq://([^/:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})/?")


class SocketSource(Source):
    """Source that receives messages from a socket; see the module's text.

    Args:
        look_s: longest time of one call in s; a quarter of it if nothing arrives.
        at_once: bytes that are taken in one call.
        waiting: messages that ZeroMQ buffers, which are lost if the process is killed; the sender waits
            while the buffer is full.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(
        self, watch: str, options: SourceOptions, look_s: float = 0.2, at_once: int = 2**26, waiting: int = 20
    ) -> None:
        zmq = require_zmq()
        self._look, self._at_once = look_s, at_once
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.maxmsgsize, self._socket.rcvhwm, self._socket.linger = options.largest, waiting, 0
        self._ended, self._guard = False, None
        try:
            if options.keys is not None:
                self._guard = prove(self._socket, self._context, options.keys, server=options.bind)
            (self._socket.bind if options.bind else self._socket.connect)(tcp_address(watch))
        except zmq.ZMQError as error:
            self.close()
            raise ConfigError(f"watch={watch}: cannot be used ({error}); choose another port") from error

    def poll(self) -> Arrivals:
        frames, positions, faults = list[Frame](), [NO_POSITIONS], Counter[str]()
        until, size, patience = time.monotonic() + self._look, 0, int(250 * self._look)
        while time.monotonic() < until and size < self._at_once and not self._ended:
            if not self._socket.poll(patience):
                break
            patience = 0  # what is here is put on the disk before more is waited for
            parts = self._socket.recv_multipart()
            size += sum(map(len, parts))
            try:
                self._take(parts, frames, positions)
            except BadMessage as error:
                faults[f"message dropped: {error}"] += 1
        return Arrivals(tuple(frames), np.concatenate(positions), faults, self._ended)

    def close(self) -> None:
        self._socket.close()
        if self._guard is not None:
            self._guard.stop()
        self._context.destroy(linger=0)

    def _take(self, parts: list[bytes], frames: list[Frame], positions: list[np.ndarray]) -> None:
        if len(parts) > 2:
            raise BadMessage("more than two parts")
        header, description = messages.read_header(parts[0]), self.description or Description()
        kind, content = header["type"], parts[1] if len(parts) == 2 else b""
        if kind == "frame":
            frames.append(messages.read_frame(header, content))
        elif kind == "positions":
            positions.append(messages.read_positions(header))
        elif kind == "start":
            self.description = replace(
                messages.read_start(header), good=description.good, probe=description.probe
            )
        elif kind == "mask":
            self.description = replace(description, good=messages.read_mask(header, content))
        elif kind == "probe":
            self.description = replace(description, probe=messages.read_probe(header, content))
        elif kind == "end":
            self._ended = True
        else:
            raise BadMessage("unknown type")


def tcp_address(watch: str) -> str:
    """Return the address ``zmq://host:port`` as ZeroMQ has it.

    Raises:
        ConfigError: it is none.
    """
    match = ADDRESS.fullmatch(watch)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ConfigError(f"{watch}: must be zmq://host:port, as zmq://127.0.0.1:5555")
    return f"tcp://{match[1]}:{match[2]}"


def require_zmq() -> Any:
    """Return the package pyzmq.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import zmq
    except ImportError as error:
        raise ConfigError("zmq://…: needs pyzmq; pip install pyzmq") from error
    return zmq


def prove(socket: Any, context: Any, path: Path, server: bool) -> Any:
    """Set the keys of CurveZMQ from a JSON file with ``public``, ``secret`` and ``theirs`` (Z85, 40 letters).

    Returns:
        Of a server the authenticator of the other key, to be stopped in the end; else None.

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

    guard, only = ThreadAuthenticator(context), SimpleNamespace(callback=lambda domain, key: key == theirs)
    guard.start()
    guard.configure_curve_callback("*", credentials_provider=only)
    socket.curve_server = True
    return guard
