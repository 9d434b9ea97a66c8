"""Configuration values: frozen dataclasses that validate themselves.

Every error names the key as it is written on the command line, the value, and what is allowed. This
module knows neither Hydra nor TensorFlow, so that a mistake is answered before anything heavy loads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar


class ConfigError(ValueError):
    """A configuration or input file that cannot be used; the message is one line for the user."""


def check(ok: bool, key: str, value: Any, allowed: str) -> None:
    """Raise :class:`ConfigError` naming ``key``, ``value`` and what is ``allowed`` unless ``ok``."""
    if not ok:
        raise ConfigError(f"{key}={value}: must be {allowed}")


def _finite(key: str, value: float, low: float = 0.0, *, above: bool = False) -> None:
    relation = ">" if above else ">="
    ok = math.isfinite(value) and (value > low if above else value >= low)
    check(ok, key, value, f"a finite number {relation} {low:g}")


def _at_least(key: str, value: int, low: int) -> None:
    check(value >= low, key, value, f"an integer >= {low}")


@dataclass(frozen=True)
class LinesObject:
    """Random line segments, blurred (the published "grid lines" object)."""

    KIND: ClassVar[str] = "lines"
    n_lines: int = 400

    def __post_init__(self) -> None:
        _at_least("object.n_lines", self.n_lines, 1)


@dataclass(frozen=True)
class IdealDiskProbe:
    """Gaussian-smoothed disk with a flat phase; lengths in pixels of a 64 × 64 window, scaled with N."""

    KIND: ClassVar[str] = "ideal_disk"
    diameter_px64: float = 22.0
    smoothing_px64: float = 1.0
    mask_diameter_px: float | None = None

    def __post_init__(self) -> None:
        _finite("probe.diameter_px64", self.diameter_px64, above=True)
        check(self.diameter_px64 <= 64, "probe.diameter_px64", self.diameter_px64, "at most 64 (the window)")
        _finite("probe.smoothing_px64", self.smoothing_px64)
        _check_mask(self.mask_diameter_px)


@dataclass(frozen=True)
class ZonePlateProbe:
    """Focus of a Fresnel zone plate with a central stop, propagated to the defocused sample plane."""

    KIND: ClassVar[str] = "zone_plate"
    energy_keV: float = 8.0
    pixel_size_nm: float | None = None
    zone_plate_diameter_um: float = 180.0
    outermost_zone_width_nm: float = 30.0
    central_stop_diameter_um: float = 60.0
    defocus_um: float = 45.0
    mask_diameter_px: float | None = None

    def __post_init__(self) -> None:
        _finite("probe.energy_keV", self.energy_keV, above=True)
        if self.pixel_size_nm is not None:
            _finite("probe.pixel_size_nm", self.pixel_size_nm, above=True)
        _finite("probe.zone_plate_diameter_um", self.zone_plate_diameter_um, above=True)
        _finite("probe.outermost_zone_width_nm", self.outermost_zone_width_nm, above=True)
        _finite("probe.central_stop_diameter_um", self.central_stop_diameter_um)
        check(
            self.central_stop_diameter_um < self.zone_plate_diameter_um,
            "probe.central_stop_diameter_um",
            self.central_stop_diameter_um,
            f"smaller than probe.zone_plate_diameter_um={self.zone_plate_diameter_um}",
        )
        check(math.isfinite(self.defocus_um), "probe.defocus_um", self.defocus_um, "a finite number")
        _check_mask(self.mask_diameter_px)


@dataclass(frozen=True)
class FileProbe:
    """A probe from an NPZ file, key ``probeGuess``, brought to N × N."""

    KIND: ClassVar[str] = "npz"
    file: str = ""
    resize: str = "interpolate"
    mask_diameter_px: float | None = None
    RESIZE: ClassVar[tuple[str, ...]] = ("interpolate", "pad", "pad_quadratic")

    def __post_init__(self) -> None:
        check(bool(self.file), "probe.file", repr(self.file), "the path of an .npz file with key probeGuess")
        check(self.resize in self.RESIZE, "probe.resize", self.resize, f"one of {', '.join(self.RESIZE)}")
        _check_mask(self.mask_diameter_px)


def _check_mask(diameter: float | None) -> None:
    if diameter is not None:
        _finite("probe.mask_diameter_px", diameter, above=True)


@dataclass(frozen=True)
class ScanConfig:
    """Deviation of the scan from its grid: positions move uniformly within ±jitter pixels."""

    jitter: float = 0.0

    def __post_init__(self) -> None:
        _finite("scan.jitter", self.jitter)
        check(self.jitter <= 16, "scan.jitter", self.jitter, "at most 16 pixels")


@dataclass(frozen=True)
class UnrolledModel:
    """Unrolled physics iteration with small residual CNNs; see :mod:`ptycho.models.unrolled`."""

    KIND: ClassVar[str] = "unrolled"
    stages: int = 8
    width: int = 32
    blocks: int = 1
    coarsening: int = 2
    illumination_floor: float = 0.01
    neighbours: int = 3
    neighbour_distance_px64: float = 12.0

    def __post_init__(self) -> None:
        _check_neighbours(self.neighbours, self.neighbour_distance_px64)
        _at_least("model.stages", self.stages, 1)
        _at_least("model.width", self.width, 1)
        _at_least("model.blocks", self.blocks, 0)
        _at_least("model.coarsening", self.coarsening, 1)
        _finite("model.illumination_floor", self.illumination_floor, above=True)


@dataclass(frozen=True)
class UNetModel:
    """The published PtychoPINN encoder with two decoders; see :mod:`ptycho.models.unet`."""

    KIND: ClassVar[str] = "unet"
    filters_scale: int = 2
    object_big: bool = False
    neighbours: int = 0
    neighbour_distance_px64: float = 12.0

    def __post_init__(self) -> None:
        _check_neighbours(self.neighbours, self.neighbour_distance_px64)
        _at_least("model.filters_scale", self.filters_scale, 1)


def _check_neighbours(count: int, distance: float) -> None:
    """``neighbours``: patterns near a group that its object must explain in training, besides its own."""
    _at_least("model.neighbours", count, 0)
    _finite("model.neighbour_distance_px64", distance, above=True)


@dataclass(frozen=True)
class BaselineConfig:
    """PtychoNN, supervised; ``patterns_per_group`` = 1 is the published choice, null takes all."""

    patterns_per_group: int | None = 1
    filters_scale: int = 1
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if self.patterns_per_group is not None:
            _at_least("baseline.patterns_per_group", self.patterns_per_group, 1)
        _at_least("baseline.filters_scale", self.filters_scale, 1)
        _finite("baseline.learning_rate", self.learning_rate, above=True)


@dataclass(frozen=True)
class TrainConfig:
    """Adam with a linear warm-up and a cosine decay; ``patience`` ends a training that no longer improves."""

    learning_rate: float = 1e-3
    final_learning_rate_fraction: float = 0.01
    warmup_fraction: float = 0.05
    clip_norm: float = 1.0
    val_groups: int = 256
    checkpoint_seconds: float = 30.0
    patience: int | None = None

    def __post_init__(self) -> None:
        _finite("train.learning_rate", self.learning_rate, above=True)
        for key in ("final_learning_rate_fraction", "warmup_fraction"):
            value = getattr(self, key)
            check(math.isfinite(value) and 0 <= value <= 1, f"train.{key}", value, "between 0 and 1")
        _finite("train.clip_norm", self.clip_norm, above=True)
        _at_least("train.val_groups", self.val_groups, 1)
        _finite("train.checkpoint_seconds", self.checkpoint_seconds)
        if self.patience is not None:
            _at_least("train.patience", self.patience, 1)


@dataclass(frozen=True)
class XlaConfig:
    """Effective XLA switches, resolved once: compile the steps; separable translation or TensorFlow's."""

    compile: bool = True
    translate: bool = True

    def __post_init__(self) -> None:
        if self.compile and not self.translate:
            raise ConfigError(
                "xla.translate=false with xla.compile=true: TensorFlow's projective kernel has no XLA form; "
                "set xla.compile=false too, or xla.translate=true"
            )


