"""Estimate the memory that a run needs, from its configuration alone, and compare it with the available one.

A run goes through phases; it needs the memory of the largest phase and 1 GiB for Python, TensorFlow and its
compiler. The numbers of arrays are those of the code; the factors were measured as peaks of the process
(N = 64, batches of 16 to 256, both generators, with XLA and without it; objects to 4096²). The estimate is
0.85 to 1.5 times the measured memory, and up to twice for probes that leave most of the window dark, because
networks are smaller for these than is assumed here. The symbols are those of :mod:`ptycho`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ptycho.config.messages import ConfigError
from ptycho.config.run_config import RunConfig
from ptycho.config.sections import BaselineConfig, FourierModel, GeneratorConfig, UNetModel, UnrolledModel

ROLES = {  # what a role is called, and what makes its scan smaller
    "train": ("training", "lower max_groups_train or nimgs_train"),
    "val": ("validation", "lower train.val_groups or size"),
    "test": ("test", "lower nimgs_test or size, or raise outer_offset_test"),
}
OF_AN_OBJECT = "lower size"
WAVES = 40  # bytes for each pixel of a pattern of a batch: five complex planes
PLANES = 16  # bytes for each pixel of a group and physics iteration, kept for the gradient
KEPT = 6.0  # bytes for each number that a layer gives
CHUNK_PIXELS = 2**18  # of the patterns that the solver handles at once
KEPT_BYTES = 2**28  # of patterns, and of their probes, that it keeps in memory
OF_A_SCANNED_OBJECT = "exclude isolated positions with data.drop, or raise data.bin"


@dataclass(frozen=True)
class Part:
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
    phases = {
        "simulates": [
            *(Part(one.name, 2 * one.size, one.advice) for one in (*patterns, objects)),
            *(part(r, "the groups of the {} scan", 32 * groups[r] * C, ", or gridsize") for r in ROLES),
            Part("one object on its doubled canvas", 256 * M**2, OF_AN_OBJECT),
            Part("the lines of an object", 64 * config.object.n_lines, "lower object.n_lines"),
        ]
    }
    for name in config.networks:
        members = 3 if name == "baseline" else C + config.of(name).model.neighbours  # a complex truth, too
        fewer = "lower train.val_groups" + " or model.neighbours" * (name != "baseline")
        validation = Part("the validation batches", 4 * drawn["val"] * members * N**2, fewer)
        trained = training_parts(name, config.architecture(name), config.batch_size, (C, N, R), "gridsize")
        phases[f"trains the {name}"] = [*patterns, objects, *trained, validation]
    phases["reconstructs"] = [
        *(*patterns, objects, part("test", "the regions of the {} scan", 8 * drawn["test"] * R**2)),
        Part("the stitched objects", 100 * config.nimgs_test * M**2, "lower nimgs_test or size"),
        Part("scores and figures", 300 * M**2, OF_AN_OBJECT),
    ]
    return phases


class Cost(NamedTuple):
    """Memory that a network takes."""

    parameters: float = 0
    numbers: float = 0  # that the layers of one round give for a group
    rounds: int = 1  # that are kept for the gradient
    iterations: int = 0  # of the physics
    keys: str = "model.target"  # on which its size depends


def cost(model: GeneratorConfig | BaselineConfig, N: int, C: int, R: int) -> Cost:
    """Return what a network takes: exact for unrolled stages, at most for a U-Net, 0 for one of your own."""
    if isinstance(model, UnrolledModel):
        w, cell, inner = model.width, model.coarsening**2, 2 * model.blocks
        head, tail = (9 * (5 + model.misfit) * cell + 1) * w, (9 * w + 1) * 2 * cell
        recalled = model.memory * (model.stages - 1) * (w + 1) * w
        parameters = 1 + model.stages * (head + inner * (9 * w + 1) * w + tail) + recalled
        numbers = ((1 + inner + model.memory) * w + 2 * cell) * math.ceil(R / model.coarsening) ** 2
        keys = "model.stages, model.blocks or model.width"
        return Cost(parameters, numbers, model.stages, model.stages, keys)
    if isinstance(model, UNetModel):
        most = 32 * model.filters_scale * 2 ** (model.halvings(N) - 1)  # channels
        return Cost(72 * most**2, 235 * model.filters_scale * N**2, keys="model.filters_scale")
    if isinstance(model, FourierModel):
        w, layers = model.width, model.layers
        inner, ends = (4 * model.modes**2 + 1) * w**2 + w, (C + 3) * w + 2 * w * (w + 1) + 2 * C * (2 * w + 1)
        parameters = layers * inner + ends
        return Cost(parameters, (3 * layers + 5) * w * N**2, keys="model.width, model.modes or model.layers")
    if isinstance(model, BaselineConfig):
        scale = model.filters_scale
        return Cost(71 * (128 * scale) ** 2, 294 * scale * N**2, keys="baseline.filters_scale")
    return Cost()


def training_parts(
    name: str,
    model: GeneratorConfig | BaselineConfig,
    batch_size: int,
    shape: tuple[int, int, int],
    grouping: str = "group_size",
) -> list[Part]:
    """Return what the training of a network holds besides its data: weights, and what a batch leads to.

    Args:
        name, model: of the network; its settings.
        batch_size, shape: groups in a batch; their ``(C, N, R)``.
        grouping: key on which C depends.
    """
    C, N, R = shape
    C, near = (1, 0) if isinstance(model, BaselineConfig) else (C, model.neighbours)
    needs = cost(model, N, C, R)
    layers = KEPT * needs.rounds * needs.numbers + PLANES * needs.iterations * C * N**2
    fewer = f"lower {'model.neighbours, ' * (near > 0)}{grouping} or batch_size"
    size = f"lower {needs.keys}"
    copies = 9  # gradient and its clipped copy, moments, best weights, what a checkpoint copies
    return [
        Part(f"the weights of the {name} and their optimizer", 4 * copies * needs.parameters, size),
        Part("the patterns of a batch and their neighbours", WAVES * batch_size * (C + near) * N**2, fewer),
        Part("the layers of a batch", batch_size * layers, f"{size}, batch_size or {grouping}"),
    ]


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
            f"memory: needs about {in_words(needed)} while it {phase}, and the machine has "
            f"{in_words(limit)}, {in_words(needed - limit)} too little; most of it for {part.name}, "
            f"{in_words(part.size)}: {part.advice}"
        )


def physical_memory() -> int:
    """Return the memory of the machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cores() -> int:
    """Return how many cores of the machine this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_words(size: float) -> str:
    """Return bytes in a unit that fits, ``3.2 GB``."""
    scale, unit = next(((s, u) for s, u in ((1e6, "MB"), (1e9, "GB")) if size < 1e3 * s), (1e12, "TB"))
    return f"{size / scale:.3g} {unit}"
