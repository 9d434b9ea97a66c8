"""The methods of :func:`ptycho.reconstruct`, and the scores of what they give."""

from __future__ import annotations

from collections.abc import Callable

from ptycho.api.result import Result
from ptycho.api.scan import Scan
from ptycho.config import ScanRunConfig
from ptycho.methods import assessment, lsqml
from ptycho.methods.assessment import Recon
from ptycho.methods.prepared import Prepared, Surroundings, beam_of, prepare, solve_first
from ptycho.methods.solver import half_object


def reconstructed(
    method: str, scan: Scan, config: ScanRunConfig, where: Surroundings, with_halves: bool
) -> Result:
    """A scan reconstructed and judged; the scores are those of a row of ``metrics.json``."""
    ready = prepare(scan.name, scan.understood, config, where)
    each, recon = METHODS[method](ready, config, where)
    halves = _halves(each, config) if with_halves else None
    scores = assessment.trust_row(assessment.judged(recon), recon, None, halves)
    scores["flags"] += each.doubts
    scores["beam"] = assessment.beam_facts(beam_of(recon, each), each.whole.positions)
    if with_halves:
        pixel = each.scan.pixel.metres
        scores["half_scan_frc"] = None if halves is None else assessment.resolution(halves, pixel)
    if scan.truth is not None:
        scores["against_the_truth"] = assessment.compared(recon, each.scan)
    return Result(method, scores, tuple(each.found), recon, each)


def _halves(each: Prepared, config: ScanRunConfig) -> assessment.Halves | None:
    assert each.solution is not None and each.solved is not None
    infer = half_object(each.solution, config.solver.steps)
    return assessment.half_scans(infer, each.solved.data, config.seed)


def _solve(ready: Prepared, config: ScanRunConfig, where: Surroundings) -> tuple[Prepared, Recon]:
    each = solve_first(ready, config, where)
    assert each.solved is not None
    return each, each.solved


def _iterate(ready: Prepared, config: ScanRunConfig, where: Surroundings) -> tuple[Prepared, Recon]:
    return ready, lsqml.reconstruct(ready, config, where)


METHODS: dict[str, Callable[[Prepared, ScanRunConfig, Surroundings], tuple[Prepared, Recon]]] = {
    "solver": _solve,
    "lsqml": _iterate,
}
"""Name to a function: prepared scan → what is known of it then, and its reconstruction."""
