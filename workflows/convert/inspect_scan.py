"""What is in a measured scan, how it is interpreted, and what is missing; nothing here imports TensorFlow."""

from __future__ import annotations

import logging
from pathlib import Path

from ptycho.api.scan import Scan
from ptycho.config.data import DataConfig
from ptycho.config.schema import Text, key, settings
from ptycho.files.atomic import write_atomically
from ptycho.preparation.prepare import ScanGeometry, interpret
from ptycho.readers.table import open_raw
from ptycho.run.record import check_output

log = logging.getLogger(__name__)


@settings()
class InspectConfig:
    """The keys of ``conf/inspect.yaml``."""

    data: DataConfig = key(..., "measured scan")
    output: Text | None = key(None, "picture to write; null: outputs/inspect/<name of the file>.png")


def report(config: InspectConfig) -> list[str]:
    """Read a scan, draw it, and say what was interpreted, a line each."""
    path = Path(config.output or f"outputs/inspect/{Path(config.data.path).stem}.png")
    check_output(path, True, [Path(config.data.path)])
    raw = open_raw(config.data)
    scan = interpret(raw, config.data)
    figure = Scan(path.stem, config.data, scan).plot()
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=110))
    return [*lines(scan, config.data), f"picture: {path}"]


def lines(scan: ScanGeometry, config: DataConfig) -> list[str]:
    lines = [f"{config.path}: {scan.raw.format}, {scan.raw.patterns.shape[0]} patterns"]
    lines += [f"  {finding}" for finding in scan.findings]
    lines += [f"  note: {note}" for note in scan.raw.notes]
    lines += [f"  ! {warning}" for warning in scan.warnings]
    if scan.probe is None:
        lines.append(
            "  no probe: it will be estimated from the mean pattern; or set probe=zone_plate, "
            "probe=npz probe.file=…"
        )
    return lines
