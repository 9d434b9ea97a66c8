"""A scan of :func:`ptycho.reconstruct`, by one of the methods, and the scores of what it gives."""

from __future__ import annotations

from dataclasses import replace

from ptycho.align.context import RunContext
from ptycho.api.result import Result
from ptycho.api.scan import Scan
from ptycho.config import ScanRunConfig
from ptycho.exports.from_dataset import product_of
from ptycho.methods.assessment import assessment_arrays, well_illuminated
from ptycho.methods.half_scans import resolution
from ptycho.methods.pipeline import assess
from ptycho.methods.prepared import prepare
from ptycho.methods.table import METHODS, NETWORK, SOLVER, MethodInputs
from ptycho.progress import Event
from ptycho.run.loaded import load_model
from ptycho.scan.finding import findings_of, warnings_of
from ptycho.scan.reconstruction import Reconstruction


def reconstruct_and_assess(
    method: str, scan: Scan, config: ScanRunConfig, context: RunContext, with_halves: bool
) -> Result:
    """Reconstruct a scan and score it by the steps of the command line: a row of ``metrics.json``."""
    network = load_model(config.run) if config.run else None
    prepared = prepare(scan.name, scan.geometry, config, context)
    inputs, reconstructions = MethodInputs(config, context, network), dict[str, Reconstruction]()
    for name in (SOLVER, NETWORK) if method == NETWORK else (method,):
        if name != SOLVER or config.solver.steps:
            reconstructions[name] = METHODS[name](prepared, reconstructions, inputs)
    done = assess(prepared, reconstructions, inputs, method, with_halves)
    scores, last = done.rows[method], done.reconstructions[method]
    if with_halves:
        pixel = prepared.scan.pixel.metres
        scores["half_scan_frc"] = None if done.halves is None else resolution(done.halves, pixel)
    if scan.truth is not None:
        scores.setdefault("reference_comparison", None)
    context.on_event(Event("scores", method, scores))
    decisions = (
        *prepared.decisions,
        *(
            decision
            for reconstruction in done.reconstructions.values()
            for decision in reconstruction.decisions
        ),
    )
    exported = product_of(
        prepared.scan, prepared.whole, last.object, prepared.scan.pixel.metres, prepared.name, last.beam
    )
    return Result(
        method,
        scores,
        replace(
            exported,
            errors=last.errors,
            slices=last.slices,
            slice_thickness_m=prepared.slice_thickness_m(last),
        ),
        prepared.beam_under(last),
        last.covered,
        well_illuminated(last, prepared),
        tuple(finding.in_words(context.words) for finding in findings_of(decisions)),
        tuple(finding.in_words(context.words) for finding in prepared.scan.findings),
        tuple(map(context.words, (*prepared.scan.warnings, *warnings_of(decisions)))),
        assessment_arrays(prepared, done.reconstructions, done.fits, done.halves, done.caustic),
        last,
        prepared,
    )
