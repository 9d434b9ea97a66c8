"""A scan of :func:`ptycho.reconstruct`, by one of the methods, and the scores of what it gives."""

from __future__ import annotations

from dataclasses import replace

from ptycho.api.result import Result
from ptycho.api.scan import Scan
from ptycho.config import ScanRunConfig
from ptycho.methods import assessment
from ptycho.methods.prepared import Surroundings, prepare
from ptycho.methods.solver import half_object, with_errors
from ptycho.methods.table import METHODS, NETWORK, REFINED, SOLVER, Means
from ptycho.progress import Event
from ptycho.run.loaded import load_model
from ptycho.scan.ramp import move_ramp
from ptycho.scan.reconstruction import Reconstruction

FIRST = {NETWORK: (SOLVER,), REFINED: (SOLVER, NETWORK)}
"""What is made before a method: its beam and start."""


def reconstruct_and_judge(
    method: str, scan: Scan, config: ScanRunConfig, where: Surroundings, with_halves: bool
) -> Result:
    """A scan reconstructed and judged; the scores are those of a row of ``metrics.json``."""
    network = load_model(config.run) if config.run else None
    each = prepare(scan.name, scan.understood, config, where)
    means, made = Means(config, where, network), dict[str, Reconstruction]()
    for name in (*FIRST.get(method, ()), method):
        if name != SOLVER or config.solver.steps:
            made[name] = METHODS[name](each, made, means)
    last, halves = with_errors(made[method], config, where), None
    if with_halves and SOLVER in made:
        infer = half_object(made[SOLVER], config.solver.steps)
        halves = assessment.half_scans(infer, each.fitted(each.beam_under(made[SOLVER])), config.seed)
    scores = assessment.trust_row(assessment.judge(last, each), last, each, halves=halves)
    if with_halves:
        pixel = each.scan.pixel.metres
        scores["half_scan_frc"] = None if halves is None else assessment.resolution(halves, pixel)
    if scan.truth is not None:
        scores["against_the_truth"] = assessment.compare_with_truth(last, each)
    where.on_event(Event("scores", method, scores))
    last = move_ramp(replace(last, beam=each.beam_under(last)))
    findings = [finding for one in (made | {method: last}).values() for finding in one.findings]
    return Result(method, scores, (*each.found, *findings), last, each)
