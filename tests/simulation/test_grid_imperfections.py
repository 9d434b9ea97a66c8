"""Imperfect grid-lines scans: measured, nominal and true values; LSQ-ML and the networks on the same scan."""

import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import intensity_of

from conftest import without_pictures
from ptycho.config import (
    ConfigError,
    Imperfections,
    LsqmlConfig,
    RunConfig,
    UnrolledModel,
    XlaConfig,
    ZonePlateProbe,
)
from ptycho.reconstruction.lsqml import LsqmlError, LsqmlResult
from ptycho.run.folder import RunFolder
from ptycho.scan.beam import Beam
from ptycho.scan.dataset_file import load_dataset
from ptycho.scan.reconstruction import Reconstruction
from ptycho.simulation.simulate import simulate
from ptycho.simulation.truth import read_truth
from workflows.reconstruct import grid_lines

N = 32
HARD = Imperfections(
    defocus_um=8.0,
    blob=0.2,
    position_px=0.7,
    scale_error=0.01,
    modes=2,
    coherence=0.8,
    background=3.0,
    gap_columns=3,
    flux_rms=0.2,
)


def imperfect(small_config, **wrong):
    return small_config(probe=ZonePlateProbe(), imperfections=Imperfections(**wrong))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"imperfections": Imperfections(probe_variation=0.1)}, "variation=0.1: must be 0"),
        ({"imperfections": Imperfections(backlash_px=1.0)}, "backlash_px=1.0: must be 0: grid lines are not"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        RunConfig(**changes)


def test_a_wrong_probe_changes_nothing_but_the_probe(small_config):
    clean = simulate(small_config(probe=ZonePlateProbe()))[0]
    wrong = simulate(imperfect(small_config, defocus_um=9.0))[0]
    nu = np.fft.fftfreq(N) / 20e-9  # pixels of 640/32 nm
    wavelength = 6.62607015e-34 * 299792458 / (8e3 * 1.602176634e-19)
    kernel = np.exp(-1j * np.pi * wavelength * 9e-6 * (nu[:, None] ** 2 + nu**2))
    for role, data in wrong.items():
        for key in ("amplitudes", "positions", "objects", "groups"):
            np.testing.assert_array_equal(getattr(data, key), getattr(clean[role], key))
        further = np.fft.ifft2(np.fft.fft2(clean[role].probe[0]) * kernel)
        np.testing.assert_allclose(data.probe[0], further, atol=1e-5)
        assert data.photon_scale == clean[role].photon_scale and not data.exact and data.good is None


def test_wrong_positions_change_nothing_but_the_positions(small_config):
    clean = simulate(small_config(probe=ZonePlateProbe()))[0]
    wrong, truth = simulate(imperfect(small_config, position_px=0.7))
    for role, data in wrong.items():
        np.testing.assert_array_equal(data.amplitudes, clean[role].amplitudes)
        np.testing.assert_array_equal(data.probe, clean[role].probe)
        margin = (data.object_size - 96) // 2
        away = data.positions - margin - clean[role].positions
        assert away.std() == pytest.approx(0.7, rel=0.3 if role == "val" else 0.15) and margin >= 1
        inner = data.objects[:, margin:-margin, margin:-margin]
        np.testing.assert_array_equal(inner, clean[role].objects)
        assert data.exact and data.tiling.top == clean[role].tiling.top + margin
    assert len({data.region_size for data in wrong.values()}) == 1
    margin = (wrong["test"].object_size - 96) // 2
    np.testing.assert_array_equal(truth.positions, clean["test"].positions + margin)


def test_the_truth_explains_what_was_counted(small_config):
    """With true modes, flux, background and positions, squared deviations are those of Poisson noise."""
    values = {"nimgs_test": 2, "nphotons": 1e5, "hot_pixels": 2, "bad_pixels": 9, "seed": 1}
    data, truth = simulate(small_config(probe=ZonePlateProbe(), imperfections=HARD, **values))
    test = data["test"]
    chosen = np.arange(0, len(test.positions), 7)
    objects = truth.object[test.image]
    beams = ((objects[j], truth.probe, truth.positions[j], truth.flux[j] ** 0.5) for j in chosen)
    rate = np.array([np.fft.fftshift(intensity_of(*beam, truth.background)) for beam in beams])
    counts = np.asarray(test.amplitudes[chosen], float) ** 2
    seen = test.good & ~truth.hot
    squares = (counts - rate)[:, seen] ** 2 / rate[:, seen]
    assert squares.mean() == pytest.approx(1, abs=0.03)
    assert np.all(counts[:, ~test.good] == 0) and np.all(counts[:, truth.hot] > 5 * counts[:, seen].max())
    assert truth.hot.sum() == 2 and truth.background == 3.0
    assert (~test.good).sum() >= 3 * N and test.good[truth.hot].all()
    power = np.sum(np.abs(truth.probe) ** 2, axis=(1, 2))
    assert power[0] / power.sum() == pytest.approx(0.8, rel=1e-5)
    assert truth.flux.std() == pytest.approx(0.2, rel=0.3) and truth.flux.mean() == pytest.approx(1, abs=0.05)


def found_by_hand(data, truth, shift):
    """Return the result of LSQ-ML for the truth, shifted by whole pixels, with exact positions."""
    image = np.roll(truth.object[data.image[0]], shift, (0, 1))
    beam = Beam(
        (truth.probe / data.photon_scale).astype(np.complex64),
        (truth.positions[: len(data.positions)] + shift).astype(np.float32),
    )
    objects = np.broadcast_to(image, (data.n_images, *image.shape)).astype(np.complex64)
    made = Reconstruction(objects, np.ones(objects.shape, bool), beam, seconds=2.5, program="pty-chi 0")
    return LsqmlResult(made, np.array([0.3, 0.1]))


def test_lsqml_is_scored_beside_the_network(small_config, tmp_path, monkeypatch):
    config = small_config(
        probe=ZonePlateProbe(),
        imperfections=replace(HARD, scale_error=0.0),
        hot_pixels=1,
        models=("pinn", "lsqml"),
        model=UnrolledModel(stages=1, width=4, blocks=0),
        xla=XlaConfig(compile=False),
        iterative=LsqmlConfig(epochs=7),
        outer_offset_test=12,
    )
    without_pictures(monkeypatch)
    seen = []

    def reconstruct(data, settings, seed, advance, scratch):
        seen.append(data)
        advance(len(data.positions))
        return found_by_hand(data, read_truth(tmp_path / "run/recons/gt/truth.npz"), (1, -2))

    monkeypatch.setattr(grid_lines.lsqml, "reconstruct", reconstruct)
    folder = RunFolder(tmp_path / "run")
    grid_lines.run(config, folder)
    test = load_dataset(tmp_path / "run/datasets/N32/gs2/test.npz")
    np.testing.assert_array_equal(seen[0].amplitudes[:], test.amplitudes[:])
    np.testing.assert_array_equal(seen[0].positions, test.positions)
    np.testing.assert_array_equal(seen[0].probe, test.probe)
    rows = json.loads((tmp_path / "run/metrics.json").read_text())
    assert rows["lsqml"]["ssim"][0] > 0.99 and rows["lsqml"]["ssim"][1] > 0.99, "registered"
    assert rows["beam"]["lsqml"]["probe_error"] < 1e-3 and rows["beam"]["given"]["probe_error"] > 0.2
    assert rows["beam"]["lsqml"]["position_error_px"] == pytest.approx(0, abs=1e-4)
    assert rows["beam"]["given"]["position_error_px"] == pytest.approx(0.7, rel=0.15)

    def failing(*arguments):
        raise LsqmlError("lsqml: it broke")

    monkeypatch.setattr(grid_lines.lsqml, "reconstruct", failing)
    assert grid_lines.reconstruct_by_lsqml(config, test, folder) is None
