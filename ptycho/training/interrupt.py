"""Stop on SIGINT (Ctrl-C) and SIGTERM: at once, or at the next point where a training can stop.

A signal does not raise an exception, because libraries swallow it in a ``__del__``, in a callback that C
calls or in a bare ``except``, and the program would continue. A thread receives the signals, whatever the
main thread does, and ends the process. It may do so at any moment, because every file that counts is written
atomically; only a training needs time, to save its progress since the last checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

from ptycho.files.lock import LOCK

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """Request by the signal ``signum`` that the process stop."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


class StopRequest:
    """Request to stop the process. Signals are heard inside ``with request:``, in the main thread.

    The first signal ends the process, except inside :meth:`defer`, where :meth:`check` raises
    :class:`Stopped`; the second ends it anywhere, and so does ``Stopped`` where it leaves the ``with`` block.
    The exit code is 128 and the number of the signal: 130 for SIGINT, 143 for SIGTERM.

    Args:
        farewell: message to the user at the end, after the reason of the stop.
        cleanup: removes files that must not stay. The main thread is suspended meanwhile and may hold locks:
            these two functions must not log, import, or use ``sys.stderr``.

    Attributes:
        signum: the first signal that came.
        patience_s: seconds for farewell and cleanup; then the kernel ends the process.
    """

    def __init__(
        self, farewell: Callable[[], str] = lambda: "", cleanup: Callable[[], None] = lambda: None
    ) -> None:
        self.signum: int | None = None
        self.patience_s = 5
        self._farewell, self._cleanup = farewell, cleanup
        self._deferred = False

    @contextlib.contextmanager
    def end_with(
        self, farewell: Callable[[], str], cleanup: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Set other last words and another cleaning up where the block is stopped, and for what
        :class:`Stopped` does on its way from there.
        """
        before = self._farewell, self._cleanup
        self._farewell, self._cleanup = farewell, cleanup
        try:
            yield
        finally:
            if not isinstance(sys.exception(), Stopped):
                self._farewell, self._cleanup = before

    def check(self) -> None:
        """Raise :class:`Stopped` if a signal came."""
        if self.signum is not None:
            raise Stopped(self.signum)

    @contextlib.contextmanager
    def defer(self) -> Iterator[None]:
        """Let the block decide, by calling :meth:`check`, where it stops: at its end at the latest."""
        self._deferred = True
        try:
            yield
        finally:  # the listener notes a signal and then looks here, so one of the two acts on it
            self._deferred = False
            self.check()

    def __enter__(self) -> StopRequest:
        self._ending, self._undecided = threading.Lock(), threading.Lock()
        self._undecided.acquire()
        receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._listener = threading.Thread(target=self._listen, args=[receiver], daemon=True)
        self._listener.start()
        self._old_wakeup = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        self._old_handlers = {signum: signal.signal(signum, self._wait) for signum in SIGNALS}
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Stopped):
            self._end(error.signum)
        for signum, handler in self._old_handlers.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        self._sender.close()  # which ends the listener, unless it is ending the process
        self._listener.join(self.patience_s)

    def _wait(self, _: int, __: FrameType | None) -> None:
        """Hold the main thread until the listener has decided; for ever if it ends the process."""
        with self._undecided:
            pass

    def _listen(self, receiver: socket.socket) -> None:
        with receiver:
            while number := receiver.recv(1):
                if number[0] in SIGNALS:
                    self._hear(number[0])

    def _hear(self, signum: int) -> None:
        first, self.signum = self.signum is None, self.signum or signum
        if not (first and self._deferred):
            self._end(signum)
        _say("stopping after this step; a second signal stops at once")
        self._undecided.release()

    def _end(self, signum: int) -> NoReturn:
        """Say what happened, clean up, and end the process, whatever its threads are doing."""
        with self._ending:
            signal.alarm(self.patience_s)
            try:
                _say(f"{Stopped(signum)}\n{self._farewell()}".strip())
                self._cleanup()
            finally:
                os._exit(128 + signum)


def remove_traces(folder: Path) -> None:
    """Remove this process's lock, temporary files and temporary folders from ``folder``."""
    traces = [*folder.rglob(f".*.{os.getpid()}.tmp")]
    with contextlib.suppress(OSError):
        if (folder / LOCK).read_text() == f"{os.getpid()}\n":
            traces.append(folder / LOCK)
    for path in traces:
        with contextlib.suppress(OSError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _say(text: str) -> None:
    """Write to stderr, past Python's buffers and their locks; give up if stderr is not read."""
    with contextlib.suppress(OSError, ValueError):
        stderr = 2
        if select.select([], [stderr], [], 1.0)[1]:
            os.write(stderr, f"{text}\n".encode())
