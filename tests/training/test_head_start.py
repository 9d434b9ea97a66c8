"""The benchmark of what a network saves a solver: its start, its levels, and a short run."""

import csv

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.image import imread

from benchmarks.head_start import constant_like, main
from ptycho import physics


def test_the_constant_gives_the_measured_energy(datasets):
    data = datasets["test"]
    flat = constant_like(np.zeros((1, data.object_size, data.object_size), np.complex64), data)
    wave = data.model_probe[0] * flat[0, 0, 0]
    measured = np.mean(np.sum((data.normalisation * np.asarray(data.amplitudes, float)) ** 2, axis=(1, 2)))
    assert np.sum(np.abs(wave) ** 2) == pytest.approx(measured, rel=1e-5)
    light = physics.total_light(physics.far_field(tf.constant(wave[None])))
    assert np.sum(light) == pytest.approx(measured, rel=1e-5)


def test_a_short_run(trained_run, tmp_path, within):
    main([str(trained_run), "--passes", "2", "--out", str(tmp_path)])
    with (tmp_path / "head_start.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["start"], row["passes"]) for row in rows] == [
        (start, str(k)) for start in ("the pinn", "a constant") for k in range(3)
    ]
    first, last = float(rows[0]["amplitude_ssim"]), float(rows[2]["amplitude_ssim"])
    within("SSIM gained in two passes", last - first, above=0.0)
    within("SSIM of the start, above a constant's", first - float(rows[3]["amplitude_ssim"]), above=0.0)
    assert "a constant" in (tmp_path / "head_start.md").read_text()
    assert imread(tmp_path / "head_start.png").std() > 0
