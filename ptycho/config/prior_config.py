"""The configuration of a prior that is learned: the scans that it is learned from, and its training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from ptycho.config.errors import check
from ptycho.config.network_config import JobConfig
from ptycho.config.pretrain_config import MaterialsConfig
from ptycho.config.schema import Even, Integer, Number, Range, Share, Within, key, settings
from ptycho.config.sections import AdamConfig


@settings("scan")
class PriorScanConfig:
    """How objects are scanned and measured; of each imperfection the share of scans that have it."""

    overlap: Annotated[Range, Within(0, 0.98)] = key(
        (0.15, 0.85), "range of the overlap of neighbouring probes, 1 − step/diameter"
    )
    photons: Annotated[Range, Within(1, 1e12)] = key(
        (3e3, 3e7), "range of the photons per pattern, drawn log-uniformly"
    )
    probe_error_rad: Annotated[Range, Within(0, 3)] = key(
        (0.0, 0.3), "range of the rms phase error of the stated probe in its far field"
    )
    probe_error_share: Share = key(0.15, "fraction of the scans with an error of the probe")
    position_error_px: Annotated[Range, Within(0, 8)] = key(
        (0.0, 0.7), "range of the rms error of the nominal positions"
    )
    position_error_share: Share = key(0.15, "fraction of the scans with position errors")


@settings("forms")
class FormConfig:
    """One form of scans: so many patterns ``N``²."""

    N: Even = key(..., "side of the patterns", ge=16, le=512)
    patterns: Annotated[tuple[Integer, Integer], Within(4, 10_000)] = key(
        (36, 100), "minimum and maximum number of patterns", allowed="[fewest, most] in 4 to 10000"
    )
    weight: Number = key(1.0, "relative frequency of this form among the scans", gt=0)


@settings(kw_only=True)
class PriorConfig(JobConfig):
    """Everything that the weights of a learned prior depend on.

    ``probes`` and ``objects`` are distributions, ``kind: {weight, parameter: [low, high]}``, over the tables
    of :mod:`ptycho.simulation.probe_kinds` and :mod:`ptycho.simulation.object_kinds`.
    """

    steps: Integer = key(6600, "number of steps of the optimizer", ge=1, le=10**8)
    horizon: Integer | None = key(
        None, "number of steps of the cosine schedule of the learning rate; null: steps"
    )
    second: Integer = key(
        4400, "number of steps after which the denoiser also sees fits made with its first version", ge=0
    )
    scans: Integer = key(1000, "number of scans that are simulated and fitted", ge=1, le=10**6)
    scans_again: Integer = key(
        200, "number of scans that are fitted again with the first version of the denoiser", ge=5, le=10**6
    )
    batch: Integer = key(8, "number of object windows in a batch", ge=1, le=4096)
    window: Integer = key(80, "side of a window, a multiple of 4", ge=16, le=1024, unit="px")
    train: AdamConfig = key(
        AdamConfig(learning_rate=2e-3, checkpoint_seconds=120.0), "settings of the training"
    )
    probes: Mapping[str, Any] = key(dict, "distribution of the probes")
    objects: Mapping[str, Any] = key(dict, "distribution of the objects")
    materials: MaterialsConfig = key(
        MaterialsConfig(phase_rad=(0.2, 6.0), unrelated=0.5, bright=0.15),
        "distribution of the materials of the objects",
    )
    scan: PriorScanConfig = key(PriorScanConfig(), "distribution of the measurements")
    forms: Mapping[str, FormConfig] = key(dict, "forms of the scans, by name")

    def __post_init__(self) -> None:
        least = f"null, or at least steps = {self.steps}"
        check(self.horizon is None or self.horizon >= self.steps, "horizon", self.horizon, least)
        allowed = f"from 5 to scans = {self.scans}"
        check(self.scans_again <= self.scans, "scans_again", self.scans_again, allowed)
        check(self.window % 4 == 0, "window", self.window, "a multiple of 4")
