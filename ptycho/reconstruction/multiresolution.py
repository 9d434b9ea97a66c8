"""Multiresolution start: most steps of a large pattern are spent on low frequencies, so they come first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptycho.progress import silent
from ptycho.reconstruction.blocks import FROM_NOTHING, Blockwise, fit_in_blocks
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.coarser import Coarser, coarser
from ptycho.scan.patterns import MiddleRows


def multiresolution_start(
    objective: Objective, start: Estimate, steps: int, blockwise: Blockwise | None = None
) -> Estimate | None:
    """Return an estimate with the object of the middle of the patterns, from a constant; the beam stays.

    Args:
        objective: of the patterns.
        start: the beam.
        steps: of a fit, at most.
        blockwise: the middles are fitted where they are more than a block's.

    Returns:
        None where patterns cannot be downsampled; see :func:`~ptycho.scan.coarser.coarser`.
    """
    view = coarser(objective.likelihood.data)
    if view is None:
        return None
    likelihood, good = objective.likelihood, view.data.good
    assert good is not None
    other = None if likelihood.instead is None else MiddleRows(likelihood.instead[:], good)
    likelihood = replace(likelihood, data=view.data, instead=other, advance=silent)
    there, objective = estimate_of(view, start), Objective(likelihood, objective.prior)
    if blockwise is not None and blockwise.divides(view.data):
        fitted = fit_in_blocks(objective, there, OBJECT_ALONE, steps, blockwise, FROM_NOTHING)
    else:
        fitted = fit(objective, there, OBJECT_ALONE, steps, objective.options.preliminary)
    return replace(start, object=view.finer_object(fitted.estimate.object))


def estimate_of(view: Coarser, fine: Estimate) -> Estimate:
    """Return a constant object under the beam of an estimate of the finer scan."""
    return Estimate(
        np.ones((view.data.object_size,) * 2, np.complex64),
        view.modes(fine.modes),
        fine.positions * view.ratio,
        fine.flux,
        view.background(fine.background),
    )
