"""Programs of this repository, run one after the other in separate processes."""

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
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
PATIENCE_S = 30.0  # seconds after which an interrupted program is killed


def heed_signals() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, even if the shell ignores them."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.default_int_handler)


def run_scripts(commands: Sequence[Sequence[str]], output: Path) -> None:
    """Run programs of ``scripts/`` with their arguments one after the other; their text goes to ``output``.

    Raises:
        RuntimeError: a program failed; with its exit code and its last line.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w") as file:
        for name, *words in commands:
            if code := _execute([str(SCRIPTS / name), *words], file):
                lines = output.read_text(errors="replace").strip().splitlines()
                said = lines[-1] if lines else "no output"
                raise RuntimeError(f"{name} ended with exit code {code}: {said}; see {output}")


def _execute(command: Sequence[str], output: IO[str]) -> int:
    """Run a command, and return its exit code.

    The process is in a new session, so that it gets Ctrl-C once, from this process.
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


def quoted(key: str, path: Path) -> str:
    """Return an override whose value is a path with any characters."""
    text = str(path).replace("'", "\\'")
    return f"{key}='{text}'"
