"""The methods that the study compares, as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from benchmarks.solver_steps import refine
from benchmarks.study.zero_shot_kinds import OBJECTS, PROBES
from benchmarks.study.zero_shot_scores import find_region, measure_scan, score
from ptycho.config import LsqmlConfig
from ptycho.evaluation.metrics import Region
from ptycho.reconstruction import lsqml
from ptycho.run.loaded import LoadedModel
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho_pretrain.kind_scans import simulate_kind_scan

if TYPE_CHECKING:
    from benchmarks.study.zero_shot import Scan, ZeroShot

STITCHING = "probe"
SIZES = 16  # pixels; sides of regions are multiples of it
TRIAL_EPOCHS = 3  # epochs of LSQ-ML that measure its speed
EPOCHS = (5, 400)  # smallest and largest number of epochs of LSQ-ML
THREADS = 2  # of LSQ-ML
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Outcome:
    """A reconstruction.

    Attributes:
        stitched: the object.
        data: the patterns with the probe and positions of the object.
        seconds: time from the patterns to the object, without compilation.
        compile_s: time of compilation, if it can be separated.
        moved: whether the object may be shifted relative to the true one.
        facts: further values to store.
    """

    stitched: Reconstruction
    data: Dataset
    seconds: float
    compile_s: float = 0.0
    moved: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)


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
        first, _ = _time(lambda: self.model.reconstruct(self.tiles, STITCHING))
        seconds, made = _time(lambda: self.model.reconstruct(self.tiles, STITCHING))
        return Outcome(made, self.data, seconds, max(first - seconds, 0.0))

    @cached_property
    def refined(self) -> Outcome:
        zero_shot = self.zero_shot
        mask, start = zero_shot.stitched.mask, zero_shot.stitched.objects
        if not np.isfinite(start).all():
            return zero_shot
        seconds, found = _time(lambda: refine(start, self.data, self.study.passes))
        made = Reconstruction(np.where(mask, found, 0), mask)  # a refined object has no regions that disagree
        return replace(zero_shot, stitched=made, seconds=zero_shot.seconds + seconds)


def run_lsqml(case: Case) -> Outcome:
    """Run LSQ-ML of pty-chi for as many epochs as fit into the time of network and refinement."""
    settings = LsqmlConfig(epochs=TRIAL_EPOCHS, positions=False, python=case.study.ptychi, threads=THREADS)
    trial = lsqml.reconstruct(case.data, settings, case.study.seed)
    epochs = round(case.refined.seconds * TRIAL_EPOCHS / max(trial.reconstruction.seconds, 1e-3))
    settings = replace(settings, epochs=min(max(epochs, EPOCHS[0]), EPOCHS[1]))
    found = lsqml.reconstruct(case.data, settings, case.study.seed).reconstruction
    assert found.beam is not None
    made = replace(found, mask=case.zero_shot.stitched.mask)
    facts = {"epochs": settings.epochs, "version": found.program}
    return Outcome(made, case.data.under(found.beam), found.seconds, moved=True, facts=facts)


METHODS: dict[str, Callable[[Case], Outcome]] = {
    "zero_shot": lambda case: case.zero_shot,
    "refined": lambda case: case.refined,
    "lsqml": run_lsqml,
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

    def measure(self, scan: Scan, method: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return scores, and images: truth, probe, and the aligned object."""
        case = self.case_of(scan)
        data, region = case.data, case.region
        assert data.objects is not None
        made = METHODS[method](case)
        row, image = score(made.stitched, made.data, data.objects, region, made.moved)
        row |= {"seconds": made.seconds, "compile_s": made.compile_s, **made.facts}
        images = {"truth": region.crop(data.objects[0]), "probe": data.probe[0], "object": image}
        return row | {"scan": measure_scan(data, region)}, images
