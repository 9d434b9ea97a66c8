"""What is tried: for each key of the scan workflow a range or a list of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from omegaconf import OmegaConf
from optuna import Trial
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.mapping import from_mapping

Distribution = CategoricalDistribution | IntDistribution | FloatDistribution
Space = dict[str, Distribution]  # by key, ``probe.modes``


def read_space(values: Mapping[str, Any], prefix: str = "") -> Space:
    """Return the section ``tune.space`` as distributions of Optuna; keys that are null are left out.

    ``[1,4]``: two numbers are a range; other lists are choices; ``{low: …, high: …, log: true}`` and
    ``{choices: […]}`` say which. ConfigError: what is neither, or an empty range.
    """
    space: Space = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and not set(value) & {"low", "high", "choices"}:
            space |= read_space(value, f"{prefix}{name}.")
        elif value is not None:
            try:
                space[f"{prefix}{name}"] = distribution(value)
            except (TypeError, ValueError, KeyError) as error:
                raise ConfigError(
                    f"tune.space.{prefix}{name}={value}: must be [low,high], a list of choices, "
                    f"{{low: …, high: …}} or null ({error})"
                ) from error
    return space


def distribution(value: Any, log_from: float = 100.0) -> Distribution:
    """Return a range or choices; a range whose ends have the ratio ``log_from`` is drawn by its logarithm."""
    if isinstance(value, list):
        is_range = len(value) == 2 and all(type(end) in (int, float) for end in value)
        value = dict(zip(("low", "high"), value, strict=True)) if is_range else {"choices": value}
    if "choices" in value:
        if not all(
            choice is None or isinstance(choice, bool | int | float | str) for choice in value["choices"]
        ):
            raise ValueError("choices must be single values")
        return CategoricalDistribution(**value)
    low, high = value["low"], value["high"]
    whole = isinstance(low, int) and isinstance(high, int)
    return (IntDistribution if whole else FloatDistribution)(
        **{"log": low > 0 and high / low >= log_from} | dict(value)
    )


def extremes(values: Distribution) -> tuple[Any, ...]:
    """Return values that stand for all, where it is checked whether a run takes them."""
    return values.choices if isinstance(values, CategoricalDistribution) else (values.low, values.high)


def suggest(trial: Trial, key: str, values: Distribution) -> Any:
    """Return the value of a key for a trial."""
    if isinstance(values, CategoricalDistribution):
        return trial.suggest_categorical(key, values.choices)
    if isinstance(values, IntDistribution):
        return trial.suggest_int(key, values.low, values.high, log=values.log)
    return trial.suggest_float(key, values.low, values.high, log=values.log)


def nested(settings: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return ``{"probe.modes": 2}`` as ``{"probe": {"modes": 2}}``, in place of those among ``values``."""
    config = OmegaConf.create(dict(values or {}))
    for key, value in settings.items():
        OmegaConf.update(config, key, value, merge=False, force_add=True)
    return cast(dict[str, Any], OmegaConf.to_container(config))


def with_settings(values: Mapping[str, Any], settings: Mapping[str, Any]) -> ScanRunConfig:
    """Return the configuration of a run with settings ``{"probe.modes": 2}`` in place of its own."""
    config = from_mapping(nested(settings, values))
    assert isinstance(config, ScanRunConfig)
    return config
