"""A run that gives way to a new one in its folder, and comes back if that one fails.

Its files and the page ``report.html`` that was made of it, and no others, are moved into the folder
``.replaced`` beside them, ``files.json`` last; with the first result of the new run they are deleted. So at
every moment the folder tells how far this has come:

- no ``files.json`` in ``.replaced``, or none beside it: the old run was on its way, and is brought back;
- one in each: the new run has begun, and the old one waits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.run.names import DISCARDED, MANIFEST, RECORD, REPLACED, REPORT
from ptycho.run.record import is_page, own_files

log = logging.getLogger(__name__)


def waits(run: Path) -> bool:
    """Whether a replaced run waits in a folder, and a new one has begun there."""
    return (run / REPLACED / RECORD).is_file() and (run / RECORD).is_file()


def make_way(run: Path) -> None:
    """Move the run that a folder holds aside; one that has begun, and has replaced another, is removed.

    OSError: it cannot be moved; it is where it was.
    """
    mend(run)
    if waits(run):
        _remove(run, _files(run))
        return
    try:
        _move(run, run / REPLACED, _files(run))
    except OSError:
        put_back(run)
        raise


def put_back(run: Path) -> bool:
    """Bring the replaced run of a folder back, in the place of the new one; False if there is none."""
    old = run / REPLACED
    if not old.is_dir():
        return False
    if (old / RECORD).is_file():
        _remove(run, [name for name in _files(run) if name != RECORD])
        (old / RECORD).replace(run / RECORD)  # from here on the files in .replaced are on their way back
    paths = (path for path in old.rglob("*") if path.is_symlink() or not path.is_dir())
    found = [path.relative_to(old).as_posix() for path in paths]
    _move(old, run, [name for name in found if not os.path.lexists(run / name)])
    if left := [name for name in sorted(found) if os.path.lexists(old / name)]:
        log.warning("%s: %s of the run that is back stay here: their places are taken", old, ", ".join(left))
    else:
        shutil.rmtree(old, ignore_errors=True)  # folders without files
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


def exchange(new: Path, run: Path) -> None:
    """Move the files of the run in the folder ``new`` into ``run``, for those of the run that this holds.

    OSError: they cannot be moved; what ``run`` held is where it was.
    """
    make_way(run)
    names = sorted((name for name in own_files(new) if name != RECORD), key=lambda name: name == MANIFEST)
    try:
        _move(new, run, [RECORD])  # says whose the others are
        _move(new, run, names)
    except OSError:
        if not put_back(run):
            _remove(run, _files(run))
        raise
    discard(run)


def check_inputs(path: Path, inputs: Mapping[str, Path]) -> None:
    """Raise ConfigError if the run in the folder ``path`` holds a file, by key, that a new one reads."""
    own = {os.path.realpath(path / name) for name in own_files(path)}
    for key, source in inputs.items():
        if os.path.realpath(source) in own:
            raise ConfigError(
                f"output_dir={path}: holds {key}={source}, which overwrite=true would remove; choose "
                "another folder"
            )


def _files(run: Path) -> list[str]:
    """The files of the run in a folder, and the page that was made of it."""
    own = own_files(run)
    return [*own, REPORT] if own and is_page(run / REPORT) else own


def _move(source: Path, target: Path, names: Iterable[str]) -> None:
    """Move files of one folder to the same places in another, ``files.json`` last; no empty folder stays."""
    for name in sorted(names, key=lambda name: name == RECORD):  # the order of the others stays
        os.renames(source / name, target / name)


def _remove(run: Path, names: Iterable[str]) -> None:
    """Remove files of a folder, ``files.json`` last, and the folders that are empty then."""
    for name in sorted(names, key=lambda name: name == RECORD):
        (run / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.removedirs((run / name).parent)
