"""What the denoiser is trained on: fits of simulated scans, their remaining gradient, and the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.evaluation.metrics import align
from ptycho.files.atomic import write_atomically
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.learned import VIEW, Learned, view
from ptycho.reconstruction.prior import Prior
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_learned
from ptycho.scan.dataset import Dataset
from ptycho.simulation.measured_like import PATHS
from ptycho_pretrain.config import DenoiserConfig
from ptycho_pretrain.distributions import Distributions, disturb_positions, disturb_probe
from ptycho_pretrain.kind_scans import KindScan, simulate_kind_scan
from ptycho_pretrain.kinds import choose_entry

STRENGTHS = (0.0, 3.0, 10.0, 30.0)  # λ of the prior that keeps edges
PULLS = (1.0, 16.0)  # κ of a learned prior, by its logarithm


class Scans(Distributions[DenoiserConfig]):
    """The scans of a configuration, by their numbers; each depends on the seed and its number alone."""

    def draw(self, number: int) -> tuple[Dataset, bool]:
        """Simulate the scan of a number, with the beam as it is stated, and its truth ``objects (1, M, M)``.

        The flag is True where the beam is as it is stated.
        """
        rng, measured = np.random.default_rng([self.config.seed, number]), self.config.measurement
        form = choose_entry(self.forms, rng)
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
        probe = disturb_probe(scan.probe, measured, rng)
        inside = (0, scan.object_size - scan.N)
        positions = disturb_positions(scan.positions, inside, measured, rng)
        stated = scan if probe is scan.probe else scan.under_probe(probe)
        if positions is not scan.positions:
            stated = stated.under(replace(stated.beam, positions=positions.astype(np.float32)))
        return stated, stated is scan


@dataclass(frozen=True, eq=False)
class Example:
    """An illuminated part of a fit and its truth; see :class:`~ptycho.reconstruction.learned.View`."""

    inputs: np.ndarray  # x (H, W, 4) float32
    relative: np.ndarray  # ν (H, W, 1) float32
    change: np.ndarray  # truth less object over the noise, real and imaginary part, (H, W, 2) float32
    # illumination over the strongest, (H, W, 1) float32, 0 where it is too weak; the name is that in files
    light: np.ndarray

    def save(self, path: Path) -> None:
        """Write the arrays to an NPZ, whole or not at all."""
        write_atomically(path, lambda file: np.savez(file, allow_pickle=False, **vars(self)))

    @classmethod
    def load(cls, path: Path) -> Example:
        """Read an example that :meth:`save` has written."""
        with np.load(path, allow_pickle=False) as stored:
            return cls(**stored)


def make_example(
    scans: Scans, number: int, learned: Learned | None = None, steps: tuple[int, int] = (15, 150)
) -> Example:
    """Fit a scan with a classical prior of random strength, or from there with one that is being learned.

    ``learned``: its network, whose strength is drawn; ``steps``: of the fit, drawn by their logarithm.
    """
    (data, exact), rng = scans.draw(number), np.random.default_rng([scans.config.seed, number, 1])
    assert data.objects is not None
    likelihood = ScanLikelihood(data, data.normalisation, compile_xla=scans.config.xla.compile)
    start = Estimate.of(data, np.ones((data.object_size,) * 2))
    strength, count = rng.choice(STRENGTHS), int(np.exp(rng.uniform(*np.log(steps))))
    objective = Objective(likelihood, Prior("edge_preserving", float(strength)))
    estimate = fit(objective, start, OBJECT_ALONE, count).estimate
    if learned is not None:
        pull = Learned(learned.network, float(np.exp(rng.uniform(*np.log(PULLS)))))
        estimate = fit_learned(replace(objective, learned=pull), estimate, int(rng.integers(1, 3))).estimate
    return _compared(likelihood, estimate, data.objects[0], exact)


def _compared(likelihood: ScanLikelihood, estimate: Estimate, truth: np.ndarray, exact: bool) -> Example:
    """What a network is shown of an estimate, beside the truth in its phase.

    A wrong beam makes a phase plane and a scale of its own, which no prior can know.
    """
    shown = view(likelihood, estimate)
    illuminated = shown.illumination > VIEW.least
    if exact:
        along = np.vdot(np.where(illuminated, truth, 0), estimate.object)
        there = truth * (along / abs(along))
    else:
        there = align(truth, estimate.object, illuminated).object
    height, width, _ = shown.inputs.shape
    pad = [(0, n - part) for n, part in zip((height, width), there[shown.box].shape, strict=True)]
    illumination = np.pad(np.where(illuminated, shown.illumination, 0)[shown.box], pad)
    change = np.pad(((there - estimate.object) / shown.noise)[shown.box], pad)
    pair = np.stack([change.real, change.imag], axis=-1).astype(np.float32)
    return Example(shown.inputs, shown.relative, pair, illumination[..., None].astype(np.float32))
