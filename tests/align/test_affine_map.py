"""Affine position correction: scale and rotation of nominal positions, of a scan simulated by loops."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.likelihood import Scan
from skimage.data import camera
from skimage.data import coins as photograph_of_coins
from skimage.transform import resize

from ptycho.align.affine_map import find_map
from ptycho.scan.optics import curvature_of, curved, lens


@pytest.fixture(scope="module")
def scan():
    return Scan.of(np.random.default_rng(1), 1e5, count=7, step=2.0)


def found(scan, factor=1.0, degrees=0.0, jitter=0.0):
    """Return the map found for nominal positions that are scaled by a factor and rotated, rows to columns."""
    data, rng = scan.dataset(np.random.default_rng(2), exact=True), np.random.default_rng(3)
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    recorded = factor * scan.positions @ np.array([[c, s], [-s, c]]) + rng.normal(
        0, jitter, scan.positions.shape
    )
    recorded -= recorded.min(axis=0) - 1
    side = int(np.ceil(recorded.max())) + data.N + 2
    return find_map(
        replace(data, beam=replace(data.beam, positions=recorded.astype(np.float32)), object_size=side)
    )


def test_a_scale_and_a_turn_with_its_sign_are_found(scan):
    recorded = found(scan, 1.25, degrees=8.0)
    assert recorded.scale_differs and recorded.scale == pytest.approx(0.8, rel=0.02)
    assert recorded.turn_differs and recorded.degrees == pytest.approx(-8, abs=0.7)


def test_positions_that_are_right_but_for_noise_are_not_doubted(scan):
    recorded = found(scan, jitter=0.3)
    assert recorded is None or not (recorded.scale_differs or recorded.turn_differs)


def test_a_search_begins_only_where_the_score_test_asks_for_it(scan):
    assert found(scan) is None
    assert found(scan, factor=1.04) is not None


def test_few_patterns_tell_nothing(scan):
    data = scan.dataset(np.random.default_rng(2))
    assert find_map(data.subset(np.arange(11), 1)) is None


def scan_of_a_lens(N, step, focus, specified, side=4):
    """``side²`` patterns of two photographs under a lens of rectangular aperture; another focus is specified.

    ``focus``, ``specified``: along rows and columns, or one number for both.
    """
    rng, q = np.random.default_rng(7), (np.arange(N) - N // 2) / N

    def wave(focus):
        rows, cols = np.broadcast_to(focus, 2)
        aperture = (np.abs(q[:, None]) < 0.12) & (np.abs(q) < 0.16)
        pupil = aperture * np.exp(1j * np.pi * N * np.add.outer(rows * q**2, cols * q**2))
        return np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(pupil)))

    positions = step * np.stack(np.divmod(np.arange(side**2), side), -1)
    positions = positions + rng.uniform(1, 1 + step / 2, positions.shape)
    side, turns = int(positions.max()) + N + 3, np.fft.fftfreq(N)
    grey, coins = (
        resize(image / 255, (side, side), anti_aliasing=True) for image in (camera(), photograph_of_coins())
    )
    image, spectrum = (0.6 + 0.4 * grey) * np.exp(1.2j * coins), np.fft.fft2(wave(focus))
    intensity = []
    for position in positions:
        row, col = np.floor(position).astype(int)
        ramp = np.exp(-2j * np.pi * np.add.outer(*(np.outer(position - (row, col), turns))))
        window = np.fft.ifft2(spectrum * ramp) * image[row : row + N, col : col + N]
        intensity.append(np.abs(np.fft.fftshift(np.fft.fft2(window))) ** 2)
    scale = 1e6 / np.mean(np.sum(intensity, axis=(1, 2)))
    amplitudes = np.sqrt(rng.poisson(scale * np.array(intensity)))
    probe = np.sqrt(scale) * N * wave(specified)[None]
    return single_patterns(amplitudes=amplitudes, positions=positions, probe=probe, object_size=side)


def test_a_wrong_defocus_is_not_taken_for_a_wrong_scale():
    """The specified probe lies in the valley at .5, and explains more there than after a short refinement."""
    recorded = find_map(scan_of_a_lens(48, 4.0, focus=1.6, specified=0.8))
    assert recorded is not None and not (recorded.scale_differs or recorded.turn_differs)


def test_astigmatism_is_not_taken_for_a_scale_along_one_axis():
    """Positions closer along one axis explain more under the specified probe after a short refinement."""
    recorded = find_map(scan_of_a_lens(64, 5.0, focus=(1.6, 3.0), specified=1.6, side=6))
    assert recorded is not None and recorded.shear > 0.3
    assert recorded.gain.gain < 0 and not recorded.shear_differs


@pytest.mark.parametrize("curvature", [-240.0, 150.0])
def test_the_curvature_of_a_lens_is_found(curvature):
    """The pupil has a radius of 10 px at N = 64."""
    q = np.hypot(*np.mgrid[-32:32, -32:32])
    probe = lens((q < 10).astype(float), curvature)
    assert curvature_of(probe) == pytest.approx(curvature, abs=12)
    assert np.abs(curved(probe, -curvature)).argmax() == 32 * 64 + 32
