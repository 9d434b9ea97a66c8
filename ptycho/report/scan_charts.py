"""The charts of a scan: each is left out where its numbers are not stored, and says what good looks like."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup

from ptycho.config.sections import NAMED
from ptycho.evaluation.frc import DIRECTIONS
from ptycho.evaluation.lengths import length_text, round_down
from ptycho.evaluation.scan_figures import ends_of
from ptycho.report.charts import Axis, Curve, Level, axis_of, line_chart, place_chart
from ptycho.report.gather import number, section
from ptycho.report.pictures import MAGMA, gradient
from ptycho.report.scans import ScanRecord, StoredRecon
from ptycho.run import names

STILL = 0.005  # pixels: positions that moved less did not move
LEAST = 1e-4  # of the whole fall of the objective, that is distinguished


@dataclass(frozen=True)
class Chart:
    """A chart with its title and a sentence on what it shows and what good looks like."""

    title: str
    svg: Markup
    caption: str
    bar: tuple[str, str, str] | None = None  # picture of a colour scale, its ends


def charts_of(run: Path, scan: ScanRecord, made: StoredRecon) -> Iterator[Chart]:
    """Every chart whose numbers the run has stored."""
    if made.positions is not None and len(made.positions) > 2:
        yield from _moves(scan, made.positions)
        yield from _misfits(scan, made.positions)
    yield from _halves(scan)
    yield from _course(scan)
    yield from losses(run)
    yield from _variation(made)
    if made.flux is not None and made.flux.ndim == 1 and np.ptp(made.flux) > 1e-6:
        flux = made.flux.astype(float) ** 2
        x, y = np.arange(len(flux), dtype=float), flux / flux.mean()
        yield Chart(
            "Flux of each pattern",
            line_chart(
                [Curve(x, y)], axis_of("pattern", x), axis_of("flux / mean", y), "flux of each pattern"
            ),
            "Flux of each pattern relative to the mean, as refined by the solver. A steady beam stays "
            "near one; steps and dips come from the source or the shutter.",
        )


def _variation(made: StoredRecon) -> Iterator[Chart]:
    if made.opr_modes is None or made.opr_weights is None or made.probe is None:
        return
    norms = np.linalg.norm(made.opr_modes, axis=(1, 2)) / max(np.linalg.norm(made.probe), 1e-30)
    values, x = (made.opr_weights * norms).real, np.arange(len(made.opr_weights), dtype=float)
    curves = [Curve(x, y, f"OPR mode {k + 1}") for k, y in enumerate(values.T)]
    y = axis_of("weight × norm / norm of the probe", values)
    yield Chart(
        "Variation of the probe",
        line_chart(curves, axis_of("pattern", x), y, "weights of the OPR modes over the scan"),
        "Real part of the weights by which the first mode of the probe varies along the scan, in units of "
        "the probe. A slow drift comes from the optics or the source; a step is a change of the beam. Noise "
        "alone means that the probe hardly varies.",
    )


def _places(scan: ScanRecord, positions: np.ndarray) -> tuple[np.ndarray, str, float]:
    """Positions from their corner in a readable unit, with its name, and how many of it a pixel has."""
    corner = positions - positions.min(axis=0)
    if scan.pixel_m is None:
        return corner, "px", 1.0
    micrometres = 1e6 * np.array(scan.pixel_m)
    size, unit = (1e3, "nm") if np.max(corner * micrometres) < 0.5 else (1.0, "µm")
    return corner * micrometres * size, unit, float(micrometres.mean() * size)


def _moves(scan: ScanRecord, positions: np.ndarray) -> Iterator[Chart]:
    given = scan.assessment.get("nominal_positions")
    if given is None or given.shape != positions.shape:
        return
    moves = (positions - given).astype(float)
    moves -= moves.mean(axis=0)
    rms = float(np.sqrt(np.mean(moves**2)))
    if rms < STILL:
        return
    places, unit, per_pixel = _places(scan, given)
    spacing = np.sqrt(np.prod(np.maximum(np.ptp(places, axis=0), 1e-9)) / len(places))
    longest = float(np.quantile(np.linalg.norm(moves, axis=1), 0.9)) * per_pixel
    times = round_down(spacing / longest)
    text = f"they are drawn {times:g} times as long as the shifts"
    label = f"{rms:.2f} px" + (f" ({length_text(1e9 * rms * max(scan.pixel_m))})" if scan.pixel_m else "")
    yield Chart(
        "Position correction",
        place_chart(places, unit, f"position correction, arrows; {text}", arrows=moves * per_pixel * times),
        f"Arrows point from the nominal to the refined position; {text}. Their root mean square is "
        f"{label} in each coordinate. Short arrows in all directions are the stage's jitter; a common "
        "pattern, such as a rotation or a stretch, hints at a wrong rotation or scale.",
    )


def _misfits(scan: ScanRecord, positions: np.ndarray) -> Iterator[Chart]:
    values, patterns = (scan.assessment.get(f"{scan.product}_{part}") for part in ("r_factor", "patterns"))
    if values is None or patterns is None or values.shape != patterns.shape or not len(patterns):
        return
    if patterns.dtype.kind not in "iu" or patterns.max() >= len(positions) or patterns.min() < 0:
        return
    places, unit, _ = _places(scan, positions)
    ends = ends_of(values)
    worst = ", ".join(f"{patterns[k]} ({values[k]:.3f})" for k in np.argsort(values)[:-4:-1])
    yield Chart(
        "Misfit of each pattern",
        place_chart(places[patterns], unit, "misfit of each pattern over the scan", values, ends),
        "Share of each pattern's amplitude that object and beam do not explain. Good is an even map near the "
        f"photon noise; single bright places are frames lost or disturbed. The largest: patterns {worst}.",
        (gradient(ends, MAGMA), f"{ends[0]:.3f}", f"{ends[1]:.3f}"),
    )


def _halves(scan: ScanRecord) -> Iterator[Chart]:
    x, y = scan.assessment.get("frequency"), scan.assessment.get("correlation")
    if x is None or y is None or x.shape != y.shape or x.ndim != 1:
        return
    halves = section(scan.metrics, "half_scan_frc")
    levels = [Level(0.5, "1/2"), Level(1 / 7, "1/7")]
    levels += [
        Level(number(halves[name]) or 0.0, f"{text}: {_half_period(halves, name)}", vertical=True)
        for name, text in (("frc50", "1/2"), ("frc1over7", "1/7"), ("frc_half_bit", "half bit"))
        if number(halves.get(name)) is not None
    ]
    sectors = ((name, scan.assessment.get(f"correlation_{key}")) for key, name in DIRECTIONS.items())
    parts = [Curve(x, z, name) for name, z in sectors if z is not None and z.shape == x.shape]
    curves = [Curve(x, y, "all directions" if parts else ""), *parts]
    low = min(float(curve.y.min()) for curve in curves)
    ends = Axis("spatial frequency / Nyquist", 0, 1), Axis("ring correlation", min(-0.1, low), 1.05)
    never = "" if any(level.vertical for level in levels) else " Here it never falls below the thresholds."
    by_axis = [f"{name} {_half_period(halves, f'frc50_{key}')}" for key, name in DIRECTIONS.items() if parts]
    yield Chart(
        "Resolution by two halves of the scan",
        line_chart(curves, *ends, "Fourier ring correlation of two halves", levels),
        "Correlation of two images, each from half of the patterns, over spatial frequency (FRC). What both "
        "halves show is real; where the curve falls below a threshold the image ends, given as half periods. "
        f"Good is a curve that stays near one.{never}"
        + (f" Half periods at 1/2 along the axes: {', '.join(by_axis)}." if by_axis else ""),
    )


def _half_period(halves: dict, name: str) -> str:
    """Return where the halves stop to agree: a length, else a fraction of Nyquist."""
    at, metres = number(halves.get(name)), number(halves.get(f"{name}_m"))
    if metres:
        return length_text(1e9 * metres)
    return "never below" if at is None else f"{at:.2f}"


def _course(scan: ScanRecord) -> Iterator[Chart]:
    course = scan.assessment.get(f"{scan.product}_course")
    if course is None or course.ndim != 1 or len(course) < 3 or not np.isfinite(course).all():
        return
    above = course - course.min() + max(float(np.ptp(course)), 1e-9) * LEAST
    x = np.arange(len(course), dtype=float)
    y = axis_of("−log p above its lowest", above, logarithmic=True)
    yield Chart(
        "Convergence of the solver",
        line_chart([Curve(x, above)], axis_of("step", x), y, "objective of the solver over its steps"),
        "What the solver makes smaller, step by step: minus the logarithm of the likelihood with its priors. "
        "It should fall and then level off; jumps are where the next prior joins.",
    )


def losses(run: Path) -> Iterator[Chart]:
    """Of the trainings that a run has stored."""
    for name in ("pinn", *NAMED, "baseline", names.PRIOR):
        curves = _history(run / name / names.HISTORY)
        if curves:
            every, epochs = np.concatenate([c.y for c in curves]), np.concatenate([c.x for c in curves])
            yield Chart(
                f"Training of {name}",
                line_chart(
                    curves, axis_of("epoch", epochs), axis_of("loss", every, True), f"losses of {name}"
                ),
                "Losses on the training patterns and on the validation patterns. Both should fall; a "
                "rising validation loss indicates overfitting.",
            )


def _history(path: Path) -> list[Curve]:
    """The losses of a training; none where they cannot be read."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        epochs = np.array([float(row["epoch"]) for row in rows])
        values = {key: np.array([float(row[key]) for row in rows]) for key in ("loss", "val_loss")}
    except (OSError, ValueError, KeyError, TypeError):
        return []
    titles = {"loss": "training", "val_loss": "validation"}
    return [Curve(epochs, y, titles[key]) for key, y in values.items() if len(y)]
