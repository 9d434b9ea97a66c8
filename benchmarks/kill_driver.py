#!/usr/bin/env python
"""The workflow, which prints each phase on stdout for a parent that kills it; see ``kill_resume.py``.

    python benchmarks/kill_driver.py '{}' N=32 … output_dir=…

Lines: ``@phase <name>`` at the beginning of every phase, ``@step <epoch> <step>`` after every training step,
``@write <n> <file>`` at the beginning of every checkpoint. With ``{"write": n, "moment": …}`` as first
argument, the process sends itself SIGKILL in checkpoint n: at a fraction of its bytes (a number), before the
file is renamed (``"written"``), or before older files are removed (``"renamed"``).
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "grid_lines_workflow.py"
sys.path.insert(0, str(SCRIPT.parent.parent))


def say(*words: object) -> None:
    print("@" + " ".join(map(str, words)), flush=True)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class TornFile:
    """A file that kills the process once a number of bytes is written."""

    def __init__(self, file: Any, limit: int) -> None:
        self._file, self._left = file, limit

    def write(self, data: bytes) -> int:
        piece = memoryview(data).cast("B")[: self._left]
        self._file.write(piece)
        self._left -= len(piece)
        if not self._left:
            self._file.flush()
            die()
        return len(piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def announce_phases() -> None:
    from ptycho.run import network_training
    from workflows.reconstruct import grid_lines

    def announced(module: ModuleType, name: str, phase: Callable[..., str]) -> None:
        real = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            say("phase", phase(*args))
            return real(*args, **kwargs)

        setattr(module, name, call)

    announced(grid_lines, "simulate_and_store", lambda *_: "simulation")
    announced(network_training, "train", lambda model, *_: f"training_{model.name}")
    announced(grid_lines, "predict_regions", lambda *_: "inference")
    announced(grid_lines, "stitch_each", lambda *_: "stitching")
    announced(grid_lines, "score_models", lambda *_: "reporting")


def announce_steps() -> None:
    from ptycho.progress import Progress

    real = Progress.advance

    def advance(self: Progress, patterns: int, where: str = "") -> None:
        if found := re.match(r"epoch (\d+)/\d+, step (\d+)/", where):
            say("step", int(found[1]), int(found[2]))
        real(self, patterns, where)

    Progress.advance = advance  # type: ignore[method-assign]


def watch_writes(plan: dict[str, Any]) -> None:
    from ptycho.files.atomic import write_atomically
    from ptycho.training import checkpoint

    count = 0

    def write(target: Path, save: Callable[[Any], object]) -> None:
        nonlocal count
        count += 1
        say("write", count, target.name)
        moment = plan.get("moment") if plan.get("write") == count else None
        if moment == "written":
            type(target).replace = die  # type: ignore[assignment]
        if isinstance(moment, float):
            whole = io.BytesIO()
            save(whole)
            limit = max(1, int(moment * whole.tell()))
            write_atomically(target, lambda file: save(TornFile(file, limit)))
        write_atomically(target, save)
        if moment == "renamed":
            die()

    checkpoint.write_atomically = write


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    say("phase", "start")
    announce_phases()
    announce_steps()
    watch_writes(json.loads(sys.argv[1]))
    sys.argv = [str(SCRIPT), *sys.argv[2:]]
    runpy.run_path(str(SCRIPT), run_name="__main__")
