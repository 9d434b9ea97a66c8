"""Your own reader of measured scans.

    ptycho inspect data.file=scan.txt data.format=own_reader:read

The function is called with ``path`` and ``options`` (other keys of the section ``data``), and returns a
``RawScan``; its docstring describes each field. ``Frames`` holds patterns in memory; an object with
``shape``, ``dtype``, ``read(index)`` and ``close()`` may replace it, so that a large file is read in parts.
"""

import numpy as np

from ptycho.readers.raw_scan import Frames, RawScan


def read(path, options):
    """A text file: a line is x and y in µm, then N × N photon counts, zero frequency at [N//2, N//2]."""
    del options
    table = np.loadtxt(path)
    N = round((table.shape[1] - 2) ** 0.5)
    return RawScan(
        format="text",
        patterns=Frames(table[:, 2:].reshape(-1, N, N).astype(np.uint32)),
        domain="counts",
        zero_frequency="centre",
        positions=table[:, 1::-1],  # (row, col) = (y, x)
        unit="um",
    )
