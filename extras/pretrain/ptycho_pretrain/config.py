"""The configurations of the networks that are trained on distributions of simulated scans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from ptycho.config.messages import check
from ptycho.config.network_config import GeneralConfig, JobConfig
from ptycho.config.schema import Even, Integer, Number, Range, Share, Within, key, settings
from ptycho.config.sections import AdamConfig


@settings("materials")
class MaterialsConfig:
    """The range of materials."""

    phase_rad: Annotated[Range, Within(0.001, 20)] = key(
        (0.05, 6.0), "phase at full thickness, drawn log-uniformly"
    )
    absorption: Annotated[Range, Within(0, 1)] = key((0.0, 0.9), "amplitude that full thickness absorbs")
    unrelated: Share = key(0.25, "fraction of the objects whose phase and amplitude are unrelated")
    bright: Share = key(
        0.25, "fraction of the objects whose amplitude is their thickness, like the published line objects"
    )


@settings("measurement")
class ScansMeasurementConfig:
    """How the objects are scanned and measured; each imperfection has the share of examples that have it."""

    overlap: Annotated[Range, Within(0, 0.98)] = key(
        (0.0, 0.9), "overlap of neighbouring probes, 1 − step/diameter"
    )
    photons: Annotated[Range, Within(1, 1e12)] = key((1e4, 1e10), "photons per pattern, drawn log-uniformly")
    probe_error_rad: Annotated[Range, Within(0, 3)] = key(
        (0.0, 0.3), "rms phase error of the stated probe in its far field"
    )
    probe_error_share: Share = key(0.15, "fraction of the examples with an error of the probe")
    position_error_px: Annotated[Range, Within(0, 8)] = key((0.0, 0.7), "rms error of the nominal positions")
    position_error_share: Share = key(0.15, "fraction of the examples with position errors")


@settings("measurement")
class MeasurementConfig(ScansMeasurementConfig):
    """How groups of patterns are measured, and what the network starts from."""

    background: Annotated[Range, Within(0, 1)] = key(
        (0.0, 0.02), "background, as a fraction of the intensity; unknown to the network"
    )
    background_share: Share = key(0.1, "fraction of the examples that have a background")
    bad_pixels: Annotated[Range, Within(0, 0.5)] = key((0.0, 0.1), "fraction of masked pixels")
    bad_share: Share = key(0.2, "fraction of the examples that have masked pixels")
    start_share: Share = key(0.25, "fraction of the examples that start from a rough object, not a constant")
    again_share: Share = key(0.3, "fraction of the batches that start from an output of the network")
    solver_share: Share = key(0.2, "fraction of the batches that start from a few iterations of the solver")
    solver_passes: Annotated[tuple[Integer, Integer], Within(1, 1000)] = key(
        (2, 12), "minimum and maximum number of these iterations", allowed="[fewest, most] in 1 to 1000"
    )

    def __post_init__(self) -> None:
        both = self.again_share + self.solver_share
        check(both <= 1, "measurement.solver_share", self.solver_share, "at most 1 with again_share")


@settings(kw_only=True)
class FormConfig:
    """One form of examples."""

    N: Even = key(..., "side of the patterns", ge=16, le=512)
    weight: Number = key(1.0, "relative frequency of this form among the examples", gt=0)


@settings("batches", kw_only=True)
class BatchConfig(FormConfig):
    """One form of training batches: ``batch`` groups of ``C`` patterns ``N``² under a probe of ``modes``."""

    C: Integer = key(..., "number of patterns in a group", ge=1, le=64)
    batch: Integer = key(..., "number of groups in a batch", ge=1, le=4096)
    reach: Integer = key(
        ..., "maximum distance of positions from the centre of the group, up to N", ge=1, unit="pixels"
    )
    modes: Integer = key(1, "number of modes of the probe", ge=1, le=8)

    def __post_init__(self) -> None:
        check(self.reach <= self.N, "batches.reach", self.reach, "from 1 to N pixels")

    @property
    def region_size(self) -> int:
        """R: positions lie at most ``reach`` pixels from the region's centre."""
        return self.N + 2 * self.reach


@settings("forms", kw_only=True)
class ScanFormConfig(FormConfig):
    """One form of scans: so many patterns ``N``²."""

    patterns: Annotated[tuple[Integer, Integer], Within(4, 10_000)] = key(
        (36, 100), "minimum and maximum number of patterns", allowed="[fewest, most] in 4 to 10000"
    )


