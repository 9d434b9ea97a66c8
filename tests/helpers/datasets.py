"""Data sets made by hand."""

import numpy as np

from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset


def single_patterns(amplitudes, probe, positions, object_size, **changes):
    """Return a data set of one object whose groups are single patterns; ``changes``: other fields."""
    count, side = len(amplitudes), np.shape(amplitudes)[-1]
    values = {"photon_scale": 1.0, "region_size": side + 2} | changes
    return Dataset(
        amplitudes=np.asarray(amplitudes, np.float32),
        beam=Beam(np.asarray(probe, np.complex64), np.asarray(positions, np.float32)),
        image=np.zeros(count, np.int32),
        groups=np.arange(count, dtype=np.int32)[:, None],
        object_size=object_size,
        **values,
    )