@dataclass(frozen=True)
class StitchConfig:
    """How patches become objects.

    ``probe``: illumination-weighted mean; ``grid``: tiles of the central squares; ``refined``: as ``probe``,
    then corrected by the measured patterns, ``passes`` times at most.
    """

    method: str = "probe"
    passes: int = 5
    METHODS: ClassVar[tuple[str, ...]] = ("probe", "grid", "refined")

    def __post_init__(self) -> None:
        check(1 <= self.passes <= 10_000, "stitch.passes", self.passes, "from 1 to 10000")
        check(self.method in self.METHODS, "stitch.method", self.method, f"one of {', '.join(self.METHODS)}")


OBJECTS: dict[str, type] = {LinesObject.KIND: LinesObject}
PROBES: dict[str, type] = {probe.KIND: probe for probe in (IdealDiskProbe, ZonePlateProbe, FileProbe)}
GENERATORS: dict[str, type] = {model.KIND: model for model in (UnrolledModel, UNetModel)}
MODELS = ("pinn", "baseline")
ProbeConfig = IdealDiskProbe | ZonePlateProbe | FileProbe
GeneratorConfig = UnrolledModel | UNetModel


@dataclass(frozen=True)
class RunConfig:
    """Everything one run of the grid-lines workflow depends on; lengths in object pixels."""

    N: int = 64
    gridsize: int = 2
    nimgs_train: int = 2
    nimgs_test: int = 2
    nphotons: float = 1e9
    nepochs: int = 4
    batch_size: int = 16
    size: int = 392
    offset: int = 4
    outer_offset_train: int = 8
    outer_offset_test: int = 20
    max_groups_train: int | None = 2048
    mae_weight: float = 1.0
    nll_weight: float = 0.0
    realspace_weight: float = 0.0
    set_phi: bool = False
    seed: int = 0
    models: tuple[str, ...] = MODELS
    output_dir: str | None = None
    overwrite: bool = False
    object: LinesObject = field(default_factory=LinesObject)
    probe: ProbeConfig = field(default_factory=IdealDiskProbe)
    test_probe: ProbeConfig | None = None
    scan: ScanConfig = field(default_factory=ScanConfig)
    model: GeneratorConfig = field(default_factory=UnrolledModel)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    xla: XlaConfig = field(default_factory=XlaConfig)
    stitch: StitchConfig = field(default_factory=StitchConfig)

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_geometry()
        self._check_training()

    def _check_numbers(self) -> None:
        power_of_two = self.N > 0 and self.N & (self.N - 1) == 0
        check(power_of_two and 32 <= self.N <= 512, "N", self.N, "a power of two from 32 to 512")
        for key in ("gridsize", "nimgs_train", "nimgs_test", "nepochs", "batch_size", "size", "offset"):
            _at_least(key, getattr(self, key), 1)
        if self.max_groups_train is not None:
            _at_least("max_groups_train", self.max_groups_train, 1)
        check(0 <= self.seed < 2**32, "seed", self.seed, "an integer from 0 to 4294967295")
        _finite("nphotons", self.nphotons, low=1)
        check(self.nphotons <= 1e15, "nphotons", self.nphotons, "at most 1e15 photons per pattern")

    def _check_geometry(self) -> None:
        for key in ("outer_offset_train", "outer_offset_test"):
            value = getattr(self, key)
            check(value >= 2 and value % 2 == 0, key, value, "an even integer >= 2")
            check(value // 2 <= self.N, key, value, f"at most 2·N={2 * self.N}, or the scan leaves gaps")
        need = self.group_extent
        check(
            self.size >= need,
            "size",
            self.size,
            f"at least N + (gridsize - 1)*offset = {need} (N={self.N}, gridsize={self.gridsize}, "
            f"offset={self.offset}): the object must hold one group",
        )
        for key in ("probe", "test_probe"):
            diameter = getattr(getattr(self, key), "mask_diameter_px", None)
            if diameter is not None:
                limit = 2 * self.N
                check(diameter <= limit, f"{key}.mask_diameter_px", diameter, f"at most 2·N={limit}")

    def _check_training(self) -> None:
        for key in ("mae_weight", "nll_weight", "realspace_weight"):
            _finite(key, getattr(self, key))
        if self.mae_weight == 0 and self.nll_weight == 0:
            raise ConfigError(
                f"mae_weight=0, nll_weight=0 (realspace_weight={self.realspace_weight:g}): at least one of "
                "mae_weight and nll_weight must be > 0, or the loss never sees the data"
            )
        check(len(self.models) > 0, "models", "[]", f"a non-empty list drawn from [{', '.join(MODELS)}]")
        for name in self.models:
            check(name in MODELS, "models", f"[{name}]", f"drawn from [{', '.join(MODELS)}]")
        check(len(set(self.models)) == len(self.models), "models", list(self.models), "free of repetition")
        groups = self.train_groups
        check(
            self.batch_size <= groups,
            "batch_size",
            self.batch_size,
            f"at most the number of training groups, {groups} (raise size, nimgs_train or max_groups_train)",
        )
        per_group = self.baseline.patterns_per_group
        if per_group is not None:
            check(
                per_group <= self.group_size,
                "baseline.patterns_per_group",
                per_group,
                f"null or at most gridsize² = {self.group_size}",
            )

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
        return self.group_extent + 2 * self.jitter_margin

    @property
    def jitter_margin(self) -> int:
        """Whole pixels by which jitter can move a patch against its group's centre."""
        if self.scan.jitter == 0:
            return 0
        return math.ceil(2 * self.scan.jitter * (1 - 1 / self.group_size) + 0.5)

    def probe_of(self, role: str) -> ProbeConfig:
        """The probe that a role's scan uses."""
        return self.test_probe if role == "test" and self.test_probe is not None else self.probe

    def outer_pitch(self, role: str) -> int:
        """Distance of neighbouring groups in pixels, ``outer_offset/2``."""
        return (self.outer_offset_test if role == "test" else self.outer_offset_train) // 2

    def groups_per_axis(self, role: str) -> int:
        """Groups along one axis of an image."""
        return (self.size - self.group_extent) // self.outer_pitch(role) + 1

    @cached_property
    def train_groups(self) -> int:
        """Groups that a training epoch draws from."""
        groups = self.nimgs_train * self.groups_per_axis("train") ** 2
        return groups if self.max_groups_train is None else min(groups, self.max_groups_train)
