"""Words of a command line: flags of Hydra, overrides, and paths, which may hold any sign.

The flags of the published program's ``scripts/studies/grid_lines_workflow.py`` are read as keys of ours.
Their names and values are those of hoidn/PtychoPINN, over its versions of 2026.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from hydra._internal.utils import get_args_parser

from ptycho.config import ConfigError, RunConfig, check
from ptycho.config.messages import fields_of

OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=|~[A-Za-z_][\w.]*$")


def key_of(override: str) -> str:
    """Return the key of an override, without its prefix."""
    return override.lstrip("+~").split("=", 1)[0]


def split_flags(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return Hydra's flags, each with its value behind it, and the other words."""
    actions = get_args_parser()._option_string_actions
    flags, others, rest = list[str](), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            others.append(word)
            continue
        flags.append(word)
        action = actions.get(word)
        if action is None or action.nargs == 0 or not rest:
            continue
        if word not in ("--info", "-i") or rest[0] in (action.choices or ()):
            flags.append(rest.pop(0))
    return flags, others


def asks_help(words: Iterable[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is among the flags."""
    return not {"-h", "--help"}.isdisjoint(split_flags(words)[0])


def quoted(text: str) -> str:
    """Return a text as Hydra's grammar wants it; backslashes before a quote are doubled."""
    escaped = re.sub(r'(\\*)("|$)', lambda match: 2 * match[1] + ('\\"' if match[2] else ""), text)
    return f'"{escaped}"'


def quote_resume(words: Iterable[str]) -> list[str]:
    """Return words with quotes around the value of ``resume``; folders of a sweep have ``=`` and ``,``."""
    bare = re.compile(r"resume=(?!null$)([^'\"\[].*)", re.DOTALL)
    return [f"resume={quoted(match[1])}" if (match := bare.fullmatch(word)) else word for word in words]


def place_words(key: str, words: Sequence[str]) -> list[str]:
    """Return words with the paths among them as the value of ``key``, or as the list ``key[]``.

    Of several paths the first is the value, and Hydra reports the others.
    """
    flags, others = split_flags(words)
    paths = [word for word in others if Path(word).exists() or OVERRIDE.match(word) is None]
    rest = [*flags, *(word for word in others if word not in paths)]
    if not paths:
        return rest
    if key.endswith("[]"):
        return [*rest, f"{key[:-2]}=[{','.join(map(quoted, paths))}]"]
    return [*rest, *paths[1:], f"{key}={quoted(paths[0])}"]


SAME = "N gridsize output-dir nimgs-train nimgs-test nphotons nepochs batch-size mae-weight nll-weight"
TEMPLATES = {flag: [f"{flag.replace('-', '_')}={{}}"] for flag in (*SAME.split(), "realspace-weight")} | {
    "probe-mask-diameter": ["probe.mask_diameter_px={}"],
    "no-probe-mask": ["probe.mask_diameter_px=null"],
    "probe-npz": ["probe=npz", "probe.file={}"],
}
"""Words for a flag; without ``{}`` it has no value."""
CHOICES = {  # flag: its values, and the words for them
    "probe-source": {"custom": "probe=npz", "ideal_disk": "probe=ideal_disk"},
    "probe-scale-mode": {
        "interpolate": "probe.resize=interpolate",
        "pad_preserve": "probe.resize=pad",
        "pad_extrapolate": "probe.resize=pad_extrapolate",
    },
}
WITHOUT = {  # flag: what to do
    "probe-smoothing-sigma": "smooth the probe before it is saved",
    "probe-transform-pipeline": "prepare the probe before it is saved",
    "simulation-config": "write its values as keys",
}


def translate(words: Sequence[str]) -> list[str]:
    """Return a command line with the flags of the published program as overrides; other words stay."""
    known, flags = {**TEMPLATES, **CHOICES, **WITHOUT}, get_args_parser()._option_string_actions
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
            near = {key: f"--{key}" for key in (*TEMPLATES, *CHOICES)} | near
            close = near[difflib.get_close_matches(name, near, n=1, cutoff=0)[0]]
            advice = f"did you mean {close}? Keys are written key=value; --help lists them"
            raise ConfigError(f"{word}: unknown flag; {advice}")
        takes_value = name not in TEMPLATES or any("{}" in word for word in TEMPLATES[name])
        if not equals and takes_value:
            if not rest or rest[0].startswith("--"):
                raise ConfigError(f"--{flag}: needs a value, as in --{flag} VALUE")
            value = rest.pop(0)
        overrides += _read(name, value)
    return list(dict.fromkeys(overrides))


def _read(name: str, value: str) -> list[str]:
    if name in WITHOUT:
        raise ConfigError(f"--{name}={value}: has no counterpart here; leave it out, and {WITHOUT[name]}")
    if choices := CHOICES.get(name):
        check(value in choices, f"--{name}", value, f"one of {', '.join(choices)}")
        return [choices[value]]
    plain = re.fullmatch(r"[\w./+-]+", value) is not None
    return [word.format(value if plain else quoted(value)) for word in TEMPLATES[name]]
