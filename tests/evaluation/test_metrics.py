"""Scores against closed forms and independent slow loops, on complex, non-square, odd-sized images."""

import json
from functools import partial

import numpy as np
import pytest
from scipy.ndimage import fourier_shift, gaussian_filter
from scipy.signal import convolve2d

from ptycho.evaluation import frc, metrics
from ptycho.evaluation.alignment import in_frame
from ptycho.evaluation.metrics import Region, align, score, score_images
from ptycho.scan import ramp
from ptycho.scan.windows import bands

SHAPE = (41, 67)


def smooth_object(shape=SHAPE, seed=0, blur=2.0):
    """Amplitude in [0.2, 1], phase within ±1 rad, unlike each other."""
    rng = np.random.default_rng(seed)
    first, second = (gaussian_filter(rng.normal(size=shape), blur) for _ in range(2))
    amplitude = 0.2 + 0.8 * (first - first.min()) / np.ptp(first)
    return amplitude * np.exp(1j * (2 * (second - second.min()) / np.ptp(second) - 1))


def noisy(truth, level=0.05, seed=1):
    rng = np.random.default_rng(seed)
    return truth + level * (rng.normal(size=truth.shape) + 1j * rng.normal(size=truth.shape))


def whole(image):
    return Region(0, 0, *image.shape[-2:])


def covered(image):
    return np.ones(image.shape, bool)


def test_region_crops_rows_then_columns_of_the_last_two_axes():
    stack = np.arange(2 * 5 * 7).reshape(2, 5, 7)
    np.testing.assert_array_equal(Region(1, 4, 3, 2).crop(stack)[1], [[46, 47], [53, 54], [60, 61]])


@pytest.mark.parametrize("slope", [(0.02, -0.05), (0.4, -0.3)], ids=["gentle", "many wraps"])
def test_align_removes_scale_phase_and_ramp_exactly(slope):
    truth = smooth_object()
    rows, cols = np.indices(SHAPE)
    recon = 3.5 * np.exp(2.9j) * truth * np.exp(1j * (slope[0] * rows + slope[1] * cols))
    aligned = align(recon, truth, covered(truth))
    np.testing.assert_allclose(aligned.object, truth, atol=1e-12)
    np.testing.assert_allclose(aligned.phase_slope, slope, atol=1e-12)
    assert aligned.amplitude_ratio == pytest.approx(3.5, rel=1e-12)


@pytest.mark.parametrize("uncovered", [0, 9])
def test_an_image_is_scored_alike_in_bands_of_rows(monkeypatch, uncovered):
    truth = smooth_object((190, 181))
    recon, mask = noisy(truth), covered(truth)
    mask[:uncovered, 50:] = False
    at_once = score(recon, truth, mask, whole(truth))
    for module in (frc, metrics, ramp):
        monkeypatch.setattr(module, "bands", partial(bands, pixels=1000))
    in_bands = score(recon, truth, mask, whole(truth))
    assert list(in_bands) == list(at_once) and in_bands["flags"] == at_once["flags"]
    assert at_once["ms_ssim"] == [None, None] or not uncovered
    for name in set(at_once) - {"flags"} - ({"ms_ssim"} if uncovered else set()):
        assert in_bands[name] == pytest.approx(at_once[name], rel=1e-9), name


def test_align_is_the_minimum_over_scale_and_plane():
    """No neighbouring plane fits the weighted angle better and no neighbouring scale the truth."""
    truth = smooth_object()
    recon = noisy(truth * np.exp(0.01j * np.arange(SHAPE[1])))
    mask = np.random.default_rng(2).random(SHAPE) < 0.7
    found = align(recon, truth, mask)
    rows, cols = np.indices(SHAPE)
    angle, weight = np.angle(recon * truth.conj())[mask], np.abs(truth[mask])
    design = np.stack([rows[mask], cols[mask], np.ones(mask.sum())], axis=1)
    plane = np.linalg.lstsq(weight[:, None] * design, weight * angle, rcond=None)[0]
    np.testing.assert_allclose(found.phase_slope, plane[:2], atol=1e-10)

    def misfit(scale):
        return np.sum(np.abs((truth - scale * found.object)[mask]) ** 2)

    assert all(misfit(1) < misfit(1 + step) for step in (1e-4, -1e-4, 1e-4j, -1e-4j))


