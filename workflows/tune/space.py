"""What is tried: for each key of the scan workflow a range or a list of values."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
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
    ``{choices: […]}`` say which. ConfigError: what is neither, or an empty range.
    """
    found: list[Dimension] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and not set(value) & set(PARTS):
            found += read_space(value, f"{prefix}{name}.")
        elif value is not None:
            found.append(_dimension(f"{prefix}{name}", value))
    return tuple(found)


def _dimension(key: str, value: Any) -> Dimension:
    wrong = ConfigError(
        f"tune.space.{key}={value}: must be [low,high], a list of choices, {{low: …, high: …}} or null"
    )
    ends: list[Any] = [None, None, None]
    if isinstance(value, Mapping):
        if set(value) - set(PARTS) or ("choices" in value) == ("low" in value):
            raise wrong
        *ends, value = (value.get(part) for part in PARTS)
    elif isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value)):
        ends, value = [*value, None], None
    low, high, log = ends
    if value is not None:
        if not isinstance(value, list | tuple) or not value or not all(map(_is_plain, value)):
            raise wrong
        return Dimension(key, choices=tuple(value))
    if not (_is_number(low) and _is_number(high) and low < high) or (log and low <= 0):
        raise wrong
    return Dimension(key, low=low, high=high, log=low > 0 and high / low >= LOG_FROM if log is None else log)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def nested(settings: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """``{"probe.modes": 2}`` as ``{"probe": {"modes": 2}}``, in place of those among ``values``."""
    made = deepcopy(dict(values or {}))
    for key, value in settings.items():
        *sections, last = key.split(".")
        there = made
        for section in sections:
            if not isinstance(there.get(section), dict):
                there[section] = {}
            there = there[section]
        there[last] = value
    return made


def with_settings(values: Mapping[str, Any], settings: Mapping[str, Any]) -> ScanRunConfig:
    """The configuration of a run with settings ``{"probe.modes": 2}`` in place of its own, or ConfigError."""
    config = from_mapping(nested(settings, values))
    assert isinstance(config, ScanRunConfig)
    return config