@settings(kw_only=True)
class KindsConfig(JobConfig):
    """What the trainings on distributions of simulated scans have in common.

    ``probes`` and ``objects`` are distributions, ``kind: {weight, parameter: [low, high]}``, over the tables
    of :mod:`ptycho_pretrain.probe_kinds` and :mod:`ptycho_pretrain.object_kinds`.

    The learning rate follows a cosine of ``horizon`` steps (null: ``steps``). A training of fewer steps
    leaves it for zero near its end; up to there it is the same, however long it is to be.
    """

    FORMS: ClassVar[str]  # the key of the forms of examples
    network: str
    steps: Integer = key(13_000, "number of steps of the optimizer", ge=1, le=10**8)
    horizon: Integer | None = key(None, "number of steps of the cosine of the learning rate; null: steps")
    train: AdamConfig = key(AdamConfig(checkpoint_seconds=120.0), "settings of the training")
    probes: Mapping[str, Any] = key(dict, "distribution of the probes")
    objects: Mapping[str, Any] = key(dict, "distribution of the objects")
    materials: MaterialsConfig = key(MaterialsConfig(), "distribution of the materials of the objects")
    measurement: ScansMeasurementConfig = key(ScansMeasurementConfig(), "distribution of the measurements")

    def __post_init__(self) -> None:
        least = f"null, or at least steps = {self.steps}"
        check(self.horizon is None or self.horizon >= self.steps, "horizon", self.horizon, least)


@settings(kw_only=True)
class PretrainConfig(KindsConfig, GeneralConfig):
    """Everything that the weights of a network of groups of patterns, for many scans, depend on."""

    FORMS: ClassVar[str] = "batches"
    network: Literal["group"] = key("group", "network to train: that of run=pretrained", level="always")
    maps: Integer = key(3000, "number of thickness maps, which each step rotates and crops", ge=1, le=10**6)
    map_side: Integer = key(256, "side of a thickness map; at least that of the largest region", unit="px")
    measurement: MeasurementConfig = key(MeasurementConfig(), "distribution of the measurements")
    batches: Mapping[str, BatchConfig] = key(dict, "forms of the batches, by name")

    def __post_init__(self) -> None:
        super().__post_init__()
        largest = max((form.region_size for form in self.forms), default=0)
        check(self.map_side >= largest, "map_side", self.map_side, f"at least {largest}, the largest region")

    @property
    def forms(self) -> tuple[BatchConfig, ...]:
        """The forms of the batches that are trained on."""
        return tuple(self.batches.values())


@settings(kw_only=True)
class DenoiserConfig(KindsConfig):
    """Everything that the weights of the denoiser of the solver depend on."""

    FORMS: ClassVar[str] = "forms"
    network: Literal["denoiser"] = key(
        "denoiser", "network to train: that of solver.regulariser=learned", level="always"
    )
    steps: Integer = key(6600, "number of steps of the optimizer", ge=1, le=10**8)
    second: Integer = key(4400, "steps after which the denoiser also sees fits by its first version", ge=0)
    scans: Integer = key(1000, "number of scans that are simulated and fitted", ge=1, le=10**6)
    scans_again: Integer = key(200, "scans fitted again by the denoiser's first version", ge=5, le=10**6)
    batch: Integer = key(8, "number of object windows in a batch", ge=1, le=4096)
    window: Integer = key(80, "side of a window, a multiple of 4", ge=16, le=1024, unit="px")
    train: AdamConfig = key(
        AdamConfig(learning_rate=2e-3, checkpoint_seconds=120.0), "settings of the training"
    )
    materials: MaterialsConfig = key(
        MaterialsConfig(phase_rad=(0.2, 6.0), unrelated=0.5, bright=0.15),
        "distribution of the materials of the objects",
    )
    measurement: ScansMeasurementConfig = key(
        ScansMeasurementConfig(overlap=(0.15, 0.85), photons=(3e3, 3e7)), "distribution of the measurements"
    )
    forms: Mapping[str, ScanFormConfig] = key(dict, "forms of the scans, by name")

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = f"from 5 to scans = {self.scans}"
        check(self.scans_again <= self.scans, "scans_again", self.scans_again, allowed)
        check(self.window % 4 == 0, "window", self.window, "a multiple of 4")
