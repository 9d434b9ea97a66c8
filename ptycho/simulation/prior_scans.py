"""Random scans that a prior is learned from: any probe, object, dose and path, at times with a wrong beam."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ptycho.config import check
from ptycho.config.prior_config import FormConfig, PriorConfig
from ptycho.scan.dataset import Dataset
from ptycho.simulation.kind_scans import KindScan, simulate_kind_scan
from ptycho.simulation.kinds import Entry, choose_entry, read_entries
from ptycho.simulation.measured_like import PATHS
from ptycho.simulation.object_kinds import OBJECT_KINDS
from ptycho.simulation.probe_kinds import PROBE_KINDS, disturb_phase


@dataclass(frozen=True, eq=False)
class PriorScan:
    """A scan with the beam as it is told, and its true object.

    Attributes:
        told: the scan.
        truth: ``(M, M)`` complex64.
        exact: the beam is as it is told.
    """

    told: Dataset
    truth: np.ndarray
    exact: bool


@dataclass(frozen=True, eq=False)
class PriorScans:
    """The scans of a configuration, by their numbers; each depends on the seed and its number alone."""

    config: PriorConfig
    probes: list[Entry] = field(init=False)
    objects: list[Entry] = field(init=False)

    def __post_init__(self) -> None:
        check(len(self.config.forms) > 0, "forms", "{}", "at least one form of scans")
        object.__setattr__(self, "probes", read_entries(PROBE_KINDS, self.config.probes, "probes"))
        object.__setattr__(self, "objects", read_entries(OBJECT_KINDS, self.config.objects, "objects"))

    def draw(self, number: int) -> PriorScan:
        """The scan of a number."""
        rng, measured = np.random.default_rng([self.config.seed, number]), self.config.scan
        form = self._choose_form(rng)
        paths = sorted(PATHS)
        settings = KindScan(
            probe=choose_entry(self.probes, rng),
            object=choose_entry(self.objects, rng),
            material=self.config.materials,
            path=paths[rng.integers(len(paths))],
            overlap=float(rng.uniform(*measured.overlap)),
            photons=float(np.exp(rng.uniform(*np.log(measured.photons)))),
            N=form.N,
            positions=int(rng.integers(form.patterns[0], form.patterns[1] + 1)),
            seed=int(rng.integers(2**31)),
        )
        scan = simulate_kind_scan(settings)
        assert scan.objects is not None
        told = self._disturb(scan, rng)
        return PriorScan(told, scan.objects[0], told is scan)

    def _choose_form(self, rng: np.random.Generator) -> FormConfig:
        forms = list(self.config.forms.values())
        weights = np.array([form.weight for form in forms])
        return forms[rng.choice(len(forms), p=weights / weights.sum())]

    def _disturb(self, scan: Dataset, rng: np.random.Generator) -> Dataset:
        """The scan as it is told: now and then with a wrong probe, with wrong positions."""
        told, measured = scan, self.config.scan
        if rng.random() < measured.probe_error_share:
            told = told.under_probe(disturb_phase(scan.probe, rng.uniform(*measured.probe_error_rad), rng))
        if rng.random() < measured.position_error_share:
            rms = rng.uniform(*measured.position_error_px)
            moved = scan.positions + rng.normal(0, rms, scan.positions.shape)
            inside = np.clip(moved, 0, scan.object_size - scan.N).astype(np.float32)
            told = told.under(replace(told.beam, positions=inside))
        return told
