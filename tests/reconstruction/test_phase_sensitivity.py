"""Phase sensitivity of near fields: with a structured illumination, but not with a flat one."""

import math

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.likelihood import smooth_object
from scipy.ndimage import gaussian_filter

from ptycho.config.waves import Fresnel
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective
from ptycho.reconstruction.uncertainty import PhaseOptions, draw_phase, phase_left

N, STEP, COUNT = 24, 4, 4


def free_space(number):
    """``F⁻¹ diag(exp(−iπ F q²)) F`` along one axis, ``(N, N)``, by sums of plane waves."""
    x, k = np.arange(N), np.arange(N) - N // 2
    waves = np.exp(2j * np.pi * np.outer(x, k) / N) / math.sqrt(N)
    return waves @ np.diag(np.exp(-1j * np.pi * number * (k / N) ** 2)) @ waves.conj().T


def objective_and_truth(structure, rows, cols, photons=1e5):
    """Return noise-free patterns of a smooth object behind a wave whose intensity varies by ``structure``."""
    rng = np.random.default_rng(3)
    grains = gaussian_filter(rng.normal(size=(2, N, N)), (0, 1, 1), mode="wrap")
    probe = 1 + structure * (grains[0] + 1j * grains[1]) / grains.std()
    probe *= math.sqrt(photons) / np.linalg.norm(probe)
    places = np.array([(STEP * i, STEP * j) for i in range(COUNT) for j in range(COUNT)])
    side = N + STEP * (COUNT - 1)
    image = smooth_object(rng, side + side % 2)
    down, across = free_space(rows), free_space(cols)
    intensity = [np.abs(down @ (probe * image[r : r + N, c : c + N]) @ across.T) ** 2 for r, c in places]
    data = single_patterns(np.sqrt(intensity), probe[None], places, len(image), fresnel=Fresnel(rows, cols))
    return Objective(ScanLikelihood(data, data.normalisation, compile_xla=False)), Estimate.of(data, image)


@pytest.mark.parametrize("refine", [OBJECT_ALONE, Refine()], ids=["object", "probe, too"])
@pytest.mark.parametrize(("structure", "number", "determined"), [(0.7, 12.0, True), (0.03, 2.0, False)])
def test_which_illumination_determines_phases(structure, number, determined, refine):
    left = phase_left(*objective_and_truth(structure, number, 0.8 * number), refine, seed=0)
    assert left < 0.35 if determined else left > 0.7


def test_a_phase_that_no_constant_and_no_plane_takes_away():
    illuminated = np.zeros((30, 41), bool)
    illuminated[3:25, 8:40] = True
    illuminated[:12, :15] = False
    phase = draw_phase(illuminated, np.random.default_rng(0))
    rows, columns = np.nonzero(illuminated)
    for plane in (np.ones(len(rows)), rows, columns):
        assert abs(phase[illuminated] @ plane) < 1e-9 * np.abs(plane).sum()
    assert phase[illuminated].std() == pytest.approx(PhaseOptions.height)
