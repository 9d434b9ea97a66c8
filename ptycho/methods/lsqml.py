"""pty-chi's LSQ-ML on a measured scan, beside our own solver."""

from __future__ import annotations

import logging
from contextlib import closing

from ptycho.config import ScanRunConfig
from ptycho.iterative import lsqml
from ptycho.methods.assessment import Recon
from ptycho.methods.prepared import Prepared, Surroundings
from ptycho.progress import Progress
from ptycho.reconstruction.stitching import covered_part

log = logging.getLogger(__name__)
LSQML = "lsqml"


def reconstruct(each: Prepared, config: ScanRunConfig, where: Surroundings) -> Recon:
    """pty-chi's LSQ-ML on the same patterns, from the file's probe and positions.

    Raises:
        LsqmlError: pty-chi cannot be run, or gave no result.
    """
    data = each.whole.subset(each.kept, 1)
    free = each.whole.subset(each.out, 1) if len(each.out) else None
    patterns = config.iterative.epochs * len(data.positions)
    with where.timed(LSQML), closing(Progress(LSQML, patterns, bar=where.bar)) as progress:
        found = lsqml.reconstruct(data, config.iterative, config.seed, progress.advance, where.scratch)
    program, epochs, r_factor = f"pty-chi {found.version}", len(found.r_factors), found.r_factors[-1]
    log.info("lsqml: %s, %d epochs, R %.4f, %.1f s", program, epochs, r_factor, found.seconds)
    seen, judging = found.explained(data), None if free is None else found.unfitted(free)
    return Recon(covered_part(found.object, seen), seen, judging, found.seconds, program)
