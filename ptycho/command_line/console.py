"""The command ``ptycho``: every program by one name, ``ptycho scan data.file=…``.

A program is a script of ``scripts/``, which is part of the package that is installed; it runs as it does when
it is named itself. Only the standard library is imported here, so that ``ptycho --help`` is answered at once.
"""

from __future__ import annotations

import difflib
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ptycho.installed import remedy

NAME = "ptycho"
EXIT_USAGE = 2
ROOT = Path(__file__).resolve().parents[2]


class Program(NamedTuple):
    script: str
    text: str  # what it does, in a line
    part: str = ""  # the optional part that has the command, in its module ``<script>_command``


PROGRAMS: dict[str, Program] = {
    "inspect": Program("inspect_scan", "show how a file is read; changes nothing"),
    "scan": Program("scan_workflow", "reconstruct measured scans"),
    "live": Program("live", "reconstruct a scan while it is measured: HDF5, files or ZMQ", "ptycho_live"),
    "tune": Program("tune", "find the settings that explain a scan best, by Optuna", "ptycho_tune"),
    "export": Program("export_scan", "a run's scan for other programs: CXI, ptychodus, NPZ"),
    "sample": Program("sample", "make a small scan in seconds, to try the program with"),
    "simulate": Program("simulate_scan", "a scan with a known answer, as a file"),
    "replay": Program("replay", "send a scan as a beamline would, for tests", "ptycho_live"),
    "report": Program("report", "a run as one page to read and to mail; an index of runs", "ptycho_report"),
    "compare": Program("compare", "runs beside each other: scores, settings, pictures", "ptycho_report"),
    "grid-lines": Program("grid_lines_workflow", "simulate, train, reconstruct, compare"),
    "export-model": Program("export_model", "a network for other programs: TFLite, ONNX, …", "ptycho_export"),
    "run-exported": Program("run_exported", "an exported network, without TensorFlow", "ptycho_export"),
    "pretrain": Program("pretrain", "train the networks that are installed", "ptycho_pretrain"),
    "doctor": Program("doctor", "check this machine: what works, what is missing"),
}
GROUPS = {"Your scan": "inspect", "Look at runs": "report", "Networks": "grid-lines", "Maintain": "doctor"}
"""Titles of the help, and the command with which each part begins."""


def folder_of(name: str) -> Path:
    """Return ``scripts`` or ``conf``: beside ``ptycho``, or where it is installed in ``ptycho_workflows``."""
    installed = ROOT / "ptycho_workflows" / name
    return installed if installed.is_dir() else ROOT / name


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program that is named first; exit code as its own, 2: there is no such program."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    first = words[0] if words else ""
    if first in ("", "-h", "--help", "help"):
        sys.stdout.write(help_text())
        return 0 if words else EXIT_USAGE
    if first in ("-V", "--version", "version"):
        import ptycho

        sys.stdout.write(f"ptychopinn {ptycho.__version__} (Python {sys.version.split()[0]})\n")
        return 0
    if first not in PROGRAMS:
        near = difflib.get_close_matches(first, PROGRAMS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        sys.stderr.write(f"error: {NAME} {first}: there is no such command; {hint}{NAME} --help lists all\n")
        return EXIT_USAGE
    script = folder_of("scripts") / f"{PROGRAMS[first].script}.py"
    sys.argv = [str(script), *words[1:]]  # a script reads its arguments from the process
    runpy.run_path(str(script), run_name="__main__")
    return 0


def help_text() -> str:
    """What ``ptycho --help`` says."""
    width = max(map(len, PROGRAMS)) + 2
    titles = {first: f"\n{title}:\n" for title, first in GROUPS.items()}
    lines = [f"{titles.get(name, '')}  {name:<{width}}{program.text}\n" for name, program in PROGRAMS.items()]
    return f"""usage: {NAME} COMMAND [key=value …]

PtychoPINN: from diffraction patterns to a complex image of the sample.
{"".join(lines)}
  {NAME} COMMAND --help   what it does, and the keys that matter first
  {NAME} --version

First: {NAME} inspect FILE, then {NAME} scan FILE output_dir=outputs/mine
No file at hand: {NAME} sample makes one
"""


def typed_words() -> list[str] | None:
    """``["ptycho", "scan"]`` where the process was started so; None: otherwise."""
    original = sys.orig_argv[1:]
    while original and original[0].startswith("-"):
        original = original[1:]
    if len(original) > 1 and Path(original[0]).name == NAME and original[1] in PROGRAMS:
        return [NAME, original[1]]
    return None


def command_of(name: str) -> Any:
    """Return the module of a command of an optional part; without it, end with the remedy and the code 2."""
    script, _, part = PROGRAMS[name]
    if (advice := remedy(part)) is not None:
        sys.stderr.write(f"error: this command {advice}\n")
        raise SystemExit(EXIT_USAGE)
    return import_module(f"{part}.{script}_command")
