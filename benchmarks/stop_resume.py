#!/usr/bin/env python
"""Stop runs by SIGINT or SIGTERM at random moments: how long do they take to end, and can they be resumed?

    python benchmarks/stop_resume.py --stops 40 --out outputs/benchmarks/stop_resume

A small run, compiled by XLA, gets a signal at a moment drawn uniformly from the duration of a whole run. It
is resumed and stopped again until it completes, and is then compared with an undisturbed run. Every stop is a
line of ``stops.csv``. A process that needs longer than 15 s to end is killed, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.kill_resume import RUN, SCRIPT, same, write_table
from benchmarks.tables import write_csv

HANG_S = 15.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOGGED = re.compile(r"\d\d:\d\d:\d\d (.*)")


@dataclass(frozen=True)
class Stop:
    """A process that got ``signum`` after it had logged ``where``, and then ended in ``seconds``.

    ``end`` is "killed by it" if the program does not handle signals yet, or no longer.
    """

    signum: int
    where: str
    seconds: float
    code: int

    @property
    def end(self) -> str:
        if self.seconds > HANG_S:
            return "HANG"
        known = {0: "finished", 128 + self.signum: "stopped", -self.signum: "killed by it"}
        return known.get(self.code, f"EXIT CODE {self.code}")


def stopped(overrides: list[str], signum: int, delay: float) -> Stop | None:
    """Start the workflow, send it ``signum`` after ``delay`` s, and wait; return None if it ended before."""
    command = [sys.executable, str(SCRIPT), *overrides]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stderr=log) as process:
        try:
            if process.wait(delay):
                raise SystemExit(f"{overrides} failed: {_text(log)}")
            return None
        except subprocess.TimeoutExpired:
            lines = LOGGED.findall(_text(log))
        began = time.perf_counter()
        process.send_signal(signum)
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
        code, seconds = process.wait(), time.perf_counter() - began
        return Stop(signum, lines[-1] if lines else "the start", seconds, code)


def _text(log: Any) -> str:
    return os.pread(log.fileno(), 2**20, 0).decode()


def cycle(run: Path, rng: np.random.Generator, whole: float, limit: int) -> list[dict[str, Any]]:
    """Stop a run until it completes, at most ``limit`` times; return a row for every stop."""
    overrides, rows = [*RUN, "xla.compile=true", f"output_dir={run}"], []
    while len(rows) < limit:
        signum, delay = SIGNALS[rng.integers(2)], float(rng.random() * whole)
        found = stopped(overrides, signum, delay)
        if found is None:
            return rows
        left = " ".join(path.name for path in run.rglob(".*")) if run.exists() else ""
        row = {"run": run.name, "signal": signal.Signals(signum).name, "delay_s": f"{delay:.2f}"}
        rows.append(
            row | {"seconds": f"{found.seconds:.2f}", "end": found.end, "left": left, "where": found.where}
        )
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        if found.end == "finished":
            return rows
        overrides = [f"resume={run}"] if (run / "config.yaml").exists() else overrides
    if stopped(overrides, signal.SIGKILL, 600.0) is not None:
        raise SystemExit(f"{overrides} did not end by itself")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stops", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/stop_resume"))
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    reference, began = options.out / "reference", time.perf_counter()
    stopped([*RUN, "xla.compile=true", f"output_dir={reference}"], signal.SIGKILL, 600.0)
    whole, rng = time.perf_counter() - began, np.random.default_rng(options.seed)
    rows: list[dict[str, Any]] = []
    verdicts: Counter[str] = Counter()
    while len(rows) < options.stops:
        run = options.out / f"run{sum(verdicts.values()):03d}"
        rows += cycle(run, rng, whole, options.stops - len(rows))
        verdicts[same(run, reference)] += 1
        write_csv(options.out / "stops.csv", rows)
        print(f"like the undisturbed run: {dict(verdicts)}", flush=True)
    ends = Counter(row["end"] for row in rows)
    write_table(options.out / "stops", [{"end": end, "stops": count} for end, count in ends.items()])
    print(f"slowest: {max(float(row['seconds']) for row in rows):.2f} s")
    return int(any(end.isupper() for end in ends) or verdicts.keys() != {"yes"})


if __name__ == "__main__":
    sys.exit(main())
