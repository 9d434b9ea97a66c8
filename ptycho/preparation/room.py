"""Whether a machine has room for a run on measured scans: disk for their patterns, memory for all else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ptycho.config import NETWORK, ConfigError
from ptycho.config.data import SMALLEST_N, DataConfig
from ptycho.config.memory import (
    OF_A_SCANNED_OBJECT,
    Part,
    check_memory,
    in_words,
    solver_parts,
    training_parts,
)
from ptycho.config.sections import GeneratorConfig
from ptycho.preparation.geometry import isolated
from ptycho.preparation.prepare import ScanGeometry
from ptycho.readers.raw_scan import RawScan, checked_frames
from ptycho.scan.groups import grouped, smallest_region


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


class NetworkSizes(NamedTuple):
    """What the memory of a network depends on, besides the scan."""

    model: GeneratorConfig
    batch_size: int  # groups in a batch
    group_size: int
    tiles: bool  # groups share the patterns among them


def check_memory_for(
    scan: ScanGeometry,
    name: str,
    modes: int | None = None,
    block: int | None = None,
    network: NetworkSizes | None = None,
) -> None:
    """Refuse a scan that needs more memory than there is; patterns and regions stay in files.

    Args:
        name: of the scan.
        modes: of the probe; None: as many as that of the file.
        block: patterns that the solver fits together; None: by default.
        network: that reconstructs the scan, too; None: none does.
    """
    near = np.delete(scan.positions, isolated(scan.positions), axis=0)
    M = scan.object_size - int(np.ptp(scan.positions, axis=0).max() - np.ptp(near, axis=0).max())
    modes = modes or (1 if scan.probe is None else len(scan.probe))
    phases = {f"solves {name}": solver_parts(len(near), scan.N, modes, M, block)}
    if network is not None:
        model, batch_size, group_size, tiles = network
        groups = grouped(near, np.zeros(len(near), np.int32), group_size, tiles)
        shape = (groups.shape[1], scan.N, smallest_region(near, groups, scan.N))
        phases[f"trains on {name}"] = training_parts(NETWORK, model, batch_size, shape)
        phases[f"reconstructs {name}"] = [
            Part("the object, its stitching and its figures", 400 * M**2, OF_A_SCANNED_OBJECT)
        ]
    check_memory(phases)
