"""The page of a result of the Python interface: that of a run whose folder holds nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ptycho.report.gather import FINISHED, MEASURED
from ptycho.run.record import environment
from ptycho_report.page import report_page
from ptycho_report.page_record import PageRecord
from ptycho_report.stored_recon import recon_of

if TYPE_CHECKING:
    from ptycho.api.result import Result


def result_page(result: Result, words: Callable[[str], str]) -> str:
    """Return the page of a result; ``words`` names arguments where a text has keys of the configuration."""
    arrays = {"object": result.object[None], "mask": result.mask[None], **result.beam.arrays()}
    arrays |= {} if result.errors is None else result.errors.arrays()
    arrays |= {} if result.slices is None else {"slices": result.slices}
    name = Path(result.name).name or "scan"
    metrics = {
        result.method: dict(result.scores),
        "product": result.method,
        "half_scan_frc": result.scores.get("half_scan_frc"),
        "pixel_m": None if result.pixel_m is None else list(result.pixel_m),
        "findings": {one.what: [one.value, one.why] for one in (*result.findings, *result.decisions)},
        "warnings": list(result.warnings),
    }
    sizes = {"patterns": len(result.positions), "N": result.probe.shape[-1]}
    with tempfile.TemporaryDirectory() as scratch:
        run = PageRecord(
            Path(scratch) / name,
            MEASURED,
            FINISHED,
            name,
            metrics=metrics,
            manifest=environment() | {"scans": {name: sizes}},
            recons=(result.method,),
            assessment=result.assessment,
            words=words,
        )
        return report_page(run, recon_of(arrays))
