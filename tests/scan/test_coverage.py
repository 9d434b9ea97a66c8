"""What a scan covers: a threshold of the summed illumination, without what a single noisy pixel makes."""

import numpy as np

from ptycho.scan.beam import Beam
from ptycho.scan.coverage import covered
from ptycho.scan.dataset import Dataset


def scan_of(probe, positions):
    count, N = len(positions), len(probe)
    return Dataset(
        amplitudes=np.ones((count, N, N), np.float32),
        beam=Beam(probe.astype(np.complex64), np.array(positions, np.float32)),
        image=np.zeros(count, np.int32),
        groups=np.arange(count, dtype=np.int32)[:, None],
        photon_scale=1.0,
        object_size=60,
        region_size=N,
    )


def test_a_noisy_pixel_of_the_probe_covers_nothing_and_a_pattern_apart_does():
    probe = (np.hypot(*np.mgrid[-16:16, -16:16]) < 6).astype(float)
    positions = [(2, 2), (2, 5), (4, 3), (26, 27)]
    expected = np.zeros((60, 60), bool)
    for row, column in positions:
        expected[row : row + 32, column : column + 32] |= probe > 0
    noisy = probe.copy()
    noisy[2, 3] = noisy[29, 29] = 0.2
    np.testing.assert_array_equal(covered(scan_of(noisy, positions))[0], expected)
    np.testing.assert_array_equal(covered(scan_of(noisy, positions), island=0.0)[0].sum(), expected.sum() + 8)
