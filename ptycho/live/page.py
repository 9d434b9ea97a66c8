"""What is shown of a growing scan: a picture, numbers, and a page that reloads itself."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from ptycho.evaluation.scan_figures import level_phase, scale_bar
from ptycho.files.atomic import write_atomically

PICTURE, NUMBERS, PAGE = "live.png", "live.json", "live.html"
LIT = 0.1  # of the median light of what is lit: what sets the scales
DECADES = 3  # times the smallest: a misfit that varies more has a logarithmic axis
LARGEST = 700  # pixels of a picture's side; larger objects are drawn coarser

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="{seconds}">
<title>{title}</title><style>
body {{ font: 15px/1.4 system-ui, sans-serif; margin: 1.2em; background: #fff; color: #222; }}
img {{ max-width: 100%; }} table {{ border-collapse: collapse; margin-top: 0.8em; }}
td {{ padding: 0.15em 1.2em 0.15em 0; vertical-align: top; }} td:first-child {{ color: #666; }}
.warn {{ color: #a40000; }}
</style></head><body>
"""


def write_numbers(folder: Path, numbers: Mapping[str, Any], refresh_s: float) -> None:
    """``live.json`` and ``live.html``: a table of ``numbers``; NaN and infinity are refused."""
    text = json.dumps(numbers, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    write_atomically(folder / NUMBERS, lambda file: file.write(text.encode()))
    page = _page(numbers, refresh_s, (folder / PICTURE).is_file())
    write_atomically(folder / PAGE, lambda file: file.write(page.encode()))


def _page(numbers: Mapping[str, Any], refresh_s: float, pictured: bool) -> str:
    title = f"{numbers.get('state', '')}: {Path(str(numbers.get('watch', ''))).name}"
    parts = [HEAD.format(seconds=max(1, round(refresh_s)), title=html.escape(title))]
    stamp = f"{numbers.get('seconds', 0):.0f}"
    parts.append(
        f'<img src="{PICTURE}?{stamp}" alt="the object so far">\n' if pictured else "<p>No picture yet.</p>\n"
    )
    parts.append("<table>\n")
    for name, value in numbers.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else value
        if shown not in (None, "", []):
            kind = ' class="warn"' if name in ("faults", "problem", "warnings") else ""
            parts.append(
                f"<tr><td>{html.escape(name.replace('_', ' '))}</td>"
                f"<td{kind}>{html.escape(str(shown))}</td></tr>\n"
            )
    return "".join([*parts, "</table>\n</body></html>\n"])


def write_picture(folder: Path, figure: Figure) -> None:
    write_atomically(folder / PICTURE, lambda file: figure.savefig(file, format="png", dpi=90))


def draw(
    image: np.ndarray,
    light: np.ndarray,
    probe: np.ndarray,
    course: list[tuple[float, float]],
    pixel_m: tuple[float, float] | None,
    title: str,
) -> Figure:
    """Amplitude and phase of an object ``(H, W)``, the strongest mode, and the course of the misfit.

    Args:
        light: ``(H, W)``, how much fell on a pixel; somewhere some did.
        probe: ``(N, N)``.
        course: seconds, and the deviance of the patterns that are kept out.
        pixel_m: of the object.
    """
    lit = light > LIT * np.median(light[light > 0])
    rows, columns = (np.flatnonzero(lit.any(axis=axis)) for axis in (1, 0))
    step = max(1, -(-max(len(rows), len(columns)) // LARGEST))
    part = slice(rows[0], rows[-1] + 1, step), slice(columns[0], columns[-1] + 1, step)
    image, lit = image[part], lit[part]
    amplitude, phase = (np.where(lit, values, np.nan) for values in (np.abs(image), level_phase(image, lit)))
    figure = Figure(figsize=(13, 5.6), layout="constrained")
    places = figure.subplot_mosaic(
        [["amplitude", "phase", "probe"], ["amplitude", "phase", "course"]], width_ratios=[2.2, 2.2, 1]
    )
    for name, values, colours in (("amplitude", amplitude, "gray"), ("phase", phase, "viridis")):
        low, high = np.nanpercentile(values, [1, 99])
        drawn = places[name].imshow(values, cmap=colours, vmin=low, vmax=high, interpolation="nearest")
        figure.colorbar(drawn, ax=places[name], fraction=0.046)
        places[name].set(title=f"{name}{' / rad' if name == 'phase' else ''}", xticks=[], yticks=[])
    scale_bar(places["amplitude"], image.shape, pixel_m, step)
    places["probe"].imshow(np.abs(probe), cmap="magma")
    places["probe"].set(title="probe", xticks=[], yticks=[])
    if course:
        seconds, misfits = np.array(course).T
        places["course"].plot(seconds, misfits, "-")
        if misfits.min() > 0 and misfits.max() > DECADES * misfits.min():
            places["course"].set_yscale("log")
            places["course"].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            places["course"].yaxis.set_major_formatter("{x:g}")
            places["course"].yaxis.set_minor_formatter(NullFormatter())
    places["course"].set_title("deviance of\nheld-out patterns", fontsize="medium")
    places["course"].set(xlabel="s")
    figure.suptitle(title, fontsize=11)
    return figure
