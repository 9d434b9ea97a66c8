"""Probes against geometry, a Hankel transform and analytic waves; their support; errors of files."""

import numpy as np
import pytest
from helpers import reference
from helpers.scans import save_npz

from ptycho.config import ConfigError, FileProbe, IdealDiskProbe, ZonePlateProbe
from ptycho.scan.probe import (
    ProbeSupport,
    file_probe,
    intensity_at_edge,
    is_far_from,
    load_probe,
    make_probe,
    probe_support,
    probe_widths,
    pupil_of,
    zone_plate,
)

HC = 6.62607015e-34 * 299792458 / 1.602176634e-19 * 1e6  # keV·nm
WAVELENGTH_NM = HC / 8.0
NU_MAX = 1 / 60  # 1/nm: λ/(2Δr) over λ, for Δr = 30 nm
NU_STOP = NU_MAX / 3  # stop of 60 µm in a plate of 180 µm


def distance(n):
    axis = np.arange(n) - n // 2
    return np.hypot(axis[:, None], axis[None, :])


@pytest.mark.parametrize("config", [IdealDiskProbe(), ZonePlateProbe()], ids=lambda c: c.kind)
@pytest.mark.parametrize("N", [32, 64])
def test_probe_is_complex64_with_maximum_one_centred_at_half_N(config, N):
    probe = make_probe(config, N)
    assert probe.shape == (N, N) and probe.dtype == np.complex64
    assert np.abs(probe).max() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(probe[1:, 1:], probe[1:, 1:][::-1, ::-1], atol=1e-5)
    np.testing.assert_allclose(probe, probe.T, atol=1e-5)


def test_mask_zeroes_exactly_what_lies_outside_its_disk():
    unmasked, masked = (make_probe(ZonePlateProbe(mask_diameter_px=d), 32) for d in (None, 11.0))
    inside = distance(32) <= 5.5
    assert np.all(masked[~inside] == 0)
    inner, expected = masked[inside] / masked[16, 16], unmasked[inside] / unmasked[16, 16]
    np.testing.assert_allclose(inner, expected, rtol=1e-5)
    assert np.abs(masked).max() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("curvature", [0.0, 0.01, -0.02])
@pytest.mark.parametrize("N, waist", [(96, 14.0), (101, 9.0), (128, 6.0)])
def test_widths_of_a_curved_gaussian_in_both_planes(N, waist, curvature):
    """exp(−(1/w² − iκ)r²) has the far field exp(−π²ν²/(1/w² − iκ)): of the energy,
    1 − exp(−2r²/w²) lies within r, and 1 − exp(−2π²w²ν²/(1 + κ²w⁴)) within ν."""
    r2 = distance(N) ** 2
    across, far = probe_widths(np.exp(-r2 / waist**2 + 1j * curvature * r2))
    radius = np.sqrt(np.log(10) / 2)
    assert across == pytest.approx(2 * waist * radius, abs=0.5)
    expected = 2 * radius * np.sqrt(1 + curvature**2 * waist**4) / (np.pi * waist)
    assert far == pytest.approx(expected, abs=0.125 / N)  # half a sample, of four times as many


@pytest.mark.parametrize(
    "probe, support",
    [
        (np.ones((32, 32)), 32),
        (np.pad(np.ones((8, 8)), 12), 8),
        (np.pad(np.ones((1, 1)), ((16, 15), (16, 15))), 2),
        (np.pad(np.ones((1, 1)), ((10, 21), (16, 15))), 12),
        (np.pad(np.ones((1, 1)), ((16, 15), (20, 11))), 10),
    ],
)
def test_probe_support_holds_every_illuminated_sample(probe, support):
    assert probe_support(probe) == support
    start = (32 - support) // 2
    assert probe[start : start + support, start : start + support].sum() == probe.sum()


def test_a_probe_as_wide_but_curved_is_far():
    r2 = distance(64) ** 2
    flat, curved = np.exp(-r2 / 100.0), np.exp(-r2 / 100.0 + 0.02j * r2)
    assert probe_widths(flat)[0] == probe_widths(curved)[0] and is_far_from(curved, flat)


