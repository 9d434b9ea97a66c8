"""``data.file='scans/*.h5'``: every scan that fits a pattern in a run of its own."""

from __future__ import annotations

import glob
import os
import re
from dataclasses import replace
from pathlib import Path

from ptycho.config import ConfigError, JobConfig, ScanRunConfig
from ptycho.run.record import owner
from ptycho.run.scan_plan import check_settings
from workflows.command_line.jobs import MAX_NAME


def split(config: JobConfig) -> dict[str, JobConfig]:
    """The runs that the pattern in ``data.file`` asks for, by name; none where it is no pattern.

    Raises:
        ConfigError: nothing fits the pattern, or what concerns all scans is wrong.
    """
    if not isinstance(config, ScanRunConfig) or not any(map(is_pattern, config.data.file)):
        return {}
    if len(config.data.file) > 1:
        raise ConfigError(
            f"data.file={list(config.data.file)}: a pattern cannot be combined (it makes one run for "
            "each scan); a list names the scans of one run"
        )
    for key in ("patterns_file", "positions_file"):
        if getattr(config.data, key) is not None:
            raise ConfigError(f"data.{key}: belongs to one scan; data.file={config.data.path} is a pattern")
    check_settings(config)
    scans = name_scans(config.data.path, match(config.data.path))
    return {name: replace(config, data=replace(config.data, file=(file,))) for name, file in scans.items()}


def is_pattern(text: str) -> bool:
    """Whether a text has signs of a pattern and is not the name of a file that is there."""
    return glob.has_magic(text) and not os.path.lexists(text)


def match(pattern: str) -> list[str]:
    """The files and folders that fit a pattern, in natural order: scan 2 before scan 10.

    Left out are folders in which others that fit lie, and what runs have written.

    Raises:
        ConfigError: there are none.
    """
    every = glob.glob(pattern, recursive=True)
    parents = {str(parent) for path in every for parent in Path(path).parents}
    scans = [path for path in every if str(Path(path)) not in parents and owner(Path(path)) is None]
    if not scans:
        folder = base_of(pattern).absolute()
        where = f"no scan in {folder}" if folder.is_dir() else f"nothing: there is no folder {folder}"
        raise ConfigError(f"data.file={pattern}: matches {where}")
    return sorted(scans, key=natural)


def natural(text: str) -> list[str | int]:
    """A key to sort by that takes the numbers in a text as numbers."""
    return [int(part) if k % 2 else part for k, part in enumerate(re.split(r"(\d+)", text))]


def base_of(pattern: str) -> Path:
    """The folder that a pattern begins with."""
    parts = Path(pattern).parts
    magic = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:magic])


def name_scans(pattern: str, files: list[str]) -> dict[str, str]:
    """Files by name: the path below the folder of the pattern, without the suffix that the pattern states.

    A name depends on nothing else, so that it stays when there are more scans.

    Raises:
        ConfigError: two have the same.
    """
    suffix, base = Path(pattern).suffix, base_of(pattern)
    names: dict[str, str] = {}
    for file in files:
        inner = Path(file).relative_to(base)
        name = str(inner).removesuffix(suffix).replace(os.sep, "-")[:MAX_NAME]
        if name in names:
            raise ConfigError(
                f"data.file={pattern}: {names[name]} and {file} would both be the run {name}; rename one"
            )
        names[name] = file
    return names
