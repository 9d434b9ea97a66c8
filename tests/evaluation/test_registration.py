"""Registration of an object, or of a part of it, with a known one, to a fraction of a pixel."""

import numpy as np
import pytest
from scipy.ndimage import fourier_shift, gaussian_filter

from ptycho.evaluation.alignment import in_frame


@pytest.mark.parametrize("side", [1024, 40])  # at once; downsampled first, then by a part
@pytest.mark.parametrize("shift", [(0.0, 0.0), (7.0, -4.0), (-5.3, 11.62)])
def test_a_part_of_the_truth_is_put_where_it_belongs(shift, side):
    rng = np.random.default_rng(0)
    amplitude, phase = (gaussian_filter(rng.normal(size=(90, 80)), 2.0) for _ in "ab")
    truth = (1 + amplitude / np.ptp(amplitude)) * np.exp(2j * phase / np.ptp(phase))
    moved = np.fft.ifft2(fourier_shift(np.fft.fft2(truth), shift))
    recon = 0.7 * np.exp(0.4j) * moved[15:75, 15:75]  # another scale and phase, and a part only
    mask = np.ones(recon.shape, bool)
    mask[:5] = False
    found, known = in_frame(truth, recon, mask, largest=side)
    assert known.sum() > 0.5 * mask.sum() and not known[:5].any()
    inner = known.copy()
    inner[:8], inner[-8:], inner[:, :8], inner[:, -8:] = False, False, False, False
    assert np.abs(found - moved[15:75, 15:75])[inner].max() < 0.015  # a fiftieth of a pixel
