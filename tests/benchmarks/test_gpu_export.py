"""Exported steps for machines with JAX: the files, and that their text computes what they say."""

import numpy as np
import pytest
from helpers.stablehlo import run_stablehlo

from benchmarks.gpu import export
from benchmarks.gpu.program import read_program, worst


def run(program):
    outputs = [(a.shape, a.dtype) for a in program.expected()]
    return run_stablehlo(program.text, program.given(), outputs)


def test_a_likelihood_comes_back_from_its_file(tmp_path):
    """Odd N, two modes; three patterns twice; the deviance by NumPy."""
    program = read_program(export.likelihood(9, 2, 6, rows=3).write(tmp_path))
    windows, fractions, flux, modes, background, amplitudes, *_ = program.given()
    assert len(windows) == program.patterns == 6
    k = np.fft.fftfreq(9)
    ramp = np.exp(-2j * np.pi * (fractions[:, :1, None] * k[:, None] + fractions[:, 1:, None] * k))
    moved = np.fft.ifft2(np.fft.fft2(modes)[None] * ramp[:, None])  # P(x − s), (6, 2, 9, 9)
    waves = np.fft.fft2(flux[:, None, None, None] * moved * windows[:, None], norm="ortho")
    rate = (np.abs(waves) ** 2).sum(1) + background + 0.02
    count = amplitudes**2 + 0.02
    deviance = 2 * (rate - count + count * np.log(count / rate)).sum((1, 2))
    np.testing.assert_allclose(program.expected()[0], deviance, rtol=1e-4)
    assert worst(run(program), program.expected()) < 1e-5


@pytest.mark.parametrize("name", ["translate_matrix", "resize"])
def test_an_operator_comes_back_from_its_file(name, tmp_path):
    program = read_program(export.operators(side=7, rows=2, repeat=2)[name]().write(tmp_path))
    value, loss, gradient, *_ = program.expected()
    assert len(value) == 4 and len(gradient) == 4
    np.testing.assert_allclose(loss, (value.astype(float) ** 2).sum(), rtol=1e-5)
    assert worst(run(program), program.expected()) < 1e-5
    assert worst([v + 1 for v in program.expected()], program.expected()) > 0.01
    assert worst([v[..., None] for v in program.expected()], program.expected()) == np.inf
