"""Figures show their arrays, with limits that allow a comparison."""

import numpy as np

from ptycho.evaluation import figures

TRUTH = np.array([[1.0, 2, 3], [4, 5, 6]])[:, :, None, None] * np.ones((8, 8))
TRUTH = TRUTH.transpose(0, 2, 1, 3).reshape(16, 24) / 6 * np.exp(0.5j * np.linspace(-1, 1, 24))


def panels(figure):
    """Title → axes, for all axes that show an image with a title."""
    return {axes.get_title(): axes for axes in figure.axes if axes.images and axes.get_title()}


def test_error_map_is_signed_and_wraps_the_phase():
    aligned = 1.5 * TRUTH * np.exp(1j * (2 * np.pi - 0.2))
    figure = figures.amp_phase_error("pinn", aligned, TRUTH)
    amplitude, phase = (axes.images[0] for axes in panels(figure).values())
    np.testing.assert_allclose(amplitude.get_array(), 0.5 * np.abs(TRUTH))
    np.testing.assert_allclose(phase.get_array(), -0.2, atol=1e-12)
    for image in (amplitude, phase):
        low, high = image.get_clim()
        assert low == -high
    assert "phase error / rad, RMS 0.2" in list(panels(figure))[1]
