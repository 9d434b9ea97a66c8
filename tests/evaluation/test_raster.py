"""Raster artefacts in images: known waves in a photograph, and samples with periods."""

import numpy as np
import pytest
from skimage import data

from ptycho.evaluation.raster import LIMITS, raster_artefact, reciprocal_lattice
from ptycho.simulation.measured_like import PATHS

SHAPE = (211, 246)
ROWS, COLS = np.mgrid[: SHAPE[0], : SHAPE[1]]
KNOWN = np.hypot(ROWS - 105, COLS - 123) < 101
SHEARED = np.array([[6.3, 0.4], [-1.1, 5.2]])  # the lattice's rows, in pixels


def lattice(A=SHEARED, shape=(34, 41), jitter=0.0, seed=0):
    """Positions ``n A`` of a full grid, from far off, each shifted by a normal error."""
    n = np.stack(np.divmod(np.arange(shape[0] * shape[1]), shape[1]), axis=1)
    return n @ np.asarray(A) + (300.3, -12.7) + jitter * np.random.default_rng(seed).normal(size=n.shape)


def photograph():
    """A complex object: amplitude and phase are two photographs of skimage."""
    pictures = [p[60 : 60 + SHAPE[0], 40 : 40 + SHAPE[1]] / 255 for p in (data.camera(), data.moon())]
    return (0.6 + 0.4 * pictures[0]) * np.exp(2j * pictures[1])


def wave(q):
    return np.cos(2 * np.pi * (q[0] * ROWS + q[1] * COLS) + 0.7)


@pytest.mark.parametrize(
    "A, shape",
    [
        (SHEARED, (34, 41)),
        ([[0, 9.0], [3.1, 0]], (40, 12)),
        ([[7.0, 0], [3.5, 6.06]], (25, 25)),
        (np.eye(2) * 5, (7, 7)),
    ],
)
def test_a_lattice_is_found_in_a_part_of_its_positions(A, shape):
    """Each wave of B is in phase at all positions: b·a is whole, and |det B| is that of the inverse."""
    positions = lattice(A, shape, 0.05)
    some = np.random.default_rng(1).permutation(len(positions))[: int(0.9 * len(positions))]
    B = reciprocal_lattice(positions[some])
    turns = B @ np.transpose(A)
    np.testing.assert_allclose(turns, np.rint(turns), atol=0.01)
    assert abs(np.linalg.det(np.rint(turns))) == pytest.approx(1)


@pytest.mark.parametrize("path", ["fermat", "jittered", "snake", "uniform", "line", "few", "rough"])
def test_other_positions_are_no_lattice(path):
    rng = np.random.default_rng(5)
    positions = {
        "uniform": rng.uniform(0, 90, (300, 2)),
        "line": lattice(shape=(1, 200)),
        "few": lattice(shape=(4, 90)),
        "rough": lattice(np.eye(2) * 5, jitter=0.2 * 5),
    }
    for count in (30, 400, 5000) if path in PATHS else (0,):
        places = PATHS[path](count, 5.0, rng) if path in PATHS else positions[path]
        assert reciprocal_lattice(places) is None
        assert raster_artefact(photograph(), KNOWN, places) is None


@pytest.mark.parametrize("jitter", [0.0, 0.4])
@pytest.mark.parametrize("amplitude, phase", [(0.03, 0.0), (0.0, 0.05), (0.0, 0.0)])
def test_a_wave_in_a_photograph_is_found_with_its_strength(amplitude, phase, jitter):
    """An object times ``1 + a cos + …`` along b₁ and ``exp(i p cos)`` along b₁ + b₂: rms a/√2 and p/√2."""
    B = np.linalg.inv(SHEARED).T
    image = photograph() * (1 + amplitude * wave(B[0])) * np.exp(1j * phase * wave(B[0] + B[1]))
    found = raster_artefact(image, KNOWN, lattice(jitter=jitter))
    assert found.amplitude == pytest.approx(amplitude / 2**0.5, rel=0.2)
    assert found.phase_rad == pytest.approx(phase / 2**0.5, rel=0.2)
    assert (found.contrast > LIMITS.contrast) == (amplitude + phase > 0)
    if amplitude:
        inside = np.abs(image)[KNOWN]
        assert found.contrast == pytest.approx(found.amplitude * inside.mean() / inside.std(), rel=0.3)


def test_periods_of_the_sample_are_no_artefact_unless_they_are_the_rasters():
    """Gratings with all harmonics; they pass a raster of 5 px, where a bin is 1/246 cycles per pixel."""
    positions, image = lattice(np.eye(2) * 5), photograph()
    for period in (5.0, 15.0, *np.arange(4.07, 24, 0.77)):
        harmonics = np.arange(1, 0.5 * period)
        turns = 2 * np.pi / period * np.arange(SHAPE[1])
        grating = np.sum(np.cos(harmonics[:, None] * turns) / harmonics[:, None], 0)
        found = raster_artefact(image * (1 + 0.1 * grating), KNOWN, positions)
        bins = np.abs(harmonics / period - 0.2).min() * SHAPE[1]
        assert (found.contrast > LIMITS.contrast) == (bins < 0.25), period
