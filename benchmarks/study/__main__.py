"""Measure the cells of a study that have no result yet, and write a report of all cells.

    python -m benchmarks.study grid_lines                         networks on simulated scans; hours
    python -m benchmarks.study zero_shot                          one network on unseen kinds of scans
    python -m benchmarks.study grid_lines --only gs1_ideal gs2_curved          some cells
    python -m benchmarks.study grid_lines seeds=[0] run+=nepochs=1 --output outputs/quick
    python -m benchmarks.study zero_shot methods=[refined] --only doses
    python -m benchmarks.study zero_shot --report                 measure nothing

DEFINITION is a file, or the name of one in benchmarks/study/. KEY=VALUE replaces one of its keys, KEY+=TEXT
extends a key that is a list of texts. The result of a cell is <output>/<cell>.json, written when it is
complete, so that the same command continues after an interruption. A cell that fails is reported, and the
others are measured. <output>/results.md is the report.

Exit code: 0 done, 1 a cell failed, 2 the settings are invalid, 130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.study.framework import Cell, Store, Study, load, pick
from benchmarks.study.grid_lines import GridLines
from benchmarks.study.zero_shot import ZeroShot
from ptycho.command_line.config import explained
from ptycho.command_line.jobs import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, MISTAKES, log_to_stderr

log = logging.getLogger("study")
HERE = Path(__file__).resolve().parent
KINDS = {"grid_lines": GridLines, "zero_shot": ZeroShot}


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("definition", help=f"one of {', '.join(KINDS)}, or a file")
    parser.add_argument(
        "changes", nargs="*", metavar="KEY=VALUE", help="another value of a key of the definition"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="cells, or groups of them")
    parser.add_argument("--report", action="store_true", help="measure nothing; report the stored results")
    parser.add_argument("--output", type=Path, help="folder (outputs/study/<name of the definition>)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Run the program; return the exit code, see the docstring of the module."""
    options = arguments(words)
    log_to_stderr()
    shown = [word for word in words if word != "--report"]
    command = shlex.join(["python", "-m", "benchmarks.study", *shown])
    path = Path(options.definition)
    path = path if path.suffix else HERE / f"{path}.yaml"
    try:
        study = load(path, options.changes, KINDS)
        cells = pick(study.cells(), options.only)
        store = Store(options.output or Path("outputs/study") / path.stem)
        due = [] if options.report else store.due(cells)
        study.check_due(due)
    except MISTAKES as error:
        sys.stderr.write(f"error: {explained(error)}\n")
        return EXIT_USAGE
    log.info("%d cells: %d to do", len(cells), len(due))
    heed_signals()
    try:
        failed = measure_all(study, due, store)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; results are kept. To continue:\n    {command}\n")
        return EXIT_INTERRUPTED
    log.info("report: %s", store.text("results.md", f"    {command}\n\n{study.report(cells, store)}\n"))
    for line in failed:
        log.error("failed: %s", line)
    return EXIT_FAILED if failed else 0


def heed_signals() -> None:
    """Let SIGINT and SIGTERM raise KeyboardInterrupt, even if the shell ignores them."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.default_int_handler)


def measure_all(study: Study, due: Sequence[Cell], store: Store) -> list[str]:
    """Measure one cell after the other; return a line for each that failed."""
    failed = []
    for turn, cell in enumerate(due, start=1):
        log.info("[%d/%d] %s", turn, len(due), cell.name)
        began = time.perf_counter()
        try:
            store.keep(cell, study.measure(cell, store))
        except Exception as error:  # the other cells may succeed
            log.debug("failed", exc_info=error)
            failed.append(f"{cell.name}: {explained(error) or type(error).__name__}")
            log.error("    %s", failed[-1])
        log.info("    %.0f s", time.perf_counter() - began)
    return failed


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
