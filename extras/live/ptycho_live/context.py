"""How frames of a live scan become patterns on an object: determined from the first, kept for all."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.align.initial_probe import guess_probe
from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.preparation.dataset import make_dataset
from ptycho.preparation.prepare import ScanGeometry, in_object_pixels, interpret
from ptycho.readers.raw_scan import UNITS, RawScan
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import Objective
from ptycho.scan.beam import Beam
from ptycho.scan.patterns import Patterns
from ptycho.scan.probe import masked, specified_support
from ptycho_live.options import LiveOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class LiveContext:
    """Context of the fits, determined from the first patterns.

    Attributes:
        scan: how the first patterns were interpreted.
        matrix: ``(2, 2)``, from positions as the source has them to object pixels.
        objective: of the first patterns, whose units, noise, normalisation and support of the probe are kept.
        modes: initial ``s·f·P``, ``(K, N, N)`` complex64.
        refined: the parameters that are refined besides the object.
        frames: rows of a store ``(n,)`` → frames ``(n, H, W)``.
        options: limits of the live reconstruction.
    """

    scan: ScanGeometry
    matrix: np.ndarray
    objective: Objective
    modes: np.ndarray
    refined: Refine
    frames: Callable[[np.ndarray], np.ndarray]
    options: LiveOptions

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.scan.N

    @property
    def pixel_m(self) -> tuple[float, float] | None:
        """(row, col) pitch of the object's pixels in metres; None: unknown."""
        return self.scan.pixel.metres

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return amplitudes ``(n, N, N)`` of some rows of the store."""
        return self.scan.detector.amplitudes(self.frames(rows))

    def objective_of(self, amplitudes: np.ndarray, estimate: Estimate) -> Objective:
        """Return that of patterns ``(n, N, N)``, in the places of an estimate."""
        likelihood, count = self.objective.likelihood, len(amplitudes)
        data = replace(
            likelihood.data,
            amplitudes=Patterns(amplitudes),
            beam=Beam(likelihood.data.probe, estimate.positions.astype(np.float32)),
            image=np.zeros(count, np.int32),
            groups=np.arange(count, dtype=np.int32)[:, None],
            region_size=self.N + 2,
            object_size=max(estimate.object.shape),
            exact=True,
            tiles=False,
            stated_tiling=None,
        )
        return replace(self.objective, likelihood=replace(likelihood, data=data))


def make_context(
    raw: RawScan,
    config: ScanRunConfig,
    scratch: Path,
    frames: Callable[[np.ndarray], np.ndarray],
    options: LiveOptions,
) -> LiveContext:
    """Interpret the first patterns of a scan, and estimate the probe where none is known.

    Args:
        raw: the scan so far; its file is closed in the end.
        config: of the run; its section ``data`` says which frames of the file have a position.
        scratch: a folder for patterns in a nameless file.
        frames: see :class:`LiveContext`.

    Raises:
        ConfigError: a value cannot be determined; the message names the key to set.
    """
    with contextlib.closing(raw.patterns):
        scan = interpret(raw, config.data)
        _, data, findings = make_dataset(scan, replace(config, group_size=1, tiles=False), scratch)
    if scan.probe is None and isinstance(config.probe, OwnProbe):
        guess = guess_probe(data)
        data = replace(data, beam=data.beam.with_probe(masked(guess.probe, config.probe)))
        findings.append(guess.finding)
    for finding in (*scan.findings, *findings):
        log.info("%s", finding)
    likelihood = replace(likelihood_of(data), compile_xla=config.xla.compile)
    return LiveContext(
        scan,
        _matrix(scan, config.data),
        Objective(likelihood, support=specified_support(config.probe, scan.N)),
        Estimate.of(data, np.ones((1, 1)), config.probe.modes).modes,
        Refine(config.probe.learn is not False, config.solver.positions is not False),
        frames,
        options,
    )


def _matrix(scan: ScanGeometry, config: DataConfig) -> np.ndarray:
    """Return the linear map ``(2, 2)`` from positions of the source to object pixels."""
    step = 1e-6 / (UNITS[scan.raw.unit] or 1e-6)
    corners = step * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    pixels, _ = in_object_pixels(corners, scan.raw, config, scan.pixel, scan.N * config.bin)
    return ((pixels[1:] - pixels[0]) / step).T
