"""The one table of former names: keys, values, scores, flags and files of the version before this one.

They work for one version. What a user types is renamed with one line of warning; what a run has stored is
renamed without one.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from ptycho.config.errors import ConfigError

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

KEYS = {
    "free_fraction": "holdout_fraction",
    "data.position_slips": "data.position_jumps",
    "solver.prior": "solver.regulariser",
    "solver.prior_weights": "solver.denoiser_weights",
    "solver.strength": "solver.regularisation_weight",
}
VALUES = {  # of keys, and of groups, whose option has the same name
    "probe": {"own": "from_file"},
    "probe.kind": {"own": "from_file"},
    "data.orientation": {"format": "as_stored"},
    "solver.regulariser": {"smooth": "quadratic", "edges": "edge_preserving"},
    "solver.position_model": {"free": "independent", "all": "affine_and_independent"},
}
COMMANDS = {"lines": "grid-lines", "train-prior": "pretrain network=denoiser"}
ARGUMENTS = {  # of functions of Python
    "free_fraction": "holdout_fraction",
    "position_slips": "position_jumps",
    "prior": "regulariser",
    "prior_weights": "denoiser_weights",
    "strength": "regularisation_weight",
}
FLAGS = {
    "patterns_unexplained": "poor_fit",
    "some_patterns_unexplained": "outlier_patterns",
    "nothing_seen": "no_contrast",
    "halves_disagree": "low_half_scan_frc",
    "probe_wrong": "excess_misfit",
    "phases_untold": "phase_insensitive",
}
SCORES = {
    "missed": "unexplained_variance",
    "missed_some": "unexplained_variance_p90",
    "missed_free": "unexplained_variance_holdout",
    "deviance_free": "deviance_holdout",
    "against_the_files_object": "reference_comparison",
    "against_the_truth": "reference_comparison",
    "understood": "findings",
    "moved_px": "position_correction_rms_px",
    "judged": "assessed_patterns",
}
FILES = {"assessment.npz": "judged.npz"}  # of a run: name, former name
ARRAYS = {  # of assessment.npz; the others begin with the name of a reconstruction
    "given_positions": "nominal_positions",
    "kept_out": "held_out",
    "free_patterns": "holdout_patterns",
    "free_deviance": "holdout_deviance",
}


@functools.cache
def warn_of(former: str, name: str) -> None:
    """Tell once in a process that a name has changed."""
    log.warning("%s is called %s now; the former name works in this version only", former, name)


def _quiet(former: str, name: str) -> None: ...


def current_keys(values: Any, tell: Callable[[str, str], None] = warn_of, prefix: str = "") -> Any:
    """Return nested values of a configuration under the names of today; a former key replaces the new one."""
    if not isinstance(values, Mapping):
        return values
    found: dict[str, Any] = {}
    former: dict[str, Any] = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        name = KEYS.get(path, path)
        if name != path:
            tell(path, name)
        inner = "" if path == "space" else f"{path}."  # of a study: keys of the runs in it
        value = current_keys(_current_value(name, value, tell), tell, inner)
        (former if name != path else found)[name.removeprefix(prefix)] = value
    return found | former


def stored_keys(values: Any) -> Any:
    """As :func:`current_keys`, of what a run has stored: without a warning."""
    return current_keys(values, _quiet)


def _current_value(name: str, value: Any, tell: Callable[[str, str], None]) -> Any:
    if isinstance(value, list):
        return [_current_value(name, entry, tell) for entry in value]
    known = VALUES.get(name, {})
    if not isinstance(value, str) or value not in known:
        return value
    tell(f"{name}={value}", f"{name}={known[value]}")
    return known[value]


def current_words(words: Sequence[str]) -> list[str]:
    """Return the words ``key=value`` of a command line under the names of today."""
    return [_current_word(word) for word in words]


def _current_word(word: str) -> str:
    sign, place, key, equals, value = re.fullmatch(
        r"([+~]*)((?:tune\.)?(?:space\.)?)([^=]*)(=?)(.*)", word, re.S
    ).groups()  # type: ignore[union-attr]  # everything matches
    name = KEYS.get(key, key)
    if name != key:
        warn_of(key, name)
    parts = [_current_value(name, part, warn_of) for part in re.split(r"([\w.-]+)", value)]
    return f"{sign}{place}{name}{equals}{''.join(parts)}"


def accept_former_arguments(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function be called with the former names of its arguments."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> T:
        for former in named.keys() & ARGUMENTS.keys():
            if (name := ARGUMENTS[former]) in named:
                raise ConfigError(f"{former} and {name}: are the same argument; remove {former}")
            warn_of(former, name)
        return function(*arguments, **{ARGUMENTS.get(key, key): value for key, value in named.items()})

    return call


def current_scores(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a run's ``metrics.json`` under the names of today."""
    renamed: dict[str, Any] = _renamed(metrics)
    return renamed


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {(SCORES | FLAGS).get(key, key): _renamed(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [FLAGS.get(entry, entry) if isinstance(entry, str) else _renamed(entry) for entry in value]
    return value


def current_arrays(arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the arrays of a run's ``assessment.npz`` under the names of today."""
    former = re.compile(rf"(?:(?<=_)|^)({'|'.join(ARRAYS)})$")
    return {former.sub(lambda found: ARRAYS[found[1]], key): array for key, array in arrays.items()}
