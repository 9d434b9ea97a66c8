"""The rotation of a scan from deflections whose potential is known."""

import numpy as np
import pytest

from ptycho.align.scan_rotation import rotation_of, slopes_of


@pytest.fixture(scope="module")
def scan():
    """Random positions, and the gradient of ``Σ sin(k·r + p)`` there, by hand; k in all directions."""
    rng = np.random.default_rng(2)
    places, waves, phases = rng.uniform(-10, 10, (250, 2)), rng.normal(0, 0.25, (9, 2)), rng.uniform(0, 6, 9)
    return places, np.cos(places @ waves.T + phases) @ waves


def turned(vectors, degrees):
    """Rotate vectors from rows to columns: 90° bring (1, 0) to (0, 1)."""
    c, s = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return vectors @ np.array([[c, -s], [s, c]]).T


@pytest.mark.parametrize("degrees", [0.0, 5.0, -5.0, 70.0])
def test_positions_are_turned_back(scan, degrees):
    """Nominal positions rotated against the detector's axes must be rotated by the opposite angle."""
    places, deflections = scan
    found = rotation_of(slopes_of(deflections, turned(places, degrees)))
    assert found.degrees == pytest.approx(-degrees, abs=2) and abs(found.degrees + degrees) < 4 * found.error
    assert found.curl < 0.05


def test_a_shift_on_the_detector_does_not_matter(scan):
    places, deflections = scan
    plane = turned(places, 5.0) @ np.array([[0.3, 0.4], [-0.5, 0.1]]).T
    found = rotation_of(slopes_of(deflections + plane, turned(places, 5.0)))
    assert found.degrees == pytest.approx(-5, abs=2)


def test_mirrored_patterns_leave_more_curl(scan):
    places, deflections = scan
    slopes = slopes_of(deflections[:, ::-1], places)
    assert rotation_of(slopes).curl > 5 * rotation_of(slopes[:, ::-1]).curl


def test_noise_tells_nothing():
    rng = np.random.default_rng(4)
    found = rotation_of(slopes_of(rng.normal(size=(150, 2)), rng.uniform(0, 10, (150, 2))))
    assert found.curl > 0.5 and found.error > 8


def test_a_line_of_positions_is_no_error():
    line = np.stack([np.arange(20.0), np.zeros(20)], axis=1)
    assert np.isfinite(rotation_of(slopes_of(line**2, line))).all()
