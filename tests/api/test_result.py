"""A result in Python, of an object that is known in closed form; nothing is reconstructed here."""

import dataclasses

import h5py
import numpy as np
import pytest

import ptycho
from ptycho.exports.exported_scan import ExportedScan
from ptycho.scan.beam import Beam
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import ErrorMap

SHAPE, N, J = (72, 56), 16, 5
ROW, COL = np.meshgrid(*(np.arange(side) - (side - 1) / 2 for side in SHAPE), indexing="ij")
MASK = (np.abs(ROW) < 30) & (np.abs(COL) < 21)  # 60 × 42
PLANE = 0.31 * ROW - 0.17 * COL + 2.0
WAVE = 0.6 * np.cos(2 * np.pi * 3 * ROW / 60) * np.cos(2 * np.pi * 2 * COL / 42)
"""Even about the middle, whole periods of which the mask holds: it has no slope and no mean of its own."""
BUMP = 9 * np.exp(-(ROW**2 + COL**2) / 300)
PIXEL = (2e-8, 3e-8)
SCORES = {"r_factor": 0.1, "r_free": 0.12, "r_noise": None, "flags": ["poor_fit"], "beam": {"flux_rms": 0.5}}


def result_of(phase, pixel_m=PIXEL, **more):
    """A result with every optional part, whose object has the phase and an amplitude that is even, too."""
    rng = np.random.default_rng(3)
    amplitude = 1 + 0.2 * np.cos(2 * np.pi * 5 * COL / 42)
    image = np.where(MASK, amplitude * np.exp(1j * phase), 0).astype(np.complex64)
    probe = rng.standard_normal((2, N, N)) + 1j * rng.standard_normal((2, N, N))
    places = rng.uniform(1, 50, (J, 2)).astype(np.float32)
    varied, weights = (rng.standard_normal(s) * (1 + 0.5j) for s in ((3, N, N), (J, 3)))
    beam = Beam(
        probe.astype(np.complex64),
        places,
        np.arange(J, dtype=np.float32),
        np.full((N, N), 0.5, "f4"),
        varied.astype(np.complex64),
        weights.astype(np.complex64),
        np.array([0.4, 0.7], np.float32),
    )
    sigma = np.where(MASK, 0.01 * (2 + amplitude), np.inf).astype(np.float32)[None]
    exported = ExportedScan(
        places.astype(float),
        beam.probe,
        object=image,
        errors=ErrorMap(sigma, 2 * sigma),
        pixel_m=pixel_m,
        energy_eV=8800.0,
        distance_m=2.1,
        detector_pixel_m=(55e-6, 75e-6),
        detector_side=32,
        numbers=np.array([0, 2, 3, 7, 9]),
        name="star <1>",
        comments="of a test",
        domain="counts",
        opr_modes=beam.opr_modes,
        opr_weights=beam.opr_weights,
    )
    curve = {"frequency": np.array([0.25, 0.5, 1.0]), "correlation": np.array([0.9, 0.6, 0.2])}
    values = {
        "decisions": (Finding("probe", "refined", "deviance 3.1 → 2.0"),),
        "findings": (Finding("N", "16", "the file's"),),
        "warnings": ("a module is dark",),
        "assessment": curve,
    }
    return ptycho.Result("solver", SCORES, exported, beam, MASK, MASK, **values | more)


@pytest.fixture(scope="module")
def result():
    return result_of(WAVE + PLANE)


# ---- images


def test_a_plane_that_is_put_into_the_phase_is_removed(result):
    """Jumps by 2π are removed, too: the plane alone spans 19 rad. The phase is unknown outside the mask."""
    np.testing.assert_allclose(result.phase[MASK], WAVE[MASK], atol=2e-3)
    assert np.isnan(result.phase[~MASK]).all() and np.isnan(result.amplitude[~MASK]).all()
    amplitude = 1 + 0.2 * np.cos(2 * np.pi * 5 * COL / 42)
    np.testing.assert_allclose(result.amplitude[MASK], amplitude[MASK], rtol=1e-6)
    assert result.phase.dtype == result.amplitude.dtype == np.float32


