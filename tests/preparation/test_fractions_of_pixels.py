"""Scans whose origin is a fraction of a pixel: object samples stay where the file has them."""

import numpy as np
import pytest
import tensorflow as tf
from helpers.likelihood import intensity_of

from ptycho import Scan, physics
from ptycho.preparation.geometry import remove_common_fraction

N, SIDE = 16, 53


def sharp_scan(origin):
    """A probe, an object that differs from sample to sample, positions from an origin, and intensities."""
    rng = np.random.default_rng(4)
    positions = rng.integers(0, 30, (24, 2)) + np.array(origin) + rng.choice([0.0, 0.25, 0.5], (24, 2))
    obj = rng.uniform(0.5, 1, (SIDE, SIDE)) * np.exp(1j * rng.uniform(-1, 1, (SIDE, SIDE)))
    axis = np.arange(N) - N // 2
    probe = np.exp(-(axis[:, None] ** 2 + 1.4 * axis**2) / 8 + 0.05j * axis[:, None] ** 2)
    intensities = [np.fft.fftshift(intensity_of(obj, probe[None], position)) for position in positions]
    return probe, obj, positions, np.stack(intensities)


@pytest.mark.usefixtures("read_rightly")
@pytest.mark.parametrize("origin", [(0, 0), (-17.3, 8.12)])
def test_an_object_on_the_pixels_of_the_file_explains_the_patterns(origin):
    probe, obj, positions, intensities = sharp_scan(np.array((1, 2)) + np.array(origin) % 1)
    scan = Scan.from_arrays(intensities, positions - 3, probe, counts=False)
    shift = scan.positions - positions
    np.testing.assert_allclose(shift, np.tile(np.round(shift[0]), (len(shift), 1)), atol=1e-6)
    data = scan.dataset()
    shift = np.round(data.positions[0] - positions[0]).astype(int)
    placed = np.zeros((data.object_size,) * 2, complex)
    height, width = (min(SIDE, data.object_size - s) for s in shift)
    placed[shift[0] : shift[0] + height, shift[1] : shift[1] + width] = obj[:height, :width]
    target, modes = (tf.constant(wave[None], tf.complex64) for wave in (placed, probe))
    expected = physics.forward(target, tf.constant(data.positions[None]), modes, exact=data.exact)
    measured = np.fft.ifftshift(intensities, axes=(1, 2))
    np.testing.assert_allclose(expected[0], measured, rtol=2e-3, atol=2e-4 * measured.max())


@pytest.mark.parametrize(
    ("origin", "unit", "kept"),
    [
        ((0.706, 0.951), "px", True),  # the file counts pixels of its object from somewhere
        ((0.706, 0.951), "m", False),  # a stage's origin is unrelated to the object's samples
        ("mean", "px", False),
        ("middle", "px", False),
    ],
)
def test_a_fraction_that_all_positions_share(origin, unit, kept):
    whole = np.array([[0.0, 0], [7, 1], [3, 12], [4, 6]])
    middles = {"mean": -whole.mean(axis=0), "middle": -whole.max(axis=0) / 2}
    positions = whole + (middles[origin] if isinstance(origin, str) else origin)
    expected = positions if kept else whole
    np.testing.assert_allclose(remove_common_fraction(positions, unit), expected, atol=1e-9)
