"""The report of a result: the page of a run, of values that are in no folder."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptycho.api.reconstruction import WORDS
from ptycho.files.atomic import write_text
from ptycho.files.npz_writing import write_npz
from ptycho.report.gather import FINISHED, MEASURED, RunRecord
from ptycho.report.page import report_page
from ptycho.report.scans import ScanRecord
from ptycho.run import names
from ptycho.run.environment import environment

if TYPE_CHECKING:
    from ptycho.api.result import Result


def write_page(path: Path, result: Result) -> Path:
    """Write the report of a result; what is there is replaced, whole or not at all."""
    page = to_page(result)
    write_text(path, page)
    return path


def to_page(result: Result) -> str:
    """Return the report of a result."""
    name = Path(result.name).name or "scan"
    metrics, sizes = _metrics(result), {"patterns": len(result.positions), "N": result.probe.shape[-1]}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name  # the report reads the arrays from a run's folder
        file = folder / names.recon(result.method)
        file.parent.mkdir(parents=True)
        arrays = {"object": result.object[None], "mask": result.mask[None], **result.beam.arrays()}
        arrays |= {} if result.errors is None else result.errors.arrays()
        arrays |= {} if result.slices is None else {"slices": result.slices}
        with file.open("wb") as stream:
            write_npz(stream, arrays)
        scan = ScanRecord(name, folder, metrics, (result.method,), result.assessment)
        manifest = environment() | {"scans": {name: sizes}}
        run = RunRecord(
            folder,
            MEASURED,
            FINISHED,
            datetime.now(UTC),
            metrics=metrics,
            manifest=manifest,
            scan=scan,
            words=WORDS,
        )
        return report_page(run)


def _metrics(result: Result) -> dict[str, Any]:
    """The scores as a run's ``metrics.json`` has them."""
    return {
        result.method: dict(result.scores),
        "product": result.method,
        "half_scan_frc": result.scores.get("half_scan_frc"),
        "pixel_m": None if result.pixel_m is None else list(result.pixel_m),
        "findings": {
            finding.what: [finding.value, finding.why] for finding in (*result.findings, *result.decisions)
        },
        "warnings": list(result.warnings),
    }
