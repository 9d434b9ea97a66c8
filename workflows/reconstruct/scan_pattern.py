"""``data.file='scans/*.h5'`` or ``data.file=[a.h5,b.h5]``: every scan in a run of its own."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ptycho.command_line.jobs import MAX_NAME
from ptycho.config import ConfigError, JobConfig, ScanRunConfig, check
from ptycho.run.record import owner
from ptycho.run.scan_plan import check_settings


def split(config: JobConfig) -> dict[str, JobConfig]:
    """The runs that a pattern or a list in ``data.file`` asks for, by name; none where it is one scan.

    ConfigError: nothing fits the pattern, or what concerns all scans is wrong.
    """
    if not isinstance(config, ScanRunConfig):
        return {}
    files, patterned = config.data.file, any(map(is_pattern, config.data.file))
    if config.data.shared and patterned:
        raise ConfigError(
            f"data.shared={config.data.shared}, data.file={config.data.paths}: is a pattern; name the files "
            "one by one"
        )
    if config.data.shared or (len(files) == 1 and not patterned):
        return {}
    single = len(files) == 1 or not patterned
    check(single, "data.file", list(files), "one pattern, or a list without patterns")
    if len(files) > 1 and config.nepochs:
        raise ConfigError(
            f"nepochs={config.nepochs}, data.file={list(files)}: a network is trained on one scan; start a "
            "run on one of them, then give run=<its folder> for the others, or run=pretrained without nepochs"
        )
    for key in ("patterns_file", "positions_file"):
        if getattr(config.data, key) is not None:
            raise ConfigError(f"data.{key}: belongs to one scan; data.file={config.data.path} is a pattern")
    check_settings(config)
    scans = name_scans(files[0], match(files[0])) if patterned else name_files(files)
    return {name: replace(config, data=replace(config.data, file=(file,))) for name, file in scans.items()}


def is_pattern(text: str) -> bool:
    """Whether a text has signs of a pattern and is not the name of a file that is there."""
    return glob.has_magic(text) and not os.path.lexists(text)


def match(pattern: str) -> list[str]:
    """The files and folders that fit a pattern, in natural order: scan 2 before scan 10.

    Left out are folders in which others that fit lie, and what runs have written. ConfigError: none is left.
    """
    every = glob.glob(pattern, recursive=True)
    parents = {str(parent) for path in every for parent in Path(path).parents}
    scans = [path for path in every if str(Path(path)) not in parents and owner(Path(path)) is None]
    if not scans:
        folder = base_of(pattern).absolute()
        reason = f"no scan in {folder}" if folder.is_dir() else f"nothing: there is no folder {folder}"
        raise ConfigError(f"data.file={pattern}: matches {reason}")
    return sorted(scans, key=natural)


def natural(text: str) -> list[str | int]:
    """A key to sort by that takes the numbers in a text as numbers."""
    return [int(part) if k % 2 else part for k, part in enumerate(re.split(r"(\d+)", text))]


def base_of(pattern: str) -> Path:
    parts = Path(pattern).parts
    magic = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    return Path(*parts[:magic])


def name_files(files: Sequence[str]) -> dict[str, str]:
    """Files by name: that of the file without its ending, with a number where several have the same."""
    stems = [Path(file).stem for file in files]
    counts = [(stem, stems.count(stem), stems[: k + 1].count(stem)) for k, stem in enumerate(stems)]
    return _by_name([stem if total == 1 else f"{stem}_{number}" for stem, total, number in counts], files)


def name_scans(pattern: str, files: Sequence[str]) -> dict[str, str]:
    """Files by name: the path below the folder of the pattern, without the suffix that the pattern states.

    A name depends on nothing else, so that it stays when there are more scans.
    """
    suffix, base = Path(pattern).suffix, base_of(pattern)
    inner = [str(Path(file).relative_to(base)).removesuffix(suffix) for file in files]
    return _by_name([name.replace(os.sep, "-")[:MAX_NAME] for name in inner], files)


def _by_name(names: Sequence[str], files: Sequence[str]) -> dict[str, str]:
    for k, name in enumerate(names):
        if name in names[:k]:
            other = files[names.index(name)]
            raise ConfigError(f"data.file: {other} and {files[k]} would both be the run {name}; rename one")
    return dict(zip(names, files, strict=True))
