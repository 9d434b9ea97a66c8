"""The network that comes with the program, in the form of a run's folder."""

from __future__ import annotations

from pathlib import Path

from ptycho.config.scan_run_config import PRETRAINED

FOLDER = Path(__file__).resolve().parent.parent / PRETRAINED


def run_folder(run: str | Path) -> Path:
    """The folder that ``run=…`` names: ``pretrained`` is the network that comes with the program.

    A folder of that name is ``./pretrained``.
    """
    return FOLDER if str(run) == PRETRAINED else Path(run)
