"""What is told of a scan before its run begins."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.config.data import DataConfig
from workflows.reconstruct.scan_plan import _check_memory

CONFIG = ScanRunConfig(data=DataConfig(file=("a.h5",)), models=())


def scan_with(far):
    """120 positions on a raster, some of them 100 000 px away; frames are numbered from 10 on."""
    positions = 5.0 * np.stack(np.meshgrid(np.arange(10), np.arange(12), indexing="ij"), -1).reshape(-1, 2)
    positions[far] += 1e5
    size = 64 + int(np.ptp(positions, axis=0).max()) + 5
    return SimpleNamespace(
        positions=positions, N=64, object_size=size, probe=None, frames=np.arange(len(positions)) + 10
    )


def test_a_position_far_from_all_others_which_is_left_out_takes_no_memory():
    _check_memory(CONFIG, [scan_with([4])])


def test_positions_far_from_the_others_are_named_where_memory_does_not_do():
    with pytest.raises(ConfigError, match=r"memory: needs .* TB .*leave them out, data\.drop=\[14,15\]$"):
        _check_memory(CONFIG, [scan_with([4, 5])])
