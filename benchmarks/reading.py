#!/usr/bin/env python3
"""How long do help, report, comparison and the first served page take? Start included.

    python benchmarks/reading.py                                 of a scan that is simulated and reconstructed
    python benchmarks/reading.py --positions 60 --side 32 --copies 3 --repeats 1
    python benchmarks/reading.py RUN                             of a run that there is

The run is copied, and the copies are compared and served. A row: the median of some repeats, in seconds.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PTYCHO = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[0] = 'ptycho'; "
PTYCHO += "from workflows.command_line.console import main; sys.exit(main())"


def ptycho(*words: object) -> float:
    """Seconds that a command takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", PTYCHO, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def first_page(folder: Path) -> float:
    """Seconds from the start of the server to its first page."""
    began, words = time.perf_counter(), [sys.executable, "-c", PTYCHO, "serve", str(folder), "port=0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
            urllib.request.urlopen(address).read()
            return time.perf_counter() - began
        finally:
            server.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", nargs="?", type=Path, help="a run; left out: one is made")
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
        page, table, none = place / "report.html", place / "compare.html", place / "none"
        rows = (
            ("`ptycho --help`", none, lambda: ptycho("--help")),
            ("report", page, lambda: ptycho("report", run, f"output={page}")),
            (f"compare of {asked.copies} runs", table, lambda: ptycho("compare", copies, f"output={table}")),
            (f"serve of {asked.copies} runs, to the first page", none, lambda: first_page(copies)),
        )
        print("| what | s | MB |\n|---|---|---|")
        for name, made, measure in rows:
            seconds = statistics.median(measure() for _ in range(asked.repeats))
            size_text = f"{made.stat().st_size / 1e6:.2f}" if made.exists() else ""
            print(f"| {name} | {seconds:.2f} | {size_text} |", flush=True)


if __name__ == "__main__":
    main()
