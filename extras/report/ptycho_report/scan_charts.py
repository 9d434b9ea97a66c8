"""The charts of a scan: each is omitted if its numbers are not stored, and explains what a good result is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ptycho.config import ConfigError
from ptycho.config.sections import NAMED
from ptycho.evaluation.display import length_text, round_down
from ptycho.evaluation.figures import (
    Losses,
    draw_correlations,
    draw_detector,
    draw_losses,
    draw_misfit,
)
from ptycho.evaluation.frc import DIRECTIONS
from ptycho.report.gather import number, section
from ptycho.run import names
from ptycho.run.network import read_history
from ptycho_report.page_record import PageRecord
from ptycho_report.pictures import figure_uri
from ptycho_report.stored_recon import StoredRecon


@dataclass(frozen=True)
class Chart:
    """A picture with its title, and a sentence on what it shows and what good looks like."""

    title: str
    uri: str
    caption: str = ""


def chart(title: str, caption: str, draw: Callable[[Axes], object]) -> Chart:
    """Return the chart that ``draw`` makes of empty axes."""
    figure = Figure(figsize=(4.8, 3.4), layout="constrained")
    draw(figure.add_subplot())
    return Chart(title, figure_uri(figure), caption)


def charts_of(record: PageRecord, made: StoredRecon) -> Iterator[Chart]:
    """Yield every chart whose numbers the run has stored."""
    if made.positions is not None and len(made.positions) > 2:
        yield from _moves(record, made.positions)
        yield from _misfits(record, made.positions)
    yield from _detector(record)
    yield from _halves(record)
    yield from _course(record)
    yield from losses(record.path)
    if made.flux is not None and made.flux.ndim == 1 and np.ptp(made.flux) > 1e-6:
        flux = made.flux.astype(float) ** 2 / np.mean(made.flux.astype(float) ** 2)
        yield chart(
            "Flux of each pattern",
            "Flux of each pattern relative to the mean, as refined by the solver. A steady beam stays "
            "near one; steps and dips come from the source or the shutter.",
            lambda axes: (axes.plot(flux, lw=1), axes.set(xlabel="pattern", ylabel="flux / mean")),
        )


def _places(record: PageRecord, positions: np.ndarray) -> tuple[np.ndarray, str, float]:
    """Positions from their corner in a readable unit, with its name, and how many of it a pixel has."""
    corner = positions - positions.min(axis=0)
    if record.pixel_m is None:
        return corner, "px", 1.0
    micrometres = 1e6 * np.array(record.pixel_m)
    size, unit = (1e3, "nm") if np.max(corner * micrometres) < 0.5 else (1.0, "µm")
    return corner * micrometres * size, unit, float(micrometres.mean() * size)


def _moves(record: PageRecord, positions: np.ndarray, still_px: float = 0.005) -> Iterator[Chart]:
    given = record.assessment.get("nominal_positions")
    if given is None or given.shape != positions.shape:
        return
    moves = (positions - given).astype(float)
    moves -= moves.mean(axis=0)
    rms = float(np.sqrt(np.mean(moves**2)))
    if rms < still_px:
        return
    places, unit, per_pixel = _places(record, given)
    spacing = np.sqrt(np.prod(np.maximum(np.ptp(places, axis=0), 1e-9)) / len(places))
    longest = float(np.quantile(np.linalg.norm(moves, axis=1), 0.9)) * per_pixel
    times = round_down(spacing / longest)
    label = f"{rms:.2f} px" + (f" ({length_text(1e9 * rms * max(record.pixel_m))})" if record.pixel_m else "")
    yield chart(
        "Position correction",
        "Arrows point from the nominal to the refined position; they are drawn "
        f"{times:g} times as long as the shifts. Their root mean square is "
        f"{label} in each coordinate. Short arrows in all directions are the stage's jitter; a common "
        "pattern, such as a rotation or a stretch, hints at a wrong rotation or scale.",
        lambda axes: _draw_shifts(axes, places, moves * per_pixel * times, unit),
    )


def _draw_shifts(axes: Axes, places: np.ndarray, shifts: np.ndarray, unit: str) -> None:
    """Draw shifts ``(J, 2)`` as arrows from ``places (J, 2)``, both (row, col) in ``unit``."""
    (rows, cols), (down, right) = places.T, shifts.T
    axes.plot(cols, rows, ".", color="0.6", markersize=3)
    axes.margins(0.12)  # arrows do not count for the limits
    axes.quiver(
        cols, rows, right, down, angles="xy", scale_units="xy", scale=1, color="tab:blue", width=0.003
    )
    axes.set(xlabel=f"column / {unit}", ylabel=f"row / {unit}", aspect="equal")
    axes.invert_yaxis()


def _misfits(record: PageRecord, positions: np.ndarray) -> Iterator[Chart]:
    values, patterns = (
        record.assessment.get(f"{record.product}_{part}") for part in ("r_factor", "patterns")
    )
    if values is None or patterns is None or values.shape != patterns.shape or not len(patterns):
        return
    if patterns.dtype.kind not in "iu" or patterns.max() >= len(positions) or patterns.min() < 0:
        return
    places, unit, _ = _places(record, positions)
    worst = ", ".join(f"{patterns[k]} ({values[k]:.3f})" for k in np.argsort(values)[:-4:-1])
    yield chart(
        "Misfit of each pattern",
        "Share of each pattern's amplitude that object and beam do not explain. Good is an even map near the "
        f"photon noise; single bright places are frames lost or disturbed. The largest: patterns {worst}.",
        lambda axes: draw_misfit(axes, places[patterns], values, unit),
    )


def _detector(record: PageRecord) -> Iterator[Chart]:
    misfit = record.assessment.get(f"{record.product}_misfit_by_pixel")
    if misfit is not None and misfit.ndim == 2 and misfit.size:
        yield chart(
            "Misfit on the detector",
            "Mean χ² of each detector pixel, the zero frequency at the centre: up to one if only photon "
            "noise is left. Single bright pixels are bad ones (data.mask_file), lines and blocks an "
            "obstruction or a detector module.",
            lambda axes: draw_detector(axes, misfit),
        )


def _halves(record: PageRecord) -> Iterator[Chart]:
    x, y = record.assessment.get("frequency"), record.assessment.get("correlation")
    if x is None or y is None or x.shape != y.shape or x.ndim != 1:
        return
    halves = section(record.metrics, "half_scan_frc")
    sectors = ((name, record.assessment.get(f"correlation_{key}")) for key, name in DIRECTIONS.items())
    parts = {name: (x, z) for name, z in sectors if z is not None and z.shape == x.shape}
    ends = {"1/2": "frc50", "1/7": "frc1over7", "the half-bit curve": "frc_half_bit"}
    ends |= {f"1/2 along the {name}": f"frc50_{key}" for key, name in DIRECTIONS.items() if parts}
    at = ", ".join(f"{text}: {_half_period(halves, name)}" for text, name in ends.items())
    yield chart(
        "Resolution by two halves of the scan",
        "Correlation of two images, each from half of the patterns, over spatial frequency (FRC). What both "
        "halves show is real; where the curve falls below a threshold the image ends, given as half periods "
        f"({at}). Good is a curve that stays near one.",
        lambda axes: draw_correlations(axes, {"all directions": (x, y)} | parts),
    )


def _half_period(halves: dict, name: str) -> str:
    """Return where the halves stop to agree: a length, else a fraction of Nyquist."""
    at, metres = number(halves.get(name)), number(halves.get(f"{name}_m"))
    if metres:
        return length_text(1e9 * metres)
    return "never below" if at is None else f"{at:.2f}"


def _course(record: PageRecord, least: float = 1e-4) -> Iterator[Chart]:
    """The objective above its lowest value; ``least`` of its whole fall is distinguished."""
    course = record.assessment.get(f"{record.product}_course")
    if course is None or course.ndim != 1 or len(course) < 3 or not np.isfinite(course).all():
        return
    above = course - course.min() + max(float(np.ptp(course)), 1e-9) * least
    yield chart(
        "Convergence of the solver",
        "What the solver makes smaller, step by step: minus the logarithm of the likelihood with its priors. "
        "It should fall and then level off; jumps are where the next prior joins.",
        lambda axes: (axes.semilogy(above), axes.set(xlabel="step", ylabel="−log p above its lowest")),
    )


def losses(run: Path) -> Iterator[Chart]:
    """Yield a chart of the losses of each training that a run has stored."""
    for name in ("pinn", *NAMED, "baseline", names.PRIOR):
        if rows := _history(run, name):
            yield chart(
                f"Training of {name}",
                "Losses on the training patterns and on the validation patterns. Both should fall; a "
                "rising validation loss indicates overfitting.",
                lambda axes, name=name, rows=rows: draw_losses(axes, {name: rows}),  # type: ignore[misc]
            )


def _history(run: Path, name: str) -> Losses:
    """The losses of a training; none where they cannot be read."""
    try:
        rows = read_history(run, name)
    except ConfigError:
        return []
    return rows if all({"epoch", "loss", "val_loss"} <= row.keys() for row in rows) else []
