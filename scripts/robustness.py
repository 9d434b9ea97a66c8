#!/usr/bin/env python
"""How far may probe, positions, coherence, detector and flux of a scan be wrong? Run a study, and draw it.

    python scripts/robustness.py                             the whole study: 12 cells, a minute or two each
    python scripts/robustness.py --panels probe modes        part of it
    python scripts/robustness.py --override iterative.python=/opt/ptychi/bin/python
    python scripts/robustness.py --override models=[pinn]    without pty-chi's LSQ-ML
    python scripts/robustness.py --simulate seed=8 --output outputs/imperfections8
    python scripts/robustness.py --report-only               table and figure of what there is so far

conf/robustness.yaml has the imperfections, each with its strengths. A cell is a simulated scan and a run of
the scan workflow on it, in processes of their own, one at a time: <output>/<imperfection>_<strength>/ with
scan.cxi, run/ and log.txt; the cell without imperfections is shared. Finished cells are kept: after an
interruption the same command goes on. A cell that fails is reported, and the rest goes on.
<output>/results.md: SSIM, errors of probe and positions, times; robustness.png: SSIM against the strength for
network, refined and LSQ-ML.

Exit code: 0 done, 1 a cell failed, 2 the study cannot be run as asked, 130 interrupted.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ptycho.config import ScanRunConfig, check
from ptycho.run.folder import OutputFolder
from workflows.command_line import (
    CONF,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    MISTAKES,
    log_to_stderr,
)
from workflows.config import explained
from workflows.robustness import Cell, Definition, cells_of, check_cells, due, load_definition, write_report
from workflows.study.processes import execute, heed_signals, last_line

log = logging.getLogger("study")
SCRIPTS = Path(__file__).resolve().parent


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, default=Path("outputs/imperfections"), help="folder (outputs/imperfections)"
    )
    parser.add_argument(
        "--definition", type=Path, default=CONF / "robustness.yaml", help="the study (conf/robustness.yaml)"
    )
    parser.add_argument("--panels", nargs="+", metavar="NAME", help="imperfections (all of the definition)")
    parser.add_argument(
        "--override", nargs="+", default=[], metavar="KEY=VALUE", help="for every run of scan_workflow.py"
    )
    parser.add_argument(
        "--simulate", nargs="+", default=[], metavar="KEY=VALUE", help="for every scan of simulate_scan.py"
    )
    parser.add_argument("--report-only", action="store_true", help="run nothing; table and figure")
    parser.add_argument("--overwrite", action="store_true", help="replace cells made with other overrides")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None, scripts: Path = SCRIPTS) -> int:
    """See the module's text for the exit code."""
    options = arguments(words)
    log_to_stderr()
    given = [word for word in (sys.argv[1:] if words is None else words) if word != "--report-only"]
    command = shlex.join(["python", "scripts/robustness.py", *given])
    try:
        study = chosen(load_definition(options.definition), options.panels)
        cells = cells_of(study, options.output, options.simulate, options.override)
        different = list(dict.fromkeys(cells.values()))
        folder = OutputFolder(options.output)
        waiting = [] if options.report_only else due(different, options.overwrite)
        check_cells(waiting, CONF)
    except MISTAKES as error:
        sys.stderr.write(f"error: {explained(error, ScanRunConfig)}\n")
        return EXIT_USAGE
    log.info("%d cells: %d finished, %d to do", len(different), len(different) - len(waiting), len(waiting))
    heed_signals()
    try:
        failed = [
            cell for k, cell in enumerate(waiting) if not done(cell, f"{k + 1}/{len(waiting)}", scripts)
        ]
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; finished cells are kept. To go on:\n    {command}\n")
        return EXIT_INTERRUPTED
    write_report(folder, study, cells, command)
    log.info("results: %s", options.output / "results.md")
    for cell in failed:
        log.error("failed: %s; see %s", cell.name, cell.path / "log.txt")
    return EXIT_FAILED if failed else 0


def chosen(study: Definition, panels: Sequence[str] | None) -> Definition:
    """The study of some panels only, in its own order."""
    known = [panel.name for panel in study.panels]
    for name in panels or ():
        check(name in known, "--panels", name, f"drawn from {', '.join(known)}")
    return replace(study, panels=[panel for panel in study.panels if panel.name in (panels or known)])


def done(cell: Cell, turn: str, scripts: Path) -> bool:
    """Make the scan and run on it; whether both came to their end."""
    log.info("[%s] %s", turn, cell.name)
    cell.begin()
    began, path = time.perf_counter(), cell.path / "log.txt"
    with path.open("w") as file:
        for name, *words in cell.commands:
            if code := execute([str(scripts / name), *words], file):
                file.flush()
                log.error("    failed with exit code %d: %s", code, last_line(path))
                return False
    cell.finish()
    log.info("    done in %.0f s", time.perf_counter() - began)
    return True


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
