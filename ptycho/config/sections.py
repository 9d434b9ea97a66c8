"""The sections of a configuration and the options of its groups; a message names the key as it is written.

To add an option to a group: a dataclass with its ``KIND`` here, an entry in the group's table below, a YAML
file in ``conf/<group>/``, and an entry in the table of what builds it: :data:`ptycho.networks.GENERATORS`,
:data:`ptycho.scan.probe.PROBES` or :data:`ptycho.simulation.objects.OBJECTS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ptycho.config.errors import ConfigError, at_least, at_most, check, finite


@dataclass(frozen=True)
class LinesObject:
    """Random line segments, blurred (the published "grid lines" object)."""

    KIND: ClassVar[str] = "lines"
    n_lines: int = 400

    def __post_init__(self) -> None:
        at_least("object.n_lines", self.n_lines, 1)
        at_most("object.n_lines", self.n_lines, 10_000_000)


@dataclass(frozen=True, kw_only=True)
class LearnedProbe:
    """What every option of the group ``probe`` has: whether the data may correct it, and how.

    ``learn`` null: where the scan was measured. ``modes`` null: those it has, two at least where a measured
    one is learned. In the training ``rate`` is that of the probe against the network's, from epoch
    ``start_epoch`` on. Nothing is lit outside the centred disk ``mask_diameter_px``.
    """

    learn: bool | None = None
    modes: int | None = None
    rate: float = 3.0
    start_epoch: int = 0
    mask_diameter_px: float | None = None

    def __post_init__(self) -> None:
        if self.modes is not None:
            check(1 <= self.modes <= 8, "probe.modes", self.modes, "from 1 to 8, or null")
        finite("probe.rate", self.rate)
        at_least("probe.start_epoch", self.start_epoch, 0)
        at_most("probe.start_epoch", self.start_epoch, 1_000_000)
        if self.mask_diameter_px is not None:
            finite("probe.mask_diameter_px", self.mask_diameter_px, above=True)


@dataclass(frozen=True)
class OwnProbe(LearnedProbe):
    """The probe that the file of a measured scan holds; one is guessed where it has none."""

    KIND: ClassVar[str] = "own"


@dataclass(frozen=True)
class RunProbe(LearnedProbe):
    """The probe that the run ``run`` found: that of an earlier scan of the same instrument."""

    KIND: ClassVar[str] = "run"


@dataclass(frozen=True)
class IdealDiskProbe(LearnedProbe):
    """Gaussian-smoothed disk with a flat phase; lengths in pixels of a 64 × 64 window, scaled with N."""

    KIND: ClassVar[str] = "ideal_disk"
    diameter_px64: float = 22.0
    smoothing_px64: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        finite("probe.diameter_px64", self.diameter_px64, above=True)
        check(self.diameter_px64 <= 64, "probe.diameter_px64", self.diameter_px64, "at most 64 (the window)")
        finite("probe.smoothing_px64", self.smoothing_px64)


@dataclass(frozen=True)
class ZonePlateProbe(LearnedProbe):
    """Focus of a Fresnel zone plate with a central stop, propagated to the defocused sample plane."""

    KIND: ClassVar[str] = "zone_plate"
    energy_keV: float = 8.0
    pixel_size_nm: float | None = None
    zone_plate_diameter_um: float = 180.0
    outermost_zone_width_nm: float = 30.0
    central_stop_diameter_um: float = 60.0
    defocus_um: float = 45.0

    def __post_init__(self) -> None:
        super().__post_init__()
        finite("probe.energy_keV", self.energy_keV, above=True)
        if self.pixel_size_nm is not None:
            finite("probe.pixel_size_nm", self.pixel_size_nm, above=True)
        finite("probe.zone_plate_diameter_um", self.zone_plate_diameter_um, above=True)
        finite("probe.outermost_zone_width_nm", self.outermost_zone_width_nm, above=True)
        finite("probe.central_stop_diameter_um", self.central_stop_diameter_um)
        check(
            self.central_stop_diameter_um < self.zone_plate_diameter_um,
            "probe.central_stop_diameter_um",
            self.central_stop_diameter_um,
            f"smaller than probe.zone_plate_diameter_um={self.zone_plate_diameter_um}",
        )
        check(math.isfinite(self.defocus_um), "probe.defocus_um", self.defocus_um, "a finite number")


@dataclass(frozen=True)
class FileProbe(LearnedProbe):
    """A probe from an NPZ file, key ``probeGuess``, brought to N × N."""

    KIND: ClassVar[str] = "npz"
    file: str = ""
    resize: str = "interpolate"
    RESIZE: ClassVar[tuple[str, ...]] = ("interpolate", "pad", "pad_quadratic")

    def __post_init__(self) -> None:
        super().__post_init__()
        check(bool(self.file), "probe.file", repr(self.file), "the path of an .npz file with key probeGuess")
        check(self.resize in self.RESIZE, "probe.resize", self.resize, f"one of {', '.join(self.RESIZE)}")


@dataclass(frozen=True)
class ScanConfig:
    """Deviation of the scan from its grid: positions move uniformly within ±jitter pixels."""

    jitter: float = 0.0

    def __post_init__(self) -> None:
        finite("scan.jitter", self.jitter)
        check(self.jitter <= 16, "scan.jitter", self.jitter, "at most 16 pixels")


@dataclass(frozen=True)
class UnrolledModel:
    """Unrolled physics iteration with small residual CNNs; see :mod:`ptycho.networks.unrolled`."""

    KIND: ClassVar[str] = "unrolled"
    FIXED: ClassVar[tuple[str, ...]] = ()  # sizes that the weights depend on
    stages: int = 8
    width: int = 32
    blocks: int = 1
    coarsening: int = 2
    illumination_floor: float = 0.01
    neighbours: int = 3
    neighbour_distance_px64: float = 12.0
    misfit: bool = False
    memory: bool = False

    def __post_init__(self) -> None:
        _check_neighbours(self.neighbours, self.neighbour_distance_px64)
        for key, low, high in (
            ("stages", 1, 1000),
            ("width", 1, 4096),
            ("blocks", 0, 1000),
            ("coarsening", 1, 512),
        ):
            at_least(f"model.{key}", getattr(self, key), low)
            at_most(f"model.{key}", getattr(self, key), high)
        finite("model.illumination_floor", self.illumination_floor, above=True)

    def takes(self, N: int) -> bool:
        """Whether patterns of side N fit: all of them do."""
        return N % 2 == 0


@dataclass(frozen=True)
class UNetModel:
    """The published PtychoPINN encoder with two decoders; see :mod:`ptycho.networks.unet`."""

    KIND: ClassVar[str] = "unet"
    FIXED: ClassVar[tuple[str, ...]] = ("N", "group_size")
    filters_scale: int = 2
    object_big: bool = False
    neighbours: int = 0
    neighbour_distance_px64: float = 12.0

    def __post_init__(self) -> None:
        _check_neighbours(self.neighbours, self.neighbour_distance_px64)
        at_least("model.filters_scale", self.filters_scale, 1)
        at_most("model.filters_scale", self.filters_scale, 64)

    @staticmethod
    def halvings(N: int) -> int:
        """How often the encoder halves the side of a pattern: 3 times at N = 64, once more at twice the N."""
        return max(2, int(math.log2(N)) - 3)

    def takes(self, N: int) -> bool:
        """Whether patterns of side N can be halved as often as the encoder does."""
        return N % 2 ** self.halvings(N) == 0


def _check_neighbours(count: int, distance: float) -> None:
    """``neighbours``: patterns near a group that its object must explain in training, besides its own."""
    at_least("model.neighbours", count, 0)
    at_most("model.neighbours", count, 10_000)
    finite("model.neighbour_distance_px64", distance, above=True)


@dataclass(frozen=True)
class BaselineConfig:
    """PtychoNN, supervised; ``patterns_per_group`` = 1 is the published choice, null takes all."""

    FIXED: ClassVar[tuple[str, ...]] = ("N",)
    patterns_per_group: int | None = 1
    filters_scale: int = 1
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if self.patterns_per_group is not None:
            at_least("baseline.patterns_per_group", self.patterns_per_group, 1)
        at_least("baseline.filters_scale", self.filters_scale, 1)
        at_most("baseline.filters_scale", self.filters_scale, 256)
        finite("baseline.learning_rate", self.learning_rate, above=True)


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
        finite("train.learning_rate", self.learning_rate, above=True)
        for key in ("final_learning_rate_fraction", "warmup_fraction"):
            value = getattr(self, key)
            check(math.isfinite(value) and 0 <= value <= 1, f"train.{key}", value, "between 0 and 1")
        finite("train.clip_norm", self.clip_norm, above=True)
        at_least("train.val_groups", self.val_groups, 1)
        at_most("train.val_groups", self.val_groups, 1_000_000)
        finite("train.checkpoint_seconds", self.checkpoint_seconds)
        if self.patience is not None:
            at_least("train.patience", self.patience, 1)


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
    passes: int = 10
    METHODS: ClassVar[tuple[str, ...]] = ("probe", "grid", "refined")

    def __post_init__(self) -> None:
        check(1 <= self.passes <= 10_000, "stitch.passes", self.passes, "from 1 to 10000")
        check(self.method in self.METHODS, "stitch.method", self.method, f"one of {', '.join(self.METHODS)}")


@dataclass(frozen=True)
class LsqmlConfig:
    """LSQ-ML of pty-chi; its probe is always refined, ``positions`` after ``start_positions`` epochs.

    ``early`` ends it once R has settled. ``python`` is the interpreter that has pty-chi; null: this one.
    ``threads`` null: as many as it likes.
    """

    epochs: int = 100
    early: bool = True
    modes: int = 1
    positions: bool = True
    start_positions: int = 10
    python: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        for key, low, high in (("epochs", 1, 100_000), ("modes", 1, 64), ("start_positions", 0, 100_000)):
            at_least(f"iterative.{key}", getattr(self, key), low)
            at_most(f"iterative.{key}", getattr(self, key), high)
        if self.threads is not None:
            at_least("iterative.threads", self.threads, 1)
            at_most("iterative.threads", self.threads, 4096)
        check(self.python != "", "iterative.python", "''", "null, or the path of a Python that has pty-chi")


@dataclass(frozen=True)
class SolverConfig:
    """The solver of a measured scan: what it finds besides object and probe, under which noise and prior.

    ``positions``, ``flux`` and ``background`` null: found where patterns that are kept out say so.
    ``strength`` null: chosen by them. ``steps`` 0: no solver.
    """

    steps: int = 400
    positions: bool | None = None
    position_model: str = "free"
    flux: bool | None = None
    background: bool | None = None
    prior: str = "edges"
    strength: float | None = None
    noise: str = "auto"
    POSITION_MODELS: ClassVar[tuple[str, ...]] = ("free", "affine", "all")
    PRIORS: ClassVar[tuple[str, ...]] = ("none", "smooth", "edges")
    NOISE: ClassVar[tuple[str, ...]] = ("auto", "poisson", "gaussian", "robust")

    def __post_init__(self) -> None:
        at_least("solver.steps", self.steps, 0)
        at_most("solver.steps", self.steps, 100_000)
        for key, allowed in (
            ("position_model", self.POSITION_MODELS),
            ("prior", self.PRIORS),
            ("noise", self.NOISE),
        ):
            value = getattr(self, key)
            check(value in allowed, f"solver.{key}", value, f"one of {', '.join(allowed)}")
        if self.strength is not None:
            finite("solver.strength", self.strength)


OBJECTS: dict[str, type] = {LinesObject.KIND: LinesObject}
PROBES: dict[str, type] = {probe.KIND: probe for probe in (IdealDiskProbe, ZonePlateProbe, FileProbe)}
MEASURED_PROBES: dict[str, type] = {probe.KIND: probe for probe in (OwnProbe, RunProbe)}
GENERATORS: dict[str, type] = {model.KIND: model for model in (UnrolledModel, UNetModel)}
MODELS = ("pinn", "baseline")  # networks
ITERATIVE = "lsqml"  # beside them: needs no training
SCAN_MODELS = ("pinn", ITERATIVE)  # of a measured scan
ProbeConfig = OwnProbe | RunProbe | IdealDiskProbe | ZonePlateProbe | FileProbe
GeneratorConfig = UnrolledModel | UNetModel
