"""How frames of a growing scan become patterns on an object: settled on the first of them, kept for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.align.initial_probe import guess_probe
from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.config.waves import Fresnel
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.detector import Detector
from ptycho.preparation.prepare import Understood, in_object_pixels, understand
from ptycho.readers.raw_scan import UNITS, RawScan
from ptycho.reconstruction.refinement import likelihood_of
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.state import State
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import lit_part, masked


@dataclass(frozen=True, eq=False)
class Beginning:
    """What the first patterns have settled.

    Attributes:
        scan: how they were understood.
        detector: how a frame becomes a pattern.
        matrix: ``(2, 2)``, from positions as the source has them to object pixels.
        first: the first patterns as a dataset; others take its units.
        likelihood: of these, whose units, noise and normalisation are kept.
        modes: ``s·f·P`` to begin with, ``(K, N, N)`` complex64.
        lit: ``(N, N)`` bool, where the probe may be; None: everywhere.
        findings: what was settled, and why.
    """

    scan: Understood
    detector: Detector
    matrix: np.ndarray
    first: Dataset
    likelihood: ScanLikelihood
    modes: np.ndarray
    lit: np.ndarray | None
    findings: tuple[Finding, ...]

    @property
    def N(self) -> int:
        return self.detector.N

    @property
    def fresnel(self) -> Fresnel | None:
        return self.scan.fresnel

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        return self.scan.pixel.metres

    def in_pixels(self, positions: np.ndarray) -> np.ndarray:
        """Positions ``(n, 2)`` of the source in object pixels, of a common origin."""
        return positions @ self.matrix.T

    def likelihood_of(self, amplitudes: np.ndarray, positions: np.ndarray, side: int) -> ScanLikelihood:
        """That of patterns ``(n, N, N)`` at positions ``(n, 2)`` on an object of a side."""
        count = len(positions)
        data = replace(
            self.first,
            amplitudes=Patterns(amplitudes),
            beam=Beam(self.first.probe, positions.astype(np.float32)),
            image=np.zeros(count, np.int32),
            groups=np.arange(count, dtype=np.int32)[:, None],
            region_size=self.N + 2,
            object_size=side,
            exact=True,
            tiles=False,
            stated_tiling=None,
        )
        return replace(self.likelihood, data=data)


def begin(raw: RawScan, config: ScanRunConfig, scratch: Path) -> Beginning:
    """Understand the first patterns of a scan, and guess the probe where none is told.

    Args:
        raw: the first joined patterns.
        config: of the run; its section ``data`` has no file.
        scratch: a folder for patterns in a nameless file.

    Raises:
        ConfigError: something cannot be told; the message names the key that says it.
    """
    scan = understand(raw, config.data)
    data, found = make_dataset(scan, replace(config, group_size=1, tiles=False), scratch)
    if scan.probe is None and isinstance(config.probe, OwnProbe):
        guess = guess_probe(data)
        data = replace(data, beam=data.beam.with_probe(masked(guess.probe, config.probe)))
        found.append(guess.finding)
    likelihood = likelihood_of(data)
    modes = State.of(data, np.ones((1, 1)), config.probe.modes).modes
    return Beginning(
        scan,
        scan.detector,
        _matrix(scan, config),
        data,
        replace(likelihood, compile_xla=config.xla.compile),
        modes,
        lit_part(config.probe, scan.N),
        (*scan.findings, *found),
    )


def _matrix(scan: Understood, config: ScanRunConfig) -> np.ndarray:
    """What takes positions of the source to object pixels, which is linear, by two steps of a micrometre."""
    step = 1e-6 / (UNITS[scan.raw.unit] or 1e-6)
    corners = step * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    side = scan.N * config.data.bin
    pixels, _ = in_object_pixels(corners, scan.raw, config.data, scan.pixel, side)
    return ((pixels[1:] - pixels[0]) / step).T
