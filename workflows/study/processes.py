"""A program of this repository in a process of its own, for what runs many of them."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

log = logging.getLogger("study")
PATIENCE_S = 30.0  # for an interrupted program to end by itself


def heed_signals() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, also where the shell had them ignored."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.default_int_handler)


def execute(command: Sequence[str], output: IO[str]) -> int:
    """Run a script with its arguments; its exit code. What it prints goes to ``output``.

    The process has a session of its own, so that Ctrl-C reaches it through us alone: it is handed on once.
    """
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        log.info("    stopping")
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
