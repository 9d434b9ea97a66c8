"""How much memory a run will take, from its configuration alone, before anything is made; what there is.

The counts of arrays are those of the code; factors were measured as peaks of the process (N = 64, batches of
16 to 256, with XLA and without it; objects to 4096²). What a network takes besides is asked of it when it is
built (:func:`network_parts`). Letters are those of :mod:`ptycho`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptycho.config.errors import ConfigError
from ptycho.config.run_config import RunConfig

PROCESS = 2**30  # bytes of Python, TensorFlow and its compiler
BLOCK_PIXELS = 2**25  # of the patterns of a block of a large scan, at most, where nothing else is asked for
CHUNK_PIXELS = 2**18  # of the patterns that the solver handles at once
OF_A_SCANNED_OBJECT = "exclude isolated positions with data.drop, or raise data.bin"
OF_PATTERNS = "take fewer (data.stride, data.frames), bin them (data.bin), or set output_dir elsewhere"


@dataclass(frozen=True)
class Part:
    """Something that memory must hold, and what to do to make it smaller."""

    name: str
    size: float  # bytes
    advice: str


def run_memory(config: RunConfig) -> list[Part]:
    """Return what a run of the grid-lines workflow holds: at most half as much again as was measured."""
    N, C, M, R = config.N, config.group_size, config.size, config.region_size
    axis = {role: config.groups_per_axis(role) for role in ("train", "val", "test")}
    images = {"train": config.nimgs_train, "val": 1, "test": config.nimgs_test}
    limits = {"train": config.max_groups_train, "val": config.train.val_groups, "test": None}
    advice = {
        "train": "lower max_groups_train or nimgs_train",
        "val": "lower train.val_groups or size",
        "test": "lower nimgs_test or size, or raise outer_offset_test",
    }
    parts, drawn = [], {}
    for role, count in images.items():
        groups = count * axis[role] ** 2
        drawn[role] = min(groups, limits[role] or groups)
        # what several groups share is measured once; an image has no more positions than pixels
        positions = count * min(axis[role] * config.gridsize, M - N + 1) ** 2
        patterns = min(drawn[role] * C, positions)
        parts.append(Part(f"the {role} patterns", 8 * patterns * N**2 + 32 * groups * C, advice[role]))
    objects, lines = 16 * sum(images.values()) * M**2, 64 * config.object.n_lines
    regions = 8 * drawn["test"] * R**2 + 100 * config.nimgs_test * M**2
    return [
        *parts,
        Part("the objects", objects, "lower nimgs_train, nimgs_test or size"),
        Part("the lines of an object", lines, "lower object.n_lines"),
        Part("the stitched objects", regions, advice["test"]),
        Part("the canvas of an object, scores and figures", 560 * M**2, "lower size"),
        batch_part(config.batch_size, C + config.model.neighbours, N, "gridsize"),
    ]


def batch_part(batch_size: int, patterns: int, N: int, key: str) -> Part:
    """Return what a batch of groups of so many patterns takes at least, whatever the network is."""
    return Part("a batch", 60 * batch_size * patterns * N**2, f"lower batch_size or {key}")


def network_parts(parameters: int, given: int) -> list[Part]:
    """Return what the training of a built network holds.

    Args:
        parameters: of the network; there are nine copies: gradients, moments, best weights, checkpoint.
        given: bytes of all that its operations give for a batch, of which about 40 % are kept.
    """
    return [
        Part("the weights of the network and their optimizer", 36 * parameters, "take a smaller model"),
        Part("the layers of a batch", 0.4 * given, "lower batch_size, or take a smaller model"),
    ]


def solver_parts(patterns: int, N: int, modes: int, M: int, block: int | None) -> list[Part]:
    """Return what the solver holds of a scan of one object of side M; other patterns stay in a file.

    ``block``: patterns of a block, which is fitted with a third more; None: as many as fit ``BLOCK_PIXELS``.
    """
    most = max(1, BLOCK_PIXELS // N**2) if block is None else block
    blocks = -(-patterns // most)
    side = M if blocks == 1 else min(M, N + M / blocks**0.5)
    held, vectors = 1.3 * min(patterns / blocks, most) * N**2, 34  # twelve pairs of steps, and more
    return [
        Part("the patterns of a block", 4 * held, "lower solver.block, or raise data.bin"),
        Part("the solver's steps", vectors * (8 * side**2 + 8 * modes * N**2), "lower solver.block"),
        Part("the patterns in work", 400 * modes * CHUNK_PIXELS, "lower probe.modes"),
        Part("the object, its errors and its pictures", 90 * M**2, OF_A_SCANNED_OBJECT),
    ]


def inference_memory(batch_size: int, C: int, N: int, images: int, M: int, truth: bool) -> list[Part]:
    """Return what an inference holds whose patterns and regions stay in files.

    Args:
        batch_size, C, N: groups in a batch, patterns in a group, their side.
        images, M, truth: number and side of the objects; whether they are known, and are scored.
    """
    smaller = "give data of a smaller object_size"
    return [
        Part("the objects", (100 + 8 * truth) * images * M**2, smaller),
        Part("scores and figures", (300 if truth else 90) * M**2, smaller),
        batch_part(2 * batch_size, C, N, "group_size"),
    ]


def check_disk(patterns: int, N: int, folder: Path, advice: str = OF_PATTERNS) -> None:
    """Refuse a scan whose patterns, copied into a nameless file, do not fit where results are written."""
    place = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.is_dir())
    needed, free = 4 * patterns * N**2, shutil.disk_usage(place).free
    if needed > free:
        raise ConfigError(
            f"disk: a copy of the {patterns} patterns takes {in_words(needed)} in {place}, and "
            f"{in_words(free)} are available there, {in_words(needed - free)} too little: {advice}"
        )


def check_memory(parts: Sequence[Part], available: int | None = None) -> None:
    """Refuse what needs more than the machine's physical memory, or ``available`` bytes."""
    limit = physical_memory() if available is None else available
    needed = PROCESS + sum(part.size for part in parts)
    if needed > limit:
        part = max(parts, key=lambda part: part.size)
        raise ConfigError(
            f"memory: needs about {in_words(needed)}, and the machine has {in_words(limit)}, "
            f"{in_words(needed - limit)} too little; most of it for {part.name}, {in_words(part.size)}: "
            f"{part.advice}"
        )


def physical_memory() -> int:
    """Bytes of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """Of the machine, those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_words(size: float) -> str:
    """Bytes in a unit that fits, ``3.2 GB``."""
    scale, unit = next(((s, u) for s, u in ((1e6, "MB"), (1e9, "GB")) if size < 1e3 * s), (1e12, "TB"))
    return f"{size / scale:.3g} {unit}"
