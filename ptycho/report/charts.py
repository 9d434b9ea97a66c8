"""Curves and places as SVG in the page: text stays text, lines have the colour of the text around them.

No attribute ``style`` is used, which a strict policy of the page would refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from ptycho.evaluation.lengths import round_down
from ptycho.report.pictures import MAGMA, in_colours

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 14, 14, 44
MOST_POINTS, MOST_PLACES = 600, 2000
LINE, LETTERS = 17, 44  # height of a line of the key, its length
COLOURS = ("c0", "c1", "c2", "c3", "c4", "c5")  # classes of the style sheet


@dataclass(frozen=True, eq=False)
class Curve:
    """``y (n,)`` over ``x (n,)``, with its name in the key; an empty one has none."""

    x: np.ndarray
    y: np.ndarray
    name: str = ""


@dataclass(frozen=True)
class Level:
    """A dashed line across the chart, with its text; ``vertical``: down it."""

    value: float
    text: str
    vertical: bool = False


@dataclass(frozen=True)
class Axis:
    """One axis: its label, ends, and whether it is logarithmic."""

    label: str
    low: float
    high: float
    logarithmic: bool = False

    def share(self, values: np.ndarray) -> np.ndarray:
        """Where values lie between the ends, 0 to 1."""
        if self.logarithmic:
            low, high = np.log10(self.low), np.log10(self.high)
            return (np.log10(np.maximum(values, 1e-300)) - low) / (high - low)
        return (values - self.low) / (self.high - self.low)

    @property
    def ticks(self) -> list[float]:
        """Round values between the ends."""
        if self.logarithmic and self.high / self.low >= 10:
            first, last = np.ceil(np.log10(self.low)), np.floor(np.log10(self.high))
            if last - first < 2:  # one decade or two: parts of them, too
                parts = (k * 10.0**power for power in np.arange(first - 1, last + 1) for k in (1, 2, 5))
                return [value for value in parts if self.low <= value <= self.high]
            return [10.0**power for power in np.arange(first, last + 1, max(1, (last - first) // 4))]
        return round_ticks(self.low, self.high)


def tick_text(value: float) -> str:
    """A number at a tick, as short as the room beside the axis is narrow: 1.5e5."""
    return f"{value:.4g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


def round_ticks(low: float, high: float) -> list[float]:
    """Three to six round values between two."""
    step = round_down((high - low) / 3)
    return [float(k * step) for k in range(int(np.ceil(low / step - 1e-9)), int(high / step + 1e-9) + 1)]


def axis_of(label: str, values: np.ndarray, logarithmic: bool = False) -> Axis:
    """An axis that holds some values with a little room."""
    finite = values[np.isfinite(values) & ((values > 0) | (not logarithmic))]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if high <= low:
        high = low + (abs(low) or 1.0) * 1e-3
    if logarithmic and low > 0:
        return Axis(label, low / 1.1, high * 1.1, True)
    return Axis(label, low - 0.03 * (high - low), high + 0.03 * (high - low))


def line_chart(
    curves: Sequence[Curve], x: Axis, y: Axis, description: str, levels: Sequence[Level] = ()
) -> Markup:
    """Curves in one chart; ``description`` is what is read to those who do not see it."""
    parts = [*_frame(x, y)]
    heights = np.concatenate([y.share(np.asarray(curve.y, float)) for curve in curves])
    low_key = float(np.nanmean(heights)) > 0.5  # where the curves are not
    upright = [level for level in levels if level.vertical]  # their texts stand above the key and each other
    lines = sum(bool(curve.name) for curve in curves) if low_key else 0
    for level in levels:
        parts += _level(level, x, y, lines + upright.index(level) if level.vertical else 0)
    first = HEIGHT - BOTTOM - 8 - LINE * len(curves) if low_key else TOP
    for number, curve in enumerate(curves):
        parts += _curve(curve, x, y, number, first + LINE * (number + 1))
    return _svg(parts, description, HEIGHT)


def place_chart(
    places: np.ndarray,
    unit: str,
    description: str,
    values: np.ndarray | None = None,
    ends: tuple[float, float] = (0.0, 1.0),
    arrows: np.ndarray | None = None,
) -> Markup:
    """Scan positions ``(J, 2)`` (row, col) with equal axes: coloured by ``values (J,)``, or with arrows.

    ``arrows``: ``(J, 2)``, in the unit of the places. Of many places some are drawn, evenly chosen.
    """
    some = np.unique(np.linspace(0, len(places) - 1, MOST_PLACES).astype(int))
    shown = places[some]
    middle, reach = (shown.max(axis=0) + shown.min(axis=0)) / 2, max(float(np.ptp(shown, axis=0).max()), 1e-9)
    half = 0.54 * reach
    side = WIDTH - LEFT - RIGHT
    x = Axis(f"column / {unit}", middle[1] - half, middle[1] + half)
    y = Axis(f"row / {unit}", middle[0] + half, middle[0] - half)
    parts = [*_frame(x, y, side)]
    at = _points(shown[:, 1], shown[:, 0], x, y, side)
    radius = float(np.clip(0.3 * side / np.sqrt(len(shown)), 1.5, 6))
    if arrows is not None:
        rows, cols = (shown + arrows[some]).T
        tips = _points(cols, rows, x, y, side)
        for (px, py), (qx, qy) in zip(at, tips, strict=True):
            parts.append(
                f'<path class="arrow" d="M{px:.1f} {py:.1f}L{qx:.1f} {qy:.1f}{_head(qx - px, qy - py)}"/>'
            )
            parts.append(f'<circle class="dot" cx="{px:.1f}" cy="{py:.1f}" r="1.3"/>')
    else:
        fills = _fills(np.ones(len(some)) if values is None else values[some], ends)
        for (px, py), fill in zip(at, fills, strict=True):
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{radius:.1f}" fill="{fill}"/>')
    return _svg(parts, description, side + TOP + BOTTOM)


def _head(dx: float, dy: float, longest: float = 6.0, share: float = 0.4) -> str:
    """Return the two strokes of an arrow's head, ``l`` steps of a path that has come along ``(dx, dy)``.

    Args:
        longest: of a stroke in units of the drawing; share: of the arrow, of a short one.
    """
    length = float(np.hypot(dx, dy))
    size = min(longest, share * length) / max(length, 1e-9)
    turns = [np.array([[c, -s], [s, c]]) for c, s in ((-0.87, 0.5), (-0.87, -0.5))]  # by ±150°
    (ax, ay), (bx, by) = (size * turn @ (dx, dy) for turn in turns)
    return f"l{ax:.1f} {ay:.1f}m{-ax:.1f} {-ay:.1f}l{bx:.1f} {by:.1f}"


def _fills(values: np.ndarray, ends: tuple[float, float]) -> list[str]:
    rgba = in_colours(values[None].astype(float), ends, MAGMA)[0]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b, _ in rgba.tolist()]


def _points(xs: np.ndarray, ys: np.ndarray, x: Axis, y: Axis, side: float | None = None) -> np.ndarray:
    """Values → places in the SVG, ``(n, 2)``."""
    width, height = WIDTH - LEFT - RIGHT, side or HEIGHT - TOP - BOTTOM
    return np.stack([LEFT + width * x.share(xs), TOP + height * (1 - y.share(ys))], axis=1)


def _frame(x: Axis, y: Axis, side: float | None = None) -> Iterator[str]:
    width, height = WIDTH - LEFT - RIGHT, side or HEIGHT - TOP - BOTTOM
    yield f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{width}" height="{height}"/>'
    for value in x.ticks:
        px = LEFT + width * float(x.share(np.array(value)))
        yield f'<path class="tick" d="M{px:.1f} {TOP + height}v5"/>'
        yield f'<text x="{px:.1f}" y="{TOP + height + 18}" text-anchor="middle">{tick_text(value)}</text>'
    for value in y.ticks if y.low < y.high else round_ticks(y.high, y.low):
        py = TOP + height * (1 - float(y.share(np.array(value))))
        yield f'<path class="tick" d="M{LEFT} {py:.1f}h-5"/>'
        yield f'<text x="{LEFT - 8}" y="{py + 4:.1f}" text-anchor="end">{tick_text(value)}</text>'
    across, down = LEFT + width / 2, TOP + height / 2
    yield f'<text x="{across}" y="{TOP + height + 37}" text-anchor="middle">{escape(x.label)}</text>'
    yield f'<text transform="translate(14 {down}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>'


def _level(level: Level, x: Axis, y: Axis, row: int) -> Iterator[str]:
    if level.vertical:
        (px, _), *_ = _points(np.array([level.value]), np.array([y.low]), x, y)
        anchor, dx = ("end", -4) if px > WIDTH * 0.6 else ("start", 4)
        yield f'<path class="level" d="M{px:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        place = f'x="{px + dx:.1f}" y="{HEIGHT - BOTTOM - 8 - LINE * row}" text-anchor="{anchor}"'
        yield f"<text {place}>{escape(level.text)}</text>"
        return
    (_, py), *_ = _points(np.array([x.low]), np.array([level.value]), x, y)
    yield f'<path class="level" d="M{LEFT} {py:.1f}H{WIDTH - RIGHT}"/>'
    yield f'<text x="{LEFT + 6}" y="{py - 4:.1f}">{escape(level.text)}</text>'


def _curve(curve: Curve, x: Axis, y: Axis, number: int, height: float) -> Iterator[str]:
    some = np.unique(np.linspace(0, max(len(curve.x) - 1, 0), MOST_POINTS).astype(int))[: len(curve.x)]
    points = _points(np.asarray(curve.x, float)[some], np.asarray(curve.y, float)[some], x, y)
    points = points[np.isfinite(points).all(axis=1)]
    points[:, 1] = np.clip(points[:, 1], TOP, HEIGHT - BOTTOM)
    kind = COLOURS[number % len(COLOURS)]
    if len(points):
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in points)
        yield f'<path class="curve {kind}" d="M{path}"/>'
    if curve.name:
        yield f'<path class="curve {kind}" d="M{WIDTH - RIGHT - 24} {height - 4}h18"/>'
        name = curve.name if len(curve.name) <= LETTERS else f"{curve.name[: LETTERS - 1]}…"
        yield f'<text x="{WIDTH - RIGHT - 30}" y="{height}" text-anchor="end">{escape(name)}</text>'


def _svg(parts: Sequence[str], description: str, height: float) -> Markup:
    head = (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(description)}">'
    )
    return Markup(f"{head}{''.join(parts)}</svg>")
