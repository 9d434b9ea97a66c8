"""LSQ-ML: input and output of the process of pty-chi, by hand, and pty-chi itself."""

import os
import sys
import textwrap

import numpy as np
import pytest
from helpers.cli import fresh
from helpers.datasets import single_patterns
from helpers.reference import exact_diffraction

from ptycho.config import ConfigError, LsqmlConfig
from ptycho.evaluation.alignment import in_frame
from ptycho.reconstruction.lsqml import LsqmlError, reconstruct
from ptycho.reconstruction.misfit import misfit
from ptycho_lsqml.fit import INSTALL, available
from ptycho_lsqml.process import converged

N, M, S = 32, 75, 40.0
PTYCHI_PYTHON = os.environ.get("PTYCHI_PYTHON")

TRUTHFUL = """
    import json
    import sys
    import numpy as np

    scan, truth = np.load(sys.argv[2]), np.load({truth!r})
    k = np.linalg.norm(scan["probe"][0]) / np.linalg.norm(truth["probe"])
    image = np.pad(truth["object"] / k, ((7, 40), (3, 50)))  # of another size, and elsewhere
    origin, roots, good = np.array([7, 3]), np.sqrt(scan["patterns"]), scan["good"]
    row, col = np.fft.fftfreq({N})[:, None], np.fft.fftfreq({N})
    away = 0
    for position, root in zip(scan["positions"], roots):
        whole = np.rint(position).astype(int)
        part = position - whole
        ramp = np.exp(-2j * np.pi * (row * part[0] + col * part[1]))
        probe = np.fft.ifft2(np.fft.fft2(scan["probe"][0]) * ramp)
        top, left = whole + origin
        far = np.fft.fft2(probe * image[top : top + {N}, left : left + {N}], norm="ortho")
        away += abs(np.fft.fftshift(abs(far)) - root)[good].sum()
    r_factors = [0.5, away / roots[:, good].sum()]
    for epoch, r in enumerate(r_factors, start=1):
        print("pty-chi may say something, too")
        print(json.dumps(dict(epoch=epoch, r_factor=r)), flush=True)
    np.savez(
        sys.argv[3], object=image.astype(np.complex64), origin=origin, probe=scan["probe"],
        positions=scan["positions"], r_factors=r_factors, seconds=2.5, version="2.0", asked=scan["settings"]
    )
    np.savez({seen!r}, **scan)
"""


def smooth(rng, side, cut):
    """Return a real random image without frequencies above ``cut`` of Nyquist, mean 0, deviation 1."""
    nu = np.fft.fftfreq(side)
    low = np.hypot(nu[:, None], nu) < cut / 2
    image = np.fft.ifft2(np.fft.fft2(rng.normal(size=(side, side))) * low).real
    return (image - image.mean()) / image.std()


@pytest.fixture(scope="module")
def made():
    """A scan of 100 patterns with bad pixels, its object and its probe; by NumPy alone."""
    rng = np.random.default_rng(3)
    image = (0.8 + 0.08 * smooth(rng, M, 0.5)) * np.exp(0.5j * smooth(rng, M, 0.5))
    axis = np.arange(N) - N // 2
    distance = np.hypot(axis[:, None] - 0.3, axis + 0.2)
    lens = np.exp(-((distance / 5) ** 2) + 0.1j * distance**2 + 0.1j * axis)  # dark at the window's edge
    probe = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(lens)))
    probe *= 30 / np.linalg.norm(probe)
    grid = 4.2 * np.stack(np.divmod(np.arange(100), 10), axis=1)
    positions = (grid + rng.uniform(0.5, 2.5, (100, 2))).astype(np.float32)
    good = rng.random((N, N)) > 0.02
    counts = rng.poisson((S * exact_diffraction(image, positions, probe)) ** 2)
    amplitudes = np.where(good, np.sqrt(counts), 0)
    data = single_patterns(amplitudes, probe, positions, M, photon_scale=S, good=good, exact=True)
    return data, image, probe


def program(path, text):
    """Write a Python program that runs in place of an interpreter."""
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(text)}")
    path.chmod(0o755)
    return str(path)


def truthful(folder, made, text=TRUTHFUL):
    """Write a program that gives back the truth, and stores in ``seen.npz`` what it was given."""
    np.savez(folder / "truth.npz", object=made[1], probe=S * made[2])
    names = {"truth": str(folder / "truth.npz"), "seen": str(folder / "seen.npz"), "N": N}
    return program(folder / "fake", text.format(**names))


def test_without_pty_chi_it_is_said_how_to_get_it(tmp_path):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no installed package at all
    bare.chmod(0o755)
    message = available(str(bare))
    assert message is not None and len(message.splitlines()) == 1
    assert "No module named" in message and INSTALL in message and "iterative.python=" in message
    missing = available(str(tmp_path / "none"))
    assert "cannot be run (No such file or directory)" in missing and INSTALL in missing
    assert available(program(tmp_path / "fine", "")) is None


