"""A configuration of a run on a scan as a file to edit: its keys, their defaults, and a text behind each."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml

from ptycho.command_line.jobs import CONF
from ptycho.config import ScanRunConfig, check
from ptycho.config.mapping import COLUMN, yaml_lines
from ptycho.config.schema import LEVELS, Flag, Text, key, settings
from ptycho.files.atomic import write_text
from ptycho.files.reading import read_yaml
from ptycho.run.record import check_output

SIZES = dict(zip(("short", "usual", "all"), range(len(LEVELS)), strict=True))
HEAD = """# @package _global_
# A run of `ptycho scan` with these settings:
#   ptycho scan --config-dir={place} +{group}={name}
# Words of the command line go before; keys that are left out have their defaults.
"""


@settings()
class InitConfig:
    """The keys of ``conf/init.yaml``."""

    file: Text | None = key(None, "the scan; null: named on the command line later")
    size: Literal["short", "usual", "all"] = key("short", "keys to write: nearly everyone's, some, or all")
    output: Text = key("settings/scan.yaml", "the file to write, in a folder of its own")
    overwrite: Flag = key(False, "replace the file if it is there")


def write_settings(config: InitConfig) -> list[str]:
    """Write the file; what to do with it."""
    path = Path(config.output)
    named = path.suffix == ".yaml" and path.parent != Path()
    check(named, "output", path, "FOLDER/NAME.yaml, as in settings/scan.yaml")
    check_output(path, config.overwrite)
    text = settings_text(SIZES[config.size], path, config.file)
    write_text(path, text)
    command = f"ptycho scan --config-dir={path.parent.parent} +{path.parent.name}={path.stem}"
    return [f"settings: {path}", f"edit it, then: {command}{'' if config.file else ' FILE'}"]


def settings_text(level: int, path: Path, scan: str | None = None) -> str:
    """Return the file with the keys up to a level."""
    head = HEAD.format(place=path.parent.parent, group=path.parent.name, name=path.stem)
    base = read_yaml(CONF / "scan.yaml")
    groups = [entry for entry in base["defaults"] if isinstance(entry, dict)]
    chosen = [(group, option) for entry in groups for group, option in entry.items() if " " not in group]
    shown = [f"  - override /{group}: {option}\n" for group, option in chosen if level or group == "probe"]
    lines = yaml_lines(ScanRunConfig, None, {"output_dir"}, level=level)
    keys = [line for line in lines if line.split(":")[0].strip() not in ("kind", "method")]
    if scan is not None:
        written = yaml.safe_dump([scan], default_flow_style=True, width=10**6, allow_unicode=True).strip()
        empty, full = "  file: []", f"  file: {written}"
        keys = [line.replace(f"{empty:<{COLUMN - 1}}", f"{full:<{COLUMN - 1}}", 1) for line in keys]
    folder = f"output_dir: {base['output_dir']}\n"
    return "".join([head, "defaults:\n", *shown, "\n", folder, *keys])
