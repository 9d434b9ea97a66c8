#!/usr/bin/env python3
"""How long do help, report, index and comparison take, with the start of Python?

    python benchmarks/reading.py                                 of a scan that is simulated and reconstructed
    python benchmarks/reading.py --positions 60 --side 32 --copies 3 --repeats 1
    python benchmarks/reading.py RUN                             of an existing run

The run is copied, and the copies are listed and compared. A row is the median of some repeats, in seconds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PTYCHO = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[0] = 'ptycho'; "
PTYCHO += "from ptycho.command_line.console import main; sys.exit(main())"


def ptycho(*words: object) -> float:
    """Run a command, and return its seconds."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", PTYCHO, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", nargs="?", type=Path, help="folder of a run (default: one is made)")
    for name, default in (("positions", 200), ("side", 64), ("copies", 50), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        scan, run, copies = place / "scan.cxi", asked.run or place / "run", place / "copies"
        if asked.run is None:
            size = f"n_positions={asked.positions}", f"N={asked.side}"
            ptycho("simulate", f"output={scan}", *size, "seed=1")
            ptycho("scan", f"data.file={scan}", f"output_dir={run}")
        for number in range(asked.copies):
            shutil.copytree(run, copies / f"{number:03d}")
        page, table, index, none = (place / f"{name}.html" for name in ("report", "compare", "index", "none"))
        rows = (
            ("`ptycho --help`", none, lambda: ptycho("--help")),
            ("report", page, lambda: ptycho("report", run, f"output={page}")),
            (f"compare of {asked.copies} runs", table, lambda: ptycho("compare", copies, f"output={table}")),
            (f"index of {asked.copies} runs", index, lambda: ptycho("report", copies, f"output={index}")),
        )
        print("| what | s | MB |\n|---|---|---|")
        for name, made, measure in rows:
            seconds = statistics.median(measure() for _ in range(asked.repeats))
            size_text = f"{made.stat().st_size / 1e6:.2f}" if made.exists() else ""
            print(f"| {name} | {seconds:.2f} | {size_text} |", flush=True)


if __name__ == "__main__":
    main()
