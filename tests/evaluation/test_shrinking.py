"""Blocks of pixels: means of what is known, angles on the circle, and the same band by band."""

from functools import partial

import numpy as np
import pytest

from ptycho.evaluation import shrinking
from ptycho.evaluation.shrinking import shrink, shrink_phase
from ptycho.scan.bands import bands


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


def test_a_channel_is_averaged_alike_in_bands(monkeypatch):
    wave = np.random.default_rng(0).normal(size=(2, 31, 17)).T @ [1, 1j]  # (17, 31)
    wave[4:9] = np.nan
    at_once, factor = shrink(wave, 8, np.abs)
    padded = np.pad(np.abs(wave), ((0, 3), (0, 1)), constant_values=np.nan)
    by_loops = [
        [np.nanmean(part) if np.isfinite(part).any() else np.nan for part in np.split(rows, 8, axis=1)]
        for rows in np.split(padded, 5)
    ]
    assert factor == 4 and np.isnan(at_once[1]).all()
    np.testing.assert_allclose(at_once, by_loops)
    monkeypatch.setattr(shrinking, "bands", partial(bands, pixels=1))
    np.testing.assert_array_equal(shrink(wave, 8, np.abs)[0], at_once)
