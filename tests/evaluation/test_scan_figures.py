"""Figures of measured scans: scales by the object, no empty panel or title; lengths, and smaller pictures."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ptycho.evaluation.display import scale_length
from ptycho.evaluation.scan_figures import Picture, draw_reconstruction, side_by_side

ROWS, COLS = np.mgrid[:41, :52]
RADIUS = np.hypot(ROWS - 20, COLS - 26)
OBJECT = (0.8 + 0.1 * np.cos(ROWS / 3)) * np.exp(0.3j * np.sin(COLS / 4))
PROBE = np.exp(-((np.arange(9) - 4.0) ** 2) / 8)[:, None] * np.ones(9, complex)
MASK, ILLUMINATED = RADIUS < 19, RADIUS < 13


def shown_in(figure):
    return [ax for ax in figure.axes if ax.images and ax.get_label() != "<colorbar>"]


@pytest.mark.parametrize("side", [1200, 10])
def test_residues_are_marked_where_they_are(side):
    """One vortex is at (20.5, 26.5), one outside the shown part; also in a downsampled picture."""
    z = (COLS - 26.5) + 1j * (ROWS - 20.5)
    rim = (COLS - 26.5) + 1j * (ROWS - 5.5)
    picture = Picture.of(z * rim / np.abs(z * rim), MASK, ILLUMINATED, PROBE, side)
    where = (np.array([20.5, 26.5]) - (8, 14) + 0.5) / picture.pixels - 0.5
    np.testing.assert_allclose(picture.residues, [[*where, -1]])
    axes = shown_in(draw_reconstruction(picture, None, "a"))[1]
    np.testing.assert_allclose(axes.collections[1].get_offsets(), where[None, ::-1])
    assert "1 residue (phase vortices)" in axes.get_xlabel()


@pytest.mark.parametrize("value, mask", [(np.nan, MASK), (0.0, MASK), (0.0, np.zeros_like(MASK))])
def test_an_object_that_is_nothing_is_drawn(value, mask):
    picture = Picture.of(np.full(MASK.shape, value, complex), mask, ILLUMINATED, PROBE)
    other = Picture.of(OBJECT, MASK, ILLUMINATED, PROBE)
    FigureCanvasAgg(side_by_side({"a": picture, "b": other}, (1e-9, 1e-9))).draw()


@pytest.fixture
def axes():
    return Figure().add_subplot()


@pytest.mark.parametrize(
    ("width", "pixel", "length", "text"),
    [
        (100, 10.0, 20.0, "200 nm"),
        (100, None, 20.0, "20 px"),
        (640, 20.0, 100.0, "2 µm"),
        (50, 0.03, 20 / 3, "2 Å"),
    ],
)
def test_the_scale_bar_is_round_and_as_long_as_it_says(width, pixel, length, text):
    pixels, shown = scale_length(width, pixel)
    assert shown == text and pixels == pytest.approx(length)
    assert width / 13 < pixels <= width / 5 * 1.0001
