#!/usr/bin/env python
"""Kill runs by SIGKILL at random moments, resume them, and compare them with an undisturbed run.

    python benchmarks/kill_resume.py --kills 50 --out outputs/benchmarks/kill_resume
    python benchmarks/kill_resume.py --cost --out outputs/benchmarks/kill_resume

A cycle starts a run, kills its process group in a chosen phase, and resumes it. One run in ten is killed once
more at any moment, and resumed again. ``metrics.json`` is then compared byte by byte with that of the
reference, and so are the hashes of the weights, and ``history.csv`` without its times. Every kill is a line
of ``kills.csv``; a second call continues after the last complete cycle. XLA is off, because compilation would
take most of the time of these small networks; ``--overrides xla.compile=true`` turns it on.

``--cost`` runs the default configuration once, and prints the fraction of the training time that checkpoints
took.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DRIVER, SCRIPT = ROOT / "benchmarks" / "kill_driver.py", ROOT / "scripts" / "grid_lines_workflow.py"
sys.path.insert(0, str(ROOT))

from benchmarks.tables import markdown, write_csv
from ptycho.config import ConfigError
from ptycho.run.network import read_history, read_network
from ptycho.run.stored_run import is_finished

RUN = [
    *("N=32", "size=96", "nimgs_train=1", "nimgs_test=1", "max_groups_train=96", "train.val_groups=8"),
    *("nepochs=4", "batch_size=4", "model.stages=2", "model.width=8", "xla.compile=false"),
    "train.checkpoint_seconds=0.4",
]
# Kills in this order, until each has happened: 15 in each training, 11 in checkpoints, 3 in each other phase.
FIRST = ["simulation", "training_pinn", "training_baseline", "checkpoint", "inference", "reporting"]
TURN = ["training_pinn", "training_baseline", "checkpoint"]
PHASES = [*FIRST, *FIRST, *FIRST, *8 * TURN, *4 * TURN[:2]]
AGAIN = 0.1  # probability of a second kill
COLUMNS = ["cycle", "kill", "seed", "wanted", "phase", "where", "delay_s", "identical", "cycle_s"]


@dataclass
class Death:
    """The lines that a driver printed, with seconds since its start, and its exit code."""

    lines: list[tuple[float, list[str]]] = field(default_factory=list)
    code: int = 0

    def phase(self) -> str:
        """The phase in which the process was killed."""
        last = [words for _, words in self.lines if words[0] in ("phase", "write", "step")]
        if last and last[-1][0] == "write" and self.code == -signal.SIGKILL:
            return "checkpoint"
        name = next((words[1] for _, words in reversed(self.lines) if words[0] == "phase"), "start")
        return "reporting" if name == "stitching" else name

    def where(self) -> str:
        return next((" ".join(words) for _, words in reversed(self.lines)), "")


def drive(
    overrides: list[str], plan: dict[str, Any], phase: str = "", turn: int = 1, delay: float = 0
) -> Death:
    """Run the driver; kill its process group ``delay`` s after ``phase`` began for the ``turn``-th time."""
    command = [sys.executable, str(DRIVER), json.dumps(plan), *overrides]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    death, began = Death(), time.perf_counter()
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith("@"):
            continue
        words = line[1:].split()
        death.lines.append((time.perf_counter() - began, words))
        turn -= words == ["phase", phase]
        if turn == 0:
            turn = -1
            time.sleep(delay)
            os.killpg(process.pid, signal.SIGKILL)
    death.code = process.wait()
    return death


def durations(reference: Death) -> dict[str, list[float]]:
    """Return the seconds of every phase, one number for each time that it began."""
    marks = [(seconds, words[1]) for seconds, words in reference.lines if words[0] == "phase"]
    ends = [seconds for seconds, _ in marks[1:]] + [reference.lines[-1][0]]
    found: dict[str, list[float]] = {}
    for (began, name), end in zip(marks, ends, strict=True):
        found.setdefault(name, []).append(end - began)
    return found


def aim(wanted: str, times: dict[str, list[float]], rng: np.random.Generator) -> dict[str, Any]:
    """Return the arguments of :func:`drive` for a kill in the phase ``wanted``."""
    if wanted == "checkpoint":
        moment = rng.choice(["bytes", "bytes", "written", "renamed"])
        plan = {
            "write": int(rng.integers(1, 9)),
            "moment": float(rng.random()) if moment == "bytes" else moment,
        }
        return {"plan": plan}
    if wanted == "reporting" and rng.random() < 0.3:
        wanted = "stitching"
    turn = int(rng.integers(len(times[wanted])))
    return {"plan": {}, "phase": wanted, "turn": turn + 1, "delay": float(rng.random() * times[wanted][turn])}


def same(run: Path, reference: Path) -> str:
    """Return 'yes' if a run is equal to the reference, or else the difference."""
    if (run / "metrics.json").read_bytes() != (reference / "metrics.json").read_bytes():
        return "metrics.json differs"
    for name in ("pinn", "baseline"):
        try:
            one, two = (read_network(path, name).sha256 for path in (run, reference))
            rows = [without_times(path, name) for path in (run, reference)]
        except ConfigError as error:
            return str(error)
        if one != two:
            return f"weights of {name} differ"
        if rows[0] != rows[1]:
            return f"history of {name} differs"
    return "yes"


def without_times(run: Path, name: str) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_history(run, name)]


def missing(rows: list[dict[str, str]], kills: int) -> list[str]:
    """Return the phases among the first ``kills`` entries of the plan that lack a kill."""
    left = [PHASES[index % len(PHASES)] for index in range(kills)]
    for row in rows:
        if row["phase"] in left:
            left.remove(row["phase"])
    return left


def cycle(
    number: int, wanted: str, options: argparse.Namespace, times: dict[str, list[float]]
) -> list[dict[str, Any]]:
    """Kill, resume and compare a run; return a row for every kill."""
    rng = np.random.default_rng([options.seed, number])
    run, began, rows = options.out / f"cycle{number:03d}", time.perf_counter(), []
    overrides = [*options.run, f"output_dir={run}"]
    shutil.rmtree(run, ignore_errors=True)
    while True:
        if rows and rng.random() < AGAIN and len(rows) < 2:
            whole = sum(map(sum, times.values()))
            arguments = {"plan": {}, "phase": "start", "delay": float(rng.uniform(0.2, 0.8) * whole)}
        else:
            arguments = {"plan": {}} if rows else aim(wanted, times, rng)
        death = drive(overrides, **arguments)
        if death.code == 0 and rows:
            break
        if death.code == 0:  # the process ended before the kill
            shutil.rmtree(run)
            continue
        if death.code != -signal.SIGKILL:
            raise SystemExit(f"{run}: ended with {death.code}")
        rows.append({"cycle": number, "kill": len(rows) + 1, "seed": options.seed, "wanted": wanted})
        moment = arguments["plan"].get("moment", "")
        rows[-1] |= {"phase": death.phase(), "where": f"{death.where()} {moment}".strip()}
        rows[-1] |= {"delay_s": f"{arguments.get('delay', 0):.3f}"}
        resumable = (run / "config.yaml").exists()
        overrides = [f"resume={run}"] if resumable else overrides
    verdict = same(run, options.out / "reference")
    for row in rows:
        row |= {"identical": verdict, "cycle_s": f"{time.perf_counter() - began:.1f}"}
    if verdict == "yes":
        shutil.rmtree(run)
    return rows


def kill(options: argparse.Namespace) -> None:
    reference, log = options.out / "reference", options.out / "kills.csv"
    times = measured_reference(reference, options)
    rows = list(csv.DictReader(log.open(newline=""))) if log.exists() else []
    number = 1 + max((int(row["cycle"]) for row in rows), default=-1)
    while left := missing(rows, options.kills):
        new = cycle(number, left[0], options, times)
        for row in new:
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        rows += [{key: str(value) for key, value in row.items()} for row in new]
        write_csv(log, rows, COLUMNS)
        number += 1
    write_table(options.out / "kills", summary(rows))


def measured_reference(reference: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    """Return the durations of the phases of the reference run, which runs first if it is missing."""
    stored = options.out / "phases.json"
    if not (is_finished(reference) and stored.exists()):
        shutil.rmtree(reference, ignore_errors=True)
        death = drive([*options.run, f"output_dir={reference}"], {})
        if death.code:
            raise SystemExit(f"the reference run ended with {death.code}")
        death.lines.append((death.lines[-1][0] + drawing_seconds(reference), ["end"]))
        stored.write_text(json.dumps(durations(death)))
    return json.loads(stored.read_text())


def drawing_seconds(run: Path) -> float:
    return json.loads((run / "manifest.json").read_text())["timings_s"]["drawing"]


def summary(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Count for every phase the kills in it, and how many of these runs ended like the reference."""
    table = []
    for phase in dict.fromkeys(row["phase"] for row in rows):
        mine = [row for row in rows if row["phase"] == phase]
        good = sum(row["identical"] == "yes" for row in mine)
        table.append({"phase": phase, "kills": len(mine), "identical": good})
    total = {key: sum(row[key] for row in table) for key in ("kills", "identical")}
    return [*table, {"phase": "all"} | total]


