"""Parallax in drawn patterns, each feature at the place that geometry gives."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from scipy.ndimage import gaussian_filter, map_coordinates

from ptycho.align.scan_rotation import parallax

N, MAGNIFICATION, TURN = 32, 0.5, -37.0


@pytest.fixture(scope="module")
def scan():
    """A bright disk with projections of the object: detector pixel q shows the place ``r − R(φ)ᵀ q / m``."""
    rng = np.random.default_rng(3)
    absorption = gaussian_filter(rng.normal(size=(160, 160)), 2)
    object_ = 1 + 0.5 * absorption / np.abs(absorption).max()
    recorded = np.stack(np.mgrid[0:54:6, 0:54:6], -1).reshape(-1, 2) + rng.uniform(-1, 1, (81, 2))
    angle = np.deg2rad(TURN)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    q = np.stack(np.mgrid[:N, :N], -1) - N // 2
    disk = np.hypot(q[..., 0], q[..., 1]) < 10
    seen = [
        map_coordinates(object_, np.moveaxis(r + 50 - q @ turn / MAGNIFICATION, -1, 0), order=1)
        for r in recorded
    ]
    counts = rng.poisson(50 * disk * np.array(seen))
    probe = gaussian_filter(disk.astype(float), 1)
    return single_patterns(np.sqrt(counts), probe, recorded + 2, 100, exact=True)


def test_the_turn_and_the_magnification_are_found(scan):
    own, mirrored = parallax(scan)
    assert own.degrees == pytest.approx(TURN, abs=5)
    assert own.magnification == pytest.approx(MAGNIFICATION, rel=0.12)
    assert own.lead > 1.5 and own.height > 1.5 * mirrored.height


def test_transposed_patterns_are_reported(scan):
    transposed = replace(scan, amplitudes=np.swapaxes(scan.amplitudes[:], 1, 2).copy())
    own, mirrored = parallax(transposed)
    assert mirrored.degrees == pytest.approx(TURN, abs=5) and mirrored.height > 1.5 * own.height
