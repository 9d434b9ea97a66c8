"""The network that comes with the program, in the form of a run's folder."""

from __future__ import annotations

from pathlib import Path

NAME = "pretrained"
FOLDER = Path(__file__).resolve().parent.parent / NAME


def run_folder(run: str | Path) -> Path:
    """The folder that ``run=…`` names: ``pretrained`` is the network that comes with the program.

    A folder of that name is ``./pretrained``.
    """
    return FOLDER if str(run) == NAME else Path(run)
