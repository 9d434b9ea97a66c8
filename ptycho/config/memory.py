"""Estimate the memory that a run needs, from its configuration alone, and compare it with the available one.

A run goes through phases; it needs the memory of the largest phase and 1 GiB for Python, TensorFlow and its
compiler. The numbers of arrays are those of the code; the factors were measured as peaks of the process
(objects to 4096²). What a network needs is known once it is built:
:func:`ptycho.run.network_training.check_network_memory`. The symbols are those of :mod:`ptycho`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ptycho.config.messages import ConfigError
from ptycho.config.run_config import RunConfig

ROLES = {  # what a role is called, and what makes its scan smaller
    "train": ("training", "lower max_groups_train or nimgs_train"),
    "val": ("validation", "lower train.val_groups or size"),
    "test": ("test", "lower nimgs_test or size, or raise outer_offset_test"),
}
OF_AN_OBJECT = "lower size"
CHUNK_PIXELS = 2**18  # of the patterns that the solver handles at once
KEPT_BYTES = 2**28  # of patterns, and of their probes, that it keeps in memory
OF_A_SCANNED_OBJECT = "exclude isolated positions with data.drop, or raise data.bin"


class Part(NamedTuple):
    """Something that memory must hold, and what to do to make it smaller."""

    name: str
    size: float  # bytes
    advice: str


Phases = Mapping[str, Sequence[Part]]


def run_memory(config: RunConfig) -> Phases:
    """Return what a run of the grid-lines workflow holds, phase by phase."""
    N, C, M, R = config.N, config.group_size, config.size, config.region_size
    images = {"train": config.nimgs_train, "val": 1, "test": config.nimgs_test}
    limits = {"train": config.max_groups_train, "val": config.train.val_groups}
    axis = {role: config.groups_per_axis(role) for role in ROLES}
    groups = {role: images[role] * axis[role] ** 2 for role in ROLES}
    drawn = {role: min(groups[role], limits.get(role) or groups[role]) for role in ROLES}
    # what several groups share is measured once; an image has no more positions than pixels
    positions = {role: images[role] * min(axis[role] * config.gridsize, M - N + 1) ** 2 for role in ROLES}

    def part(role: str, name: str, size: float, also: str = "") -> Part:
        return Part(name.format(ROLES[role][0]), size, ROLES[role][1] + also)

    patterns = [part(r, "the {} patterns", 4 * min(drawn[r] * C, positions[r]) * N**2) for r in ROLES]
    objects = Part("the objects", 8 * sum(images.values()) * M**2, "lower nimgs_train, nimgs_test or size")
    return {
        "simulates": [
            *(Part(one.name, 2 * one.size, one.advice) for one in (*patterns, objects)),
            *(part(r, "the groups of the {} scan", 32 * groups[r] * C, ", or gridsize") for r in ROLES),
            Part("one object on its doubled canvas", 256 * M**2, OF_AN_OBJECT),
            Part("the lines of an object", 64 * config.object.n_lines, "lower object.n_lines"),
        ],
        "reconstructs": [
            *(*patterns, objects, part("test", "the regions of the {} scan", 8 * drawn["test"] * R**2)),
            Part("the stitched objects", 100 * config.nimgs_test * M**2, "lower nimgs_test or size"),
            Part("scores and figures", 300 * M**2, OF_AN_OBJECT),
        ],
    }


def block_patterns(N: int, pixels: int = 2**25) -> int:
    """Return how many patterns of N × N a block of a large scan has by default: so many ``pixels``."""
    return max(1, pixels // N**2)


def solver_parts(patterns: int, N: int, modes: int, M: int, block: int | None) -> list[Part]:
    """Return what the solver holds of a scan of one object of side M; patterns beyond a block stay in a file.

    ``block``: patterns of a block; None: as :func:`block_patterns`.
    """
    most = block_patterns(N) if block is None else block
    blocks = -(-patterns // most)
    side = M if blocks == 1 else min(M, N + M / blocks**0.5)
    held = 1.3 * min(patterns / blocks, most) * N**2  # with the patterns around a block
    vectors = 34  # twelve pairs of L-BFGS, and the vectors computed from them
    steps, waves = vectors * (8 * side**2 + 8 * modes * N**2), 8 * modes * held  # waves: of a difference map
    return [
        Part("the patterns of a block", 4 * held, "lower solver.block, or raise data.bin"),
        Part("the probes of the patterns", min(8 * modes * held, KEPT_BYTES), "lower solver.block"),
        Part("the solver's steps", max(steps, waves), f"lower solver.block, {OF_A_SCANNED_OBJECT}"),
        Part("the patterns in work", 400 * modes * CHUNK_PIXELS, "lower probe.modes"),
        Part("the object, its errors and its pictures", 90 * M**2, OF_A_SCANNED_OBJECT),
    ]


def check_memory(phases: Phases, available: int | None = None, process: int = 2**30) -> None:
    """Refuse what needs more than the machine's physical memory, or ``available`` bytes."""
    limit = physical_memory() if available is None else available
    phase, parts = max(phases.items(), key=lambda entry: sum(part.size for part in entry[1]))
    needed = process + sum(part.size for part in parts)
    if needed > limit:
        part = max(parts, key=lambda part: part.size)
        raise ConfigError(
            f"memory: needs about {size_text(needed)} while it {phase}, and the machine has "
            f"{size_text(limit)}, {size_text(needed - limit)} too little; most of it for {part.name}, "
            f"{size_text(part.size)}: {part.advice}"
        )


def physical_memory() -> int:
    """Return the memory of the machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """Return how many cores of the machine this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def size_text(count: float) -> str:
    """Return bytes in a unit that fits, ``3.2 GB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
