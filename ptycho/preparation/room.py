"""Whether a machine has room for a run on measured scans: disk for their patterns, memory for all else."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import SMALLEST_N, DataConfig
from ptycho.config.memory import OF_A_SCANNED_OBJECT, Part, check_memory, in_words, solver_parts
from ptycho.preparation.geometry import isolated
from ptycho.preparation.prepare import ScanGeometry
from ptycho.readers.raw_scan import RawScan, checked_frames


def check_disk(raw: RawScan, section: DataConfig, folder: Path, key: str = "output_dir") -> None:
    """Refuse a scan if the disk of a folder has too little room for a copy of its patterns; none is read.

    ``key``: what determines the folder.
    """
    count, height, width = raw.patterns.shape
    N = section.N or max(min(height, width) // section.bin, SMALLEST_N)
    patterns = len(checked_frames(section, count))
    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.is_dir())
    needed, available = 4 * patterns * N**2, shutil.disk_usage(place).free
    if needed > available:
        raise ConfigError(
            f"disk: a copy of the {patterns} patterns takes {in_words(needed)} in {place}, and "
            f"{in_words(available)} are available there, {in_words(needed - available)} too little: take "
            f"fewer (data.stride, data.frames), bin them (data.bin), or set {key} to a folder with room"
        )


def check_memory_for(
    scan: ScanGeometry,
    name: str,  # of the scan
    modes: int | None = None,  # of the probe; None: as many as that of the file
    block: int | None = None,  # patterns that the solver fits together; None: by default
    network: bool = False,  # one reconstructs the scan, too
) -> None:
    """Refuse a scan that needs more memory than there is; patterns and regions stay in files."""
    near = np.delete(scan.positions, isolated(scan.positions), axis=0)
    M = scan.object_size - int(np.ptp(scan.positions, axis=0).max() - np.ptp(near, axis=0).max())
    modes = modes or (1 if scan.probe is None else len(scan.probe))
    phases = {f"solves {name}": solver_parts(len(near), scan.N, modes, M, block)}
    if network:
        phases[f"reconstructs {name}"] = [
            Part("the object, its stitching and its figures", 400 * M**2, OF_A_SCANNED_OBJECT)
        ]
    check_memory(phases)
