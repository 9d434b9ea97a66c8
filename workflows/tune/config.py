"""The keys of ``conf/tune.yaml``, and which words of a command line are for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar

from ptycho.config import ConfigError
from ptycho.config.schema import Integer, Number, Text, key, settings

SPACE = "tune.space."


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
    REMOVED: ClassVar[Mapping[str, str]] = {"processes": "start the same command several times instead"}
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
        name = word.split("=", 1)[0]
        if removed := TuneConfig.REMOVED.get(name):
            raise ConfigError(f"{word}: {removed}")
        if name.startswith(SPACE):
            own.append(f"++{word.removeprefix('tune.')}")
        elif name.startswith("tune."):
            own.append(word.removeprefix("tune."))
        elif name in names and name != "space":
            own.append(word)
        else:
            scan.append(word)
    return own, scan