def test_what_comes_back_is_in_the_units_and_on_the_canvas_of_the_dataset(made, tmp_path):
    data, image, probe = made
    advanced = []
    settings = LsqmlConfig(python=truthful(tmp_path, made), epochs=7, modes=2, threads=1)
    result = reconstruct(data, settings, seed=5, advance=advanced.append, scratch=tmp_path)
    found, beam = result.reconstruction, result.reconstruction.beam
    assert advanced == [100, 100] and len(result.r_factors) == 2
    assert found.seconds == 2.5 and found.program == "pty-chi 2.0"
    assert found.object.dtype == beam.probe.dtype == np.complex64
    mask = found.covered
    assert mask[20:50, 20:50].all() and not mask[0, -1] and not found.object[~mask].any()
    np.testing.assert_allclose(found.object[mask], image[mask], atol=1e-5)
    np.testing.assert_allclose(beam.probe[0], probe, atol=1e-5 * np.abs(probe).max())
    np.testing.assert_array_equal(beam.positions, data.positions)

    # what is weakly illuminated matters, too
    whole = np.where(mask, found.object, image).astype(np.complex64)
    fit = misfit(whole, data.under(beam))
    assert fit.r_factor == pytest.approx(result.r_factors[-1], abs=1e-4)
    assert fit.r_factor == pytest.approx(fit.r_noise, rel=0.02)
    shifted = misfit(np.roll(whole, 1, axis=1), data.under(beam))
    assert shifted.r_factor > 2 * fit.r_factor

    seen = np.load(tmp_path / "seen.npz")
    counts = np.asarray(data.amplitudes) ** 2
    np.testing.assert_allclose(seen["patterns"], counts, rtol=1e-6)
    np.testing.assert_array_equal(seen["good"], data.good)
    far = np.fft.fftshift(np.abs(np.fft.fft2(seen["probe"][0], norm="ortho")) ** 2)
    assert far[data.good].sum() == pytest.approx(counts.sum() / 100, rel=1e-5)
    asked = '"epochs": 7, "early": true, "modes": 2, "refine_positions": true, "start_positions": 10'
    assert asked in str(seen["settings"])
    assert not list(tmp_path.glob("lsqml-*"))


def test_positions_that_left_the_canvas_are_brought_back(made, tmp_path):
    data = made[0]
    moved = TRUTHFUL.replace('positions=scan["positions"]', 'positions=scan["positions"] - [2, 0]')
    settings = LsqmlConfig(python=truthful(tmp_path, made, moved))
    beam = reconstruct(data, settings, seed=0).reconstruction.beam
    assert data.positions.min() < 2 and beam.positions.min() == 0


def test_a_failure_is_one_line_with_its_last_words(made, tmp_path):
    data = made[0]
    failing = program(tmp_path / "failing", "raise SystemExit('first\\nout of memory')")
    with pytest.raises(LsqmlError, match=r"^lsqml: pty-chi ended with code 1: out of memory$"):
        reconstruct(data, LsqmlConfig(python=failing), seed=0)
    silent = program(tmp_path / "silent", "")
    with pytest.raises(LsqmlError, match="its result cannot be read: no such file"):
        reconstruct(data, LsqmlConfig(python=silent), seed=0)
    with pytest.raises(LsqmlError, match=r"iterative.python=.*none: cannot be run"):
        reconstruct(data, LsqmlConfig(python=str(tmp_path / "none")), seed=0)


def test_patterns_of_two_objects_are_refused(dataset_of):
    data = dataset_of(np.ones((2, 2)), [[0], [1]], image=[0, 1])
    with pytest.raises(ConfigError, match="data=patterns of 2 objects: must be patterns of one object"):
        reconstruct(data, LsqmlConfig(), seed=0)


def test_it_ends_when_r_improves_by_less_than_a_thousandth_in_five_epochs():
    assert not converged([0.3, 0.2])
    assert not converged([0.2] * 5)
    assert converged([0.2] * 6)
    assert converged([0.2, 0.3, 0.3, 0.3, 0.3, 0.21])
    assert not converged([0.2, 0.2, 0.2, 0.2, 0.2, 0.1997])
    assert converged([0.2, 0.2, 0.2, 0.2, 0.2, 0.1999])


def test_it_is_imported_without_torch_and_tensorflow(tmp_path):
    code = "import sys, ptycho_lsqml.fit; print({'torch', 'ptychi', 'tensorflow'} & {*sys.modules})"
    assert fresh(tmp_path, "-c", code).stdout.strip() == "set()"


@pytest.mark.iterative
@pytest.mark.skipif(not PTYCHI_PYTHON, reason="PTYCHI_PYTHON names no interpreter that has pty-chi")
@pytest.mark.parametrize("modes", [1, 2])
def test_pty_chi_finds_the_object_of_a_simulated_scan(made, modes, record_property):
    data, image, _ = made
    assert available(PTYCHI_PYTHON) is None
    epochs = []
    settings = LsqmlConfig(python=PTYCHI_PYTHON, modes=modes, threads=2)
    result = reconstruct(data, settings, seed=1, advance=epochs.append)
    found, beam = result.reconstruction, result.reconstruction.beam
    assert len(epochs) == len(result.r_factors) <= 100
    assert beam.probe.shape == (modes, N, N) and found.object.shape == (M, M)
    assert np.abs(beam.positions - data.positions).max() < 1
    truth, known = in_frame(image, found.object, found.covered)
    part = known & (np.add.outer(*(abs(np.arange(M) - M / 2),) * 2) < M / 3)
    one, two = found.object[part], truth[part]
    likeness = abs(np.vdot(one, two)) / (np.linalg.norm(one) * np.linalg.norm(two))
    record_property("likeness", likeness)
    record_property("r_factors", result.r_factors.tolist())
    assert likeness > 0.98
    if modes == 1:
        fit = misfit(found.object, data.under(beam))
        assert fit.r_factor == pytest.approx(result.r_factors[-1], abs=5e-3)  # its mean while it changes
        assert fit.r_factor < 1.2 * fit.r_noise
