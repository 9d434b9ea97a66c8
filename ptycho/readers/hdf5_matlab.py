"""MATLAB 7.3 files, which are HDF5 with the axes of every array in reverse, as MATLAB stores columns first.

=========================== =======================================================================
in MATLAB                   here
=========================== =======================================================================
(J, 2), (A, B), (h, w)      the same: read and turned over
(h, w, K) images            (K, h, w); so is (K, h, w), where the first two axes are no square
(H, W, J), (H, W, A, B)     patterns, in MATLAB's own order of columns: ``a + A·b`` is ``[:, :, a, b]``
(J, H, W)                   patterns, where J is the number of positions
=========================== =======================================================================

A dataset is one of MATLAB's if it has the attribute ``MATLAB_class``, which ``save -v7.3`` writes and
``h5write`` does not, or if its file begins with MATLAB's own block.
"""

from __future__ import annotations

from collections.abc import Iterator

import h5py
import numpy as np

from ptycho.config import ConfigError
from ptycho.readers.archive import DAMAGE, Archive, Patterns, describe_error
from ptycho.readers.hdf5_patterns import Hdf5Patterns

SIGNATURE = b"MATLAB 7.3 MAT-file"


def is_of_matlab(dataset: h5py.Dataset) -> bool:
    """Whether MATLAB has stored a dataset, so that its axes are in reverse."""
    if "MATLAB_class" in dataset.attrs:
        return True
    if dataset.file.userblock_size < len(SIGNATURE):
        return False
    with open(dataset.file.filename, "rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


def images_first(array: np.ndarray) -> np.ndarray:
    """Images ``(h, w, …)`` of MATLAB, or ``(K, h, w)``, as ``(…, h, w)``."""
    already = array.ndim < 3 or (array.ndim == 3 and array.shape[1] == array.shape[2] != array.shape[0])
    return array if already else array.T.swapaxes(-1, -2)


class MatlabPatterns(Patterns):
    """Patterns ``(H, W, J)`` or ``(H, W, A, B)`` of MATLAB; or ``(J, H, W)``, which the positions tell.

    Args:
        source: the dataset as HDF5 has it, ``(J, W, H)``, ``(B, A, W, H)``, or ``(W, H, J)``.
        last: which of them lies along the last axis of HDF5, MATLAB's first.
    """

    columns_first = True

    def __init__(self, source: Hdf5Patterns, last: bool = False) -> None:
        self._source, self._last = source, last
        self.label, self.dtype, self.grid = source.label, source.dtype, source.grid
        first, width, height = source.shape
        self.shape = (height, width, first) if last else (first, height, width)

    @property
    def counts(self) -> tuple[int, ...]:
        first, _, other = self._source.shape
        return (first, other) if self.grid is None else (first,)

    def order_for(self, count: int, file: Archive) -> Patterns:
        """Patterns along MATLAB's last axis, unless only its first is as long as there are positions."""
        first, other = self.counts[0], self.counts[-1]
        return MatlabPatterns(self._source, last=count == other != first)

    def read(self, index: slice | np.ndarray) -> np.ndarray:
        if not self._last:
            return self._source.read(index).swapaxes(-1, -2)
        wanted, place = np.unique(np.arange(self.shape[0])[index], return_inverse=True)
        try:
            return np.asarray(self._source.dataset[..., wanted]).T[place].astype(self.dtype, copy=False)
        except DAMAGE as error:
            raise ConfigError(f"{self.label}: cannot be read ({describe_error(error)})") from error

    def samples(self) -> Iterator[np.ndarray]:
        return self._source.samples()

    def close(self) -> None:
        self._source.close()
