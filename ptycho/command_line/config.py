"""Make the frozen dataclasses from Hydra's composition and the switches of the environment.

Every mistake becomes a :class:`ptycho.config.ConfigError` of one line. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.command_line.words import key_of
from ptycho.config import ConfigError, JobConfig, RunConfig, check
from ptycho.config.mapping import differences, flat, from_mapping, programs_in, to_mapping
from ptycho.config.messages import fields_of, one_line, show, unknown_key
from ptycho.config.own_code import allow
from ptycho.run.stored_run import read_job

OF_THE_CALL = ("overrides", "runtime", "searchpath", "job.override_dirname", "job.name", "job.config_name")


def check_programs(programs: Mapping[str, str], overrides: Sequence[str], source: str) -> None:
    """Refuse a program or code, by key, that a file names and the command line does not; allow the others."""
    given = set(map(key_of, overrides))
    for key, program in programs.items():
        if not given & {key, key.split(".")[0]}:
            raise ConfigError(
                f"{key}={program}: is a program that {source} names; one is run only where the "
                f"command line names it: add {key}={program} if it is yours"
            )
    allow(programs.values())


def check_folder(config_name: str, arguments: Sequence[str], conf: Path) -> None:
    """Refuse files of ``--config-dir`` that set up Hydra itself, and other ways to give such files.

    Hydra makes an object of any class that its own section names, before anything else is looked at. So the
    section is composed, which runs nothing, with these files and without them, and must be the same.
    """
    flags, unknown = get_args_parser().parse_known_args(list(arguments))
    if flags.config_path or flags.config_name:
        raise ConfigError("--config-path, --config-name: files of settings: --config-dir (docs/scans.md)")
    if unknown or not flags.config_dir:
        return
    if flags.multirun:
        raise ConfigError("-m: a sweep takes no --config-dir; start a run for each file of settings")
    own = [word for word in flags.overrides if key_of(word).split("/")[0].split(".")[0] == "hydra"]
    searchpath = f"hydra.searchpath=[file://{Path(flags.config_dir).absolute()}]"
    allowed = _hydra_section(conf, config_name, own)
    asked = _hydra_section(conf, config_name, [*flags.overrides, searchpath])
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


COMMANDS = ("hydra", "experiment", "resume")  # keys that say what to do; the configuration has none of them
SWITCHES = {"USE_XLA_COMPILE": "xla.compile", "USE_XLA_TRANSLATE": "xla.translate"}
TRUE, FALSE = ("1", "true", "yes"), ("0", "false", "no")


def run_config(composed: DictConfig, overrides: list[str], environ: Mapping[str, str]) -> JobConfig:
    """Return the validated configuration of a run, with the switches of the environment.

    ``overrides`` of the command line distinguish an explicit choice from a default.
    """
    values = {key: value for key, value in plain(composed).items() if key not in COMMANDS}
    _apply_switches(values, overrides, environ)
    config = from_mapping(values)
    check_programs(programs_in(config), overrides, "a file")
    return config


def resumed_config(run: Path, overrides: list[str], environ: Mapping[str, str]) -> JobConfig:
    """The stored configuration of the run in folder ``run``.

    The command line may name its programs again, and nothing else; ``environ`` must not contradict it.
    """
    stored = read_job(run)
    programs = programs_in(stored)
    named = {key: f"{key}={program}" for key, program in programs.items()}
    values = to_mapping(stored)
    _apply_switches(values, [], environ)
    others = [override for override in overrides if not override.startswith("resume=")]
    wrong = [override for override in others if re.sub("[\"']", "", override) != named.get(key_of(override))]
    wrong += differences(to_mapping(stored), values)
    if wrong:
        raise ConfigError(
            f"resume={run}: has its own configuration; remove {'; '.join(wrong)}, or start a new run"
        )
    check_programs(programs, overrides, f"resume={run}")
    return stored


def plain(composed: DictConfig) -> dict[str, Any]:
    """Return what Hydra composed, as nested plain values without interpolations."""
    try:
        return cast(dict[str, Any], OmegaConf.to_container(composed, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise ConfigError(one_line(str(error))) from error


def _apply_switches(values: dict[str, Any], overrides: list[str], environ: Mapping[str, str]) -> None:
    """Set ``xla.*`` from the environment; an explicit override that says otherwise is an error."""
    explicit = {key_of(override) for override in overrides}
    section: Any = values.get("xla")
    for variable, key in SWITCHES.items():
        if not (text := environ.get(variable, "").strip().lower()):
            continue
        wanted, name = text in TRUE, key.split(".")[1]
        allowed = f"one of {', '.join(TRUE + FALSE)}, or empty"
        check(wanted or text in FALSE, variable, environ[variable], allowed)
        check(isinstance(section, dict), "xla", section, "a section with compile and translate")
        if key in explicit and section[name] != wanted:
            raise ConfigError(
                f"{variable}={environ[variable]} contradicts {key}={show(section[name])} on the command "
                "line; drop one of them"
            )
        section[name] = wanted


NO_OPTION = r"(?s)Could not find '([\w/]+)/([^']*)'\s+Available options in '\S+':\s+(.*?)\s+Config search"
AMBIGUOUS = r"Ambiguous value for argument '(.*?)'\s"
NO_KEY = r"(?s)Could not override '([^']+)'\..*?To append to your (?:config|default list) use \+[^=]+=(.*)"


def _to_be_quoted(override: str, reason: str) -> str:
    """Return the message on an argument that Hydra cannot read, with the quotes that a shell needs."""
    key, parted, value = override.partition("=")
    if not (parted and key and value):
        return f"{override}: must be key=value ({reason})"
    listed = value.startswith("[") and value.endswith("]")
    parts = value[1:-1].split(",") if listed else [value]
    quoted = ",".join("'" + part.strip(" '\"").replace("'", "\\'") + "'" for part in parts)
    works = f"{key}=[{quoted}]" if listed else f"{key}={quoted}"
    works = shlex.quote(works) if set(works) & set('"$`!\\') else f'"{works}"'
    return f"{override}: must be key=value, with quotes around special characters: {works} ({reason})"


def explained(error: Exception, schema: type = RunConfig) -> str:
    """An error on one line; Hydra's about syntax, options and keys, those of ``schema``, in our own words."""
    message = str(error)
    if isinstance(error, OverrideParseException):
        return _to_be_quoted(str(error.override), one_line(message.split("See https://")[0]))
    if match := re.search(AMBIGUOUS, message):
        return _to_be_quoted(match[1], "a comma parts values of a list [a,b], or of a sweep with --multirun")
    if match := re.search(NO_OPTION, message):
        group, option, options = match.groups()
        return f"{group}={option}: must be one of {', '.join(options.split())}"
    if (match := re.search(NO_KEY, message)) and match[1] not in fields_of(schema):
        return unknown_key(schema, *match.groups())
    return one_line(message)
