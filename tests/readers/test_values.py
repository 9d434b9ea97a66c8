"""Words that every archive has: numbers with their units."""

import numpy as np
import pytest

from ptycho.readers.hdf5 import Hdf5Archive
from ptycho.readers.quantities import PIXEL
from ptycho.readers.values import read_pair


@pytest.mark.parametrize("given", [[7.5e-5, 1.5e-4], [7.5e-5], 7.5e-5])
def test_a_pitch_is_one_length_or_row_and_column(tmp_path, given):
    import h5py

    with h5py.File(tmp_path / "scan.h5", "w") as file:
        file["pitch"] = given
    with Hdf5Archive(tmp_path / "scan.h5") as archive:
        found = read_pair(archive, PIXEL, "pitch")
        assert not archive.warnings and not archive.problems
    np.testing.assert_allclose(found, np.broadcast_to(given, 2))
