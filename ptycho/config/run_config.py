"""The configuration of a run of the grid-lines workflow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from ptycho.config.errors import at_least, at_most, check, finite
from ptycho.config.imperfections import Imperfections, check_detector
from ptycho.config.network_config import NetworkConfig
from ptycho.config.sections import (
    ITERATIVE,
    MODELS,
    IdealDiskProbe,
    LinesObject,
    LsqmlConfig,
    OwnProbe,
    ProbeConfig,
    RunProbe,
    ScanConfig,
)

MOST = {"gridsize": 64, "nimgs_train": 1_000_000, "nimgs_test": 1_000_000, "size": 16_384}


@dataclass(frozen=True, kw_only=True)
class RunConfig(NetworkConfig):
    """Everything one run of the grid-lines workflow depends on; lengths in object pixels."""

    MODELS: ClassVar[tuple[str, ...]] = (*MODELS, ITERATIVE)
    NEWER: ClassVar[tuple[str, ...]] = ("imperfections", "iterative")
    N: int = 64
    gridsize: int = 2
    nimgs_train: int = 2
    nimgs_test: int = 2
    nphotons: float = 1e9
    size: int = 392
    offset: int = 4
    outer_offset_train: int = 8
    outer_offset_test: int = 20
    max_groups_train: int | None = 2048
    set_phi: bool = False
    object: LinesObject = field(default_factory=LinesObject)
    probe: ProbeConfig = field(default_factory=IdealDiskProbe)
    test_probe: ProbeConfig | None = None
    bad_pixels: int = 0
    hot_pixels: int = 0
    imperfections: Imperfections = field(default_factory=Imperfections)
    iterative: LsqmlConfig = field(default_factory=LsqmlConfig)
    scan: ScanConfig = field(default_factory=ScanConfig)

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_geometry()
        self._check_network()
        self._check_training()

    def _check_numbers(self) -> None:
        power_of_two = self.N > 0 and self.N & (self.N - 1) == 0
        check(power_of_two and 32 <= self.N <= 512, "N", self.N, "a power of two from 32 to 512")
        for key in ("gridsize", "nimgs_train", "nimgs_test", "size", "offset"):
            at_least(key, getattr(self, key), 1)
        for key, most in MOST.items():
            at_most(key, getattr(self, key), most)
        if self.max_groups_train is not None:
            at_least("max_groups_train", self.max_groups_train, 1)
        finite("nphotons", self.nphotons, low=1)
        check(self.nphotons <= 1e15, "nphotons", self.nphotons, "at most 1e15 photons per pattern")
        check_detector(self.N, self.bad_pixels, self.hot_pixels, self.imperfections)
        lag = self.imperfections.backlash_px
        check(lag == 0, "imperfections.backlash_px", lag, "0: grid lines are not scanned as a snake")

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
            kind = getattr(getattr(self, key), "KIND", None)
            other = kind not in (OwnProbe.KIND, RunProbe.KIND)
            check(other, key, kind, "zone_plate, npz or ideal_disk: only a measured scan has that one")
            diameter = getattr(getattr(self, key), "mask_diameter_px", None)
            if diameter is not None:
                limit = 2 * self.N
                check(diameter <= limit, f"{key}.mask_diameter_px", diameter, f"at most 2·N={limit}")

    def _check_training(self) -> None:
        start = self.probe.start_epoch
        check(start < self.nepochs, "probe.start_epoch", start, f"less than nepochs={self.nepochs}")
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

    @property
    def learns_probe(self) -> bool:
        """Whether the data may correct the probe."""
        return self.probe.learn is True

    @property
    def imperfect(self) -> bool:
        """Whether anything is not as the network is told."""
        return bool(self.imperfections.changed or self.bad_pixels or self.hot_pixels)

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
