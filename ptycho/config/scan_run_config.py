"""The configuration of a run on a measured scan."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from ptycho.config.data import DataConfig
from ptycho.config.errors import ConfigError, check
from ptycho.config.network_config import NetworkConfig
from ptycho.config.sections import (
    SCAN_MODELS,
    GeneratorConfig,
    LsqmlConfig,
    OwnProbe,
    ProbeConfig,
    RunProbe,
    SolverConfig,
    StitchConfig,
    UnrolledModel,
)

EPOCHS = 10
PRETRAINED = "pretrained"  # run: the network that comes with the program
FAST = UnrolledModel(stages=3)  # model=unrolled_fast


@dataclass(frozen=True, kw_only=True)
class ScanRunConfig(NetworkConfig):
    """Everything a run on a measured scan depends on.

    ``models`` empty: a network where ``run``, ``nepochs`` or a ``model`` is stated, else the solver alone.
    Where a network is asked for and none of these is stated, it is the one that comes with the program,
    without training; ``nepochs`` is 0 where ``run`` names a trained network, and else 10.
    ``batch_size`` null: 1 for the large tiles of the network that comes with the program, where it is not
    trained on, else 8. ``group_size`` and ``tiles`` null: those of the network of ``run``, or 1 and false.
    """

    MODELS: ClassVar[tuple[str, ...]] = SCAN_MODELS
    FEWEST_MODELS: ClassVar[int] = 0
    nepochs: int | None = None  # type: ignore[assignment]  # never None once made
    data: DataConfig = field(default_factory=lambda: DataConfig(file=("-",)))
    batch_size: int | None = None  # type: ignore[assignment]  # never None once made
    model: GeneratorConfig = field(default_factory=lambda: FAST)
    models: tuple[str, ...] = ()
    stitch: StitchConfig = field(default_factory=lambda: StitchConfig("refined"))
    denoise: bool = False
    run: str | None = None
    group_size: int | None = None
    tiles: bool | None = None
    free_fraction: float = 0.05
    val_fraction: float = 0.05
    probe: ProbeConfig = field(default_factory=OwnProbe)
    solver: SolverConfig = field(default_factory=SolverConfig)
    iterative: LsqmlConfig = field(default_factory=LsqmlConfig)

    def __post_init__(self) -> None:
        if not self.models:
            stated = self.run is not None or bool(self.nepochs) or self.model != FAST
            object.__setattr__(self, "models", ("pinn",) if stated else ())
        if self.nepochs is None and self.run is None and self.model == FAST and self.networks:
            object.__setattr__(self, "run", PRETRAINED)
        if self.nepochs is None:
            trained = self.run is None and self.networks
            object.__setattr__(self, "nepochs", EPOCHS if trained else 0)
        if self.batch_size is None:
            object.__setattr__(self, "batch_size", 1 if self.run == PRETRAINED and not self.nepochs else 8)
        if "baseline" in self.models:
            raise ConfigError(
                f"models={list(self.models)}: a measured scan has no truth to train the baseline with; "
                f"must be drawn from [{', '.join(self.MODELS)}]"
            )
        self._check_network(fewest_epochs=1 if self.run is None and self.networks else 0)
        if self.group_size is not None:
            check(1 <= self.group_size <= 512, "group_size", self.group_size, "null, or from 1 to 512")
        for key in ("free_fraction", "val_fraction"):
            value = getattr(self, key)
            check(math.isfinite(value) and 0 <= value <= 0.5, key, value, "from 0 to 0.5")
        if self.run in (None, PRETRAINED) and isinstance(self.probe, RunProbe):
            raise ConfigError("probe=run: is that of the run which run=… names; set run, or another probe")
        if self.nepochs:
            least = f"less than nepochs={self.nepochs}"
            check(self.probe.start_epoch < self.nepochs, "probe.start_epoch", self.probe.start_epoch, least)
        if not self.models and not self.solver.steps:
            raise ConfigError("solver.steps=0, models=[]: nothing would reconstruct; set one of them")
        if self.stitch.method == "grid":
            raise ConfigError("stitch=grid: tiles the squares of a regular grid; must be probe or refined")

    @property
    def patterns_in_group(self) -> int:
        """C: ``group_size``, or 1 where nothing is stated."""
        return self.group_size or 1

    @property
    def learns_probe(self) -> bool:
        """Whether the data may correct the probe."""
        return self.probe.learn is not False
