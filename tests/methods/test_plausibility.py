"""Patterns that contradict, or hardly fit, their description are refused or flagged; and no false alarm."""

import numpy as np
import pytest

from conftest import small_run
from ptycho.config import IdealDiskProbe, TrainConfig, ZonePlateProbe
from ptycho.scan.beam import Beam
from ptycho.scan.patterns import Statistics
from ptycho.scan.plausibility import contradictions, doubts
from ptycho.simulation.simulate import noise_free_amplitudes, simulate


def problems(amplitudes, probe, photon_scale=None):
    """Return lines that refuse the patterns, and flags."""
    statistics = Statistics.of([np.asarray(amplitudes, np.float32)])
    return contradictions(statistics, probe, photon_scale), set(doubts(statistics, probe))


PROBES = {
    "disk": IdealDiskProbe(),
    "small disk": IdealDiskProbe(diameter_px64=10),
    "focus": ZonePlateProbe(defocus_um=0.0),
    "curved": ZonePlateProbe(),
    "the other way": ZonePlateProbe(defocus_um=-45.0),
    "far": ZonePlateProbe(defocus_um=90.0),
}
SCANS = [
    {"N": 32, "nphotons": 1e4},
    {"N": 32, "nphotons": 1e9, "set_phi": False, "gridsize": 1},
    {"N": 64, "size": 128, "nphotons": 1e4, "gridsize": 1},
    {"N": 64, "size": 128, "nphotons": 1e9},
]


@pytest.mark.parametrize("changes", SCANS, ids=str)
@pytest.mark.parametrize("kind", PROBES)
def test_simulated_scans_raise_no_alarm(kind, changes):
    """All patterns together, four of them, and some one by one."""
    config = small_run(probe=PROBES[kind], train=TrainConfig(val_groups=16), **changes)
    data = simulate(config)[0]["val"]
    for part in (slice(None), slice(4), *(slice(k, k + 1) for k in range(8))):
        for scale in (data.photon_scale, None):
            assert problems(data.amplitudes[part], data.probe, scale) == ([], set()), part


# ---- wrong patterns


@pytest.fixture(scope="module", params=["disk", "curved"])
def scan(request):
    """Patterns of about 10⁵ photons, their probe and scale."""
    data = simulate(small_run(probe=PROBES[request.param], nphotons=1e5, train=TrainConfig(val_groups=16)))[
        0
    ]["val"]
    return data.amplitudes[:], data.probe, data.photon_scale


def test_counts_are_not_their_roots(scan):
    amplitudes, probe, scale = scan
    (line,), _ = problems(np.rint(amplitudes**2), probe, scale)
    assert line.startswith("amplitudes holds whole numbers alone, up to ") and "square roots" in line
    few = (np.random.default_rng(0).random(amplitudes.shape) < 0.01).astype(
        float
    )  # 0 and 1 are their own roots
    assert not any("whole" in line for line in problems(few, probe, scale)[0])


def test_intensities_are_too_bright(scan):
    amplitudes, probe, scale = scan
    (line,), _ = problems(0.999 * amplitudes**2, probe, scale)
    assert (
        line.startswith("amplitudes holds ") and "times the intensity that photon_scale and the probe" in line
    )
    assert problems(0.999 * amplitudes**2, probe)[0] == []  # without a scale nothing says what is bright


def test_zero_frequency_in_the_corner(scan):
    amplitudes, probe, scale = scan
    for photon_scale in (scale, None):
        (line,), _ = problems(np.fft.ifftshift(amplitudes, axes=(1, 2)), probe, photon_scale)
        assert (
            line.startswith("amplitudes has its zero frequency in the corner") and "np.fft.fftshift" in line
        )


@pytest.mark.parametrize("shift", [(5, 0), (0, -6), (-4, 4)])
def test_displaced_patterns(scan, shift):
    amplitudes, probe, scale = scan
    moved = np.roll(amplitudes, shift, axis=(1, 2))
    assert problems(moved, probe, scale) == ([], {"patterns_displaced"})
    (sentence,) = doubts(Statistics.of([moved]), probe).values()
    assert sentence.startswith(f"the patterns lie {shift[0]} rows and {shift[1]} columns off")


@pytest.mark.parametrize("noise", ["flat counts", "uniform"])
def test_noise(scan, noise):
    amplitudes, probe, scale = scan
    rng = np.random.default_rng(0)
    flat = np.sqrt(rng.poisson(np.full(amplitudes.shape, (amplitudes**2).mean())))
    random = rng.random(amplitudes.shape) * amplitudes.max() / 10
    lines, flags = problems(flat if noise == "flat counts" else random, probe, scale)
    assert flags == {"patterns_unlike_probe"} and not any("corner" in line for line in lines)


def test_a_hot_pixel(scan):
    amplitudes, probe, scale = scan
    hot = amplitudes.copy()
    hot[3, 4, 5] = 1e12
    lines, flags = problems(hot, probe, scale)
    assert "a hot pixel" in lines[0] and flags & {"patterns_unlike_probe", "patterns_displaced"}
    hot[3, 16, 16] = 1e30
    for photon_scale in (scale, None):
        assert problems(hot, probe, photon_scale)[0] == [
            "amplitudes reaches 1e+30; must be at most 1e+18: amplitudes, √counts"
        ]


Y, X = np.mgrid[-16:16, -16:16]
UNEQUAL = {
    "ellipse": np.exp(-(X**2 / 80 + Y**2 / 15)),
    "coma": np.exp(-(X**2 + Y**2) / 50 + 3e-3j * (X**3 + X * Y**2)),
    "two spots": np.exp(-((X - 3) ** 2 + Y**2) / 10) + 0.6 * np.exp(-((X + 3) ** 2 + (Y - 4) ** 2) / 10),
}
TURNED = {
    "transposed": lambda a: a.transpose(0, 2, 1),
    "with their columns reversed": lambda a: np.roll(a[:, :, ::-1], 1, axis=2),
    "with their rows reversed": lambda a: np.roll(a[:, ::-1], 1, axis=1),
}
TELLS = {  # which of them a far field can tell: |F P|² of a real probe is even
    "ellipse": {"transposed"},
    "coma": {"transposed", "with their columns reversed"},
    "two spots": {"with their columns reversed", "with their rows reversed"},
}


@pytest.mark.parametrize("how", TURNED)
@pytest.mark.parametrize("kind", UNEQUAL)
def test_turned_patterns(datasets, kind, how):
    truth, probe = datasets["test"].objects[0], UNEQUAL[kind].astype(np.complex64)
    rng = np.random.default_rng(1)
    clean = 30 * noise_free_amplitudes(truth, Beam(probe, rng.integers(0, 64, (40, 2)).astype(np.float32)))
    amplitudes = np.sqrt(rng.poisson(clean**2))
    assert problems(amplitudes, probe, 30.0) == ([], set())
    turned = problems(TURNED[how](amplitudes), probe, 30.0)
    assert turned == ([], {"patterns_mirrored"} if how in TELLS[kind] else set())
