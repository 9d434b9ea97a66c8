"""Results of a run on a measured scan: ``metrics.json``, and the pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ptycho.evaluation import scan_figures
from ptycho.evaluation.caustic_figure import draw_caustic
from ptycho.evaluation.charts import quality
from ptycho.methods.assessment import picture_of, well_illuminated
from ptycho.methods.half_scans import resolution
from ptycho.methods.pipeline import Assessed, number
from ptycho.methods.prepared import Prepared
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.scan.finding import findings_of, warnings_of
from ptycho.training.history import History


def metrics_of(prepared: Prepared, done: Assessed) -> dict[str, Any]:
    """Return ``metrics.json``: how far the results can be trusted, and how the file was interpreted."""
    pixel, reconstructions = prepared.scan.pixel.metres, done.reconstructions.values()
    decisions = [
        *prepared.scan.decisions,
        *prepared.decisions,
        *(decision for reconstruction in reconstructions for decision in reconstruction.decisions),
    ]
    return done.rows | {
        "half_scan_frc": None if done.halves is None else resolution(done.halves, pixel),
        "pixel_m": None if pixel is None else list(pixel),
        "findings": {finding.what: [finding.value, finding.why] for finding in findings_of(decisions)},
        "warnings": warnings_of(decisions),
        "product": done.product,
    }


def draw(
    prepared: Prepared,
    done: Assessed,
    histories: dict[str, History],
    result: dict[str, Any],
    folder: RunFolder,
) -> None:
    """The objects with a scale bar, the probe, the error map, the misfit, half-scan FRC and the losses."""
    pixel, recons, halves = prepared.scan.pixel.metres, done.reconstructions, done.halves
    with folder.timed("drawing"):
        for name, reconstruction in recons.items():
            image = scan_figures.draw_reconstruction(
                picture_of(reconstruction, prepared), pixel, _title(name, result[name])
            )
            folder.figure(names.figure(f"amp_phase_{name}"), image)
        if len(recons) > 1:
            pictures = {
                _title(name, result[name]): picture_of(reconstruction, prepared)
                for name, reconstruction in recons.items()
            }
            folder.figure(names.figure("side_by_side"), scan_figures.side_by_side(pictures, pixel))
        best = recons[done.product]
        if best.errors is not None:
            illuminated, sigma = well_illuminated(best, prepared) & best.covered, best.errors
            title = f"{done.product}: one standard deviation by the noise of the patterns"
            image = scan_figures.draw_errors(sigma.amplitude[0], sigma.phase[0], illuminated, pixel, title)
            folder.figure(names.figure("error_map"), image)
        if done.caustic is not None:
            folder.figure(names.figure("probe_caustic"), draw_caustic(done.caustic, f"{done.product}: probe"))
        if best.slices is not None:
            slice_pictures = [
                picture_of(replace(best, objects=layer[None]), prepared) for layer in best.slices
            ]
            title = f"{done.product}: slices along the beam"
            folder.figure(names.figure("slices"), scan_figures.draw_slices(slice_pictures, pixel, title))
        if best.beam is not None and best.beam.opr_modes is not None and best.beam.opr_weights is not None:
            varied = best.beam.probe[0], best.beam.opr_modes, best.beam.opr_weights
            title = f"{done.product}: the probe varies by {100 * best.beam.variation:.2g} % (rms)"
            image = scan_figures.draw_variation(*varied, pixel, title)
            folder.figure(names.figure("probe_variation"), image)
        last = next(reversed(recons))
        beam = prepared.beam_under(recons[last])
        used, positions = done.fits[last].used, beam.positions[prepared.kept[done.fits[last].inspected]]
        ratio = used.residual / np.maximum(used.measured, 1e-30)
        causes = done.fits[last].causes
        by_pixel = None if causes is None else causes.by_pixel
        curve = None if halves is None else (halves.frequency, halves.curves)
        rows = {name: history.rows for name, history in histories.items()}
        folder.figure(names.figure("quality"), quality(positions, ratio, curve, rows, by_pixel))


def _title(name: str, row: dict[str, Any]) -> str:
    """Name and misfit on one line, and each flag on a line of its own."""
    text = f"{name}: R {row['r_factor']:.3f}, free {number(row['r_free'])}, noise {number(row['r_noise'])}"
    return "\n".join([text, *(f"! {flag}" for flag in row["flags"])])