@pytest.mark.parametrize("z_um", [45.0, -45.0])
def test_wave_is_the_hankel_transform_of_the_pupil(z_um):
    probe = zone_plate(ZonePlateProbe(defocus_um=z_um), 64)
    radius = distance(64)
    near = radius < 16
    wave = reference.zone_plate_wave(radius[near] * 10.0, WAVELENGTH_NM, z_um * 1e3, NU_STOP, NU_MAX)
    scale = np.vdot(wave, probe[near]) / np.vdot(wave, wave)
    assert abs(np.angle(scale)) < 0.02
    error = np.abs(probe[near] - scale * wave).max() / np.abs(probe).max()
    assert error < 0.03


def gaussian_wave(n, scale=1.0):
    """An off-centre, elliptic, curved wave; lengths in units of ``scale`` samples about ``n//2``."""
    axis = (np.arange(n) - n // 2) / scale
    y, x = axis[:, None], axis[None, :]
    return np.exp(-((y - 1) ** 2) / 25 - (x + 1.5) ** 2 / 35 + 1j * (0.02 * (y**2 + x**2) + 0.1 * x))


@pytest.fixture
def saved(tmp_path):
    return lambda **arrays: str(save_npz(tmp_path / "probe.npz", **arrays))


@pytest.mark.parametrize("resize", FileProbe.RESIZE)
def test_a_probe_of_the_right_size_is_only_scaled(saved, resize):
    wave = 3 * gaussian_wave(32)
    probe = make_probe(FileProbe(saved(probeGuess=wave), resize), 32)
    np.testing.assert_allclose(probe, wave / np.abs(wave).max(), atol=1e-6)


@pytest.mark.parametrize("n", [25, 32, 33, 47, 80])
def test_interpolation_keeps_the_wave_and_its_centre(saved, n):
    N = 64
    probe = file_probe(FileProbe(saved(probeGuess=gaussian_wave(n, scale=n / 28))), N)
    np.testing.assert_allclose(probe, gaussian_wave(N, scale=N / 28), atol=0.01)


@pytest.mark.parametrize("n", [24, 25, 31])
def test_padding_keeps_every_sample_about_the_centre(saved, n):
    wave = gaussian_wave(n)
    probe = file_probe(FileProbe(saved(probeGuess=wave), "pad"), 32)
    before = 16 - n // 2
    np.testing.assert_array_equal(probe[before : before + n, before : before + n], wave)
    assert np.count_nonzero(probe) == np.count_nonzero(wave)


@pytest.mark.parametrize("n", [24, 25])
@pytest.mark.parametrize("curvature", [0.05, -0.08])
@pytest.mark.parametrize("resize", ["pad_quadratic", "pad_extrapolate"])
def test_padding_with_a_quadratic_phase_continues_it(saved, n, curvature, resize):
    amplitude = np.exp(-(distance(n) ** 2) / 50)
    wave = amplitude * np.exp(1j * (0.4 + curvature * distance(n) ** 2))
    probe = file_probe(FileProbe(saved(probeGuess=wave), resize), 48)
    nearest = np.arange(48) - 24 + n // 2
    inside = (nearest >= 0) & (nearest < n)
    nearest = np.clip(nearest, 0, n - 1)
    padded = amplitude[np.ix_(nearest, nearest)]  # of the file's edge beyond it
    padded = padded if resize == "pad_extrapolate" else padded * np.outer(inside, inside)
    np.testing.assert_allclose(probe, padded * np.exp(1j * (0.4 + curvature * distance(48) ** 2)), atol=1e-6)


WITH_NAN = np.ones((16, 16))
WITH_NAN[3, 4] = np.nan


RING = (distance(32) > 10).astype(float)


@pytest.mark.parametrize(
    "settings, wave, message",
    [
        ({}, np.ones((16, 17)), r"probe.file=.*shape \(16, 17\); must be \(n, n\)"),
        ({}, np.zeros((16, 16)), r"probe.file=.*zero everywhere"),
        ({}, WITH_NAN, r"probe.file=.*NaN or infinity"),
        ({}, np.full((16, 16), None), r"probe.file=.*probeGuess \(16, 16\) holds Python objects"),
        ({"pixel_size_nm": 40.0}, None, r"outermost_zone_width_nm=30.*larger than the pixel size \(40 nm\)"),
        ({"central_stop_diameter_um": 179.99999}, None, r"stop_diameter_um=180: leaves no open pupil"),
        ({"mask_diameter_px": 12.0}, RING, r"probe: zero everywhere.*inside its mask"),
        ({"resize": "pad"}, np.ones((40, 40)), r"probe.resize=pad.*40 × 40, larger than\s+N=32"),
        ({"file": "/nowhere.npz"}, None, r"nowhere.npz: no such file"),
        ({"file": __file__}, None, r"not a readable .npz"),
    ],
)
def test_a_probe_that_cannot_be_made_is_refused(saved, settings, wave, message):
    if wave is not None:
        settings = settings | {"file": saved(probeGuess=wave)}
    with pytest.raises(ConfigError, match=message):
        make_probe((FileProbe if "file" in settings else ZonePlateProbe)(**settings), 32)
    with pytest.raises(ConfigError, match=r"lacks probeGuess; it must be"):
        load_probe(saved(probe=np.ones((16, 16))))


def test_intensity_at_the_edge_of_a_disk():
    """By hand: nothing of a narrow disk, all of a full window, and some of a disk as wide as the window."""
    axis = np.arange(64) - 32
    radius = np.hypot(axis[:, None], axis)
    narrow, full = (radius < 20).astype(complex), np.ones((64, 64), complex)
    assert intensity_at_edge(narrow) == 0 and intensity_at_edge(full) == pytest.approx(1)
    frame = (np.abs(axis[:, None] + 0.5) > 30) | (np.abs(axis + 0.5) > 30)
    wide = (radius < 32).astype(complex)
    assert intensity_at_edge(wide[None]) == pytest.approx(wide[frame].real.mean() / wide.real.mean())


def far_field_by_loops(wave):
    """``Σ_x P(x) exp(−2πi k·x/N)``, zero frequency at sample 0."""
    axis = np.arange(len(wave))
    kernel = np.exp(-2j * np.pi * np.outer(axis, axis) / len(wave))
    return kernel @ wave @ kernel.T


@pytest.mark.parametrize("far", [False, True])
def test_a_support_is_an_orthogonal_projection(far):
    rng = np.random.default_rng(0)
    region = rng.random((15, 15)) > 0.6
    support = ProbeSupport(region, far)
    modes, others = (reference.random_complex(rng, (2, 15, 15)).astype(np.complex64) for _ in range(2))
    found = support.project(modes)
    assert found.dtype == np.complex64 and np.abs(found - modes).max() > 0.1
    np.testing.assert_allclose(support.project(found), found, atol=1e-5)
    assert np.vdot(others, found) == pytest.approx(np.vdot(support.project(others), modes), rel=1e-4)
    for mode, kept in zip(modes, found, strict=True):
        wave, whole = (far_field_by_loops(one) if far else one for one in (kept, mode))
        np.testing.assert_allclose(wave, np.where(region, whole, 0), atol=1e-4 * np.abs(whole).max())


def test_the_pupil_of_an_annulus_in_noise():
    """The region holds the annulus of both modes and a margin of two pixels, and no noise."""
    rng, side = np.random.default_rng(1), 64
    radius = np.hypot(*np.meshgrid(*2 * [np.fft.fftfreq(side, 1 / side)], indexing="ij"))
    annulus = (radius > 8) & (radius < 14)
    far = np.stack([annulus * np.exp(0.1j * radius**2), 0.5 * annulus * (radius > 10)])
    noise = 0.02 * reference.random_complex(rng, far.shape)
    found = pupil_of(np.fft.ifft2(far + noise).astype(np.complex64))
    assert found.far_field and found.region[annulus].all()
    assert not found.region[(radius > 20)].any() and not found.region[0, 0]


def test_a_pupil_over_the_edge_of_the_far_field_goes_on_at_the_other_edge():
    far = np.zeros((32, 32))
    far[14:20, 0:2] = 1  # rows 16 and above are negative frequencies
    region = pupil_of(np.fft.ifft2(np.roll(far, 16, axis=0))[None]).region
    assert region[0, 0] and region[31, 0] and region[0, 31] and not region[16, 16]
