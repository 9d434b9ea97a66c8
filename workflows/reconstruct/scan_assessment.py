"""What is told of the reconstructions of a measured scan: ``metrics.json``, and the pictures."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ptycho.evaluation import scan_figures
from ptycho.evaluation.trust import FLAGS
from ptycho.methods.assessment import (
    Fit,
    Halves,
    compare_with_truth,
    picture_of,
    resolution,
    trust_row,
    well_lit,
)
from ptycho.methods.prepared import Prepared
from ptycho.methods.solver import SOLVER
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.history import History

log = logging.getLogger(__name__)


def metrics_of(
    each: Prepared, recons: dict[str, Reconstruction], fits: dict[str, Fit], halves: Halves | None
) -> dict[str, Any]:
    """``metrics.json``: how far the results can be trusted, and how the file was understood."""
    solver = (fits[SOLVER].free or fits[SOLVER].used).r_factor if SOLVER in fits else None
    rows = {name: trust_row(fits[name], made, each, solver, halves) for name, made in recons.items()}
    doubts = recons[SOLVER].doubts if SOLVER in recons else ()  # of the scan under the beam that all have
    for name, row in rows.items():
        row["flags"] = list(dict.fromkeys([*row["flags"], *doubts]))
        if (scores := compare_with_truth(recons[name], each)) is not None:
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
    pixel, made = each.scan.pixel.metres, recons.values()
    findings = [*each.scan.findings, *each.found, *(finding for one in made for finding in one.findings)]
    return rows | {
        "half_scan_frc": None if halves is None else resolution(halves, pixel),
        "pixel_m": None if pixel is None else list(pixel),
        "understood": {finding.what: [finding.value, finding.why] for finding in findings},
        "warnings": [*each.scan.warnings, *(warning for one in made for warning in one.warnings)],
    }


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def draw(
    each: Prepared,
    recons: dict[str, Reconstruction],
    fits: dict[str, Fit],
    halves: Halves | None,
    histories: dict[str, History],
    result: dict[str, Any],
    folder: RunFolder,
) -> None:
    """The objects with a scale bar, the probe, the error map, the misfit, half-scan FRC and the losses."""
    pixel = each.scan.pixel.metres
    with folder.timed("drawing"):
        for name, made in recons.items():
            image = scan_figures.draw_reconstruction(
                picture_of(made, each), pixel, _title(name, result[name])
            )
            folder.figure(names.figure(f"amp_phase_{name}"), image)
        if len(recons) > 1:
            pictures = {_title(name, result[name]): picture_of(made, each) for name, made in recons.items()}
            folder.figure(names.figure("side_by_side"), scan_figures.side_by_side(pictures, pixel))
        best = recons[result["product"]]
        if best.errors is not None:
            lit, sigma = well_lit(best, each) & best.covered, best.errors
            title = f"{result['product']}: one standard deviation by the noise of the patterns"
            image = scan_figures.draw_errors(sigma.amplitude[0], sigma.phase[0], lit, pixel, title)
            folder.figure(names.figure("error_map"), image)
        last = next(reversed(recons))
        beam = each.beam_under(recons[last])
        used, positions = fits[last].used, beam.positions[each.kept[fits[last].looked_at]]
        ratio = used.residual / np.maximum(used.measured, 1e-30)
        curve = None if halves is None else (halves.frequency, halves.correlation)
        rows = {name: history.rows for name, history in histories.items()}
        folder.figure(names.figure("quality"), scan_figures.quality(positions, ratio, curve, rows))


def _title(name: str, row: dict[str, Any]) -> str:
    """Name and misfit on one line, and each flag on a line of its own."""
    text = f"{name}: R {row['r_factor']:.3f}, free {_number(row['r_free'])}, noise {_number(row['r_noise'])}"
    return "\n".join([text, *(f"! {flag}" for flag in row["flags"])])
