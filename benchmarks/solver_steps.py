"""Some steps of the solver from given objects, with everything but the object known."""

from __future__ import annotations

import numpy as np

from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import likelihood_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.scan.dataset import Dataset


def refine(objects: np.ndarray, data: Dataset, steps: int) -> np.ndarray:
    """Return ``objects (I, M, M)`` after at most so many steps; one without patterns stays as it is."""
    refined = objects.astype(np.complex64)
    for i in np.unique(data.image):
        part = data.subset(np.flatnonzero(data.image == i), 1)
        start = Estimate.of(part, refined[i])
        refined[i] = fit(Objective(likelihood_of(part)), start, OBJECT_ALONE, steps).estimate.object
    return refined
