"""Scores of the cells → ``results.md``, ``results.json``, ``heat_map.png`` and ``worst.png``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptycho.evaluation.trust import FLAGS
from ptycho.run.folder import OutputFolder
from workflows.study.report import table
from workflows.zero_shot import calibration, figures
from workflows.zero_shot.definition import BOTH, METHODS, NEITHER, ONE, ZERO_SHOT, Cell, Definition, Panel
from workflows.zero_shot.store import made_alike, stored_images

WORST = 10  # reconstructions that are drawn
CAPTION = (
    "Every cell is one simulated scan: what the network is told of probe and positions is true, counts are "
    "Poisson's. SSIM of amplitude / phase, aligned by one complex scale and one phase plane, in a rectangle "
    "inside the hull of the probes' centres. R/noise: r_factor over what photon noise alone would give. "
    "Seconds on the machine as it was, without compilation. `zero_shot`: the network alone; `refined`: then "
    "corrected by a few passes of the solver; `denoised`: then without the noise of photons; `tuned1`, "
    "`tuned2`: after 1 and 2 epochs on the scan, without truth; `scratch`: 2 epochs from nothing; "
    "`lsqml`: LSQ-ML of pty-chi, for about as long as `refined`."
)


@dataclass(frozen=True, eq=False)
class Row:
    """A cell with what is stored of it; ``record`` None: nothing."""

    cell: Cell
    record: dict[str, Any] | None

    def method(self, name: str) -> dict[str, Any] | None:
        return None if self.record is None else self.record["methods"].get(name)

    def ssim(self, name: str) -> tuple[float, float] | None:
        """Amplitude and phase; what could not be scored counts as 0. None: not done."""
        found = self.method(name)
        return None if found is None else (found["ssim"][0] or 0.0, found["ssim"][1] or 0.0)

    def misfit(self, name: str) -> float | None:
        found = self.method(name)
        if found is None or not found["r_factor"] or not found["r_noise"]:
            return None
        return found["r_factor"] / found["r_noise"]


def write_report(folder: OutputFolder, study: Definition, command: str) -> None:
    """Tables and figures of the cells that are there."""
    by_panel = {
        name: [Row(cell, made_alike(folder.path, cell, study)) for cell in cells]
        for name, cells in study.cells().items()
    }
    rows = list({row.cell.name: row for rows in by_panel.values() for row in rows}.values())
    methods = [name for name in METHODS if name in study.methods and any(row.method(name) for row in rows)]
    folder.text("results.md", as_markdown(study, by_panel, rows, methods, command))
    folder.json("results.json", as_json(rows, methods, command))
    largest = max(by_panel.values(), key=_kinds)
    folder.figure("heat_map.png", figures.heat_map(*_names(largest), _grids(largest, methods)))
    scored = [(min(ssim), row) for row in rows if (ssim := row.ssim(ZERO_SHOT)) is not None]
    drawn = [row for _, row in sorted(scored, key=lambda pair: pair[0])[:WORST]]
    folder.figure("flag.png", calibration.drawn(points_of(rows)))
    images = [stored_images(folder.path, row.cell) for row in drawn]
    folder.figure("worst.png", figures.gallery([facts_line(row) for row in drawn], images, ZERO_SHOT))


# ---- tables


def as_markdown(
    study: Definition,
    by_panel: Mapping[str, Sequence[Row]],
    rows: Sequence[Row],
    methods: Sequence[str],
    command: str,
) -> str:
    """Caption, command, the summary over what is held out, and a table for every panel."""
    networks = sorted({row.record["settings"]["network"] for row in rows if row.record is not None})
    parts = [CAPTION, f"    {command}", "Network: " + ("; ".join(networks) or "nothing has run") + "."]
    for held_out in (BOTH, ONE, NEITHER):
        some = [row for row in rows if row.cell.held_out == held_out]
        if lines := [summary_line(name, some) for name in methods if any(row.method(name) for row in some)]:
            headings = ["method", "cells", "A median", "A worst", "φ median", "φ worst"]
            headings += ["R/noise median", "R/noise worst", "seconds median", "worst cell"]
            parts += [f"## All cells, {held_out}", table(headings, lines)]
    for panel in study.panels:
        parts += [f"## {panel.title}", panel_table(panel, by_panel[panel.name], methods)]
    parts += ["## The flag", calibration.in_words(points_of(rows)), "![What the flag looks at](flag.png)"]
    parts += ["![SSIM of probes and objects by method](heat_map.png)"]
    parts += ["![The worst reconstructions without training](worst.png)"]
    return "\n\n".join(parts) + "\n"


def points_of(rows: Sequence[Row]) -> list[calibration.Point]:
    """The reconstructions without training, as the flag sees them."""
    found = [calibration.point_of(made) for row in rows if (made := row.method(ZERO_SHOT)) is not None]
    return [point for point in found if point is not None]


def summary_line(method: str, rows: Sequence[Row]) -> list[str]:
    """Median and worst of a method over the cells that it has done."""
    found = [(row, row.ssim(method)) for row in rows]
    done = [(row, ssim) for row, ssim in found if ssim is not None]
    pairs = [ssim for _, ssim in done]
    misfits = [value for row, _ in done if (value := row.misfit(method)) is not None]
    seconds = [row.method(method)["seconds"] for row, _ in done]  # type: ignore[index]
    line = [f"`{method}`", f"{len(done)}"]
    for values in zip(*pairs, strict=True):
        line += [f"{statistics.median(values):.4f}", f"{min(values):.4f}"]
    line += [f"{statistics.median(misfits):.3f}", f"{max(misfits):.3f}"] if misfits else ["–", "–"]
    worst, _ = min(done, key=lambda pair: min(pair[1]))
    return [*line, f"{statistics.median(seconds):.1f}", worst.cell.name]


def panel_table(panel: Panel, rows: Sequence[Row], methods: Sequence[str]) -> str:
    """A line for every cell: what it is, and every method's SSIM, R/noise and seconds."""
    headings = ["probe", "object", "material", "scan", "photons", "N", *(f"{name} A / φ" for name in methods)]
    headings += ["R/noise: " + ", ".join(methods), "seconds: " + ", ".join(methods)]
    return table(headings, [_line(row, methods) for row in rows])


