#!/usr/bin/env python
"""What a user is told about hostile files, run folders and settings: one Markdown row for each case.

    python benchmarks/hostile.py                  all cases in this process, a few in processes of their own
    python benchmarks/hostile.py --fresh 1000     every case in a process of its own (slow)

A case passes if the program ends with code 2 and one line on stderr that says what is wrong, and leaves every
file as it was. Exit code 1 if one does not.
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

from helpers_cli import files
from hostile_cases import CASES, Case, World

SCRIPT = ROOT / "scripts" / "infer.py"
Outcome = tuple[int, str, float]


def here(overrides: list[str]) -> Outcome:
    """Exit code, stderr and seconds of the script in this process."""
    said, began, code = io.StringIO(), time.perf_counter(), 0
    logging.getLogger().handlers.clear()
    os.environ.pop("HYDRA_FULL_ERROR", None)
    arguments, sys.argv = sys.argv, [str(SCRIPT), *overrides]
    try:
        with contextlib.redirect_stderr(said):
            runpy.run_path(str(SCRIPT), run_name="__main__")
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = arguments
    return code, said.getvalue(), time.perf_counter() - began


def fresh(overrides: list[str]) -> Outcome:
    """The same in a process of its own."""
    began = time.perf_counter()
    clean = {key: value for key, value in os.environ.items() if key != "HYDRA_FULL_ERROR"}
    command = [sys.executable, SCRIPT, *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=clean)
    return done.returncode, done.stderr, time.perf_counter() - began


def tried(case: Case, alone: bool) -> tuple[bool, str, float]:
    """Whether a case ends as it must, the line that the user sees, and seconds."""
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        overrides = case.overrides(world)
        if not any(text.startswith("output_dir=") for text in overrides):
            overrides = [*overrides, f"output_dir={world.folder / 'out'}"]
        before = files(world.folder)
        code, said, seconds = (fresh if alone else here)(overrides)
        line = said.strip().replace(f"{name}/", "")
        passed = code == 2 and said.count("\n") == 1 and files(world.folder) == before
        return passed and re.search(case.message, said.rstrip()) is not None, line, seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", type=int, default=8, help="cases in processes of their own, spread evenly")
    arguments = parser.parse_args()
    alone = {k * len(CASES) // arguments.fresh for k in range(min(arguments.fresh, len(CASES)))}
    alone = set(range(len(CASES))) if arguments.fresh >= len(CASES) else alone
    failed, slowest = 0, 0.0
    print("| case | the line that the user sees | |\n|---|---|---|")
    for number, case in enumerate(CASES):
        passed, line, seconds = tried(case, number in alone)
        failed, slowest = failed + (not passed), max(slowest, seconds)
        cell = line.replace("|", "\\|").replace("\n", "<br>")
        mark = ("own process, " if number in alone else "") + ("passed" if passed else "**FAILED**")
        print(f"| {case.name} | {cell} | {mark} |", flush=True)
    print(f"\n{len(CASES)} cases, {failed} failed, {len(alone)} in processes of their own")
    print(f"slowest: {slowest:.1f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
