"""Are frames that are late by one found, and only these?

    python benchmarks/frame_offset.py          # minutes

Every scan of ``trust_limits.py`` that is right, or damaged otherwise than by an offset, is aligned up to that
step as it is, and with its frames late by one. Nothing is fitted to the end.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import numpy as np
from tabulate import tabulate

from benchmarks.trust_limits import HARMLESS, Cell, cells, late, scene_of, write
from ptycho.align.aligned import RunContext, read
from ptycho.align.initial_probe import check_probe
from ptycho.align.orientation import find_frame_offset
from ptycho.config import ConfigError, ScanRunConfig
from ptycho.run.scan_plan import interpret_scan


def claim(cell: Cell, is_late: bool) -> str:
    """Return the offset that is found in a scan, ``none``, or ``refused``."""
    scene = scene_of(cell)
    if is_late:
        late(scene)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            config = ScanRunConfig(data=write(scene, folder / "scan.npz"))
            aligned = check_probe(read(interpret_scan(config.data), config, RunContext(folder)))
        except ConfigError:
            return "refused"
        found = find_frame_offset(aligned.data, aligned.scan.frames)
        return "none" if found is None else str(found[0])


def main() -> None:
    logging.disable(logging.WARNING)
    rows = []
    for cell in cells():
        if cell.edit in ("late", "stuck"):  # stuck frames are late already
            continue
        kind = "right" if cell.edit in HARMLESS else "damaged"
        rows.append((kind, cell.name, claim(cell, False), claim(cell, True)))
        print(*rows[-1], sep=" | ", flush=True)
    table = []
    for kind in ("right", "damaged"):
        found = np.array([row[2:] for row in rows if row[0] == kind])
        count = len(found)
        table.append(
            (
                kind,
                count,
                f"{np.sum(found[:, 0] == 'none')} of {count}",
                f"{np.sum(found[:, 1] == '-1')} of {count}",
            )
        )
    print(tabulate(table, ("scans", "number", "as they are: no claim", "late: found"), tablefmt="pipe"))


if __name__ == "__main__":
    main()
