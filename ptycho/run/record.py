"""``files.json``: the files that a run wrote, by which the run knows its own.

The SHA-256 stands beside the name of an array file; other files have an empty text, as they may be edited.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from ptycho.config import ConfigError
from ptycho.files.atomic import sha256
from ptycho.files.json_file import read_json
from ptycho.files.text import shown
from ptycho.run.names import DATASETS, DISCARDED, KNOWN, LIVE, RECORD, REPLACED, UNFINISHED

MAX_BYTES, LONGEST = 2**20, 255  # of the record; of a file's name
HASH = re.compile("[0-9a-f]{64}")
PAGE, BEGINNING = b'<meta name="generator" content="PtychoPINN">', 500  # in so many bytes of a page


def read_record(run: Path) -> dict[str, str]:
    """File names and their SHA-256, or empty texts; empty for a run from before there was a record.

    ConfigError: it is damaged.
    """
    path = run / RECORD
    try:
        record = read_json(path, MAX_BYTES)
        if not all(isinstance(value, str) for value in record.values()):
            raise ValueError("it must hold names and hashes")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(f"{path}: is damaged ({reason}); remove it to go on without its hashes") from error
    return record


def problem(run: Path, name: str, record: dict[str, str]) -> str | None:
    """What is wrong with the file ``name`` of a run, if its hash is recorded."""
    if not record.get(name):
        return None
    try:
        same = sha256(run / name) == record[name]
    except FileNotFoundError:
        return f"{name}: no such file"
    except OSError as error:
        return f"{name}: cannot be read ({error.strerror or error})"
    return None if same else f"{name}: has another SHA-256 than {RECORD} says; it was changed or damaged"


def damaged(run: Path) -> list[str]:
    """Everything that is wrong with the recorded files of a run.

    Datasets that are gone altogether were removed to save space: a finished run does not need them.
    """
    record = read_record(run)
    names = [n for n in record if (run / DATASETS).exists() or not n.startswith(f"{DATASETS}/")]
    return [text for name in names if (text := problem(run, name, record))]


def listed(run: Path) -> dict[str, str]:
    """The record of a run: every file that it wrote, but for those of a training that goes on.

    An older run has recorded its array files alone; files with the names of a run are taken for its own.
    """
    record = read_record(run)
    if RECORD in record:
        return record
    if not record or not all(HASH.fullmatch(value) for value in record.values()):
        return {}  # of another program
    return {name: "" for name in _there(run, set(KNOWN) - set(UNFINISHED))} | record


def own_files(run: Path) -> list[str]:
    """The files in a folder that the run in it wrote, relative to the folder; none where it holds no run.

    A name that leads out of the folder is passed over. A folder of the run that was replaced by a link
    stands for the files in it: the link is in the folder, they are not.
    """
    if not os.path.isdir(run):
        return []
    record = listed(run)
    every = [*record, *(_there(run, UNFINISHED) if record else [])]
    names = {found for name in every if (found := _inside(run, name)) is not None}
    return sorted(name for name in names if os.path.islink(run / name) or os.path.isfile(run / name))


def is_page(path: Path) -> bool:
    """Whether a file is a page that this program has made of runs."""
    try:
        with path.open("rb") as file:
            return PAGE in file.read(BEGINNING)
    except OSError:
        return False


def foreign_files(run: Path) -> list[str]:
    """What stands in a folder where a run would write, and no run wrote it."""
    if not os.path.isdir(run):
        return []
    own, folders = set(own_files(run)), {name.split("/")[0]: None for name in KNOWN if "/" in name}
    blocked = [n for n in folders if os.path.lexists(run / n) and not (run / n).is_dir() and n not in own]
    return [name for name in _there(run, KNOWN) if _inside(run, name) not in own] + blocked


def owner(path: Path) -> Path | None:
    """The folder of the run that wrote the file ``path``; None for a file of no run."""
    place = Path(os.path.realpath(path))
    for folder in place.parents:
        try:
            if place.relative_to(folder).as_posix() in own_files(folder):
                return folder
        except ConfigError:  # a files.json of something else
            continue
    return None


def check_no_file_of_a_run(key: str, path: Path) -> None:
    """Raise ConfigError if a run wrote the file ``path``, which ``key`` names to be written."""
    if (run := owner(path)) is not None:
        raise ConfigError(f"{key}={path}: is a file of the run in {run}; choose another file")


def _there(run: Path, patterns: Collection[str]) -> list[str]:
    """Names of what is in a folder and fits one of some patterns."""
    plain = [name for name in patterns if "*" not in name and os.path.lexists(run / name)]
    globs = (run.glob(pattern) for pattern in patterns if "*" in pattern)
    return plain + [path.relative_to(run).as_posix() for paths in globs for path in paths]


def _inside(run: Path, name: str) -> str | None:
    """A recorded name, or the first link on the way to it; None where it leads out of the run's folder."""
    parts = PurePosixPath(name).parts
    if not parts or parts[0].startswith("/") or ".." in parts or "\0" in name:
        return None
    if any(len(part.encode("utf-8", "replace")) > LONGEST for part in parts):
        return None
    ways = ["/".join(parts[: k + 1]) for k in range(len(parts))]
    return next((way for way in ways if (run / way).is_symlink()), ways[-1])


def check_links(run: Path, own: Collection[str] = ()) -> None:
    """Refuse links in a run's places that lead out of its folder: nothing is read, moved or written there.

    ``own``: names of links that may stand there, as they will be moved or removed themselves.
    """
    inside = Path(os.path.realpath(run))
    for top in sorted({name.split("/")[0] for name in KNOWN} | {REPLACED, DISCARDED, LIVE}):
        below = (
            Path(folder, name) for folder, *names in os.walk(run / top) for name in itertools.chain(*names)
        )
        for path in (run / top, *below):
            leads_out = os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(inside)
            if leads_out and path.relative_to(run).as_posix() not in own:
                raise ConfigError(
                    f"{shown(str(path))}: is a link that leads out of the run's folder, to "
                    f"{shown(os.readlink(path))}, and is not followed; put what it names in its place, or "
                    "choose another folder"
                )
