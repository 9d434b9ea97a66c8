#!/usr/bin/env python
"""Run all cells of a study for all seeds, and write one table and its figures.

    python scripts/study.py                                          the whole study, a few hours
    python scripts/study.py --cells gs1_ideal gs1_curved --seeds 0   part of it
    python scripts/study.py --report-only                            tables of what there is so far
    python scripts/study.py --output outputs/robustness --cells gs2_ideal --seeds 100 101 102 \\
        --override nepochs=1                                         how far do quick runs spread?

    python scripts/study.py --definition conf/zero_shot.yaml --help  scans of unseen kinds by one network

A cell is conf/experiment/<name>.yaml; conf/study.yaml lists the cells with published values, targets and
comparisons. Every run has a process of its own, one at a time, and the folder <output>/<cell>/seed<s>; what
it prints goes to <output>/<cell>/seed<s>.log. A complete run of the same configuration is kept: after an
interruption the same command goes on where it stopped. Tables and figures go to <output>: results.md, .csv,
.json, spread.md, comparison.png, validation_loss.png.

Exit code: 0 done, 1 a run failed, 2 the study cannot be run as asked, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.run.folder import OutputFolder
from workflows.command_line import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, MISTAKES, log_to_stderr
from workflows.config import explained
from workflows.study.definition import load_study
from workflows.study.plan import COMPLETE, INCOMPLETE, OTHER, StudyRun, plan
from workflows.study.processes import execute, heed_signals, last_line
from workflows.study.report import write_report
from workflows.study.results import collect
from workflows.zero_shot import command as zero_shot
from workflows.zero_shot.definition import is_zero_shot

log = logging.getLogger("study")
ROOT = Path(__file__).resolve().parent.parent
CONF, WORKFLOW = ROOT / "conf", ROOT / "scripts" / "grid_lines_workflow.py"


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--definition", type=Path, help="the study (conf/study.yaml)")
    parser.add_argument("--output", type=Path, default=Path("outputs/study"), help="folder (outputs/study)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds (0 1 2)")
    parser.add_argument("--cells", nargs="+", metavar="NAME", help="cells (all of conf/study.yaml)")
    parser.add_argument(
        "--override", nargs="+", default=[], metavar="KEY=VALUE", help="overrides for every run"
    )
    parser.add_argument("--report-only", action="store_true", help="run nothing; tables of what there is")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace complete runs of another configuration"
    )
    parser.add_argument(
        "--keep-datasets", action="store_true", help="keep what was simulated, about 0.3 GB a run"
    )
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None, conf: Path = CONF, workflow: Path = WORKFLOW) -> int:
    """See the module's text for the exit code."""
    given = sys.argv[1:] if words is None else words
    definition = definition_of(given)
    if definition is not None and is_zero_shot(definition):
        return zero_shot.main(given)
    options = arguments(given)
    log_to_stderr()
    command = shown_command(given)
    try:
        study = load_study(definition or conf / "study.yaml").select(options.cells)
        seeds = list(dict.fromkeys(options.seeds))
        runs = plan(study, options.output, seeds, options.override, conf)
        folder = OutputFolder(options.output)
        due = [] if options.report_only else to_run(runs, options.overwrite)
    except MISTAKES as error:
        sys.stderr.write(f"error: {explained(error)}\n")
        return EXIT_USAGE
    heed_signals()
    try:
        failed = run_all(due, runs, workflow, options.keep_datasets)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; complete runs are kept. To go on:\n    {command}\n")
        return EXIT_INTERRUPTED
    write_report(folder, study, collect(study, runs), command)
    log.info("results: %s", options.output / "results.md")
    for run in failed:
        log.error("failed: %s; see %s", run.name, log_path(run))
    return EXIT_FAILED if failed else 0


def definition_of(words: Sequence[str]) -> Path | None:
    """The file that ``--definition`` names; each kind of study has options of its own."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--definition", type=Path)
    found: Path | None = parser.parse_known_args(words)[0].definition
    return found


def shown_command(words: Sequence[str]) -> str:
    """The command that goes on with this study."""
    return shlex.join(["python", "scripts/study.py", *(word for word in words if word != "--report-only")])


def to_run(runs: Sequence[StudyRun], overwrite: bool) -> list[StudyRun]:
    """The runs that are not complete; a complete one of another configuration needs ``overwrite``."""
    states = [(run, run.state()) for run in runs]
    for run, state in states:
        if state == OTHER and not overwrite:
            raise ConfigError(
                f"{run.path}: holds a complete run of another configuration "
                f"({'; '.join(run.differences())}); choose another --output, or --overwrite to replace it"
            )
    due = [run for run, state in states if state != COMPLETE]
    begun = sum(state == INCOMPLETE for _, state in states)
    done = len(runs) - len(due)
    log.info("%d runs: %d complete, %d to do (%d begun before)", len(runs), done, len(due), begun)
    return due


def run_all(
    due: Sequence[StudyRun], runs: Sequence[StudyRun], workflow: Path, keep_datasets: bool
) -> list[StudyRun]:
    """Run one after the other; those that failed."""
    failed = []
    for number, run in enumerate(due):
        log.info("[%d/%d] %s%s", number + 1, len(due), run.name, time_left(due[number:], runs))
        began = time.perf_counter()
        log_path(run).parent.mkdir(parents=True, exist_ok=True)
        with log_path(run).open("w") as file:
            code = execute([str(workflow), *run.arguments], file)
        seconds = time.perf_counter() - began
        if code == 0 and run.state() == COMPLETE:
            log.info("    done in %.0f s: %s", seconds, first_scores(run))
            if not keep_datasets:
                shutil.rmtree(run.path / "datasets", ignore_errors=True)
        else:
            failed.append(run)
            why = last_line(log_path(run))
            log.error("    failed after %.0f s with exit code %d: %s", seconds, code, why)
    return failed


def time_left(due: Sequence[StudyRun], runs: Sequence[StudyRun]) -> str:
    """An estimate from the complete runs: of the same cell where there is one, or else of all."""
    known: dict[str, list[float]] = {}
    for run in runs:
        if run.state() == COMPLETE:
            total = json.loads((run.path / "manifest.json").read_text())["timings_s"]["total"]
            known.setdefault(run.cell.name, []).append(total)
    if not known:
        return ""
    typical = {name: statistics.mean(totals) for name, totals in known.items()}
    other = statistics.mean(typical.values())
    minutes = sum(typical.get(run.cell.name, other) for run in due) / 60
    return f"; about {minutes // 60:.0f} h {minutes % 60:.0f} min left"


def first_scores(run: StudyRun) -> str:
    """Amplitude and phase SSIM of a complete run."""
    scores = json.loads((run.path / "metrics.json").read_text())[run.cell.model]["ssim"]
    return "SSIM amplitude {}, phase {}".format(*("none" if s is None else f"{s:.4f}" for s in scores))


def log_path(run: StudyRun) -> Path:
    """What the run's process prints."""
    return run.path.with_name(f"{run.path.name}.log")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
