"""The network of the learned prior: its symmetries, and its weights after a round trip."""

from functools import partial

import numpy as np
import pytest

from ptycho.networks import denoiser
from ptycho.networks.denoiser import ComplexConv, load_denoiser, new_denoiser
from ptycho.networks.layers import get_weights, set_weights

small = partial(new_denoiser, features=(4, 6, 8), blocks=(1, 1, 1))


@pytest.fixture(scope="module")
def network():
    """A network with random weights, which changes its input."""
    found, rng = small(), np.random.default_rng(0)
    weights = get_weights(found)
    set_weights(found, {key: 0.2 * rng.normal(size=w.shape).astype("f") for key, w in weights.items()})
    return found


def inputs_of(rng, height, width):
    shown = rng.normal(size=(1, height, width, 4)).astype("f")
    return shown, 0.3 * rng.normal(size=(1, height, width, 1)).astype("f")


def turned(pairs, phase):
    """``e^{iφ}`` times waves whose real parts come first."""
    real, imaginary = np.split(pairs, 2, axis=-1)
    wave = np.exp(1j * phase) * (real + 1j * imaginary)
    return np.concatenate([wave.real, wave.imag], axis=-1).astype("f")


def test_complex_convolution_is_a_sum_of_products():
    layer, rng = ComplexConv(2, seed=3), np.random.default_rng(1)
    shown = rng.normal(size=(1, 5, 4, 6)).astype("f")
    found = layer(shown).numpy()[0]
    wave = (shown[0, ..., :3] + 1j * shown[0, ..., 3:]).astype(complex)
    kernel = layer.real.numpy() + 1j * layer.imaginary.numpy()
    for row, column, out in np.ndindex(5, 4, 2):
        total = 0j
        for i, j, channel in np.ndindex(3, 3, 3):
            r, c = row + i - 1, column + j - 1
            if 0 <= r < 5 and 0 <= c < 4:
                total += kernel[i, j, channel, out] * wave[r, c, channel]
        assert found[row, column, out] == pytest.approx(total.real, abs=1e-5)
        assert found[row, column, 2 + out] == pytest.approx(total.imag, abs=1e-5)


@pytest.mark.parametrize("phase", [0.7, -2.9])
def test_the_phase_of_all_inputs_is_that_of_the_output(network, phase):
    shown, noise = inputs_of(np.random.default_rng(3), 12, 20)
    found = network([shown, noise]).numpy()
    assert np.abs(found).max() > 0.1
    other, tolerance = network([turned(shown, phase), noise]), 1e-4 * np.abs(found).max()
    np.testing.assert_allclose(other, turned(found, phase), atol=tolerance)


def test_a_new_network_changes_nothing():
    shown, noise = inputs_of(np.random.default_rng(6), 8, 12)
    assert not np.any(small(1)([shown, noise]).numpy())


def test_weights_come_back_from_their_file(network, tmp_path, monkeypatch):
    monkeypatch.setattr(denoiser, "new_denoiser", small)
    np.savez(tmp_path / "weights.npz", **get_weights(network))
    shown, noise = inputs_of(np.random.default_rng(7), 8, 8)
    again = load_denoiser(tmp_path / "weights.npz")
    np.testing.assert_array_equal(again([shown, noise]), network([shown, noise]))
    with pytest.raises(ValueError, match="do not belong to this network"):
        np.savez(tmp_path / "other.npz", kernel=np.zeros(3))
        load_denoiser(tmp_path / "other.npz")
