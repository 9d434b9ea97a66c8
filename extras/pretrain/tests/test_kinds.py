"""Random objects, probes and materials of a pretraining: properties of each kind, closed forms of some.

Objects and probes of the study of zero-shot reconstruction, which no training has, are among them.
"""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.study.zero_shot_kinds import OBJECTS, PROBES
from ptycho_pretrain import probe_kinds
from ptycho_pretrain.config import MaterialsConfig
from ptycho_pretrain.distributions import transmission
from ptycho_pretrain.kinds import draw_values
from ptycho_pretrain.probe_kinds import PROBE_KINDS, disturb_phase, draw_probe

PLAIN = {"shift": (0.0, 0.0), "stretch": (1.0, 1.0)}  # neither moved nor stretched


def rng(seed=0):
    return np.random.default_rng(seed)


def thickness_of(name, side, seed):
    kind, random = OBJECTS[name], rng(seed)
    return kind.draw(side, random, **draw_values(kind, {}, random))


def radius_of(N):
    """Distance from sample N//2."""
    row, col = np.mgrid[:N, :N] - N // 2
    return np.hypot(row, col)


def energy_within(wave, radius):
    intensity = np.abs(wave) ** 2
    return intensity[radius_of(len(wave)) <= radius].sum() / intensity.sum()


@pytest.mark.parametrize("side", [47, 64])
@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_maps_from_nothing_to_all(name, side):
    for seed in range(3):
        found = thickness_of(name, side, seed)
        assert found.shape == (side, side) and np.isrealobj(found) and np.isfinite(found).all()
        assert found.min() >= 0 and found.max() <= 1 and found.std() > 0.02
        np.testing.assert_array_equal(thickness_of(name, side, seed), found)


# A lens with a small pupil has a focus that is wider than geometry says; that of mirrors has a square edge.
LIMITS = dict.fromkeys(PROBES, (1.45, 0.01)) | {"aberrated": (2.0, 0.01), "mirrors": (2.4, 0.15)}


@pytest.mark.parametrize("name", PROBES)
def test_probes_have_the_specified_diameter_and_a_dark_rim(name):
    N, (widest, brightest) = 64, LIMITS[name]
    ranges = {"reach": (0.12, 0.3), "strength": (0.3, 0.5)}
    for share in (0.35, 0.5):
        for seed in range(4):
            kind = PROBES[name]
            own = {key: value for key, value in ranges.items() if key in kind.parameters}
            probe = draw_probe(kind, N, own | {"diameter": (share, share)}, rng(seed))
            assert 0.65 < diameter(probe) / (share * N) < widest
            rim = 1 - np.sum(np.abs(probe[2:-2, 2:-2]) ** 2) / np.sum(np.abs(probe) ** 2)
            assert rim < brightest


def diameter(probe):
    return next(2 * r for r in np.arange(0.5, len(probe), 0.5) if energy_within(probe, r) >= 0.9)


@pytest.mark.parametrize("curvature", [0.0, 5.0])
def test_a_gaussian_holds_nine_tenths_of_its_energy_within_its_diameter(curvature):
    """``1 − exp(−2·1.151) = 0.9``, for any phase, which is ``curvature`` on that circle."""
    N, share = 96, 0.4
    ranges = PLAIN | {"diameter": (share, share), "curvature": (curvature, curvature)}
    probe = draw_probe(PROBE_KINDS["gaussian"], N, ranges, rng())
    assert energy_within(probe, share * N / 2) == pytest.approx(0.9, abs=0.01)
    edge = N // 2 + share * N / 2  # 67.2: between two samples
    phase = np.unwrap(np.angle(probe[N // 2, N // 2 : N // 2 + 24]))
    found = np.interp(edge - N // 2, np.arange(24), phase - phase[0])
    assert abs(found) == pytest.approx(curvature, abs=0.02)


def test_propagation_widens_a_gaussian_as_its_closed_form_says():
    """``exp(−πr²/w²)`` after c becomes ``exp(−πr²/(w² + ic))/(1 + ic/w²)``."""
    w2, c, r = 60.0, 45.0, radius_of(80)
    there = np.fft.fftshift(probe_kinds.propagate(np.fft.ifftshift(np.exp(-np.pi * r**2 / w2)), c))
    np.testing.assert_allclose(there, np.exp(-np.pi * r**2 / (w2 + 1j * c)) / (1 + 1j * c / w2), atol=1e-9)


@pytest.mark.parametrize("rms", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("modes", [1, 2])
def test_a_disturbed_probe_has_its_power_and_the_specified_error(rms, modes):
    wide = {"reach": (0.4, 0.4), "diameter": (0.5, 0.5)}  # where the probe is not zero no phase wraps
    probes = np.stack([draw_probe(PROBE_KINDS["zone_plate"], 47, wide, rng(seed)) for seed in range(modes)])
    found = disturb_phase(probes, rms, rng(7))
    assert found.shape == probes.shape and found.dtype == np.complex64
    before, after = (np.fft.fft2(p, axes=(-2, -1)) for p in (probes, found))
    np.testing.assert_allclose(np.abs(after), np.abs(before), atol=1e-3 * np.abs(before).max())
    intensity = np.abs(before[0]) ** 2
    phase = np.angle(after[0] * before[0].conj())
    phase[intensity < 1e-6 * intensity.max()] = 0  # nothing but rounding
    mean = np.sum(intensity * phase) / intensity.sum()
    found_rms = np.sqrt(np.sum(intensity * (phase - mean) ** 2) / intensity.sum())
    assert found_rms == pytest.approx(rms, rel=0.02, abs=1e-4)
    assert rms == 0 or np.abs(found - probes).max() > 0.01


THICK = np.array([[0.0, 0.25], [1.0, 0.5]])
OTHER = np.array([[1.0, 1.0], [0.0, 0.5]])
CERTAIN = MaterialsConfig(phase_rad=(2.0, 2.0), absorption=(0.4, 0.4), unrelated=0.0, bright=0.0)


PLAIN_AMPLITUDE = np.array([[1.0, 0.9], [0.6, 0.8]])  # 1 − 0.4 t
BENT_PHASE = np.array([[-1.0, -(0.5**0.5)], [1.0, 0.0]])  # sin(π(t − ½)), times β/2 = 1


@pytest.mark.parametrize(
    "changes, bent, amplitude, phase",
    [
        ({}, 0.0, PLAIN_AMPLITUDE, 2 * (THICK - 0.5)),
        ({}, 1.0, PLAIN_AMPLITUDE, BENT_PHASE),
        ({"unrelated": 1.0}, 0.0, PLAIN_AMPLITUDE, 2 * (OTHER - 0.5)),
        ({"bright": 1.0}, 0.0, np.array([[0.05, 0.25], [1.0, 0.5]]), 2 * (THICK - 0.5)),
    ],
)
def test_materials_by_hand(changes, bent, amplitude, phase):
    """β = 2, α = 0.4; a bright object has its thickness as amplitude, above a floor."""
    expected, signs = amplitude * np.exp(1j * phase), set()
    for seed in range(8):
        wave = transmission(THICK, OTHER, replace(CERTAIN, **changes), rng(seed), bent)
        signs.add(1 if np.allclose(wave, expected, atol=1e-6) else -1)
        assert wave.dtype == np.complex64
        assert np.allclose(wave, expected, atol=1e-6) or np.allclose(wave, expected.conj(), atol=1e-6)
    assert signs == {1, -1}
