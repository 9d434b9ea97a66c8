"""What is tried: for each key of the scan workflow a range or a list of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.mapping import from_mapping

if TYPE_CHECKING:
    from optuna import Trial

LOG_FROM = 100.0  # a range whose ends have this ratio is drawn by its logarithm
PARTS = ("low", "high", "log", "choices")


@dataclass(frozen=True)
class Dimension:
    """The values of one key: ``choices``, or from ``low`` to ``high``, whole numbers if both are whole."""

    key: str
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def extremes(self) -> tuple[Any, ...]:
        """Values that stand for all, where it is checked whether a run takes them."""
        return self.choices or (self.low, self.high)

    def suggest(self, trial: Trial) -> Any:
        """A value for a trial."""
        if self.choices:
            return trial.suggest_categorical(self.key, self.choices)
        if self.whole:
            return trial.suggest_int(self.key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.key, self.low, self.high, log=self.log)


def read_space(values: Mapping[str, Any], prefix: str = "") -> tuple[Dimension, ...]:
    """The dimensions of the section ``tune.space``; keys that are null are left out.

    ``[1,4]``: two numbers are a range; other lists are choices; ``{low: …, high: …, log: true}`` and
    ``{choices: […]}`` say which.

    Raises:
        ConfigError: what is neither, or an empty range.
    """
    found: list[Dimension] = []
    for name, value in values.items():
        key = f"{prefix}{name}"
        if value is None:
            continue
        if isinstance(value, Mapping) and not set(value) & set(PARTS):
            found += read_space(value, f"{key}.")
        else:
            found.append(_dimension(key, value))
    return tuple(found)


def _dimension(key: str, value: Any) -> Dimension:
    wrong = ConfigError(
        f"tune.space.{key}={value}: must be [low,high], a list of choices, {{low: …, high: …}} or null"
    )
    if isinstance(value, Mapping):
        if set(value) - set(PARTS) or ("choices" in value) == ("low" in value):
            raise wrong
        if "choices" in value:
            return Dimension(key, choices=_choices(value["choices"], wrong))
        low, high, log = value["low"], value.get("high", value["low"]), value.get("log")
    elif isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value)):
        (low, high), log = value, None
    else:
        return Dimension(key, choices=_choices(value, wrong))
    if not (_is_number(low) and _is_number(high) and low < high) or (log and low <= 0):
        raise wrong
    return Dimension(key, low=low, high=high, log=low > 0 and high / low >= LOG_FROM if log is None else log)


def _choices(value: Any, wrong: ConfigError) -> tuple[Any, ...]:
    simple = bool | int | float | str | None
    if not isinstance(value, list | tuple) or not value or not all(isinstance(one, simple) for one in value):
        raise wrong
    return tuple(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """``{"probe.modes": 2}`` as ``{"probe": {"modes": 2}}``."""
    made: dict[str, Any] = {}
    for key, value in settings.items():
        *sections, last = key.split(".")
        there = made
        for section in sections:
            there = there.setdefault(section, {})
        there[last] = value
    return made


def with_settings(values: Mapping[str, Any], settings: Mapping[str, Any]) -> ScanRunConfig:
    """The configuration of a run, with settings ``{"probe.modes": 2}`` in place of its own.

    Raises:
        ConfigError: a key or value that a run does not take.
    """
    config = from_mapping(_merged(values, nested(settings)))
    assert isinstance(config, ScanRunConfig)
    return config


def _merged(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(values)
    for key, other in others.items():
        here = made.get(key)
        made[key] = _merged(here, other) if isinstance(here, dict) and isinstance(other, dict) else other
    return made
