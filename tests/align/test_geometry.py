"""Findings and corrections of positions that do not fit the detector."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.datasets import single_patterns
from helpers.phase_scans import phase_object

from ptycho.align import geometry
from ptycho.align.affine_map import PositionMap
from ptycho.align.geometry import clear_part, find_geometry, find_rotation, keys_of, rotation_is_open
from ptycho.config import ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.evaluation.trust import ORIENTATION, SCALE
from ptycho.preparation.geometry import PixelSize, turned_positions
from ptycho.scan.comparison import Comparison
from ptycho.scan.finding import flags_of
from ptycho.scan.positions import rotation
from ptycho.scan.probe import make_probe

PROBE = np.arange(16, dtype=np.complex64).reshape(4, 4) + 1j


def interpreted(pixel=(1e-10, 1e-10), energy_eV=8000.0):
    return SimpleNamespace(pixel=PixelSize(pixel), raw=SimpleNamespace(energy_eV=energy_eV))


def position_map(matrix, gain=0.2, skewness=1.0):
    return PositionMap(np.asarray(matrix), 0.002, 0.1, Comparison(gain, 0.01), PROBE, skewness)


def test_the_keys_give_the_positions_that_were_meant():
    """A map in object pixels that are not square, after the keys rotate and shear the nominal positions."""
    rng, pitch = np.random.default_rng(1), PixelSize((2e-10, 3e-10))
    recorded = DataConfig(file="x", rotation_deg=30.0, scan_affine=((1.1, 0.2), (0.0, 0.9)))
    places, matrix = rng.normal(size=(9, 2)), 0.8 * rotation(17.0)
    before = turned_positions(places, pitch, 30.0, recorded.scan_affine)
    specified = dict(
        key.removeprefix("data.").split("=")
        for key in keys_of(matrix, interpreted(pitch.metres), recorded).split()
    )
    affine = np.array(eval(specified["scan_affine"]))
    after = turned_positions(places, pitch, float(specified["rotation_deg"]), affine)
    np.testing.assert_allclose(after, before @ matrix.T, atol=1e-3)


@pytest.mark.parametrize(
    ("keys", "energy_eV", "is_open"),
    [
        ({"electrons_keV": 80.0}, None, True),
        ({"electrons_keV": 80.0, "rotation_deg": 0.0}, None, False),
        ({}, 2.97e5, True),  # the wavelength of electrons of 80 keV, from the file
        ({}, 8000.0, False),
        ({}, None, False),
    ],
)
def test_the_rotation_of_electrons_is_open(keys, energy_eV, is_open):
    assert rotation_is_open(interpreted(energy_eV=energy_eV), DataConfig(file="x", **keys)) is is_open


def test_small_deviations_are_left_alone():
    assert np.array_equal(clear_part(position_map(1.01 * rotation(0.5))), np.eye(2))
    np.testing.assert_allclose(clear_part(position_map(1.01 * rotation(5))), rotation(5))
    np.testing.assert_allclose(clear_part(position_map(1.2 * rotation(0.5))), 1.2 * np.eye(2))


def recorded(monkeypatch, found, degrees=0.0, told_probe=False, fixed=False, **keys):
    monkeypatch.setattr(geometry, "find_map", lambda *arguments: found)
    config = DataConfig(file="x", **keys)
    return find_geometry(interpreted(), None, config, degrees, told_probe, fixed)


def test_photons_are_flagged_or_corrected(monkeypatch):
    found = position_map(1.25 * rotation(-5))
    flagged = recorded(monkeypatch, found)
    assert flagged.matrix is None and flagged.decisions == ()
    assert flagged.alternative.kept.flags == (SCALE, ORIENTATION)
    assert "data.rotation_deg=-5 data.scan_affine=[[1.25," in str(flagged.alternative.kept)
    assert flagged.alternative.probe is PROBE
    assert recorded(monkeypatch, found, told_probe=True).alternative.probe is None
    corrected = recorded(monkeypatch, found, orientation="auto")
    np.testing.assert_allclose(corrected.matrix, found.matrix)
    np.testing.assert_allclose(flagged.alternative.matrix, found.matrix)
    assert corrected.probe is PROBE and corrected.alternative is None
    assert recorded(monkeypatch, found, told_probe=True, orientation="auto").probe is None
    assert recorded(monkeypatch, position_map(1.25 * np.eye(2), gain=0.001)).alternative is None


@pytest.mark.parametrize(("along", "drift"), [(1.25, False), (1.265, False), (1.4, True)])
def test_a_map_that_is_clearly_sheared_is_a_drift(monkeypatch, along, drift):
    """A wrong unit is wrong by the same factor along both axes, within four standard errors."""
    other = recorded(monkeypatch, position_map(np.diag([1.25, along]))).alternative
    assert other.drift is drift and other.kept.flags == (SCALE,)


def test_the_scale_of_electrons_is_reported(monkeypatch):
    """The rotation is corrected; the scale is only reported."""
    found = recorded(monkeypatch, position_map(1.2 * rotation(59)), electrons_keV=80.0)
    np.testing.assert_allclose(found.matrix, rotation(59), atol=1e-9)
    np.testing.assert_allclose(found.alternative.matrix, 1.2 * np.eye(2), atol=1e-9)
    assert found.alternative.kept.flags == (SCALE,) and not found.alternative.drift


def test_electrons_are_turned_so_that_atoms_are_bright(monkeypatch):
    found = recorded(monkeypatch, position_map(rotation(59)), electrons_keV=80.0)
    np.testing.assert_allclose(found.matrix, rotation(59), atol=1e-9)
    other = recorded(monkeypatch, position_map(rotation(59), skewness=-1.0), electrons_keV=80.0)
    np.testing.assert_allclose(other.matrix, rotation(-121), atol=1e-9)
    assert "-121.00 ± 0.10°" in other.decisions[0].value and flags_of(other.decisions) == []
    assert other.reversed_probe and other.probe is None and not found.reversed_probe
    stretched = position_map(1.2 * rotation(59), skewness=-1.0)
    mapped = recorded(monkeypatch, stretched, electrons_keV=80.0, orientation="auto")
    rolled = np.roll(PROBE[::-1, ::-1], (1, 1), (0, 1)).conj()  # P*(−x) about sample N//2
    np.testing.assert_array_equal(mapped.probe, rolled)
    assert not mapped.reversed_probe


@pytest.mark.parametrize(
    ("skewness", "fixed", "reversed_probe"), [(-1.0, False, True), (-0.05, False, False), (-1.0, True, False)]
)
def test_a_specified_probe_is_reversed_if_atoms_are_clearly_dark(
    monkeypatch, skewness, fixed, reversed_probe
):
    """Not for a phase that decides nothing, nor if it is not refined; here it distinguishes no half turn."""
    monkeypatch.setattr(geometry, "_half_turn", lambda data, degrees: (degrees, False))
    found = position_map(rotation(59), skewness=skewness)
    turned = recorded(monkeypatch, found, told_probe=True, fixed=fixed, electrons_keV=80.0)
    np.testing.assert_allclose(turned.matrix, rotation(-121 if reversed_probe else 59), atol=1e-9)
    assert turned.reversed_probe is reversed_probe and turned.probe is None
    assert ("is reversed" in str(turned.decisions[0])) is reversed_probe
    assert (flags_of(turned.decisions) == [ORIENTATION]) is (skewness == -0.05)


@pytest.fixture(scope="module")
def dim_scan():
    """Patterns of 2000 photons of a phase object under a curved probe, nominal positions rotated by 40°."""
    rng = np.random.default_rng(7)
    places = 2.5 * np.stack(np.divmod(np.arange(144), 12), axis=1) + rng.uniform(0, 1, (144, 2))
    places = np.round(places - places.min(axis=0))
    probe, image = make_probe(ZonePlateProbe(), 32), phase_object(64, rng)
    waves = [probe * image[r : r + 32, c : c + 32] for r, c in places.astype(int)]
    far = np.abs(np.fft.fftshift(np.fft.fft2(waves), axes=(1, 2))) ** 2
    counts = rng.poisson(2000 * far / far.sum(axis=(1, 2)).mean())
    rotated = places @ rotation(40.0).T
    rotated -= rotated.min(axis=0) - 1
    scale = np.sqrt(2000 / np.sum(np.abs(probe) ** 2))
    return single_patterns(np.sqrt(counts), scale * probe, rotated, 90, exact=True)


def test_a_specified_probe_shows_the_rotation(dim_scan):
    assert find_rotation(dim_scan) == pytest.approx(-40.0, abs=8.0)


def test_a_probe_under_which_all_rotations_explain_alike_shows_none(dim_scan):
    flat = np.abs(np.fft.fft2(dim_scan.probe))
    flat = np.fft.fftshift(np.fft.ifft2(np.exp(1e-3j * np.arange(32)) * flat), axes=(1, 2))
    assert find_rotation(dim_scan.under_probe(flat.astype(np.complex64))) is None


@pytest.mark.parametrize("right", [1.0, 0.8])
def test_whether_a_scale_explains_more(dim_scan, right):
    """Positions are 1/``right`` times too wide; the map says what would mend that, or what would spoil it."""
    centred = dim_scan.positions - dim_scan.positions.mean(axis=0)
    nominal = (centred @ rotation(-40.0).T / right + 45).astype(np.float32)
    scan = replace(dim_scan, beam=replace(dim_scan.beam, positions=nominal), object_size=130)
    stated = PositionMap(0.8 * np.eye(2), 0.002, 0.1, Comparison(0.2, 0.01), scan.probe[0], 1.0)
    assert geometry._scale_explains(scan, stated) is (right == 0.8)
