"""The configurations of runs: on simulated grid lines, and on a measured scan."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar, Literal

from ptycho.config.data import DataConfig
from ptycho.config.imperfections import Imperfections, check_detector
from ptycho.config.messages import ConfigError, check
from ptycho.config.network_config import LARGEST_BATCH, TrainedConfig
from ptycho.config.schema import Each, Even, Flag, Integer, Number, PowerOfTwo, Text, key, settings
from ptycho.config.sections import (
    MODELS,
    BaselineConfig,
    EpochsConfig,
    GeneratorConfig,
    IdealDiskProbe,
    LinesObject,
    OwnProbe,
    ProbeConfig,
    RunProbe,
    ScanConfig,
    Shape,
    StitchConfig,
    TrainConfig,
    UnrolledModel,
    ZonePlateProbe,
)
from ptycho.config.solver_config import LsqmlConfig, SolverConfig


@settings(kw_only=True)
class RunConfig(TrainedConfig):
    """Everything one run of the grid-lines workflow depends on; lengths in object pixels."""

    N: PowerOfTwo = key(64, "side of a diffraction pattern; a power of two", ge=32, le=512, level="always")
    gridsize: Integer = key(
        2, "side of a group, which has gridsize × gridsize neighbouring patterns", ge=1, le=64, level="always"
    )
    nimgs_train: Integer = key(2, "number of training objects", ge=1, le=1_000_000, level="sometimes")
    nimgs_test: Integer = key(
        2, "number of test objects; the model is never trained on them", ge=1, le=1_000_000, level="sometimes"
    )
    nphotons: Number = key(1e9, "mean number of photons per pattern", ge=1, le=1e15, level="always")
    size: Integer = key(392, "side of an object", ge=1, le=16_384, unit="px")
    offset: Integer = key(4, "step between the positions in a group", ge=1, unit="px")
    outer_offset_train: Even = key(8, "twice the step between the groups, in training", ge=2, unit="px")
    outer_offset_test: Even = key(20, "twice the step between the groups, in the test", ge=2, unit="px")
    max_groups_train: Integer | None = key(
        2048, "maximum number of training groups, drawn at random; null: all", ge=1, level="sometimes"
    )
    set_phi: Flag = key(False, "give the objects a phase", level="always")
    models: Each[Literal["pinn", "baseline", "lsqml", "unrolled", "unet", "fno"]] = key(
        MODELS,
        "models to train and compare; pinn: with the generator of the key model; unrolled, unet, fno: PINNs "
        "with these generators, whose settings are the defaults where model is another; lsqml: LSQ-ML of "
        "pty-chi",
        min_length=1,
        level="always",
    )
    bad_pixels: Integer = key(0, "number of dead detector pixels, which the mask excludes", ge=0)
    hot_pixels: Integer = key(0, "number of hot detector pixels, which no mask excludes", ge=0)
    object: LinesObject = key(LinesObject(), "object that is scanned")
    probe: Shape = key(IdealDiskProbe(), "illumination", discriminator="kind", level="always")
    test_probe: Shape | None = key(
        None,
        "illumination in the test, such as {kind: zone_plate, defocus_um: 9}; null: that of the training",
        discriminator="kind",
    )
    imperfections: Imperfections = key(
        Imperfections(), "deviations of the test scan from what the network was trained for", level="always"
    )
    train: TrainConfig = key(TrainConfig(), "settings of the training")
    baseline: BaselineConfig = key(BaselineConfig(), "settings of the supervised network")
    iterative: LsqmlConfig = key(LsqmlConfig(), "settings of LSQ-ML of pty-chi")
    scan: ScanConfig = key(ScanConfig(), "scan positions")
    stitch: StitchConfig = key(StitchConfig(), "stitching of the patches into an object")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_detector(self.N, self.bad_pixels, self.hot_pixels, self.imperfections)
        for name in ("test_probe", "probe"):
            if (probe := getattr(self, name)) is not None:
                learning = ("learn", "rate", "start_epoch") if name == "test_probe" else ()
                probe.check_only_shape(name, "modes", *learning)
        self._check_relations()

    def _check_relations(self) -> None:
        drift, need, groups = self.imperfections.probe_variation, self.group_extent, self.train_groups
        check(drift == 0, "imperfections.probe_variation", drift, "0: the probe of grid lines is constant")
        lag = self.imperfections.backlash_px
        check(lag == 0, "imperfections.backlash_px", lag, "0: grid lines are not scanned as a snake")
        for name in ("outer_offset_train", "outer_offset_test"):
            value = getattr(self, name)
            check(value // 2 <= self.N, name, value, f"at most 2·N={2 * self.N}, or the scan leaves gaps")
        extent = f"at least N + (gridsize - 1)*offset = {need} (N={self.N}, gridsize={self.gridsize}, "
        holding = f"{extent}offset={self.offset}): the object must hold one group"
        check(self.size >= need, "size", self.size, holding)
        for name in ("probe", "test_probe"):
            diameter = getattr(getattr(self, name), "mask_diameter_px", None) or 0
            check(diameter <= 2 * self.N, f"{name}.mask_diameter_px", diameter, f"at most 2·N={2 * self.N}")
        start, per_group = self.probe.start_epoch, self.baseline.patterns_per_group
        check(start < self.nepochs, "probe.start_epoch", start, f"less than nepochs={self.nepochs}")
        fitting = f"at most the number of training groups, {groups} (raise size, nimgs_train or"
        check(self.batch_size <= groups, "batch_size", self.batch_size, f"{fitting} max_groups_train)")
        few = per_group is None or per_group <= self.group_size
        check(few, "baseline.patterns_per_group", per_group, f"null or at most gridsize² = {self.group_size}")

    @property
    def group_size(self) -> int:
        """C, patterns in a group."""
        return self.gridsize**2

    @property
    def group_extent(self) -> int:
        """Side of the square that a group of the regular grid covers."""
        return self.N + (self.gridsize - 1) * self.offset

    @property
    def region_size(self) -> int:
        """R: side of the object region that covers a group, with room for jitter on either side."""
        if self.scan.jitter == 0:
            return self.group_extent
        # whole pixels by which jitter can move a patch against its group's centre
        margin = math.ceil(2 * self.scan.jitter * (1 - 1 / self.group_size) + 0.5)
        return self.group_extent + 2 * margin

    @property
    def learns_probe(self) -> bool:
        """Whether the data may correct the probe."""
        return self.probe.learn is True

    @property
    def imperfect(self) -> bool:
        """Whether anything is not as the network assumes."""
        return bool(self.imperfections.changed or self.bad_pixels or self.hot_pixels)

    def architecture(self, name: str) -> GeneratorConfig | BaselineConfig:
        return self.baseline if name == "baseline" else super().architecture(name)

    def probe_of(self, role: str) -> Shape:
        """Return the probe that a role's scan uses."""
        return self.test_probe if role == "test" and self.test_probe is not None else self.probe

    def outer_pitch(self, role: str) -> int:
        """Return the distance of neighbouring groups in pixels, ``outer_offset/2``."""
        return (self.outer_offset_test if role == "test" else self.outer_offset_train) // 2

    def groups_per_axis(self, role: str) -> int:
        """Return the number of groups along one axis of an image."""
        return (self.size - self.group_extent) // self.outer_pitch(role) + 1

    @cached_property
    def train_groups(self) -> int:
        """Groups that a training epoch draws from."""
        groups = self.nimgs_train * self.groups_per_axis("train") ** 2
        return groups if self.max_groups_train is None else min(groups, self.max_groups_train)


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
        None, "passes over the groups; null: 0 with key run, else 10", ge=0, le=1_000_000, level="sometimes"
    )
    batch_size: Integer | None = key(  # type: ignore[assignment]  # never None once made
        None, "groups in a batch; null: 8, or 1 with run=pretrained alone", ge=1, le=LARGEST_BATCH
    )
    holdout_fraction: Number = key(0.05, "fraction of held-out patterns, which give r_free", ge=0, le=0.5)
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
        if self.nepochs:
            least = f"less than nepochs={self.nepochs}"
            check(self.probe.start_epoch < self.nepochs, "probe.start_epoch", self.probe.start_epoch, least)
        for keys, refused, remedy in self._conflicts():
            if refused:
                raise ConfigError(f"{keys}: {remedy}")

    def _conflicts(self) -> Iterator[tuple[str, object, str]]:
        """Yield keys that may not fit each other, whether they do not, and why, with a remedy."""
        solver, models, near = self.solver, f"models=[{','.join(self.models)}]", "data.physics=near_field"
        slices, varies = f"solver.slices={solver.slices}", f"solver.probe_variation={solver.probe_variation}"
        thick, needs_run = (solver.slices or 1) > 1, self.run in (None, PRETRAINED)
        of_run = "is that of the run which run=… names; set run, or another probe"
        yield "probe=run", needs_run and isinstance(self.probe, RunProbe), of_run
        if self.data.near_field:
            far = "remove models, model, nepochs and run: the solver reconstructs near fields, they do not"
            yield f"{near}, {models}", self.models, far
            focus = "is the focus of a far field; must be from_file, npz, run or ideal_disk"
            yield f"{near}, probe=zone_plate", isinstance(self.probe, ZonePlateProbe), focus
        thin = "only the solver knows slices; remove the models, set steps, or set solver.slices=1"
        yield slices, thick and (self.models or not solver.steps), thin
        if self.data.shared == "object":
            own = "each scan has a probe of its own; remove the former, or set data.shared=both"
            yield f"{slices}, data.shared=object", thick, own
            yield f"{varies}, data.shared=object", solver.probe_variation, own
            yield f"start={self.start}, data.shared=object", self.start is not None, own
        fixed = "a probe that varies is refined; remove one of them"
        yield f"{varies}, probe.learn=false", solver.probe_variation and self.probe.learn is False, fixed
        nothing = "nothing would reconstruct; set one of them"
        yield f"solver.steps=0, {models}", not self.models and not solver.steps, nothing

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
