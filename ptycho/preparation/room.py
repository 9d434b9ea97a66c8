"""Whether a machine has room for a run on measured scans: disk for their patterns, memory for all else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ptycho.config import NETWORK, ScanRunConfig
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


def check_memory_for(config: ScanRunConfig, scan: ScanGeometry) -> None:
    """Refuse a run that needs more memory or disk than there is; patterns and regions stay in files."""
    name = config.data.name
    near = np.delete(scan.positions, isolated(scan.positions), axis=0)
    M = scan.object_size - int(np.ptp(scan.positions, axis=0).max() - np.ptp(near, axis=0).max())
    modes = config.probe.modes or (1 if scan.probe is None else len(scan.probe))
    parts = solver_parts(len(near), scan.N, modes, M, config.solver.block)
    phases = {f"solves {name}": _with_far_frames(parts, scan)}
    if NETWORK in config.models:
        assert config.batch_size is not None  # filled in
        image = np.zeros(len(near), np.int32)
        groups = grouped(near, image, config.patterns_in_group, bool(config.tiles))
        shape = (groups.shape[1], scan.N, smallest_region(near, groups, scan.N))
        phases[f"trains on {name}"] = training_parts(NETWORK, config.model, config.batch_size, shape)
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
