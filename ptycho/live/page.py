"""What is shown of a growing scan: a picture, numbers, and a page that reloads itself."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogLocator, NullFormatter

from ptycho.evaluation.lengths import length_text
from ptycho.evaluation.scan_figures import Picture, Pixel, show_channel, show_probe
from ptycho.files.atomic import write_atomically

PICTURE, NUMBERS, PAGE = "live.png", "live.json", "live.html"
LIT = 0.1  # of the median illumination of what is illuminated: the covered area
DECADES = 3  # times the smallest: a misfit that varies more has a logarithmic axis
OPEN = ("open", "The scan is still being measured: the image is preliminary, and was not assessed.")
UNASSESSED = (
    "open",
    "The scan is complete. Its image was not assessed yet; the scan run that follows does so.",
)

NAMES = {  # of ``live.json`` → name on the page, unit
    "watch": ("source", ""),
    "seconds": ("time since the start", "s"),
    "ended": ("how the scan ended", ""),
    "expected": ("frames expected", ""),
    "frames": ("frames received", ""),
    "frames_without_position": ("frames without a position", ""),
    "positions_without_frame": ("positions without a frame", ""),
    "gaps": ("missing frame numbers", ""),
    "patterns": ("patterns: frames with a position", ""),
    "rate_in_hz": ("patterns received per second", "Hz"),
    "faults": ("faults of the data", ""),
    "patterns_used": ("patterns fitted", ""),
    "patterns_held_out": ("patterns held out", ""),
    "isolated_patterns": ("patterns far from all others", ""),
    "backlog": ("patterns waiting", ""),
    "rate_used_hz": ("patterns fitted per second", "Hz"),
    "lag_s": ("longest delay of the last patterns", "s"),
    "longest_lag_s": ("longest delay of all patterns", "s"),
    "updates_per_pattern": ("mean updates of a pattern", ""),
    "pattern_steps_per_s": ("speed: patterns × solver steps per second", "1/s"),
    "deviance_holdout": ("misfit of held-out patterns: deviance per pixel", ""),
    "covered_um2": ("illuminated area", "µm²"),
    "object": ("rows × columns of the object", "px"),
    "pixel_m": ("pixel size, row and column", ""),
}
WARNINGS = ("faults", "problem", "warnings")

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{refresh}
<title>{title}</title><style>
:root {{ --ink: #1b1e23; --soft: #545b66; --paper: #fff; --panel: #f3f5f8; --link: #0b57a4; --good: #17632f;
  --weak: #7a4b00; --bad: #a31919; --open: #454c57; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e8eaee; --soft: #aeb6c2; --paper: #14161a;
  --panel: #1e2127; --link: #86b9f5; --good: #7fd49a; --weak: #f0b85a; --bad: #ff9a90; --open: #c3c9d3; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 1.2em; background: var(--paper); color: var(--ink); }}
img {{ max-width: 100%; }} a {{ color: var(--link); }} table {{ border-collapse: collapse; }}
td {{ padding: 0.15em 1.2em 0.15em 0; vertical-align: top; }} td:first-child {{ color: var(--soft); }}
.verdict {{ border-left: 6px solid var(--open); background: var(--panel); padding: 0.6rem 1rem; }}
.verdict.good {{ border-color: var(--good); }} .verdict.weak {{ border-color: var(--weak); }}
.verdict.bad {{ border-color: var(--bad); }} .warn {{ color: var(--bad); }}
</style></head><body>
"""


