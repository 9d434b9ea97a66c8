"""What the making of a network depends on, whatever it is trained with."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import ClassVar

from ptycho.config.errors import ConfigError, at_least, at_most, check, finite
from ptycho.config.sections import (
    MODELS,
    BaselineConfig,
    GeneratorConfig,
    IdealDiskProbe,
    ProbeConfig,
    StitchConfig,
    TrainConfig,
    UnrolledModel,
    XlaConfig,
)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """The keys that every run with a network has; ``MODELS`` are those that it may compare."""

    MODELS: ClassVar[tuple[str, ...]] = MODELS
    FEWEST_MODELS: ClassVar[int] = 1
    NEWER: ClassVar[tuple[str, ...]] = ()  # sections that older runs have not stored
    nepochs: int = 4
    batch_size: int = 16
    mae_weight: float = 1.0
    nll_weight: float = 0.0
    realspace_weight: float = 0.0
    seed: int = 0
    models: tuple[str, ...] = MODELS
    output_dir: str | None = None
    overwrite: bool = False
    probe: ProbeConfig = field(default_factory=IdealDiskProbe)
    model: GeneratorConfig = field(default_factory=UnrolledModel)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    xla: XlaConfig = field(default_factory=XlaConfig)
    stitch: StitchConfig = field(default_factory=StitchConfig)

    def _check_network(self, fewest_epochs: int = 1) -> None:
        for key, least, most in (("nepochs", fewest_epochs, 1_000_000), ("batch_size", 1, 65_536)):
            at_least(key, getattr(self, key), least)
            at_most(key, getattr(self, key), most)
        check(0 <= self.seed < 2**32, "seed", self.seed, "an integer from 0 to 4294967295")
        for key in (f.name for f in fields(self) if f.name.endswith("_weight")):  # of the losses
            finite(key, getattr(self, key))
        if self.mae_weight == 0 and self.nll_weight == 0:
            raise ConfigError(
                f"mae_weight=0, nll_weight=0 (realspace_weight={self.realspace_weight:g}): at least one of "
                "mae_weight and nll_weight must be > 0, or the loss never sees the data"
            )
        known = f"drawn from [{', '.join(self.MODELS)}]"
        check(len(self.models) >= self.FEWEST_MODELS, "models", "[]", f"a non-empty list {known}")
        for name in self.models:
            check(name in self.MODELS, "models", f"[{name}]", known)
        check(len(set(self.models)) == len(self.models), "models", list(self.models), "free of repetition")

    @property
    def networks(self) -> tuple[str, ...]:
        """The models that are networks: those that are trained."""
        return tuple(name for name in self.models if name in MODELS)

    @property
    def learns_probe(self) -> bool:
        """Whether the data may correct the probe."""
        raise NotImplementedError

    def fixed_sizes(self, name: str) -> tuple[str, ...]:
        """The sizes that the weights of the network ``name`` are bound to: of ``N``, ``group_size``."""
        return {"pinn": self.model.FIXED, "baseline": self.baseline.FIXED}[name]
