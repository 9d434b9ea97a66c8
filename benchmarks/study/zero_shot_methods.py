"""The methods that the study compares, as a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from benchmarks.grid_scans import refine
from benchmarks.study.zero_shot_kinds import OBJECTS, PROBES
from benchmarks.study.zero_shot_scores import find_region, score
from ptycho.evaluation.metrics import Region
from ptycho.run.loaded import LoadedModel
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho_pretrain.kind_scans import simulate_kind_scan

if TYPE_CHECKING:
    from benchmarks.study.zero_shot import Scan, ZeroShot

STITCHING = "probe"
SIZES = 16  # pixels; sides of regions are multiples of it
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Outcome:
    """A reconstruction.

    Attributes:
        stitched: the object.
        seconds: time from the patterns to the object, without compilation.
    """

    stitched: Reconstruction
    seconds: float


@dataclass(eq=False)
class Case:
    """A scan, of which each pattern is a group, the network, and the definition of the study."""

    study: ZeroShot
    model: LoadedModel
    data: Dataset

    @cached_property
    def region(self) -> Region:
        """The region that is scored."""
        return find_region(self.data)

    @cached_property
    def tiles(self) -> Dataset:
        """Groups for the network; regions have few sizes, so that cells share compiled programs."""
        tiles = self.data.tiled(min(self.study.group_size, len(self.data.positions)))
        return replace(tiles, region_size=-(-tiles.region_size // SIZES) * SIZES)

    @cached_property
    def zero_shot(self) -> Outcome:
        """The object of the network, reconstructed twice: with compilation, and for the time."""
        self.model.reconstruct(self.tiles, STITCHING)
        seconds, made = _time(lambda: self.model.reconstruct(self.tiles, STITCHING))
        return Outcome(made, seconds)

    @cached_property
    def refined(self) -> Outcome:
        zero_shot = self.zero_shot
        mask, start = zero_shot.stitched.mask, zero_shot.stitched.objects
        if not np.isfinite(start).all():
            return zero_shot
        seconds, found = _time(lambda: refine(start, self.data, self.study.passes))
        made = Reconstruction(np.where(mask, found, 0), mask)  # a refined object has no regions that disagree
        return Outcome(made, zero_shot.seconds + seconds)


METHODS: dict[str, Callable[[Case], Outcome]] = {
    "zero_shot": lambda case: case.zero_shot,
    "refined": lambda case: case.refined,
}
"""Method to function ``(case) → Outcome``."""


def _time(work: Callable[[], Value]) -> tuple[float, Value]:
    began = time.perf_counter()
    value = work()
    return time.perf_counter() - began, value


class Bench:
    """The measurement of the cells of a study; it keeps the last scan for the other methods."""

    def __init__(self, study: ZeroShot) -> None:
        self.study, self.model = study, LoadedModel(study.network)
        self.case: tuple[str, Case] | None = None

    def case_of(self, scan: Scan) -> Case:
        if self.case is None or self.case[0] != scan.name:
            data = simulate_kind_scan(scan.settings, PROBES, OBJECTS)
            self.case = scan.name, Case(self.study, self.model, data)
        return self.case[1]

    def measure(self, scan: Scan, method: str) -> dict[str, Any]:
        """Return the scores of a scan by a method."""
        case = self.case_of(scan)
        assert case.data.objects is not None
        made = METHODS[method](case)
        row = score(made.stitched, case.data, case.data.objects, case.region)
        return row | {"seconds": made.seconds}