def cost(options: argparse.Namespace) -> None:
    """Run the default configuration, and return the fraction of its training time that checkpoints took."""
    run = options.out / "cost"
    if not is_finished(run):
        overrides = [f"output_dir={run}", "overwrite=true", *options.overrides]
        subprocess.run([sys.executable, str(SCRIPT), *overrides], check=True)
    table = []
    for name, part in json.loads((run / "manifest.json").read_text())["training"].items():
        seconds = part["compile_s"] + part["steps_s"]
        share = part["checkpoint_s"] / seconds
        table.append(
            {
                "model": name,
                "training / s": f"{seconds:.1f}",
                "checkpoints / s": f"{part['checkpoint_s']:.2f}",
                "share": f"{share:.2%}",
            }
        )
    write_table(options.out / "cost", table)


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Print a table, and write it as ``<path>_table.md`` and ``.csv``."""
    write_csv(path.with_name(f"{path.name}_table.csv"), rows)
    text = markdown(rows)
    path.with_name(f"{path.name}_table.md").write_text(text + "\n")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50, help="kills in all, with those of earlier calls")
    parser.add_argument("--cost", action="store_true", help="measure what checkpoints cost instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--overrides", nargs="*", default=[], help="further overrides of the run")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks/kill_resume"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    options.run = [*RUN, *options.overrides]
    if options.cost:
        cost(options)
    else:
        kill(options)


if __name__ == "__main__":
    main()
