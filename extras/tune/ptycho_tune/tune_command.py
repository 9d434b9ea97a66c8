"""``ptycho tune``: the words of the command line to a study, its trials, its results."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from hydra import compose, initialize_config_dir

from ptycho.command_line.config import COMMANDS, check_programs, plain
from ptycho.command_line.jobs import CONF, answer, leave, plan_all
from ptycho.command_line.words import place_words, split_flags
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.mapping import programs_in, to_dataclass, to_mapping
from ptycho.config.own_code import allow
from ptycho.config.schema import Integer, Number, Text, key, settings
from ptycho.quiet_start import start_tensorflow
from ptycho.run.scan_plan import plan
from ptycho_tune.space import Space, extremes, read_space, with_settings
from ptycho_tune.study import open_study, run_defaults, run_trials, write_results


@settings()
class TuneConfig:
    """Keys of the search for settings. All other keys are those of the scan workflow."""

    output_dir: Text = key(
        "outputs/tune",
        "folder of the study, its table, pictures and best settings; the same command resumes it",
    )
    trials: Integer = key(
        20, "number of reconstructions with settings of the space, beside the one with the defaults", ge=1
    )
    timeout_s: Number | None = key(None, "time after which no new trial begins", gt=0, unit="s")
    seed: Integer = key(0, "seed of the search and of every reconstruction", ge=0)
    space: Mapping[str, Any] = key(
        {}, "search space: a range, a list of choices or null for keys of the scan workflow"
    )


def divide(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words for ``conf/tune.yaml``, and those for ``conf/scan.yaml``.

    ``tune.`` before a key of the first may be left out; a key that its space does not have is added.
    """
    names = {field.name for field in fields(TuneConfig)}
    own, scan = [], []
    for word in words:
        name, bare = word.split("=", 1)[0], word.removeprefix("tune.")
        if name.startswith("tune.space."):
            own.append(f"++{bare}")
        elif bare != word or name in names - {"space"}:
            own.append(bare)
        else:
            scan.append(word)
    return own, scan


def main(help_text: str | None) -> NoReturn:
    """End the process as ``ptycho tune``."""
    words = place_words("data.file", sys.argv[1:])
    leave(partial(answer, words, help_text, partial(tune, words)))


def tune(words: list[str]) -> list[str]:
    """Do what a command line asks for; lines to print."""
    flags, keys = split_flags(words)
    own_words, scan_words = divide(keys)
    if flags:
        return _show(flags, {"tune": own_words, "scan": scan_words})
    config, values, space = read_words(own_words, scan_words)
    folder = Path(config.output_dir)
    ends = {key: extremes(distribution) for key, distribution in space.items()}
    study = open_study(folder, {"scan": values, "space": ends, "seed": config.seed}, config.seed)
    start_tensorflow(for_solver=True)
    logging.getLogger("ptycho").setLevel(logging.WARNING)  # a line a trial, not twenty
    from ptycho_tune.trials import Bench

    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch), values)
        run_defaults(study, bench.run)
        run_trials(study, space, bench.run, config.trials, config.timeout_s)
    return write_results(study, folder, scan_words)


def _show(flags: list[str], words: Mapping[str, list[str]]) -> list[str]:
    """Let Hydra show the study's configuration, and that of each run, as another document of YAML."""
    if flags[0].split("=")[0] not in ("--cfg", "-c", "--info", "-i"):
        raise ConfigError(
            f"{flags[0]}: ptycho tune tries settings itself: tune.space says which; --cfg job shows all keys"
        )
    for name, own in words.items():
        plan_all(name, [*flags, *own], lambda composed: [])
        if name != "scan":
            sys.stdout.write("---\n")
    return []


def read_words(own_words: list[str], scan_words: list[str]) -> tuple[TuneConfig, dict[str, Any], Space]:
    """The study's configuration, the run's as a mapping, and the space, of which a run takes all ends."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = to_dataclass(TuneConfig, plain(compose("tune", own_words)))
        values = plain(compose("scan", [*scan_words, f"seed={config.seed}", "output_dir=null"]))
    values = {key: value for key, value in values.items() if key not in COMMANDS}
    space = read_space(config.space)
    if not space:
        raise ConfigError("tune.space={}: must name a key to be tried, as tune.space.probe.modes=[1,4]")
    ends = [(key, value) for key, values_of in space.items() for value in extremes(values_of)]
    for name, value in ends:
        with_settings(values, {name: value})
    asked = with_settings(values, {})
    check_programs(programs_in(asked), scan_words, "a file")
    allow(value for _, value in ends)
    planned = plan(asked)
    assert isinstance(planned, ScanRunConfig)
    return config, to_mapping(planned), space
