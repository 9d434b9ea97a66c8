"""``scripts/study.py`` for a definition of zero-shot reconstruction: options, cells in turn, exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.config.backend import require_tensorflow
from ptycho.iterative.lsqml import available
from ptycho.quiet_start import start_tensorflow
from ptycho.run.folder import OutputFolder
from ptycho.run.network import StoredNetwork, read_network
from ptycho.run.pretrained import run_folder
from workflows.command_line import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, MISTAKES, log_to_stderr
from workflows.config import explained
from workflows.study.processes import heed_signals
from workflows.zero_shot.definition import LSQML, METHODS, Cell, Definition, load_definition
from workflows.zero_shot.report import write_report
from workflows.zero_shot.store import due

log = logging.getLogger("study")

HELP = """How well does one network reconstruct scans of kinds that it has never seen?

A cell is a simulated scan; all are made in turn in this process. Its scores go to <output>/cells/<cell>.json
as soon as a method is done, so that the same command goes on after an interruption; tables and figures to
<output>: results.md, results.json, heat_map.png, worst.png.

Exit code: 0 done, 1 a cell failed, 2 the study cannot be run as asked, 130 interrupted."""


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="study.py", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--definition", type=Path, required=True, help="the study, as conf/zero_shot.yaml")
    parser.add_argument(
        "--output", type=Path, default=Path("outputs/zero_shot"), help="folder (outputs/zero_shot)"
    )
    parser.add_argument("--run", metavar="FOLDER", help="the network's run (that of the definition)")
    parser.add_argument("--panels", nargs="+", metavar="NAME", help="panels (all of the definition)")
    parser.add_argument(
        "--methods", nargs="+", metavar="NAME", help=f"of {', '.join(METHODS)} (those of the definition)"
    )
    parser.add_argument("--ptychi", metavar="PYTHON", help="an interpreter that has pty-chi, for lsqml")
    parser.add_argument("--report-only", action="store_true", help="make nothing; tables of what there is")
    parser.add_argument("--overwrite", action="store_true", help="replace cells made with other settings")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """See :data:`HELP` for the exit code."""
    options = arguments(words)
    log_to_stderr()
    given = [word for word in words if word != "--report-only"]
    command = shlex.join(["python", "scripts/study.py", *given])
    try:
        study = load_definition(options.definition).select(options.panels, options.methods, options.run)
        cells = {cell.name: cell for some in study.cells().values() for cell in some}
        study = with_what_is_there(study, options.ptychi, asked=options.methods or ())
        folder, failed = OutputFolder(options.output), []
        if not options.report_only:
            require_tensorflow(os.environ)
            stored = read_network(run_folder(study.run), "pinn")
            waiting = due(cells.values(), study, stored.sha256, options.output, options.overwrite)
    except MISTAKES as error:
        sys.stderr.write(f"error: {explained(error)}\n")
        return EXIT_USAGE
    heed_signals()
    try:
        if not options.report_only:
            log.info("%d cells: %d to do", len(cells), len(waiting))
            failed = perform_all(cells, waiting, study, stored, options.ptychi, folder)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; finished cells are kept. To go on:\n    {command}\n")
        return EXIT_INTERRUPTED
    write_report(folder, study, command)
    log.info("results: %s", options.output / "results.md")
    for line in failed:
        log.error("failed: %s", line)
    return EXIT_FAILED if failed else 0


def with_what_is_there(study: Definition, python: str | None, asked: Sequence[str]) -> Definition:
    """The study without LSQ-ML if no Python with it is named.

    Raises:
        ConfigError: LSQ-ML was asked for and no such Python is named, or the one that is named lacks it.
    """
    if LSQML not in study.methods:
        return study
    if python is not None:
        if missing := available(python):
            raise ConfigError(f"--ptychi: {missing}")
        return study
    if LSQML in asked:
        raise ConfigError("--methods=lsqml: needs --ptychi, the path of a Python that has pty-chi")
    log.info("lsqml is left out; --ptychi names a Python that has pty-chi")
    return study.select(None, [name for name in study.methods if name != LSQML], None)


def perform_all(
    cells: Mapping[str, Cell],
    waiting: Mapping[str, Sequence[str]],
    study: Definition,
    stored: StoredNetwork,
    python: str | None,
    folder: OutputFolder,
) -> list[str]:
    """The cells one after the other; a line for each that failed. TensorFlow is imported only now."""
    if not waiting:
        return []
    start_tensorflow()
    from ptycho.run.loaded import LoadedModel
    from workflows.device import prepare_tensorflow
    from workflows.zero_shot.cells import perform

    prepare_tensorflow()
    model, failed = LoadedModel(stored), []
    for turn, (name, methods) in enumerate(waiting.items(), start=1):
        log.info("[%d/%d] %s", turn, len(waiting), name)
        began = time.perf_counter()
        try:
            perform(cells[name], study, stored, model, python, folder, methods)
        except Exception as error:  # the others may be well
            log.exception("    failed")
            failed.append(f"{name}: {explained(error)}")
        log.info("    %.0f s", time.perf_counter() - began)
    return failed
