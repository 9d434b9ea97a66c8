"""Space for a scan is checked before anything is copied, in Python and on the command line."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.config import ConfigError
from ptycho.preparation.dataset import check_memory_for


def scan_with(far):
    """120 positions on a raster, some of them 100 000 px away."""
    positions = 5.0 * np.stack(np.meshgrid(np.arange(10), np.arange(12), indexing="ij"), -1).reshape(-1, 2)
    positions[far] += 1e5
    size = 64 + int(np.ptp(positions, axis=0).max()) + 5
    return SimpleNamespace(positions=positions, N=64, object_size=size, probe=None)


def test_data_drop_is_named_where_two_positions_are_so_far_from_the_others_that_memory_does_not_do():
    check_memory_for(scan_with([4]), "a")  # one isolated position is excluded, and takes no memory
    with pytest.raises(ConfigError, match=r"memory: needs .* TB .*isolated positions with data\.drop"):
        check_memory_for(scan_with([4, 5]), "a")
