"""The flags of the published program's ``scripts/studies/grid_lines_workflow.py``, read as keys of ours.

Their names and values are those of hoidn/PtychoPINN, over its versions of 2026.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from hydra._internal.utils import get_args_parser

from ptycho.config import ConfigError, RunConfig
from ptycho.config.messages import fields_of
from workflows.command_line.words import quoted

KEYS = {  # flag: key
    "N": "N",
    "gridsize": "gridsize",
    "output-dir": "output_dir",
    "nimgs-train": "nimgs_train",
    "nimgs-test": "nimgs_test",
    "nphotons": "nphotons",
    "nepochs": "nepochs",
    "batch-size": "batch_size",
    "mae-weight": "mae_weight",
    "nll-weight": "nll_weight",
    "realspace-weight": "realspace_weight",
    "probe-mask-diameter": "probe.mask_diameter_px",
}
WORDS: dict[str, dict[str, list[str]]] = {  # flag: its values, or none, and the words for them
    "probe-source": {"custom": ["probe=npz"], "ideal_disk": ["probe=ideal_disk"]},
    "probe-scale-mode": {
        "interpolate": ["probe.resize=interpolate"],
        "pad_preserve": ["probe.resize=pad"],
        "pad_extrapolate": ["probe.resize=pad_extrapolate"],
    },
    "no-probe-mask": {"": ["probe.mask_diameter_px=null"]},
}
PROBE = "probe-npz"
WITHOUT = {  # flag: what to do
    "probe-smoothing-sigma": "smooth the probe before it is saved",
    "probe-transform-pipeline": "prepare the probe before it is saved",
    "simulation-config": "write its values as keys",
}


def translate(words: Sequence[str]) -> list[str]:
    """Return a command line with the flags of the published program as overrides; other words stay."""
    known, flags = [*KEYS, *WORDS, PROBE, *WITHOUT], [*get_args_parser()._option_string_actions]
    overrides, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        flag, equals, value = word.removeprefix("--").partition("=")
        name = flag.replace("_", "-")
        if not word.startswith("--") or (name not in known and f"--{flag}" in flags):
            overrides.append(word)
            continue
        if name not in known:
            near = {key.replace("_", "-"): f"{key}=…" for key in fields_of(RunConfig)}
            near = {key: f"--{key}" for key in (*KEYS, *WORDS, PROBE)} | near
            close = near[difflib.get_close_matches(name, near, n=1, cutoff=0)[0]]
            advice = f"did you mean {close}? Keys are written key=value; --help lists them"
            raise ConfigError(f"{word}: unknown flag; {advice}")
        if not equals and "" not in WORDS.get(name, {}):
            if not rest or rest[0].startswith("--"):
                raise ConfigError(f"--{flag}: needs a value, as in --{flag} VALUE")
            value = rest.pop(0)
        overrides += _read(name, value)
    return list(dict.fromkeys(overrides))


def _read(name: str, value: str) -> Iterator[str]:
    """The overrides for one flag."""
    if name in WITHOUT:
        raise ConfigError(f"--{name}={value}: has no counterpart here; leave it out, and {WITHOUT[name]}")
    if name == PROBE:
        yield from ("probe=npz", f"probe.file={quoted(value)}")
    elif name in KEYS:
        plain = re.fullmatch(r"[\w./+-]+", value) is not None
        yield f"{KEYS[name]}={value if plain else quoted(value)}"
    elif value in WORDS[name]:
        yield from WORDS[name][value]
    else:
        raise ConfigError(f"--{name}={value}: must be one of {', '.join(WORDS[name])}")