def test_uncovered_pixels_do_not_steer_the_alignment_and_stay_plain_zero():
    truth, mask = smooth_object(), covered(smooth_object())
    mask[:7, 30:] = False
    recon = np.where(mask, -truth, np.nan)
    aligned = align(recon, truth, mask).object
    np.testing.assert_allclose(aligned[mask], truth[mask], atol=1e-12)
    np.testing.assert_array_equal(aligned[~mask], 0)
    np.testing.assert_array_equal(np.angle(aligned[~mask]), 0, "a zero must not be −0, whose angle is π")
    np.testing.assert_array_equal(metrics.phase(-1 * aligned)[~mask], 0)
    expected = np.sqrt(np.sum(np.angle(truth[~mask]) ** 2) / truth.size)
    assert metrics.errors(aligned, truth)["phase_rmse_rad"] == pytest.approx(expected, rel=1e-9)


def test_errors_by_hand():
    truth = np.array([[2.0, 1.0, 1.0], [1.0, 1.0, 1.0]], complex)
    recon = truth.copy()
    recon[0, 0] = 1.4 * np.exp(0.3j)
    recon[1, 2] = 1.2 * np.exp(-0.6j)
    found = metrics.errors(recon, truth)
    assert found["mae"] == pytest.approx([0.8 / 6, 0.9 / 6])
    assert found["mse"] == pytest.approx([0.40 / 6, 0.45 / 6])
    assert found["phase_rmse_rad"] == pytest.approx(np.sqrt(0.45 / 6))
    expected = [10 * np.log10(4 / (0.40 / 6)), 10 * np.log10(4 * np.pi**2 / (0.45 / 6))]
    assert found["psnr"] == pytest.approx(expected)
    assert metrics.errors(truth * (1 + 1e-15), truth)["psnr"] == [None, None]
    one, other = np.full((3, 5), np.exp(3.1j)), np.full((3, 5), np.exp(-3.1j))
    assert metrics.errors(other, one)["mae"][1] == pytest.approx(2 * np.pi - 6.2), "the phase is not wrapped"


def slow_ssim(x, y, data_range, side=7):
    """Wang et al. 2004, eq. 13, window by window with the sample covariance."""
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    values = []
    for i in range(x.shape[0] - side + 1):
        for j in range(x.shape[1] - side + 1):
            p, q = (image[i : i + side, j : j + side].ravel() for image in (x, y))
            (vp, cov), (_, vq) = np.cov(p, q)
            mp, mq = p.mean(), q.mean()
            values.append((2 * mp * mq + c1) * (2 * cov + c2) / ((mp**2 + mq**2 + c1) * (vp + vq + c2)))
    return np.mean(values)


def test_ssim_equals_the_slow_loop():
    truth = smooth_object((17, 23))
    recon = noisy(truth, 0.1)
    x, y = np.abs(recon), np.abs(truth)
    amplitude, phase = metrics.ssim(recon, truth)
    assert amplitude == pytest.approx(slow_ssim(x, y, y.max() - y.min()), rel=1e-9)
    x, y = ((np.angle(image) + np.pi) / (2 * np.pi) for image in (recon, truth))
    assert phase == pytest.approx(slow_ssim(x, y, 1.0), rel=1e-9)


