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
import zmq
from zmq.auth.thread import ThreadAuthenticator

from ptycho.config import ConfigError
from ptycho.files.reading import read_json
from ptycho_live import messages
from ptycho_live.arrivals import NO_POSITIONS, Arrivals, Frame, Source

ADDRESS = re.compile(r"zmq://([^/:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})/?")


class SocketSource(Source):
    """Source that receives messages from a socket; ConfigError: the address cannot be used."""

    def __init__(
        self,
        watch: str,
        bind: bool,  # wait for the sender; otherwise connect to it
        keys: str | None,  # file with the keys of CurveZMQ; None: messages are not encrypted
        largest: int,  # bytes of the largest message that is accepted
        look_s: float = 0.2,  # longest time of one call; a quarter of it if nothing arrives
        at_once: int = 2**26,  # bytes that are taken in one call
        waiting: int = 20,  # messages in ZeroMQ's buffer, lost with a killed process; then the sender waits
    ) -> None:
        self._look, self._at_once = look_s, at_once
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.maxmsgsize, self._socket.rcvhwm, self._socket.linger = largest, waiting, 0
        self._ended, self._guard = False, None
        try:
            if keys is not None:
                self._guard = prove(self._socket, self._context, keys, server=bind)
            (self._socket.bind if bind else self._socket.connect)(tcp_address(watch))
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
                content = messages.read(parts)
            except messages.BadMessage as error:
                faults[f"message dropped: {error}"] += 1
                continue
            if isinstance(content, Frame):
                frames.append(content)
            elif isinstance(content, np.ndarray):
                positions.append(content)
            elif content is not None:
                self.description = replace(self.description, **content)
            self._ended = content is None
        return Arrivals(tuple(frames), np.concatenate(positions), faults, self._ended)

    def close(self) -> None:
        self._socket.close()
        if self._guard is not None:
            self._guard.stop()
        self._context.destroy(linger=0)


def tcp_address(watch: str) -> str:
    """Return the address ``zmq://host:port`` as ZeroMQ has it; ConfigError: it is none."""
    match = ADDRESS.fullmatch(watch)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ConfigError(f"{watch}: must be zmq://host:port, as zmq://127.0.0.1:5555")
    return f"tcp://{match[1]}:{match[2]}"


def prove(socket: Any, context: Any, path: str, server: bool) -> Any:
    """Set the keys of CurveZMQ from a JSON file with ``public``, ``secret`` and ``theirs`` (Z85, 40 letters).

    Return, for a server, the authenticator of the other key, to be stopped in the end.
    """
    try:
        keys = read_json(Path(path))
        own, secret, theirs = (keys[name].encode("ascii") for name in ("public", "secret", "theirs"))
        socket.curve_publickey, socket.curve_secretkey = own, secret
    except Exception as error:
        raise ConfigError(
            f"curve_keys={path}: must be JSON with public, secret and theirs, 40 letters each ({error})"
        ) from error
    if not server:
        socket.curve_serverkey = theirs
        return None
    guard, only = ThreadAuthenticator(context), SimpleNamespace(callback=lambda domain, key: key == theirs)
    guard.start()
    guard.configure_curve_callback("*", credentials_provider=only)
    socket.curve_server = True
    return guard
