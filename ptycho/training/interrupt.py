"""Stopping on SIGINT (Ctrl-C) and SIGTERM: the first asks, the second ends the process at once."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """The process was asked to stop by the signal ``signum``."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.signum


class StopRequest:
    """Whether the process was asked to stop. Signals are heard inside ``with request:``, in the main thread.

    The first signal raises :class:`Stopped` wherever the program is, except inside :meth:`deferred`, where
    :meth:`check` raises it. The second writes :attr:`farewell` to stderr and ends the process, even if
    the main thread is inside a compilation: a thread listens for it.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.farewell = ""
        self._deferred = False

    def check(self) -> None:
        """Raise :class:`Stopped` if a signal came."""
        if self.signum is not None:
            raise Stopped(self.signum)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Let the block decide, by calling :meth:`check`, where it stops."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self.check()

    def __enter__(self) -> StopRequest:
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._old_wakeup = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._old_handlers = {signum: signal.signal(signum, self._handle) for signum in SIGNALS}
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._old_handlers.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._sender.close()
        self._listener.join()
        self._receiver.close()

    def _handle(self, signum: int, _: FrameType | None) -> None:
        first = self.signum is None
        self.signum = self.signum or signum
        if first and not self._deferred:
            raise Stopped(signum)

    def _listen(self) -> None:
        """Count the signals as they arrive, whatever the main thread does."""
        came = 0
        while number := self._receiver.recv(1):
            if number[0] not in SIGNALS:
                continue
            came += 1
            if came == 1:
                _say("stopping; a second signal stops at once")
            else:
                _say(self.farewell)
                os._exit(128 + number[0])


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
