"""What the making of a network depends on, whatever it is trained with; and what it is trained with."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

from ptycho.config.messages import ConfigError
from ptycho.config.own_code import check_import_path
from ptycho.config.schema import Flag, Integer, Number, Text, key, settings
from ptycho.config.sections import (
    ITERATIVE,
    MODELS,
    NAMED,
    AdamConfig,
    BaselineConfig,
    EpochsConfig,
    GeneratorConfig,
    IdealDiskProbe,
    ProbeConfig,
    StitchConfig,
    UnrolledModel,
    XlaConfig,
)

LARGEST_BATCH = 65_536


@settings(kw_only=True)
class JobConfig:
    """The keys that every run which trains something has."""

    seed: Integer = key(0, "seed of all random numbers of the run", ge=0, le=2**32 - 1, level="sometimes")
    output_dir: Text | None = key(None, "folder of the run", level="always")
    overwrite: Flag = key(False, "replace the run in output_dir, once there is a result", level="sometimes")
    train: AdamConfig = key(AdamConfig(), "settings of the training")
    xla: XlaConfig = key(XlaConfig(), "settings of XLA")

    @property
    def networks(self) -> tuple[str, ...]:
        """The models that are networks of patterns: those that are trained."""
        return ()


@settings(kw_only=True)
class NetworkConfig(JobConfig):
    """The keys that every run with a network of patterns has."""

    batch_size: Integer = key(
        16, "groups in a batch, in training and in inference", ge=1, le=LARGEST_BATCH, level="sometimes"
    )
    model: GeneratorConfig = key(
        UnrolledModel(), "architecture of the network", discriminator="kind", level="always"
    )

    @property
    def loss_weights(self) -> dict[str, float]:
        """The weight of every loss of :data:`ptycho.networks.pinn.LOSSES`, and of the user's own."""
        return {"mae_weight": 1.0, "nll_weight": 0.0, "realspace_weight": 0.0}

    @property
    def learns_probe(self) -> bool:
        """Whether the data may correct the probe."""
        return False

    def architecture(self, name: str) -> GeneratorConfig | BaselineConfig:
        """Return the settings of a network: the baseline's, or those of the generator of a PINN."""
        return self.of(name).model

    def fixed_sizes(self, name: str) -> tuple[str, ...]:
        """Return the sizes that bind the weights of the network ``name``: of ``N``, ``group_size``."""
        return BaselineConfig.FIXED if name == "baseline" else self.of(name).model.FIXED

    def of(self, name: str) -> Self:
        """Return the configuration of a network: one that is named by a generator has that one."""
        named = NAMED.get(name)
        return self if named is None or isinstance(self.model, named) else replace(self, model=named())


@settings(kw_only=True)
class GeneralConfig(NetworkConfig):
    """What it takes to use a network that was trained for many scans, by ``ptycho pretrain``."""

    models: ClassVar[tuple[str, ...]] = ("pinn",)
    batch_size: Integer = key(1, "number of groups in a batch, in inference", ge=1, le=LARGEST_BATCH)
    group_size: Integer = key(64, "number of patterns in a group, in inference", ge=1, le=512)
    model: UnrolledModel = key(
        UnrolledModel(stages=6, misfit=True, memory=True),  # model=unrolled_general
        "architecture of the network",
    )
    stitch: StitchConfig = key(StitchConfig("probe"), "stitching of the patches into an object, in inference")

    @property
    def networks(self) -> tuple[str, ...]:
        return self.models


@settings(kw_only=True)
class TrainedConfig(NetworkConfig):
    """The keys of a run that trains networks on scans, and compares ``models``."""

    nepochs: Integer = key(
        4, "number of passes over the training groups, PINN and baseline", ge=1, le=1_000_000, level="always"
    )
    mae_weight: Number = key(
        1.0, "weight of the mean absolute error of the amplitudes in the loss", ge=0, level="sometimes"
    )
    nll_weight: Number = key(0.0, "weight of the Poisson deviance in the loss", ge=0, level="sometimes")
    loss: Text | None = key(
        None,
        "my_module:function: your own loss, which is added to the others; mae_weight=0 leaves it alone",
        program="import path",
        level="sometimes",
    )
    realspace_weight: Number = key(0.0, "weight of the complex object's total variation in the loss", ge=0)
    models: tuple[str, ...] = MODELS
    train: EpochsConfig = key(EpochsConfig(), "settings of the training")
    probe: ProbeConfig = key(IdealDiskProbe(), "illumination", discriminator="kind")

    def __post_init__(self) -> None:
        check_import_path("loss", self.loss)
        if self.mae_weight == 0 and self.nll_weight == 0 and self.loss is None:
            raise ConfigError(
                f"mae_weight=0, nll_weight=0 (realspace_weight={self.realspace_weight:g}): at least one of "
                "mae_weight and nll_weight must be > 0, or the loss does not depend on the data"
            )

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(name for name in self.models if name != ITERATIVE)

    @property
    def loss_weights(self) -> dict[str, float]:
        own = {} if self.loss is None else {self.loss: 1.0}
        return {name: getattr(self, name) for name in super().loss_weights} | own
