"""The configuration of a network that is trained on distributions, and of its training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ptycho.config.errors import check, finite
from ptycho.config.network_config import NetworkConfig
from ptycho.config.sections import GeneratorConfig, OwnProbe, ProbeConfig, StitchConfig, UnrolledModel

GENERAL = UnrolledModel(stages=6, misfit=True, memory=True)  # model=unrolled_general
Range = tuple[float, float]


@dataclass(frozen=True)
class MaterialsConfig:
    """The range of materials.

    Attributes:
        phase_rad: phase between nothing and full thickness, drawn by its logarithm; it may wrap.
        absorption: of the amplitude by full thickness.
        unrelated: share of objects whose phase follows another map than their amplitude.
        bright: share of objects whose amplitude is their thickness, 0 to 1, as of the published lines.
    """

    phase_rad: Range = (0.05, 6.0)
    absorption: Range = (0.0, 0.9)
    unrelated: float = 0.25
    bright: float = 0.25

    def __post_init__(self) -> None:
        _range("materials.phase_rad", self.phase_rad, 0.001, 20)
        _range("materials.absorption", self.absorption, 0, 1)
        _share("materials.unrelated", self.unrelated)
        _share("materials.bright", self.bright)


@dataclass(frozen=True)
class MeasurementConfig:
    """How the objects are scanned and measured; each imperfection has the share of examples that have it.

    Attributes:
        overlap: of neighbouring probes, 1 − step/diameter.
        photons: in a pattern on average, drawn by the logarithm.
        background, background_share: light from elsewhere over that of the sample; nobody says so.
        bad_pixels, bad_share: share of the detector's pixels that are known to be dead.
        probe_error_rad, probe_error_share: rms phase of what the given probe has wrong, in its far field.
        position_error_px, position_error_share: standard deviation of what positions have wrong.
        start_share: share of examples that begin with a rough object instead of a constant.
        again_share: share of batches that begin with what the network itself makes of them, its second round.
        solver_share, solver_passes: share of batches that begin with rough objects after so many updates by
            physics alone, fewest and most: what a solver leaves, with the noise of these patterns.
    """

    overlap: Range = (0.0, 0.9)
    photons: Range = (1e4, 1e10)
    background: Range = (0.0, 0.02)
    background_share: float = 0.1
    bad_pixels: Range = (0.0, 0.1)
    bad_share: float = 0.2
    probe_error_rad: Range = (0.0, 0.3)
    probe_error_share: float = 0.15
    position_error_px: Range = (0.0, 0.7)
    position_error_share: float = 0.15
    start_share: float = 0.25
    again_share: float = 0.3
    solver_share: float = 0.2
    solver_passes: tuple[int, int] = (2, 12)

    def __post_init__(self) -> None:
        limits = {
            "overlap": (0, 0.98),
            "photons": (1, 1e12),
            "background": (0, 1),
            "bad_pixels": (0, 0.5),
            "probe_error_rad": (0, 3),
            "position_error_px": (0, 8),
        }
        for key, (low, high) in limits.items():
            _range(f"measurement.{key}", getattr(self, key), low, high)
        for key in ("background", "bad", "probe_error", "position_error", "start", "again", "solver"):
            _share(f"measurement.{key}_share", getattr(self, f"{key}_share"))
        both = self.again_share + self.solver_share
        check(both <= 1, "measurement.solver_share", self.solver_share, "at most 1 with again_share")
        low, high = self.solver_passes
        allowed = "[fewest, most] in 1 to 1000"
        check(1 <= low <= high <= 1000, "measurement.solver_passes", [low, high], allowed)


@dataclass(frozen=True)
class BatchConfig:
    """One form of training batches: ``batch`` groups of ``C`` patterns ``N``² under a probe of ``modes``."""

    N: int
    C: int
    batch: int
    reach: int
    weight: float = 1.0
    modes: int = 1

    def __post_init__(self) -> None:
        check(self.N % 2 == 0 and 16 <= self.N <= 512, "batches.N", self.N, "even, from 16 to 512")
        check(1 <= self.C <= 64, "batches.C", self.C, "from 1 to 64")
        check(1 <= self.batch <= 4096, "batches.batch", self.batch, "from 1 to 4096")
        check(1 <= self.reach <= self.N, "batches.reach", self.reach, "from 1 to N pixels")
        check(1 <= self.modes <= 8, "batches.modes", self.modes, "from 1 to 8")
        finite("batches.weight", self.weight, above=True)

    @property
    def region_size(self) -> int:
        """R: positions lie at most ``reach`` pixels from the region's centre."""
        return self.N + 2 * self.reach


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(NetworkConfig):
    """Everything that the weights of a network for many scans depend on.

    ``probes`` and ``objects`` are distributions, ``kind: {weight, parameter: [low, high]}``, over the tables
    of :mod:`ptycho.simulation.probe_kinds` and :mod:`ptycho.simulation.object_kinds`.

    The learning rate follows a cosine of ``horizon`` steps (null: ``steps``). A training of fewer steps
    leaves it for zero near its end; up to there it is the same, however long it is to be.
    """

    MODELS: ClassVar[tuple[str, ...]] = ("pinn",)
    models: tuple[str, ...] = ("pinn",)
    nepochs: int = 1
    steps: int = 13_000
    horizon: int | None = None
    batch_size: int = 1
    group_size: int = 64
    maps: int = 3000
    map_side: int = 256
    model: GeneratorConfig = field(default_factory=lambda: GENERAL)
    probe: ProbeConfig = field(default_factory=OwnProbe)
    stitch: StitchConfig = field(default_factory=lambda: StitchConfig("probe"))
    probes: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)
    materials: MaterialsConfig = field(default_factory=MaterialsConfig)
    measurement: MeasurementConfig = field(default_factory=MeasurementConfig)
    batches: Mapping[str, BatchConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_network()
        check(1 <= self.steps <= 10**8, "steps", self.steps, "from 1 to 100000000")
        least = f"null, or at least steps = {self.steps}"
        check(self.horizon is None or self.horizon >= self.steps, "horizon", self.horizon, least)
        check(1 <= self.maps <= 10**6, "maps", self.maps, "from 1 to 1000000")
        check(1 <= self.group_size <= 512, "group_size", self.group_size, "from 1 to 512")
        check(isinstance(self.model, UnrolledModel), "model", self.model.KIND, "an unrolled network")
        largest = max((form.region_size for form in self.forms), default=0)
        check(self.map_side >= largest, "map_side", self.map_side, f"at least {largest}, the largest region")

    @property
    def forms(self) -> tuple[BatchConfig, ...]:
        return tuple(self.batches.values())

    @property
    def learns_probe(self) -> bool:
        return False


def _range(key: str, value: Range, low: float, high: float) -> None:
    ok = len(value) == 2 and all(math.isfinite(x) for x in value) and low <= value[0] <= value[1] <= high
    check(ok, key, list(value), f"[low, high] within [{low:g}, {high:g}]")


def _share(key: str, value: float) -> None:
    check(0 <= value <= 1, key, value, "from 0 to 1")
