"""The object that a file brings is compared on the pixels of the reconstruction."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.methods.assessment import pixel_ratio
from ptycho.scan.coarser import on_finer_pixels


@pytest.mark.parametrize(
    ("theirs", "ours", "N", "ratio"),
    [
        ((1e-8, 2e-8), (1e-8, 2e-8), 64, 1),
        ((1e-8, 2e-8), (1.005e-8, 2.01e-8), 64, 1),
        ((1e-8, 2e-8), (0.8e-8, 1.6e-8), 80, 1.25),
        ((1e-8, 2e-8), (0.8e-8, 2e-8), 80, None),  # of another shape
        ((1e-8, 1e-8), (2e-8, 2e-8), 32, None),  # the reconstruction is coarser
        ((1e-8, 1e-8), (0.5e-8, 0.5e-8), 128, None),  # too fine
        (None, None, 64, 1),  # the file's object has the pixel of its detector,
        (None, (1e-8, 1e-8), 80, 1.25),  # whose longer side counts
    ],
)
def test_the_pixel_of_the_reference_over_that_of_the_reconstruction(theirs, ours, N, ratio):
    raw = SimpleNamespace(object_pixel_m=theirs, patterns=SimpleNamespace(shape=(9, 48, 64)))
    scan = SimpleNamespace(raw=raw, N=N, pixel=SimpleNamespace(metres=ours), detector=SimpleNamespace(bin=1))
    assert pixel_ratio(scan) == (None if ratio is None else pytest.approx(ratio))


def test_a_cubic_is_interpolated_exactly():
    """Away from the rim, beyond which the spline goes on by its last value."""
    row, col = np.meshgrid(np.arange(31.0), np.arange(24.0), indexing="ij")
    finer = on_finer_pixels(row**2 / 100 + 1j * row * col / 100, 1.25)
    assert finer.shape == (38, 29)
    r, c = (np.arange(12, 20)[:, None] / 1.25, np.arange(12, 18) / 1.25)
    np.testing.assert_allclose(finer[12:20, 12:18], r**2 / 100 + 1j * r * c / 100, atol=2e-4)
