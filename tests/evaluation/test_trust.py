"""Which scores raise which flags: of a scan, of a network for many scans, of an amplitude in noise."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ptycho.evaluation.trust import LIMITS, Evidence, noise_share, outside_training


@pytest.mark.parametrize(
    "r_factor, r_noise, disagreement, solver, outside",
    [
        (0.20, 0.30, 0.0, None, False),
        (math.hypot(0.3, 1.1 * LIMITS.excess), 0.30, 0.0, None, True),
        (math.hypot(0.3, 0.9 * LIMITS.excess), 0.30, 0.0, None, False),
        (1.1 * LIMITS.uncounted_excess, None, None, None, True),
        (0.9 * LIMITS.uncounted_excess, None, None, None, False),
        (0.01, 0.01, 1.1 * LIMITS.disagreement, None, True),
        (math.nan, 0.1, 0.0, None, True),
        (0.2, 0.1, None, 0.21, False),  # what the solver does not explain is no fault of the network
    ],
)
def test_what_a_network_explains_badly_is_outside_its_training(
    r_factor, r_noise, disagreement, solver, outside
):
    assert outside_training(r_factor, r_noise, disagreement, solver=solver) is outside


def test_noise_over_the_contrast_of_the_amplitude():
    image = np.array([1, 3, 1, 3]) * np.exp(1j * np.arange(4.0))  # phases do not count
    noise = np.array([0.1, 0.2, 0.3, 9.0])
    assert noise_share(image, noise) == pytest.approx(0.25)
    assert noise_share(np.ones(4, complex), noise) > LIMITS.noise_share


GOOD = Evidence(
    unexplained_variance=0.001,
    unexplained_variance_p90=0.01,
    unexplained_variance_holdout=0.02,
    certainty=20.0,
    r_factor=0.105,
    r_noise=0.1,
    r_free=0.11,
    r_noise_free=0.1,
    halves=0.8,
)


@pytest.mark.parametrize(
    "changes, flags",
    [
        ({}, []),
        (dict.fromkeys(("unexplained_variance_holdout", "r_free", "r_noise_free", "halves")), []),
        ({"unexplained_variance": 0.5, "unexplained_variance_p90": 0.9}, ["poor_fit"]),
        ({"unexplained_variance": 0.5, "unexplained_variance_holdout": 1.1}, ["poor_fit"]),
        ({"unexplained_variance_p90": 0.06}, ["outlier_patterns"]),
        ({"unexplained_variance_holdout": 0.6}, ["overfit"]),
        ({"unexplained_variance_holdout": 0.2}, []),  # few photons on a sparse scan, whose halves agree
        ({"unexplained_variance_holdout": 0.2, "halves": None}, ["overfit"]),
        ({"unexplained_variance_holdout": 0.2, "halves": 0.3, "halves_by_photons": 0.3}, ["overfit"]),
        ({"unexplained_variance_holdout": 0.2, "halves": 0.1}, ["overfit", "low_half_scan_frc"]),
        ({"r_free": 0.9, "r_factor": 0.12}, ["excess_misfit"]),
        ({"r_free": 0.9}, []),  # few patterns at a high dose: the others cannot predict them
        ({"halves": 0.1}, ["low_half_scan_frc"]),
        ({"certainty": 1.0, "unexplained_variance": 5.0}, ["no_contrast"]),
        ({"certainty": math.nan, "unexplained_variance": math.nan}, ["no_contrast"]),
    ],
)
def test_the_flags_of_a_scan(changes, flags):
    assert replace(GOOD, **changes).flags == flags
