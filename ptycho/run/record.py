"""``files.json``: the SHA-256 of every array file of a run, by which the run knows its own."""

from __future__ import annotations

import json
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.files.atomic import sha256
from ptycho.run.names import DATASETS, RECORD

MAX_BYTES = 2**20


def read_record(run: Path) -> dict[str, str]:
    """File names and their SHA-256; empty for a run from before there was a record.

    Raises:
        ConfigError: it is damaged.
    """
    path = run / RECORD
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has {path.stat().st_size} bytes")
        record = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or not all(isinstance(value, str) for value in record.values()):
            raise ValueError("it must hold names and hashes")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: is damaged ({' '.join(str(error).split())[:200]}); "
            "remove it to go on without its hashes"
        ) from error
    return record


def problem(run: Path, name: str, record: dict[str, str]) -> str | None:
    """What is wrong with the file ``name`` of a run, if it is recorded."""
    if name not in record:
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
