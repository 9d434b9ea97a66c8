#!/usr/bin/env python
"""Are hostile measured scans refused with a clear line? A Markdown table.

    python benchmarks/hostile.py                  all cases in this process, a few in separate processes
    python benchmarks/hostile.py --fresh 1000     every case in a separate process (slow)

A case passes if the program ends with code 2 and one line on stderr that names the fault, and changes no
file. A scan that is only doubtful passes if its inspection ends with code 0 and a warning that names the
fault. The exit code is 1 if a case fails.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.cli import files

from benchmarks.hostile_scans import SCAN_CASES, ScanCase, ScanWorld

SCRIPTS = ROOT / "scripts"
SCAN, INSPECT = SCRIPTS / "scan_workflow.py", SCRIPTS / "inspect_scan.py"
Outcome = tuple[int, str, str, float]


def here(script: Path, overrides: list[str]) -> Outcome:
    """Run a script in this process; return exit code, stdout, stderr and seconds."""
    printed, errors, began, code = io.StringIO(), io.StringIO(), time.perf_counter(), 0
    logging.getLogger().handlers.clear()
    os.environ.pop("HYDRA_FULL_ERROR", None)
    arguments, sys.argv = sys.argv, [str(script), *overrides]
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(printed):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = arguments
    return code, printed.getvalue(), errors.getvalue(), time.perf_counter() - began


def fresh(script: Path, overrides: list[str]) -> Outcome:
    """Run a script in a separate process; return exit code, stdout, stderr and seconds."""
    began = time.perf_counter()
    clean = {key: value for key, value in os.environ.items() if key != "HYDRA_FULL_ERROR"}
    command = [sys.executable, script, *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=clean)
    return done.returncode, done.stdout, done.stderr, time.perf_counter() - began


def tried(case: ScanCase, alone: bool) -> tuple[bool, str, float]:
    """Run a case; return whether it passes, the line that the user sees, and seconds."""
    with tempfile.TemporaryDirectory() as name:
        world = ScanWorld(Path(name))
        overrides = case.make(world)
        before, start = files(world.folder), fresh if alone else here
        if case.doubtful:
            code, printed, errors, seconds = start(INSPECT, [*overrides, f"output={name}/picture.png"])
            lines = [line[4:] for line in printed.splitlines() if line.startswith("  ! ")]
            passed = code == 0 and not errors and 0 < len(lines) <= 2
            line = next((line for line in lines if re.search(case.message, line)), "")
            passed = passed and bool(line)
        else:
            code, printed, errors, seconds = start(SCAN, [*overrides, f"output_dir={name}/out"])
            line = errors.strip()
            passed = code == 2 and errors.count("\n") == 1 and re.search(case.message, line) is not None
            passed = passed and not (Path(name) / "out").exists()
        return passed and files(world.folder) == before, line.replace(f"{name}/", ""), seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", type=int, default=8, help="number of cases in separate processes")
    arguments = parser.parse_args()
    cases = SCAN_CASES
    alone = {k * len(cases) // arguments.fresh for k in range(min(arguments.fresh, len(cases)))}
    alone = set(range(len(cases))) if arguments.fresh >= len(cases) else alone
    failed, slowest = 0, 0.0
    print("| case | the line that the user sees | |\n|---|---|---|")
    for number, case in enumerate(cases):
        passed, line, seconds = tried(case, number in alone)
        failed, slowest = failed + (not passed), max(slowest, seconds)
        cell = line.replace("|", "\\|").replace("\n", "<br>")
        mark = ("separate process, " if number in alone else "") + ("passed" if passed else "**FAILED**")
        print(f"| {case.name} | {cell} | {mark} |", flush=True)
    print(f"\n{len(cases)} cases, {failed} failed, {len(alone)} in separate processes")
    print(f"slowest: {slowest:.1f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
