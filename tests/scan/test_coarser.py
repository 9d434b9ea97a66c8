"""A downsampled scan against intensities that are computed by hand on a fine grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.large_patterns import SCALE, N, far_of, smooth_scan

from ptycho.scan.coarser import (
    Coarser,
    at_larger_pixels,
    at_smaller_pixels,
    coarser,
    on_finer_pixels,
    reach,
)
from ptycho.scan.dataset import Dataset

SIDE = 64


@pytest.fixture(scope="module")
def scan() -> tuple[Dataset, np.ndarray]:
    return smooth_scan()


def test_the_middle_of_a_pattern_is_that_of_the_downsampled_object(scan: tuple[Dataset, np.ndarray]) -> None:
    data, object_ = scan
    coarse = at_larger_pixels(data, SIDE, reach(data.probe))
    good = coarse.good
    assert good is not None and 0.2 < good.mean() < 1
    sampled = object_[::4, ::4]
    for k, (row, column) in enumerate(coarse.positions.astype(int)):
        seen = sampled[row : row + SIDE, column : column + SIDE]
        expected = np.abs(SCALE * far_of(coarse.probe[0] * seen))
        assert np.allclose(expected[good], coarse.amplitudes[k : k + 1][0][good], atol=1e-3 * expected.max())
        assert not coarse.amplitudes[k : k + 1][0][~good].any()


def test_an_object_is_made_finer_in_place(scan: tuple[Dataset, np.ndarray]) -> None:
    data, _ = scan
    view = Coarser(data, at_larger_pixels(data, SIDE, 4))
    rows = np.arange(view.data.object_size) * 4.0
    wide = np.exp(-((rows[:, None] - 140) ** 2 + (rows - 100) ** 2) / (2 * 30.0**2))
    finer = view.finer_object(wide.astype(np.complex64)).real
    assert finer.shape == (N + 16, N + 16)
    assert np.unravel_index(np.argmax(finer), finer.shape) == (140, 100)


def test_modes_and_background_are_those_of_the_middle(scan: tuple[Dataset, np.ndarray]) -> None:
    data, _ = scan
    view = Coarser(data, at_larger_pixels(data, SIDE, 4))
    assert np.allclose(view.modes(data.probe), view.data.probe, atol=1e-5)
    background = np.zeros((N, N), np.float32)
    background[0, 0], background[3, N - 2], background[N // 2, 0] = 1, 2, 3
    middle = view.background(background)
    assert middle.sum() == 3 and middle[0, 0] == 1 and middle[3, SIDE - 2] == 2


def test_the_coarsest_that_explains_most_of_the_intensity(scan: tuple[Dataset, np.ndarray]) -> None:
    data, _ = scan
    view = coarser(data)
    assert view is not None and view.data.N == SIDE
    assert coarser(at_larger_pixels(data, 128, 4)) is None  # small enough
    rng = np.random.default_rng(0)
    probe = np.exp(2j * np.pi * rng.random((1, N, N))).astype(np.complex64)  # its far field is everywhere
    assert coarser(data.under_probe(probe)) is None


def test_unmeasured_pixels_stay_so(scan: tuple[Dataset, np.ndarray]) -> None:
    data, _ = scan
    good = np.ones((N, N), bool)
    good[N // 2 + 2, N // 2 - 3] = False
    amplitudes = data.amplitudes[:] * good
    coarse = at_larger_pixels(replace(data, amplitudes=amplitudes, good=good), SIDE, 4)
    assert coarse.good is not None and not coarse.good[SIDE // 2 + 2, SIDE // 2 - 3]


@pytest.mark.parametrize(("N", "side"), [(18, 26), (16, 23 * 2)])
def test_patterns_of_a_finer_object_are_explained_on_smaller_pixels(N: int, side: int) -> None:
    """A detector sees the middle of the far field of an object that has finer pixels; by NumPy alone."""
    rng, low = np.random.default_rng(5), side // 2 - N // 2
    probe = rng.standard_normal((N, N)) + 1j * rng.standard_normal((N, N))
    finer = np.fft.ifft2(np.fft.ifftshift(np.pad(far_of(probe), [(low, side - N - low)] * 2)), norm="ortho")
    finer = np.fft.fftshift(finer)
    places = np.array([(0, 0), (3, 5), (7, 2)])
    object_ = rng.standard_normal((side + 9,) * 2) + 1j * rng.standard_normal((side + 9,) * 2)
    waves = [far_of(finer * object_[r : r + side, c : c + side]) for r, c in places]
    amplitudes = np.abs(np.stack(waves))[:, low : low + N, low : low + N]
    good = rng.random((N, N)) > 0.1
    sizes = {"object_size": N + 9, "region_size": N + 2}
    data = single_patterns(np.where(good, amplitudes, 0), probe[None], places * N / side, good=good, **sizes)
    small = at_smaller_pixels(data, side)
    np.testing.assert_allclose(small.positions, places, atol=1e-5)
    np.testing.assert_allclose(small.probe[0], finer, atol=1e-5)
    assert small.good is not None and small.good.sum() == good.sum()
    predicted = np.abs(np.stack(waves)) * small.good
    np.testing.assert_allclose(small.amplitudes[:], predicted, atol=1e-4)


@pytest.mark.parametrize("size", [55, 56, 57, 64])
def test_every_position_within_an_object_is_within_the_finer_one(size):
    """Fits move positions up to the edge of the object, ``M − N``."""
    corners = np.array([(0, 0), (size - 32, size - 32)])
    data = single_patterns(np.ones((2, 32, 32)), np.ones((1, 32, 32)), corners, size, region_size=34)
    for side in (40, 44, 46):
        small = at_smaller_pixels(data, side)
        assert small.positions.max() <= small.object_size - side


def test_a_cubic_is_interpolated_exactly():
    """Away from the rim, beyond which the spline goes on by its last value."""
    row, col = np.meshgrid(np.arange(31.0), np.arange(24.0), indexing="ij")
    finer = on_finer_pixels(row**2 / 100 + 1j * row * col / 100, 1.25)
    assert finer.shape == (38, 29)
    r, c = (np.arange(12, 20)[:, None] / 1.25, np.arange(12, 18) / 1.25)
    np.testing.assert_allclose(finer[12:20, 12:18], r**2 / 100 + 1j * r * c / 100, atol=2e-4)
