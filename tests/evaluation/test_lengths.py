"""Round numbers and lengths."""

import pytest

from ptycho.evaluation.lengths import scale_length


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
