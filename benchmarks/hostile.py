#!/usr/bin/env python
"""Are hostile measured scans refused with a clear line? A Markdown table.

    python benchmarks/hostile.py

A case passes if the program ends with code 2 and one line on stderr that names the fault, and changes no
file. A scan that is only doubtful passes if its inspection ends with code 0 and a warning that names the
fault. The exit code is 1 if a case fails.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import runpy
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers.cli import files

from benchmarks import parser
from benchmarks.hostile_scans import SCAN_CASES, ScanCase, ScanWorld
from benchmarks.tables import markdown

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


def tried(case: ScanCase) -> tuple[bool, str, float]:
    """Run a case; return whether it passes, the line that the user sees, and seconds."""
    with tempfile.TemporaryDirectory() as name:
        world = ScanWorld(Path(name))
        overrides = case.make(world)
        before = files(world.folder)
        if case.doubtful:
            code, printed, errors, seconds = here(INSPECT, [*overrides, f"output={name}/picture.png"])
            lines = [line[4:] for line in printed.splitlines() if line.startswith("  ! ")]
            passed = code == 0 and not errors and 0 < len(lines) <= 2
            line = next((line for line in lines if re.search(case.message, line)), "")
            passed = passed and bool(line)
        else:
            code, printed, errors, seconds = here(SCAN, [*overrides, f"output_dir={name}/out"])
            line = errors.strip()
            passed = code == 2 and errors.count("\n") == 1 and re.search(case.message, line) is not None
            passed = passed and not (Path(name) / "out").exists()
        return passed and files(world.folder) == before, line.replace(f"{name}/", ""), seconds


def main() -> int:
    parser(__doc__).parse_args()
    rows = []
    for case in SCAN_CASES:
        passed, line, seconds = tried(case)
        outcome = "passed" if passed else "**FAILED**"
        row = {"case": case.name, "the line that the user sees": line, "outcome": outcome}
        rows.append(row | {"s": f"{seconds:.1f}"})
        print(*rows[-1].values(), sep=" | ", flush=True)
    failed = sum(row["outcome"] != "passed" for row in rows)
    print(f"\n{markdown(rows)}\n\n{len(rows)} cases, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
