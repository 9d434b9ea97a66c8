"""The line objects: range, independence of the global generators, and their statistics by another method."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from ptycho.config import ConfigError
from ptycho.simulation.measured_like import line_amplitude


def test_canvas_is_cropped_to_its_centre_rows_before_columns():
    class ShortLine:
        """A vertical segment, rows 30–50 of column 55 on the canvas of 80: rows 10–30, column 35."""

        @staticmethod
        def integers(low, high, shape):
            return np.array([[30, 55, 50, 55]])

    canvas = np.zeros((80, 80))
    canvas[30:51, 55] = 1
    blurred = sum(w * gaussian_filter(canvas, s) for s, w in ((1, 1), (5, 2), (10, 5)))[20:60, 20:60]
    amplitude = line_amplitude(40, 1, ShortLine)
    np.testing.assert_allclose(amplitude, blurred / blurred.max(), atol=1e-12)
    assert np.unravel_index(amplitude.argmax(), amplitude.shape) == (20, 35)


def test_a_line_that_misses_the_object_is_an_error():
    class FarLine:
        @staticmethod
        def integers(low, high, shape):
            return np.array([[0, 0, 0, 5]])

    with pytest.raises(ConfigError, match=r"object.n_lines=1.*no line crosses"):
        line_amplitude(392, 1, FarLine)