def slow_ms_ssim(x, y, data_range):
    """Wang, Simoncelli & Bovik 2003, eq. 7; odd images are padded by reflection before halving."""
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    line = np.exp(-((np.arange(11) - 5) ** 2) / (2 * 1.5**2))[None]
    line = line / line.sum()

    def blur(image):
        return convolve2d(convolve2d(image, line, mode="valid"), line.T, mode="valid")

    product = 1.0
    for scale, power in enumerate((0.0448, 0.2856, 0.3001, 0.2363, 0.1333)):
        if scale:
            x, y = (np.pad(image, [(0, n % 2) for n in image.shape], mode="symmetric") for image in (x, y))
            x, y = ((a[::2, ::2] + a[1::2, ::2] + a[::2, 1::2] + a[1::2, 1::2]) / 4 for a in (x, y))
        mx, my = blur(x), blur(y)
        structure = (2 * (blur(x * y) - mx * my) + c2) / (blur(x * x + y * y) - mx**2 - my**2 + c2)
        luminance = (2 * mx * my + c1) / (mx**2 + my**2 + c1) if scale == 4 else 1.0
        product *= np.mean(luminance * structure) ** power
    return product


def test_ms_ssim_equals_the_slow_form_and_needs_176_pixels():
    truth = smooth_object((177, 201))
    recon = noisy(truth, 0.2)
    x, y = np.abs(recon), np.abs(truth)
    phases = ((np.angle(image) + np.pi) / (2 * np.pi) for image in (recon, truth))
    expected = [slow_ms_ssim(x, y, y.max() - y.min()), slow_ms_ssim(*phases, 1.0)]
    assert metrics.ms_ssim(recon, truth) == pytest.approx(expected, rel=1e-4)
    assert metrics.ms_ssim(recon[:175], truth[:175]) == [None, None]


def test_negative_structure_clips_ms_ssim_and_says_so():
    truth = smooth_object((177, 181))
    inverted = (1.2 - np.abs(truth)) * np.exp(1j * np.angle(truth))
    row = score(inverted, truth, covered(truth), whole(truth))
    assert row["ms_ssim"][0] == 0
    assert "ms_ssim_amplitude_clipped" in row["flags"]


def test_identity_is_perfect_and_every_missing_score_has_its_reason():
    truth = smooth_object((45, 45)).astype(np.complex64)
    row = score(truth, truth, covered(truth), Region(3, 2, 39, 41))
    assert row["ssim"] == pytest.approx([1, 1], abs=1e-12)
    assert row["mae"] == pytest.approx([0, 0], abs=1e-12)
    assert row["amplitude_ratio"] == pytest.approx(1)
    assert row["frc50"] == row["frc1over7"] == [1.0, 1.0]
    assert row["ms_ssim"] == row["psnr"] == [None, None]
    never = dict.fromkeys(metrics.FRC_THRESHOLDS, "never_crossed")
    reasons = {"ms_ssim": "region_too_small", "psnr": "infinite"} | never
    expected = {f"{name}_{channel}_{why}" for name, why in reasons.items() for channel in metrics.CHANNELS}
    assert set(row["flags"]) == expected


def test_constant_outputs_are_flagged():
    truth = smooth_object()
    rows = {
        "both": np.full(SHAPE, 0.5 + 0.1j),
        "amplitude": np.exp(1j * np.angle(truth)),
        "phase": np.abs(truth).astype(complex),
        "neither": noisy(truth),
    }
    flags = {name: score(recon, truth, covered(truth), whole(truth))["flags"] for name, recon in rows.items()}
    assert {name for name, found in flags.items() if "collapsed" in found} == {"both", "amplitude"}
    assert {name for name, found in flags.items() if "collapsed_phase" in found} == {"both", "phase"}


@pytest.mark.parametrize("angle", [0, np.pi, -0.4])
def test_a_flat_true_phase_has_no_ring_correlation_and_no_collapse(angle):
    tiny = 1e-9 * np.random.default_rng(6).normal(size=SHAPE)
    truth = np.abs(smooth_object()) * np.exp(1j * (angle + tiny))
    for recon in (noisy(truth), np.abs(truth).astype(complex)):
        row = score(recon, truth, covered(truth), whole(truth))
        assert row["frc50"][1] is None
        assert row["frc50"][0] is not None
        assert {"frc50_phase_truth_constant", "frc1over7_phase_truth_constant"} <= set(row["flags"])
        assert "collapsed_phase" not in row["flags"]


