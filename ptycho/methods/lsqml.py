"""pty-chi's LSQ-ML on a measured scan, beside our own solver."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace

from ptycho.align.context import RunContext
from ptycho.config import ITERATIVE as LSQML
from ptycho.config import ScanRunConfig
from ptycho.iterative import lsqml
from ptycho.methods.prepared import Prepared
from ptycho.progress import Progress
from ptycho.scan.beam import Beam
from ptycho.scan.reconstruction import Reconstruction

log = logging.getLogger(__name__)


def reconstruct(prepared: Prepared, config: ScanRunConfig, context: RunContext) -> Reconstruction:
    """Reconstruct by LSQ-ML from the same patterns, the file's probe and positions; others stay at theirs.

    Raises:
        LsqmlError: pty-chi cannot be run, or gave no result.
    """
    data = prepared.fitted(prepared.whole.beam)
    patterns = config.iterative.epochs * len(data.positions)
    with closing(Progress(LSQML, patterns, bar=context.bar)) as progress:
        result = lsqml.reconstruct(data, config.iterative, config.seed, progress.advance, context.scratch)
    reconstruction, initial = result.reconstruction, prepared.whole.beam
    epochs, r_factor = len(result.r_factors), result.r_factors[-1]
    log.info(
        "lsqml: %s, %d epochs, R %.4f, %.1f s",
        reconstruction.program,
        epochs,
        r_factor,
        reconstruction.seconds,
    )
    assert reconstruction.beam is not None
    return replace(
        reconstruction,
        beam=prepared.beam_of(
            reconstruction.beam, Beam(reconstruction.beam.probe, initial.at(prepared.out).positions)
        ),
    )
