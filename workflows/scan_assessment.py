"""What is told of the reconstructions of a measured scan: ``metrics.json``, and the pictures."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ptycho.evaluation import scan_figures
from ptycho.evaluation.trust import FLAGS
from ptycho.methods.assessment import (
    SOLVER,
    Fit,
    Halves,
    Recon,
    beam_facts,
    picture_of,
    resolution,
    trust_row,
)
from ptycho.preparation.finding import Finding
from ptycho.preparation.prepare import Understood
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.training.history import History

log = logging.getLogger(__name__)


def assembled(
    scan: Understood,
    found: list[Finding],
    recons: dict[str, Recon],
    fits: dict[str, Fit],
    halves: Halves | None,
    truth: dict[str, dict[str, Any] | None],
    doubts: list[str],
    beams: dict[str, dict[str, np.ndarray]],
    positions: np.ndarray,
) -> dict[str, Any]:
    """``metrics.json``: how far the result can be trusted, and how the file was understood.

    ``beams`` are the probes, positions, … that go with the reconstructions; ``positions`` are the file's.
    """
    solver = (fits[SOLVER].free or fits[SOLVER].used).r_factor if SOLVER in fits else None
    rows = {name: trust_row(fits[name], recon, solver, halves) for name, recon in recons.items()}
    for name, row in rows.items():
        row["beam"] = beam_facts(beams[name], positions)
        row["flags"] += doubts
        if (scores := truth[name]) is not None:
            row["against_the_files_object"] = scores
            log.info("%-8s SSIM amplitude %s  phase %s", name, *(_number(score) for score in scores["ssim"]))
        log.info(
            "%-8s r_factor %s  r_free %s  (photon noise alone %s)%s",
            name,
            *(_number(row[key]) for key in ("r_factor", "r_free", "r_noise")),
            f"  ! {', '.join(row['flags'])}" if row["flags"] else "",
        )
    for flag in dict.fromkeys(flag for row in rows.values() for flag in row["flags"]):
        log.warning("%s: %s", flag, FLAGS[flag].remedy)
    pixel = scan.pixel.metres
    frc = None if halves is None else resolution(halves, pixel)
    return rows | {
        "half_scan_frc": frc,
        "pixel_m": None if pixel is None else list(pixel),
        "understood": {finding.what: [finding.value, finding.why] for finding in (*scan.findings, *found)},
        "warnings": list(scan.warnings),
    }


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def drawn(
    scan: Understood,
    recons: dict[str, Recon],
    fits: dict[str, Fit],
    halves: Halves | None,
    histories: dict[str, History],
    result: dict[str, Any],
    folder: RunFolder,
) -> None:
    """The objects with a scale bar, the probe, the misfit over the scan, the half-scan FRC and the losses."""
    pixel = scan.pixel.metres
    with folder.timed("drawing"):
        for name, recon in recons.items():
            shown = _title(name, result[name])
            image = scan_figures.reconstructed(picture_of(recon), pixel, shown)
            folder.figure(names.figure(f"amp_phase_{name}"), image)
        if len(recons) > 1:
            pictures = {_title(name, result[name]): picture_of(recon) for name, recon in recons.items()}
            folder.figure(names.figure("side_by_side"), scan_figures.side_by_side(pictures, pixel))
        last = next(reversed(recons))
        used, positions = fits[last].used, recons[last].data.positions
        each = used.residual / np.maximum(used.measured, 1e-30)
        curve = None if halves is None else (halves.frequency, halves.correlation)
        rows = {name: history.rows for name, history in histories.items()}
        folder.figure(names.figure("quality"), scan_figures.quality(positions, each, curve, rows))


def _title(name: str, row: dict[str, Any]) -> str:
    """Name and misfit on one line, and each flag on a line of its own."""
    text = f"{name}: R {row['r_factor']:.3f}, free {_number(row['r_free'])}, noise {_number(row['r_noise'])}"
    return "\n".join([text, *(f"! {flag}" for flag in row["flags"])])
