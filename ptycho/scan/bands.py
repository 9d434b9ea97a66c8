"""Rows of a large image, band by band: an operation on all pixels takes memory for one band."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def bands(shape: tuple[int, ...], halo: int = 0, pixels: int = 2**20) -> Iterator[slice]:
    """Yield slices of the rows of an array ``(H, …)``, of about so many ``pixels`` each, in order.

    ``halo``: rows that a slice has more on either side, of which none belongs to it. Each of the rows from
    ``halo`` to ``H − halo`` belongs to one slice.
    """
    height = max(1, pixels // max(1, int(np.prod(shape[1:]))))
    for row in range(halo, shape[0] - halo, height):
        yield slice(row - halo, min(row + height, shape[0] - halo) + halo)


def inner_product(first: np.ndarray, second: np.ndarray) -> complex:
    """Return ``Σ conj(a) b`` of arrays ``(H, …)``, summed in double precision."""
    parts = (
        np.vdot(first[rows].astype(complex, copy=False), second[rows].astype(complex, copy=False))
        for rows in bands(first.shape)
    )
    return complex(sum(parts))