def _line(row: Row, methods: Sequence[str]) -> list[str]:
    scan = row.cell.scan
    line = [*row.cell.parts.values(), f"{scan.photons:g}", f"{scan.N}"]
    if row.record is None:
        return [*line, *["not done"] * len(methods), "", ""]
    pairs = [row.ssim(name) for name in methods]
    misfits = [row.misfit(name) for name in methods]
    made = [row.method(name) for name in methods]
    return [
        *line,
        *("–" if pair is None else f"{pair[0]:.3f} / {pair[1]:.4f}" for pair in pairs),
        ", ".join("–" if value is None else f"{value:.2f}" for value in misfits),
        ", ".join("–" if one is None else f"{one['seconds']:.1f}" for one in made),
    ]


def as_json(rows: Sequence[Row], methods: Sequence[str], command: str) -> dict[str, Any]:
    """Every cell with all that is stored of it, and the summary."""
    cells = {
        row.cell.name: {"held_out": row.cell.held_out, **row.cell.parts, **(row.record or {"methods": {}})}
        for row in rows
    }
    summary = {
        held_out: {
            name: _summary([row for row in rows if row.cell.held_out == held_out], name) for name in methods
        }
        for held_out in (BOTH, ONE, NEITHER)
    }
    return {"command": command, "summary": summary, "cells": cells}


def _summary(rows: Sequence[Row], method: str) -> dict[str, Any]:
    pairs = [ssim for row in rows if (ssim := row.ssim(method)) is not None]
    channels = dict(zip(("amplitude", "phase"), zip(*pairs, strict=True), strict=False))
    worst = {
        key: {"median": statistics.median(values), "worst": min(values)} for key, values in channels.items()
    }
    return {"cells": len(pairs)} | worst


def facts_line(row: Row) -> str:
    """One line of what may be the cause of a bad score."""
    assert row.record is not None
    scan, parts, facts = row.cell.scan, row.cell.parts, row.record["facts"]
    amplitude, phase = row.ssim(ZERO_SHOT) or (0.0, 0.0)
    misfit, flags = row.misfit(ZERO_SHOT), row.record["methods"][ZERO_SHOT]["flags"]
    told = [
        f"{parts['object']} ({parts['material']}) under {parts['probe']}",
        f"{facts['diameter_px']:.0f} of {scan.N} px",
        f"{parts['scan']}, overlap {scan.overlap:.0%}",
        f"{scan.photons:g} photons",
        f"phase range {facts['phase_range_rad']:.2f} rad",
        f"R/noise {'–' if misfit is None else f'{misfit:.2f}'}",
        f"SSIM A {amplitude:.3f}, φ {phase:.3f}",
    ]
    return "; ".join([*told, *(flag for flag in flags if flag in FLAGS)])


# ---- probes × objects


def _kinds(rows: Sequence[Row]) -> int:
    return len({(row.cell.parts["probe"], row.cell.parts["object"]) for row in rows})


def _names(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Probes and objects, in their order."""
    probes, objects = (
        list(dict.fromkeys(row.cell.parts[key] for row in rows)) for key in ("probe", "object")
    )
    return probes, objects


def _grids(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """SSIM by probe and object, of several such cells the worst; NaN where there is none."""
    probes, objects = _names(rows)
    found = {}
    for name in methods:
        grids = np.full((2, len(probes), len(objects)), np.nan)
        for row in rows:
            if (ssim := row.ssim(name)) is not None:
                place = (probes.index(row.cell.parts["probe"]), objects.index(row.cell.parts["object"]))
                for channel in range(2):
                    grids[channel][place] = np.fmin(grids[channel][place], ssim[channel])
        found[name] = (grids[0], grids[1])
    return found
