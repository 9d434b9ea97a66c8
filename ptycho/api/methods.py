"""The methods of :func:`ptycho.reconstruct`, and the scores of what they give."""

from __future__ import annotations

from collections.abc import Callable

from ptycho.api.result import Result
from ptycho.api.scan import Scan
from ptycho.config import ScanRunConfig
from ptycho.methods import assessment, lsqml, solver
from ptycho.methods.prepared import Prepared, Surroundings, prepare
from ptycho.reconstruction.maximum_likelihood import Solved
from ptycho.scan.reconstruction import Reconstruction


def reconstruct_and_judge(
    method: str, scan: Scan, config: ScanRunConfig, where: Surroundings, with_halves: bool
) -> Result:
    """A scan reconstructed and judged; the scores are those of a row of ``metrics.json``."""
    each = prepare(scan.name, scan.understood, config, where)
    made, solved = METHODS[method](each, config, where)
    halves = None
    if with_halves and solved is not None:
        infer = solver.half_object(solved, config.solver.steps)
        halves = assessment.half_scans(infer, each.fitted(made.beam or each.whole.beam), config.seed)
    scores = assessment.trust_row(assessment.judge(made, each), made, each, halves=halves)
    if with_halves:
        pixel = each.scan.pixel.metres
        scores["half_scan_frc"] = None if halves is None else assessment.resolution(halves, pixel)
    if scan.truth is not None:
        scores["against_the_truth"] = assessment.compare_with_truth(made, each)
    return Result(method, scores, (*each.found, *made.findings), made, each)


METHODS: dict[
    str, Callable[[Prepared, ScanRunConfig, Surroundings], tuple[Reconstruction, Solved | None]]
] = {
    "solver": solver.reconstruct,
    "lsqml": lambda *scan: (lsqml.reconstruct(*scan), None),
}
"""Name to a function: prepared scan → its reconstruction and, if it was the solver, the fit."""
