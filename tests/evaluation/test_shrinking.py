"""Downsampling by blocks of pixels: means of known pixels, angles on the circle, the same band by band."""

import numpy as np
import pytest

from ptycho.evaluation.shrinking import shrink, shrink_phase


def test_blocks_are_means_of_what_is_known():
    values = np.arange(35.0).reshape(5, 7)
    values[0, 1] = np.nan
    small, factor = shrink(values, 4)
    assert factor == 2 and small.shape == (3, 4)
    assert small[0, 0] == pytest.approx((0 + 7 + 8) / 3) and small[2, 3] == 34
    same, one = shrink(values, 7)
    assert one == 1 and same is values


def test_phases_are_averaged_on_the_circle():
    phase = np.array([[3.0, -3.0, 0.5, np.nan], [3.1, -3.1, 0.1, 0.3]])
    small, factor = shrink_phase(phase, 2)
    assert (
        factor == 2
        and abs(small[0, 0]) == pytest.approx(np.pi)
        and small[0, 1] == pytest.approx(0.3, abs=0.01)
    )
    same, one = shrink_phase(phase, 4)
    assert one == 1 and same is phase
