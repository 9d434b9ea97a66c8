"""A scan in Python: what it shows, and positions in metres; expected values are worked by hand."""

import numpy as np
import pytest

import ptycho

N = 32
GRID = np.stack(np.mgrid[:5, :7], axis=-1).reshape(-1, 2) * [3, 4]
"""Positions in pixels, (row, col): 13 × 25."""
LENGTHS = {"wavelength_m": 1e-10, "distance_m": 1.0, "detector_pixel_m": 62.5e-6}
"""λz/(N·p) = 1e-10 · 1 / (32 · 62.5e-6) m = 50 nm."""


@pytest.fixture(scope="module")
def patterns():
    """Photon counts without symmetry, of another total in each pattern."""
    rng = np.random.default_rng(1)
    row, col = np.mgrid[:N, :N] - 16
    mean = 40 * np.exp(-(row**2 + 2 * col**2 + row * col) / 60)
    return rng.poisson(mean * np.linspace(1, 3, len(GRID))[:, None, None]).astype(float)


def from_arrays(patterns, positions=None, **more):
    return ptycho.Scan.from_arrays(patterns, positions, **{"counts": True, **more})


@pytest.mark.parametrize(
    "pitch, known", [(5e-8, LENGTHS), (5e-8, {"pixel_m": 5e-8}), ((2e-8, 7e-8), {"pixel_m": (2e-8, 7e-8)})]
)
def test_positions_in_metres_become_pixels(patterns, pitch, known):
    """The origin does not matter; whole steps stay whole, so that nothing is interpolated."""
    scan = from_arrays(patterns, positions_m=GRID * np.array(pitch) + [1e-3 / 3, -2e-3 / 7], **known)
    np.testing.assert_array_equal(scan.positions - scan.positions[0], GRID)
    np.testing.assert_array_equal(scan.positions, np.round(scan.positions))
    np.testing.assert_allclose(scan.positions_m - scan.positions_m[0], GRID * np.array(pitch), rtol=1e-6)
    np.testing.assert_allclose(scan.pixel_m, np.broadcast_to(pitch, 2), rtol=1e-6)
    pixels = from_arrays(patterns, GRID, **known)
    np.testing.assert_array_equal(pixels.positions, scan.positions)


METRES = GRID * 5e-8


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, r"positions, positions_m: pass one: in object pixels, or in metres"),
        ({"positions_m": METRES}, r"positions_m: the object's pixel is unknown; pass pixel_m=, or energy"),
        ({"positions_m": METRES, "pixel_m": 5e-8, **LENGTHS}, r"pixel_m: follows from wavelength, distance"),
        ({"positions_m": METRES[1:], "pixel_m": 5e-8}, r"positions_m has shape \(34, 2\); must be \(35, 2\)"),
        ({"positions": GRID, "distance_m": 1.0}, r"^distance_m: sets no pixel; .* or physics='near_field'"),
    ],
)
def test_positions_that_cannot_be_placed_are_refused(patterns, given, message):
    with pytest.raises(ptycho.ConfigError, match=message):
        from_arrays(patterns, **given)


def test_the_mean_pattern_the_mask_and_the_energy(patterns):
    good = np.ones((N, N), bool)
    good[4, 20] = good[9, 3:6] = False
    scan = from_arrays(patterns, GRID, good=good, energy_eV=8800)
    np.testing.assert_allclose(scan.mean_pattern, np.where(good, patterns.mean(axis=0), 0), rtol=1e-5)
    np.testing.assert_array_equal(scan.mask, good)
    assert scan.energy_eV == 8800 and from_arrays(patterns, GRID).energy_eV is None
    np.testing.assert_allclose(from_arrays(patterns, GRID, wavelength_m=1e-10).energy_eV, 12398.42, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int64, np.uint64, np.float16, np.float64])
def test_a_mask_of_each_pattern_hides_whatever_is_there(patterns, dtype):
    whole, good = (
        np.minimum(patterns, 200).astype(dtype),
        np.random.default_rng(2).random(patterns.shape) > 0.1,
    )
    good[:, 3, 3] = False
    spoilt = np.where(good, whole, dtype(255))
    amplitudes = from_arrays(spoilt, GRID, good=good).geometry.patterns(slice(0, 9))
    hidden = ~good[:9]
    hidden[:, 3, 3] = False  # a pixel that no pattern has measured is a bad one
    np.testing.assert_array_equal(amplitudes < 0, hidden)
    np.testing.assert_allclose(amplitudes[good[:9]] ** 2, whole[:9][good[:9]], rtol=1e-5)
    np.testing.assert_array_equal(np.argwhere(~from_arrays(spoilt, GRID, good=good).mask), [[3, 3]])
