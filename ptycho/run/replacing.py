"""Replace a run by a new one in its folder, and restore it if the new one fails.

The files of the old run at the top of its folder, and its page ``report.html``, are renamed into the folder
``.replaced`` beside them, ``files.json`` last; the folders among them hold no other files. They are deleted
with the first result of the new run. So the folder shows the state at every moment:

- no ``files.json`` in ``.replaced``, or none beside it: the old run was being moved, and is restored;
- one in each: the new run has begun, and the old one is kept aside.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.files.atomic import remove_temporary
from ptycho.run.names import DISCARDED, MANIFEST, OF_A_RUN, RECORD, REPLACED, REPORT
from ptycho.run.record import is_page, own_files

log = logging.getLogger(__name__)


def waits(run: Path) -> bool:
    """Return whether a replaced run waits in a folder, and a new one has begun there."""
    return (run / REPLACED / RECORD).is_file() and (run / RECORD).is_file()


def make_way(run: Path) -> None:
    """Move the run that a folder holds aside; one that has begun, and has replaced another, is removed.

    OSError: it cannot be moved; it is where it was.
    """
    mend(run)
    if waits(run):
        _remove(run)
        return
    try:
        own = own_files(run)
        tops = {name.split("/")[0] for name in own} | ({REPORT} if own and is_page(run / REPORT) else set())
        _move(run, run / REPLACED, sorted(tops, key=lambda name: name == RECORD))
    except OSError:
        put_back(run)
        raise


def put_back(run: Path) -> bool:
    """Bring the replaced run of a folder back, in the place of the new one; False if there is none."""
    old = run / REPLACED
    if not old.is_dir():
        return False
    if (old / RECORD).is_file():
        _remove(run)
        (old / RECORD).replace(run / RECORD)  # from here on what is in .replaced is on its way back
    _move(old, run, [name for name in os.listdir(old) if not os.path.lexists(run / name)])
    if left := sorted(os.listdir(old)):
        log.warning("%s: %s of the run that is back stay here: their places are taken", old, ", ".join(left))
    else:
        old.rmdir()
    return True


def discard(run: Path) -> None:
    """Delete the replaced run of a folder."""
    if (run / REPLACED).is_dir():
        (run / REPLACED).rename(run / DISCARDED)
    shutil.rmtree(run / DISCARDED, ignore_errors=True)


def mend(run: Path) -> None:
    """Bring to an end what a killed process had begun: a move to and fro, or a deletion."""
    if (run / DISCARDED).is_dir() or (waits(run) and (run / MANIFEST).is_file()):
        discard(run)
    elif not waits(run):
        put_back(run)


def check_inputs(path: Path, inputs: Mapping[str, Path]) -> None:
    """Raise ConfigError if the run in the folder ``path`` holds a file, by key, that a new one reads."""
    own = {os.path.realpath(path / name) for name in own_files(path)}
    for key, source in inputs.items():
        if os.path.realpath(source) in own:
            raise ConfigError(
                f"output_dir={path}: holds {key}={source}, which overwrite=true would remove; choose "
                "another folder"
            )


def _move(source: Path, target: Path, names: Sequence[str]) -> None:
    for name in names:
        target.mkdir(exist_ok=True)
        os.rename(source / name, target / name)


def _remove(run: Path) -> None:
    """Remove the files of a new run but ``files.json``, its page, and folders that are empty then."""
    remove_temporary(run, OF_A_RUN)
    own = own_files(run)
    for name in [*own, *([REPORT] if own and is_page(run / REPORT) else [])]:
        if name != RECORD:
            (run / name).unlink(missing_ok=True)
    for folder in (folder for top in OF_A_RUN for folder, *_ in os.walk(run / top, topdown=False)):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