def write_numbers(folder: Path, numbers: Mapping[str, Any], refresh_s: float) -> None:
    """``live.json`` and ``live.html``: a table of ``numbers``; NaN and infinity are refused."""
    text = json.dumps(numbers, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_atomically(folder / NUMBERS, lambda file: file.write(text.encode()))
    write_page(folder, numbers, refresh_s, UNASSESSED if numbers.get("state") == "complete" else OPEN)


def write_page(
    folder: Path,
    numbers: Mapping[str, Any],
    refresh_s: float | None,
    verdict: tuple[str, str],
    report: str = "",
) -> None:
    """Write ``live.html``.

    Args:
        refresh_s: after which the page loads itself again; None: never.
        verdict: its level (``good``, ``weak``, ``bad``, ``open``), and its sentence.
        report: name of the report beside the page; empty: there is none.
    """
    page = _page(numbers, refresh_s, verdict, report, (folder / PICTURE).is_file())
    write_atomically(folder / PAGE, lambda file: file.write(page.encode()))


def _page(
    numbers: Mapping[str, Any],
    refresh_s: float | None,
    verdict: tuple[str, str],
    report: str,
    pictured: bool,
) -> str:
    title = html.escape(f"{numbers.get('state', '')}: {Path(str(numbers.get('watch', ''))).name}")
    seconds = None if refresh_s is None else max(1, round(refresh_s))
    refresh = "" if seconds is None else f'<meta http-equiv="refresh" content="{seconds}">'
    level, sentence = map(html.escape, verdict)
    link = f' <a href="{html.escape(report)}">Report of the run</a>' if report else ""
    stamp = f"{numbers.get('seconds', 0):.0f}"
    picture = (
        f'<img src="{PICTURE}?{stamp}" alt="the object so far">' if pictured else "<p>No picture yet.</p>"
    )
    return "".join(
        [
            HEAD.format(refresh=refresh, title=title),
            f"<h1>{title}</h1>\n",
            f'<p class="verdict {level}"><strong>{sentence}</strong>{link}</p>\n{picture}\n<table>\n',
            *(_row(name, value) for name, value in numbers.items() if name != "state"),
            "</table>\n</body></html>\n",
        ]
    )


def _row(name: str, value: Any) -> str:
    """A number with its name in words and its unit; empty where there is nothing to say."""
    label, unit = NAMES.get(name, (name.replace("_", " "), ""))
    text = _text(name, value)
    if not text:
        return ""
    kind = ' class="warn"' if name in WARNINGS else ""
    shown = html.escape(f"{text} {unit}".strip())
    return f"<tr><td>{html.escape(label)}</td><td{kind}>{shown}</td></tr>\n"


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {count}" for key, count in value.items())
    if name == "pixel_m":
        return " × ".join(length_text(1e9 * pitch) for pitch in value)
    if isinstance(value, list):
        return (" × " if name == "object" else "; ").join(map(str, value))
    return str(value)


def write_picture(folder: Path, figure: Figure) -> None:
    """Write ``live.png``, clear around the images, with text that is read on white and on black."""
    for text in figure.findobj(Text):
        if text.get_color() == "black":
            text.set_color("0.5")
    for axes in figure.axes:
        axes.tick_params(colors="0.5")
        for spine in axes.spines.values():
            spine.set_edgecolor("0.5")

    def save(file: IO[bytes]) -> None:
        figure.savefig(file, format="png", dpi=90, transparent=True)

    write_atomically(folder / PICTURE, save)


def draw(
    image: np.ndarray,
    light: np.ndarray,
    probe: np.ndarray,
    course: list[tuple[float, float]],
    pixel_m: Pixel,
    title: str,
    side: int = 700,
    share: float = 0.1,
) -> Figure:
    """Amplitude and phase of an object ``(H, W)``, the strongest mode, and the course of the misfit.

    Args:
        light: ``(H, W)``, the illumination of a pixel; somewhere it is not zero.
        probe: ``(N, N)`` complex.
        course: seconds, and the deviance per pixel of the held-out patterns.
        pixel_m: of the object.
        side: of its pictures in pixels, at most.
        share: of the strongest illumination, above which the object is shown, as in the report.
    """
    picture = Picture.of(image, light > 0, light > share * light.max(), probe, side)
    figure = Figure(figsize=(14, 6.2), layout="constrained")
    places = figure.subplot_mosaic(
        [["amplitude", "phase", "probe"], ["amplitude", "phase", "course"]], width_ratios=[2.2, 2.2, 1.1]
    )
    for name, channel in zip(("amplitude", "phase"), picture.channels, strict=True):
        show_channel(figure, places[name], channel, pixel_m, picture.pixels)
    show_probe(places["probe"], picture.probe, pixel_m)
    for name, text in (("amplitude", "amplitude"), ("phase", "phase, its plane removed"), ("probe", "probe")):
        places[name].set_title(text)
    _course(places["course"], course)
    figure.suptitle(title, fontsize=11)
    return figure


def _course(axes: Axes, course: list[tuple[float, float]]) -> None:
    if course:
        seconds, misfits = np.array(course).T
        axes.plot(seconds, misfits, "-")
        if misfits.min() > 0 and misfits.max() > DECADES * misfits.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title("misfit of held-out patterns", fontsize="medium")
    axes.set(xlabel="time / s", ylabel="deviance per pixel")
