"""Pictures store their original values."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from ptycho.evaluation.display import ShownPhase
from ptycho_report.pictures import readable, shrink_phase


def opened(uri):
    head, _, text = uri.partition(",")
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(text)))


def test_values_are_read_back_to_sixteen_bits():
    """As the script of the page does: first + (last − first)·(256·red + green)/65535, where blue is not 0."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(37, 52))
    values[3:9, 5] = np.nan
    found = readable("phase", values, (-1.0, 1.0), "viridis", "rad", 640)
    red, green, blue = np.moveaxis(np.asarray(opened(found.uri).convert("RGB")).astype(float), -1, 0)
    back = found.first + (found.last - found.first) * (256 * red + green) / 65535
    np.testing.assert_array_equal(blue > 0, np.isfinite(values))
    known = np.isfinite(values)
    assert np.abs(back - values)[known].max() <= 0.51 * (found.last - found.first) / 65535
    assert (found.width, found.height) == (52, 37)


def test_phases_are_averaged_on_the_circle():
    phase = np.array([[3.0, -3.0, 0.5, np.nan], [3.1, -3.1, 0.1, 0.3]])
    small, factor = shrink_phase(ShownPhase(phase, "wrapped"), 2)
    assert factor == 2
    assert abs(small[0, 0]) == pytest.approx(np.pi)
    assert small[0, 1] == pytest.approx(0.3, abs=0.01)
    same, one = shrink_phase(ShownPhase(phase, "wrapped"), 4)
    assert one == 1 and same is phase