def test_the_unwrapped_phase_is_that_of_the_object():
    """A bump of 9 rad over the plane, up to a constant; its median lies within half a turn."""
    made = result_of(BUMP + PLANE)
    assert np.nanmax(made.phase) - np.nanmin(made.phase) < 2 * np.pi + 1e-3
    left = made.unwrapped_phase[MASK] - BUMP[MASK]
    np.testing.assert_allclose(left, left.mean(), atol=2e-3)
    assert abs(np.nanmedian(made.unwrapped_phase)) <= np.pi and np.isnan(made.unwrapped_phase[~MASK]).all()


# ---- files


@pytest.mark.parametrize("ending", ["npz", "h5"])
def test_a_result_is_read_back_as_it_was_saved(result, tmp_path, ending):
    path = result.save(tmp_path / f"one.{ending}")
    back = ptycho.Result.load(path)
    for key in ("object", "mask", "illuminated", "probe", "positions", "phase", "unwrapped_phase"):
        one, other = getattr(result, key), getattr(back, key)
        np.testing.assert_array_equal(other, one, err_msg=key)
        assert one.dtype == other.dtype, key
    for key in ("flux", "background", "point_spread"):
        np.testing.assert_array_equal(getattr(back.beam, key), getattr(result.beam, key))
    for key in ("amplitude", "phase"):
        np.testing.assert_array_equal(getattr(back.errors, key), getattr(result.errors, key))
    np.testing.assert_array_equal(back.frc, result.frc)
    for key in ("method", "name", "scores", "decisions", "findings", "warnings", "pixel_m"):
        assert getattr(back, key) == getattr(result, key), key
    assert back.product.energy_eV == 8800 and back.product.detector_pixel_m == (55e-6, 75e-6)
    assert back.save(tmp_path / f"two.{ending}").read_bytes() == path.read_bytes()


def test_what_a_result_lacks_it_lacks_in_its_file(result, tmp_path):
    bare = ExportedScan(result.product.positions, result.probe, object=result.object)
    flat = Beam(result.probe, result.positions)
    made = ptycho.Result("pinn", {"flags": []}, bare, flat, MASK, MASK)
    back = ptycho.Result.load(made.save(tmp_path / "bare.h5"))
    assert back.errors is back.pixel_m is back.frc is back.beam.background is back.product.numbers is None
    assert back.method == "pinn" and back.warnings == back.findings == ()


def changed(path, key, value):
    with np.load(path) as held:
        arrays = {name: held[name] for name in held}
    np.savez(path, **{name: held for name, held in (arrays | {key: value}).items() if held is not None})
    return path


def test_another_file_is_refused_in_one_line(result, tmp_path):
    product = result.save(tmp_path / "product.h5")
    with h5py.File(product, "a") as file:
        del file["result"]
    cut = tmp_path / "cut.npz"
    cut.write_bytes(result.save(tmp_path / "one.npz").read_bytes()[:3000])
    unlike = changed(result.save(tmp_path / "unlike.npz"), "mask", MASK[1:])
    astray = changed(result.save(tmp_path / "astray.npz"), "positions", np.zeros((3, 3)))
    pickled = changed(result.save(tmp_path / "pickled.npz"), "flux", np.array([print], dtype=object))
    lacking = changed(result.save(tmp_path / "lacking.npz"), "probe", None)
    empty = changed(result.save(tmp_path / "empty.npz"), "about", np.array("{}"))
    for file, message in (
        (tmp_path / "no.npz", "no such file"),
        (product, "was not written by Result.save"),
        (cut, "cut short or damaged"),
        (unlike, "object, mask and illuminated must have one shape"),
        (astray, "damaged .*positions .J, 2."),
        (pickled, "flux .* holds Python objects"),
        (lacking, "damaged .lacks probe"),
        (empty, "damaged"),
    ):
        with pytest.raises(ptycho.ConfigError, match=rf"{file.name}: .*{message}") as caught:
            ptycho.Result.load(file)
        assert "\n" not in str(caught.value)
    with pytest.raises(ptycho.ConfigError, match=r"made.tif: must end in .h5 or .npz"):
        result.save(tmp_path / "made.tif")


# ---- display


def test_advice_and_report_name_arguments(result, tmp_path):
    overfit = dataclasses.replace(result, scores=SCORES | {"flags": ["not_converged", "overfit", "unknown"]})
    assert [*overfit.advice] == ["overfit", "not_converged"]
    assert overfit.advice["not_converged"] == "raise steps"
    assert "(positions=False)" in overfit.advice["overfit"]
    page = overfit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "(learn_probe=False)" in page and "solver.positions" not in page
