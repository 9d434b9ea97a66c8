"""The configuration of a run on a measured scan."""

from __future__ import annotations

from typing import ClassVar, Literal

from ptycho.config.data import DataConfig
from ptycho.config.errors import ConfigError, check
from ptycho.config.network_config import LARGEST_BATCH, TrainedConfig
from ptycho.config.schema import Each, Flag, Integer, Number, Text, key, settings
from ptycho.config.sections import (
    EpochsConfig,
    GeneratorConfig,
    OwnProbe,
    ProbeConfig,
    RunProbe,
    StitchConfig,
    UnrolledModel,
    ZonePlateProbe,
)
from ptycho.config.solver_config import LsqmlConfig, SolverConfig

EPOCHS = 10
PRETRAINED = "pretrained"  # run: the network that comes with the program
FAST = UnrolledModel(stages=3)  # model=unrolled_fast


@settings(kw_only=True)
class ScanRunConfig(TrainedConfig):
    """Everything a run on a measured scan depends on.

    If ``models`` is empty, a network runs if ``run``, ``nepochs`` or a ``model`` is specified, and otherwise
    the solver alone. A network that is specified without any of these is the pretrained one of the program,
    without training. ``nepochs`` is 0 if ``run`` names a trained network, and otherwise 10.
    """

    stitch: ClassVar[StitchConfig] = StitchConfig("probe")
    run: Text | None = key(
        None,
        "pretrained, or the folder of a run, whose network is used, or trained further with nepochs=…; "
        "null: pretrained, unless nepochs or a model is set",
        level="always",
    )
    start: Text | None = key(
        None,
        "folder of an earlier run, or its product.h5: object, probe and positions to begin with; the scan is "
        "not aligned again",
    )
    group_size: Integer | None = key(
        None,
        "number of patterns that the network sees together; null: as in the run of the network, or 1",
        ge=1,
        le=512,
        level="sometimes",
    )
    tiles: Flag | None = key(
        None,
        "partition the patterns into groups, instead of grouping each with its nearest neighbours; null: "
        "as in the run of the network",
    )
    nepochs: Integer | None = key(  # type: ignore[assignment]  # never None once made
        None,
        "number of passes over the groups; null: 0 with the network of a run, or 10",
        ge=0,
        le=1_000_000,
        level="sometimes",
    )
    batch_size: Integer | None = key(  # type: ignore[assignment]  # never None once made
        None,
        "number of groups in a batch; null: 8, or 1 for the pretrained network without training",
        ge=1,
        le=LARGEST_BATCH,
    )
    holdout_fraction: Number = key(
        0.05, "fraction of held-out patterns, which are not fitted and give r_free", ge=0, le=0.5
    )
    val_fraction: Number = key(0.05, "fraction of the groups that select the best epoch", ge=0, le=0.5)
    models: Each[Literal["pinn", "lsqml"]] = key(
        (),
        "models beside the solver: pinn is a network, lsqml LSQ-ML of pty-chi; []: [pinn] if run, nepochs"
        " or a model is set",
        allowed="drawn from [pinn, lsqml], each once; a measured scan has no truth to train a baseline",
        level="sometimes",
    )
    data: DataConfig = key(lambda: DataConfig(file=("-",)), "measured scan", level="always")
    model: GeneratorConfig = key(FAST, "architecture of the network", discriminator="kind", level="sometimes")
    probe: ProbeConfig = key(OwnProbe(), "initial probe", discriminator="kind", level="always")
    train: EpochsConfig = key(EpochsConfig(), "settings of the training of the network")
    solver: SolverConfig = key(SolverConfig(), "settings of the maximum-likelihood solver", level="sometimes")
    iterative: LsqmlConfig = key(LsqmlConfig(), "settings of LSQ-ML of pty-chi")

    def __post_init__(self) -> None:
        self._fill_in()
        super().__post_init__()
        if self.run is None and self.networks:
            check(bool(self.nepochs), "nepochs", self.nepochs, "an integer from 1 to 1000000")
        if self.run in (None, PRETRAINED) and isinstance(self.probe, RunProbe):
            raise ConfigError("probe=run: is that of the run which run=… names; set run, or another probe")
        if self.nepochs:
            least = f"less than nepochs={self.nepochs}"
            check(self.probe.start_epoch < self.nepochs, "probe.start_epoch", self.probe.start_epoch, least)
        if self.data.near_field:
            self._check_near_field()
        if (self.solver.slices or 1) > 1:
            self._check_slices()
        if self.data.shared == "object":
            self._check_own_probes()
        if self.solver.probe_variation and self.probe.learn is False:
            raise ConfigError(
                f"solver.probe_variation={self.solver.probe_variation}, probe.learn=false: a probe that "
                "varies is refined; remove one of them"
            )
        if not self.models and not self.solver.steps:
            raise ConfigError("solver.steps=0, models=[]: nothing would reconstruct; set one of them")

    def _check_own_probes(self) -> None:
        """Refuse what has one probe, or another that varies, beside several scans with a probe each."""
        solver = self.solver
        requests = {
            f"solver.slices={solver.slices}": (solver.slices or 1) > 1,
            f"solver.probe_variation={solver.probe_variation}": bool(solver.probe_variation),
            f"start={self.start}": self.start is not None,
        }
        for words in (words for words, present in requests.items() if present):
            raise ConfigError(
                f"{words}, data.shared=object: each has a probe of its own; remove {words.split('=')[0]}, "
                "or set data.shared=both"
            )

    def _check_slices(self) -> None:
        """Refuse what knows thin objects alone."""
        requests = [f"models=[{','.join(self.models)}]"] * bool(self.models)
        if requests or not self.solver.steps:
            raise ConfigError(
                f"solver.slices={self.solver.slices}: only the solver knows slices; remove "
                f"{', '.join(requests or ['solver.steps=0'])}, or set solver.slices=1"
            )

    def _check_near_field(self) -> None:
        """Refuse methods and probes that are for far fields only."""
        requests = {"pinn": "networks", "lsqml": "LSQ-ML"}
        if self.models:
            methods = " and ".join(requests[name] for name in self.models)
            raise ConfigError(
                f"data.physics=near_field: {methods} are for far fields only; remove models, model, nepochs "
                "and run: the solver reconstructs near fields"
            )
        if isinstance(self.probe, ZonePlateProbe):
            raise ConfigError(
                "data.physics=near_field, probe=zone_plate: is the focus of a far field; must be from_file, "
                "npz, run or ideal_disk"
            )

    def _fill_in(self) -> None:
        """What follows from the rest where it is not stated."""
        if not self.models:
            for_probe = self.data.near_field and isinstance(self.probe, RunProbe)
            stated = (self.run is not None and not for_probe) or bool(self.nepochs) or self.model != FAST
            object.__setattr__(self, "models", ("pinn",) if stated else ())
        if self.nepochs is None and self.run is None and self.model == FAST and self.networks:
            object.__setattr__(self, "run", PRETRAINED)
        if self.nepochs is None:
            trained = self.run is None and self.networks
            object.__setattr__(self, "nepochs", EPOCHS if trained else 0)
        if self.batch_size is None:
            object.__setattr__(self, "batch_size", 1 if self.run == PRETRAINED and not self.nepochs else 8)

    @property
    def patterns_in_group(self) -> int:
        """C: ``group_size``, or 1 where nothing is stated."""
        return self.group_size or 1

    @property
    def learns_probe(self) -> bool:
        """Whether the data may correct the probe."""
        return self.probe.learn is not False
