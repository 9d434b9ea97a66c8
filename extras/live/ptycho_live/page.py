"""Show a live scan: a picture, numbers, and a page that reloads itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from ptycho.evaluation.display import length_text
from ptycho.evaluation.scan_figures import Picture, show_channel, show_probe
from ptycho.files.atomic import write_atomically, write_text

if TYPE_CHECKING:  # it takes TensorFlow
    from ptycho_live.state import LiveState

PICTURE, NUMBERS, PAGE = "live.png", "live.json", "live.html"
COLOURED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
GREY: Any = dict.fromkeys(COLOURED, "0.5")  # is read on white and on black
OPEN = ("open", "The scan is still being measured: the image is preliminary, and was not assessed.")
UNASSESSED = ("open", "The scan is complete. Its image has not been assessed yet.")
NAMES = {  # of ``live.json`` → name on the page, unit
    "watch": ("source", ""),
    "seconds": ("time since the start", "s"),
    "ended": ("how the scan ended", ""),
    "expected": ("frames expected", ""),
    "frames": ("frames received", ""),
    "frames_without_position": ("frames without a position", ""),
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
    "pattern_steps_per_s": ("speed: patterns × solver steps per second", "1/s"),
    "deviance_holdout": ("misfit of held-out patterns: deviance per pixel", ""),
    "object": ("rows × columns of the object", "px"),
    "pixel_m": ("pixel size, row and column", ""),
}
WARNINGS = ("faults", "problem", "warnings")


def write_numbers(folder: Path, numbers: Mapping[str, Any], refresh_s: float) -> None:
    """Write ``live.json`` and ``live.html``; NaN and infinity are refused."""
    write_text(folder / NUMBERS, json.dumps(numbers, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
    write_page(folder, numbers, refresh_s, UNASSESSED if numbers.get("state") == "complete" else OPEN)


def write_page(
    folder: Path,
    numbers: Mapping[str, Any],
    refresh_s: float | None,  # after which the page loads itself again; None: never
    verdict: tuple[str, str],  # its level (good, weak, bad, open), and its sentence
    report: str = "",  # name of the report beside the page, if there is one
) -> None:
    """Write ``live.html``, in which every text is escaped."""
    templates = Environment(loader=PackageLoader("ptycho_live"), autoescape=True, undefined=StrictUndefined)
    page = templates.get_template("live.html.j2").render(
        title=f"{numbers.get('state', '')}: {Path(str(numbers.get('watch', ''))).name}",
        refresh_s=None if refresh_s is None else max(1, round(refresh_s)),
        verdict=verdict,
        report=report,
        picture=f"{PICTURE}?{numbers.get('seconds', 0):.0f}" if (folder / PICTURE).is_file() else "",
        rows=[row for name, value in numbers.items() if name != "state" and (row := _row(name, value))[1]],
    )
    write_text(folder / PAGE, page)


def _row(name: str, value: Any) -> tuple[str, str, str]:
    """Return a number's name in words, the number with its unit, empty if it is unknown, and its class."""
    label, unit = NAMES.get(name, (name.replace("_", " "), ""))
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {count}" for key, count in value.items())
    elif name == "pixel_m" and value:
        text = " × ".join(length_text(1e9 * pitch) for pitch in value)
    elif isinstance(value, list):
        text = (" × " if name == "object" else "; ").join(map(str, value))
    else:
        text = "" if value is None else str(value)
    return label, f"{text} {unit}".strip() if text else "", "warn" if name in WARNINGS else ""


@rc_context(GREY)
def write_picture(
    folder: Path,
    state: LiveState,
    course: list[tuple[float, float]],  # seconds, and the deviance per pixel of the held-out patterns
    title: str,
    side: int = 700,  # of the pictures of the object in pixels, at most
    share: float = 0.1,  # of the strongest illumination, above which the object is shown, as in the report
) -> None:
    """Write ``live.png``, clear around amplitude and phase, the strongest mode, and the misfit over time."""
    illumination, pixel_m = state.illumination, state.pixel_m
    covered, bright = illumination > 0, illumination > share * illumination.max()
    picture = Picture.of(state.filled(), covered, bright, state.estimate.modes[0], side)
    figure = Figure(figsize=(14, 6.2), layout="constrained")
    places = figure.subplot_mosaic(
        [["amplitude", "phase", "probe"], ["amplitude", "phase", "course"]], width_ratios=[2.2, 2.2, 1.1]
    )
    headings = {"amplitude": "amplitude", "phase": "phase, its plane removed"}
    for (name, heading), channel in zip(headings.items(), picture.channels, strict=True):
        show_channel(figure, places[name], channel, pixel_m, picture.pixels)
        places[name].set_title(heading)
    show_probe(places["probe"], picture.probe, pixel_m)
    places["probe"].set_title("probe")
    _course(places["course"], course)
    figure.suptitle(title, fontsize=11)
    settings: Any = {"format": "png", "dpi": 90, "transparent": True}
    write_atomically(folder / PICTURE, lambda file: figure.savefig(file, **settings))


def _course(axes: Axes, course: list[tuple[float, float]], ratio: float = 3) -> None:
    """Draw the misfit over time, on a logarithmic axis where it varies by more than ``ratio``."""
    if course:
        seconds, misfits = np.array(course).T
        axes.plot(seconds, misfits, "-")
        if misfits.min() > 0 and misfits.max() > ratio * misfits.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_title("misfit of held-out patterns", fontsize="medium")
    axes.set(xlabel="time / s", ylabel="deviance per pixel")
