"""Charts: places by hand, text escaped, and XML that any reader takes."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from ptycho.report.charts import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Curve,
    Level,
    axis_of,
    line_chart,
    place_chart,
)


def points_of(path):
    return [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_a_curve_goes_from_corner_to_corner():
    x = np.array([0.0, 0.5, 1.0])
    chart = line_chart([Curve(x, np.array([0.0, 5.0, 10.0]))], Axis("x", 0, 1), Axis("y", 0, 10), "a line")
    (path,) = [
        p.get("d") for p in ElementTree.fromstring(str(chart)).iter("path") if "curve" in p.get("class")
    ]
    middle = ((LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2)
    assert points_of(path) == [(LEFT, HEIGHT - BOTTOM), middle, (WIDTH - RIGHT, TOP)]


def test_text_is_escaped_and_no_style_is_used():
    evil = '<script>alert("1")</script>'
    curve = Curve(np.arange(3.0), np.arange(3.0), evil)
    chart = str(
        line_chart([curve], Axis(evil, 0, 2), Axis(evil, 0, 2), evil, [Level(1, evil), Level(1, evil, True)])
    )
    assert "<script" not in chart and "style=" not in chart
    root = ElementTree.fromstring(chart)
    assert root.get("aria-label") == evil
    assert sum((text.text or "").startswith("<script>") for text in root.iter("text")) == 5


def test_decades_on_a_logarithmic_axis():
    axis = axis_of("loss", np.array([0.002, 300.0, np.nan, -1.0]), logarithmic=True)
    assert axis.ticks == pytest.approx([0.01, 0.1, 1, 10, 100])
    assert axis.share(np.array([axis.low, axis.high])) == pytest.approx([0, 1])


def test_rows_go_down_and_columns_to_the_right():
    places = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    chart = place_chart(places, "µm", "places", np.array([0.0, 0.5, 1.0]))
    circles = [
        (float(c.get("cx")), float(c.get("cy"))) for c in ElementTree.fromstring(str(chart)).iter("circle")
    ]
    (x0, y0), (x1, y1), (x2, y2) = circles
    assert x1 == x0 and y1 > y0 and y2 == y0 and x2 > x0
    assert x2 - x0 == pytest.approx(y1 - y0, abs=0.2)


def test_arrows_are_as_long_as_they_say():
    places = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    chart = place_chart(places, "µm", "moves", arrows=np.array([[0.0, 5.0], [0.0, 0.0], [2.5, 0.0]]))
    root = ElementTree.fromstring(str(chart))
    arrows = [points_of(p.get("d").split("l")[0]) for p in root.iter("path") if p.get("class") == "arrow"]
    dots = [float(c.get("cx")) for c in root.iter("circle")]
    pixel = (max(dots) - min(dots)) / 10
    (tail, tip), _, (start, end) = (arrow[:2] for arrow in arrows)
    assert tip[0] - tail[0] == pytest.approx(5 * pixel, abs=0.2) and tip[1] == tail[1]
    assert end[1] - start[1] == pytest.approx(2.5 * pixel, abs=0.2) and end[0] == start[0]
