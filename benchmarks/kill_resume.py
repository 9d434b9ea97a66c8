#!/usr/bin/env python
"""Kill runs by SIGKILL at random moments, resume them, and compare them with an undisturbed run.

    python benchmarks/kill_resume.py --kills 50

A cycle starts a run, kills its process group once or twice between the first file in its folder and its end,
and resumes it each time. ``metrics.json`` is then compared byte by byte with that of the reference, and so
are the hashes of the weights, and ``history.csv`` without its times. Checkpoints are frequent, so
that kills also fall into their writing. A run that differs stays in outputs/benchmarks/kill_resume. XLA is
off, because compilation would take most of the time of these small networks. The exit code is 1 if a run
differs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks import parser
from benchmarks.tables import last_line, markdown
from ptycho.config import ConfigError
from ptycho.run import names
from ptycho.run.network import read_history, read_network
from ptycho.run.stored_run import is_finished

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "grid_lines_workflow.py"
FOLDER = Path("outputs/benchmarks/kill_resume")
RUN = [
    "N=32",
    "size=96",
    "nimgs_train=1",
    "nimgs_test=1",
    "max_groups_train=96",
    "train.val_groups=8",
    "nepochs=4",
    "batch_size=4",
    "model.stages=2",
    "model.width=8",
    "xla.compile=false",
    "train.checkpoint_seconds=0.05",
]
Row = dict[str, object]


def start(words: list[str]) -> subprocess.Popen:
    command, none = [sys.executable, str(SCRIPT), *words], subprocess.DEVNULL
    return subprocess.Popen(command, stdout=none, stderr=none, start_new_session=True)


def wait_for_folder(process: subprocess.Popen, run: Path) -> float:
    """Return the moment at which a run has begun to write, or has ended."""
    while process.poll() is None and not (run / names.CONFIG).exists():
        time.sleep(0.02)
    return time.perf_counter()


def reference_seconds(reference: Path) -> float:
    """Run without a kill; return the seconds from the first file to the end."""
    shutil.rmtree(reference, ignore_errors=True)
    process = start([*RUN, f"output_dir={reference}"])
    began = wait_for_folder(process, reference)
    if code := process.wait():
        raise SystemExit(f"the reference run ended with {code}")
    return time.perf_counter() - began


def same(run: Path, reference: Path) -> str:
    """Return 'yes' if a run is equal to the reference, or else the difference."""
    if (run / names.METRICS).read_bytes() != (reference / names.METRICS).read_bytes():
        return "metrics.json differs"
    for name in ("pinn", "baseline"):
        try:
            one, two = (read_network(path, name).sha256 for path in (run, reference))
            rows = [
                [
                    {key: value for key, value in row.items() if key != "seconds"}
                    for row in read_history(path, name)
                ]
                for path in (run, reference)
            ]
        except ConfigError as error:
            return str(error)
        if one != two or rows[0] != rows[1]:
            return f"{'history' if one == two else 'weights'} of {name} differ"
    return "yes"


def cycle(number: int, seconds: float) -> Row:
    """Kill, resume and compare a run; return the row of its table."""
    rng, run = np.random.default_rng(number), FOLDER / f"cycle{number:03d}"
    shutil.rmtree(run, ignore_errors=True)
    words, places = [*RUN, f"output_dir={run}"], []
    for _ in range(rng.integers(1, 3)):
        process = start(words)
        wait_for_folder(process, run)
        try:
            process.wait(rng.uniform(0, seconds))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            lines = (run / names.LOG).read_text().splitlines() if (run / names.LOG).exists() else []
            places.append(lines[-1].partition(" INFO ")[2] if lines else "start")
            words = [f"resume={run}"]
    if not is_finished(run) and (code := start(words).wait()):
        raise SystemExit(f"{run}: ended with {code}")
    row = {"cycle": number, "kills": len(places), "identical": same(run, FOLDER / "reference")}
    if row["identical"] == "yes":
        shutil.rmtree(run)
    return row | {"last lines before": "; ".join(places)}


def main() -> int:
    options_of = parser(__doc__)
    options_of.add_argument("--kills", type=int, default=50, help="kills in all")
    kills, rows = options_of.parse_args().kills, list[Row]()
    seconds = reference_seconds(FOLDER / "reference")
    while sum(int(str(row["kills"])) for row in rows) < kills:
        rows.append(cycle(len(rows), seconds))
        print(last_line(rows[-1]), flush=True)
    wrong = sum(row["identical"] != "yes" for row in rows)
    print(f"\n{markdown(rows)}\n\n{len(rows) - wrong} of {len(rows)} runs are equal to the reference")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
