"""What a folder that someone gave may not do: name a program to run, or set up Hydra, which runs classes.

Such keys are taken from the command line alone. ``resume=`` and ``--config-dir=`` read folders of anyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from omegaconf import OmegaConf

from ptycho.config import ConfigError, JobConfig
from ptycho.config.mapping import differences, flat, programs_in
from ptycho.config.own_code import allow
from workflows.command_line.words import key_of

OF_THE_CALL = ("overrides", "runtime", "searchpath", "job.override_dirname", "job.name", "job.config_name")


def check_programs(config: JobConfig, overrides: Sequence[str], source: str) -> None:
    """Refuse a program or code that a file names, and the command line does not; allow the others.

    Raises:
        ConfigError: the message has its key.
    """
    given = {key_of(override) for override in overrides}
    for key, program in programs_in(config).items():
        if not given & {key, key.split(".")[0]}:
            raise ConfigError(
                f"{key}={program}: is a program that {source} names; one is run only where the "
                f"command line names it: add {key}={program} if it is yours"
            )
    allow(programs_in(config).values())


def check_folder(config_name: str, arguments: Sequence[str], conf: Path) -> None:
    """Refuse files of ``--config-dir`` that set up Hydra itself, and other ways to give such files.

    Hydra makes an object of any class that its own section names, before anything else is looked at. So the
    section is composed, which runs nothing, with these files and without them, and must be the same.

    Raises:
        ConfigError: the message has the key.
    """
    flags, unknown = get_args_parser().parse_known_args(list(arguments))
    if flags.config_path or flags.config_name:
        raise ConfigError(
            "--config-path, --config-name: settings in a file are given by --config-dir (docs/scans.md)"
        )
    if unknown or not flags.config_dir:
        return
    if flags.multirun:
        raise ConfigError("-m: a sweep takes no --config-dir; start a run for each file of settings")
    own = [word for word in flags.overrides if key_of(word).split("/")[0].split(".")[0] == "hydra"]
    searchpath = f"hydra.searchpath=[file://{Path(flags.config_dir).absolute()}]"
    allowed, asked = (
        _hydra_section(conf, config_name, words) for words in (own, [*flags.overrides, searchpath])
    )
    if changed := differences(allowed, asked):
        key = changed[0].split(": ")[0]
        raise ConfigError(
            f"hydra.{key}: is set by a file of {flags.config_dir}; settings of Hydra can start programs, and "
            "are taken from the command line alone: remove it there"
        )


def _hydra_section(place: Path, name: str, words: list[str]) -> dict[str, Any]:
    """Return Hydra's own section as composed, without the values of this call."""
    with initialize_config_dir(version_base="1.3", config_dir=str(place)):
        composed = compose(name, words, return_hydra_config=True)
    values = flat(cast(dict[str, Any], OmegaConf.to_container(composed.hydra, resolve=False)))
    own = tuple(f"{section}." for section in OF_THE_CALL)
    return {key: value for key, value in values.items() if not f"{key}.".startswith(own)}
