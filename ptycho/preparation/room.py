"""Whether a machine has room for a run on measured scans: disk for their patterns, memory for all else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptycho.config import NETWORK
from ptycho.config.data import SMALLEST_N, DataConfig
from ptycho.config.memory import (
    OF_A_SCANNED_OBJECT,
    OF_PATTERNS,
    Part,
    check_disk,
    check_memory,
    solver_parts,
    training_parts,
)
from ptycho.config.sections import GeneratorConfig
from ptycho.preparation.geometry import drop_words, isolated
from ptycho.preparation.prepare import ScanGeometry
from ptycho.readers.raw_scan import RawScan, checked_frames
from ptycho.scan.groups import grouped, smallest_region


def check_disk_for(raw: RawScan, section: DataConfig, folder: Path, advice: str = OF_PATTERNS) -> None:
    """Refuse a scan whose copied patterns do not fit on the disk, before any frame is read."""
    count, height, width = raw.patterns.shape
    used = len(checked_frames(section, count))
    check_disk(used, section.N or max(min(height, width) // section.bin, SMALLEST_N), folder, advice)


def check_scratch(raw: RawScan, section: DataConfig, scratch: Path) -> None:
    """Refuse a scan of Python's whose patterns, copied to ``scratch``, do not fit there."""
    elsewhere = OF_PATTERNS.replace("output_dir elsewhere", "the variable TMPDIR to a folder with room")
    check_disk_for(raw, section, scratch, elsewhere)


@dataclass(frozen=True)
class NetworkSizes:
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
    parts = solver_parts(len(near), scan.N, modes, M, block)
    phases = {f"solves {name}": _with_far_frames(parts, scan)}
    if network is not None:
        groups = grouped(near, np.zeros(len(near), np.int32), network.group_size, network.tiles)
        shape = (groups.shape[1], scan.N, smallest_region(near, groups, scan.N))
        phases[f"trains on {name}"] = training_parts(NETWORK, network.model, network.batch_size, shape)
        phases[f"reconstructs {name}"] = [
            Part("the object, its stitching and its figures", 400 * M**2, OF_A_SCANNED_OBJECT)
        ]
    check_memory(phases)


def _with_far_frames(parts: list[Part], scan: ScanGeometry, far: float = 20.0) -> list[Part]:
    """Parts that the size of the object decides, with advice that names frames far from all others.

    Args:
        far: times the median distance from the middle.
    """
    distance = np.linalg.norm(scan.positions - np.median(scan.positions, axis=0), axis=1)
    frames = scan.frames[distance > far * max(float(np.median(distance)), 1.0)].tolist()
    if not frames:
        return parts
    drop = f"{len(frames)} isolated positions: exclude them, {drop_words(frames)}"
    return [
        replace(part, advice=drop) if "solver.block" in part.advice or "data.drop" in part.advice else part
        for part in parts
    ]