@pytest.mark.parametrize(
    "spoil, flag",
    [
        (lambda recon, mask: recon.__setitem__((20, 20), np.nan), "nan"),
        (lambda recon, mask: recon.__setitem__((20, 20), complex(0, np.inf)), "nan"),
        (lambda recon, mask: recon.fill(0), "collapsed"),
        (lambda recon, mask: mask.fill(False), "uncovered"),
    ],
)
def test_what_cannot_be_scored_is_flagged_not_scored(spoil, flag):
    truth = smooth_object()
    recon, mask = truth.copy(), covered(truth)
    spoil(recon, mask)
    row = score(recon, truth, mask, whole(truth))
    assert row["flags"] == [flag]
    assert row.keys() == score(truth, truth, covered(truth), whole(truth)).keys()
    assert all(row[name] == [None, None] for name in metrics.SCORES)
    assert row["amplitude_ratio"] is row["phase_rmse_rad"] is None
    json.dumps(row, allow_nan=False)


def test_scores_of_images_are_means_and_one_bad_image_leaves_none():
    truths = np.stack([smooth_object(seed=seed) for seed in (0, 7)])
    recons, masks = noisy(truths), covered(truths)
    result = score_images(recons, truths, masks, whole(truths))
    one, two = (score(*each, whole(truths)) for each in zip(recons, truths, masks, strict=True))
    assert result["ssim"] == pytest.approx(
        [(a + b) / 2 for a, b in zip(one["ssim"], two["ssim"], strict=True)]
    )
    recons[1, 0, 0] = np.nan
    spoiled = score_images(recons, truths, masks, whole(truths))
    assert spoiled["ssim"] == [None, None] and set(spoiled["flags"]) == {*one["flags"], "nan"}


GOOD = smooth_object((9, 11))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((GOOD[:, :5], GOOD, covered(GOOD)), r"one non-empty shape \(H, W\).*'recon': \(9, 5\)"),
        ((GOOD, GOOD, covered(GOOD[:4])), r"'mask': \(4, 11\)"),
        ((np.abs(GOOD), GOOD, covered(GOOD)), "recon must be complex, got float64"),
        ((GOOD, GOOD, covered(GOOD).astype(int)), "mask must be bool.*got int64"),
        ((GOOD, 0 * GOOD, covered(GOOD)), "truth must be finite and not zero"),
    ],
)
def test_bad_images_are_rejected(arguments, message):
    for function in (align, lambda *images: score(*images, Region(0, 0, 9, 11))):
        with pytest.raises(ValueError, match=message):
            function(*arguments)
    with pytest.raises(ValueError, match="truth must not be zero everywhere"):
        metrics.errors(GOOD, 0 * GOOD)


def test_the_relative_error_by_hand():
    """Truth 1 and 3, contrast 2; errors i and 1: √((1 + 1) / 2) = 1; an uncovered pixel does not count."""
    truth = np.array([[1.0, 3.0, 9.0]], complex)
    assert metrics.relative_error(np.array([[1 + 1j, 2, 0]]), truth) == pytest.approx(1)
    assert metrics.relative_error(truth, truth) == 0
    assert metrics.relative_error(np.ones((2, 3), complex), np.full((2, 3), 2 + 1j)) is None


def test_low_frequencies_are_distinguished_from_high_ones():
    """A wave of one period over 81 samples is below a twentieth of Nyquist, one of 20 periods above."""
    cols = np.arange(81) * np.ones((64, 1))
    truth = np.ones((64, 81), complex)
    slow, fast = (truth * np.exp(0.1j * np.sin(2 * np.pi * n * cols / 81)) for n in (1, 20))
    assert metrics.slow_phase_rad(slow, truth) == pytest.approx(0.1 / np.sqrt(2), rel=0.01)
    assert metrics.slow_phase_rad(fast, truth) < 1e-3


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
