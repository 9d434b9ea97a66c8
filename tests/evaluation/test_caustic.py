"""The caustic of a probe, against the closed form of a Gaussian beam."""

import numpy as np
import pytest

from ptycho.evaluation.caustic import Caustic, CausticOptions, caustic
from ptycho.evaluation.caustic_figure import draw_caustic

LENGTH, PIXEL, N = 1e-10, (5e-9, 5.2e-9), 96


def gaussian_beam(waist_m, radius_m, N=N, pixel_m=PIXEL):
    """``exp(i k r²/(2q))`` at the sample, q = −z₀ − i z_R, of a beam exp(+ikz) with its waist at z₀."""
    rows, cols = ((np.arange(N) - N // 2) * pitch for pitch in pixel_m)
    q = -waist_m - 1j * np.pi * radius_m**2 / LENGTH
    return np.exp(1j * np.pi / LENGTH * (rows[:, None] ** 2 + cols**2) / q)


@pytest.mark.parametrize("waist", [0.0, 4e-5, -6e-5])
def test_a_gaussian_beam_has_its_waist_and_its_rayleigh_range(waist):
    radius = 28e-9
    found = caustic(gaussian_beam(waist, radius), LENGTH, PIXEL)
    reach = np.pi * radius**2 / LENGTH
    expected = radius * np.sqrt(2 * np.log(2) * (1 + ((found.distance_m - waist) / reach) ** 2))
    near = np.abs(found.distance_m) < 1e-4  # farther away the window of the sample plane cuts it
    assert near.sum() > 15
    np.testing.assert_allclose(found.fwhm_m[near], expected[near], rtol=0.01)
    assert found.waist_m[0] == pytest.approx(waist, abs=1e-6)
    assert found.waist_m[1] == pytest.approx(radius * np.sqrt(2 * np.log(2)), rel=0.01)
    # 90 % of exp(−2 (π w₀ q)²) over the plane: q = √(ln 10 / 2) / (π w₀)
    assert found.depth_m == pytest.approx(
        LENGTH / (LENGTH * np.sqrt(np.log(10) / 2) / (np.pi * radius)) ** 2, rel=0.05
    )


def test_the_cuts_are_those_through_the_waist():
    """Of a beam that is narrower along columns, off the middle of the window; odd side."""
    side = 63
    rows, cols = np.ogrid[:side, :side]
    wave = np.exp(-(((rows - 26) / 9) ** 2) - ((cols - 38) / 5) ** 2).astype(complex)
    found = caustic(wave, LENGTH, (5e-9, 5e-9))
    at = int(np.argmin(np.abs(found.distance_m)))
    share = found.pixel_m / 5e-9  # fewer, larger pixels where the far field is narrow
    for cut, middle, width in ((found.row_cut[at], 26, 9), (found.col_cut[at], 38, 5)):
        places = np.arange(len(cut)) * share[0]
        mean = (places * cut).sum() / cut.sum()
        assert mean == pytest.approx(middle, abs=0.5)
        assert np.sqrt(((places - mean) ** 2 * cut).sum() / cut.sum()) == pytest.approx(width / 2, rel=0.05)


def test_a_waist_out_of_reach_is_not_named():
    axis = np.arange(64) - 32
    wave = np.exp(-(axis[:, None] ** 2 + axis**2) / 400 + 2.2j * (axis[:, None] ** 2 + axis**2) / 64)
    facts = caustic(wave, LENGTH, (5e-9, 5e-9), CausticOptions(beyond=0.2, depths=0.0)).facts()
    assert facts["distance_m"] is None and facts["fwhm_m"] is None and facts["fwhm_at_sample_m"] > 0


def test_it_is_stored_and_drawn():
    found = caustic(gaussian_beam(2e-5, 20e-9), LENGTH, PIXEL)
    again = Caustic.of_arrays(found.arrays())
    for name, value in vars(found).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert Caustic.of_arrays(found.arrays() | {"caustic_fwhm_m": np.ones(3)}) is None
    assert Caustic.of_arrays({}) is None
    titles = [ax.get_title() for ax in draw_caustic(found, "probe").axes]
    assert any("narrowest 20 µm behind the sample" in title for title in titles)
