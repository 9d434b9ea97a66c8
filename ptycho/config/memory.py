"""How much memory a run will take, from its configuration alone, before anything is made.

A run goes through phases; what it needs is the largest of them and ``PROCESS`` bytes for Python, TensorFlow
and its compiler. The parts of a phase, in bytes (letters as in :mod:`ptycho`):

================================ ===================================================================
patterns of a role               ``4 J N²``, twice in the simulation (without and with noise)
groups of a role                 ``32`` a member, of the whole scan before any are drawn
objects                          ``8 I M²``, twice while they are stacked
one object on its canvas         ``256 M²``: eight arrays of (2M)² float64
weights                          ``4 · 9`` each: weights, gradient and its clipped copy, two moments of Adam,
                                 best weights, and what a checkpoint copies
patterns of a batch              ``40 N²`` each, with neighbours and members alike: five complex planes
layers of a batch                ``1.5 · 4`` a number that a convolution or pooling gives, and for each
                                 physics iteration ``16 C N²`` a group: kept for the gradient
validation batches               ``4 N²`` a pattern and neighbour
regions                          ``8 G R²``
stitched objects                 ``100 I M²``; scores and figures of one, ``300 M²``
================================ ===================================================================

The counts of arrays are those of the code; the factors 40, 1.5, 16, 100 and 300 were measured as peaks of
the process (N = 64, batches of 16 to 256, both generators, with XLA and without it; objects to 4096²). The
whole is 0.85 to 1.5 times what was measured, and up to twice for probes that leave most of the window dark:
networks are smaller for these than is assumed here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptycho.config.errors import ConfigError
from ptycho.config.network_config import NetworkConfig
from ptycho.config.run_config import RunConfig
from ptycho.config.sections import UNetModel, UnrolledModel

PROCESS = 2**30
ROLES = {  # what a role is called, and what makes its scan smaller
    "train": ("training", "lower max_groups_train or nimgs_train"),
    "val": ("validation", "lower train.val_groups or size"),
    "test": ("test", "lower nimgs_test or size, or raise outer_offset_test"),
}
OF_A_SCAN = "lower nimgs_train, nimgs_test or size"
OF_AN_OBJECT = "lower size"
OF_THE_DATA = "give data of a smaller object_size"
COPIES = 9  # of the weights
WAVES, PLANES, KEPT = 40, 16, 6.0  # bytes; see above


@dataclass(frozen=True)
class Part:
    """Something that memory must hold, and what to do to make it smaller."""

    name: str
    size: float  # bytes
    advice: str


Phases = Mapping[str, Sequence[Part]]


def run_memory(config: RunConfig) -> Phases:
    """What a run of the grid-lines workflow holds, phase by phase."""
    patterns, M = [_patterns(config, role) for role in ROLES], config.size
    objects = Part("the objects", 8 * (config.nimgs_train + 1 + config.nimgs_test) * M**2, OF_A_SCAN)
    phases = {
        "simulates": [
            *(Part(part.name, 2 * part.size, part.advice) for part in (*patterns, objects)),
            *(_members(config, role) for role in ROLES),
            Part("one object on its doubled canvas", 256 * M**2, OF_AN_OBJECT),
            Part("the lines of an object", 64 * config.object.n_lines, "lower object.n_lines"),
        ]
    }
    for name in config.networks:
        parts = training_parts(config, name, config.N, config.group_size, config.region_size)
        phases[f"trains the {name}"] = [*patterns, objects, *parts, _validation(config, name)]
    phases["reconstructs"] = [
        *(*patterns, objects),
        Part(
            "the regions of the test scan",
            8 * _groups(config, "test") * config.region_size**2,
            ROLES["test"][1],
        ),
        Part("the stitched objects", 100 * config.nimgs_test * M**2, "lower nimgs_test or size"),
        Part("scores and figures", 300 * M**2, OF_AN_OBJECT),
    ]
    return phases


def training_parts(config: NetworkConfig, name: str, N: int, C: int, R: int) -> list[Part]:
    """What the training of a network holds besides its data: weights, and what a batch leads to."""
    C, near = (C, config.model.neighbours) if name == "pinn" else (1, 0)
    B, smaller = config.batch_size, f"lower {_sizes(config, name)}"
    layers = KEPT * layer_numbers(config, name, N, C, R) + _iterations(config, name) * PLANES * C * N**2
    weights = 4 * COPIES * parameters(config, name, N, C)
    fewer = "lower model.neighbours, gridsize or batch_size" if near else "lower gridsize or batch_size"
    return [
        Part(f"the weights of the {name} and their optimizer", weights, smaller),
        Part("the patterns of a batch and their neighbours", WAVES * B * (C + near) * N**2, fewer),
        Part("the layers of a batch", B * layers, f"{smaller}, batch_size or gridsize"),
    ]


def inference_memory(
    config: NetworkConfig, batch_size: int, shape: tuple[int, int, int], images: int, M: int, truth: bool
) -> Phases:
    """What an inference holds whose patterns and regions stay in files.

    Args:
        config: of the run that trained the networks.
        batch_size: groups in a batch.
        shape: ``(C, N, R)`` of the groups.
        images, M: number and side of the objects.
        truth: they are known, and are scored.
    """
    C, N, R = shape
    layers = max(layer_numbers(config, name, N, C, R, kept=False) for name in config.networks)
    batch = batch_size * (KEPT * layers + (WAVES + PLANES) * C * N**2)
    parts = [
        Part("the objects", (100 + 8 * truth) * images * M**2, OF_THE_DATA),
        Part("scores and figures", (300 if truth else 90) * M**2, OF_THE_DATA),
        Part("a batch", batch, "lower batch_size or group_size"),
    ]
    return {"reconstructs": parts}


def check_memory(phases: Phases, available: int | None = None) -> None:
    """Refuse what needs more than the machine's physical memory, or ``available`` bytes.

    Raises:
        ConfigError: names the largest part, its size, and what to lower.
    """
    limit = physical_memory() if available is None else available
    phase, parts = max(phases.items(), key=lambda entry: sum(part.size for part in entry[1]))
    needed = PROCESS + sum(part.size for part in parts)
    if needed > limit:
        part = max(parts, key=lambda part: part.size)
        raise ConfigError(
            f"memory: needs about {in_words(needed)} while it {phase}, and the machine has "
            f"{in_words(limit)}; most of it for {part.name}, {in_words(part.size)}: "
            f"{part.advice}"
        )


def physical_memory() -> int:
    """Bytes of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def in_words(size: float) -> str:
    """Bytes in a unit that fits, ``3.2 GB``."""
    for unit in ("MB", "GB", "TB"):
        size /= 1e6 if unit == "MB" else 1e3
        if size < 1000:
            return f"{size:.3g} {unit}"
    return f"{size:.3g} TB"


# ---- data


def _images(config: RunConfig, role: str) -> int:
    return {"train": config.nimgs_train, "val": 1, "test": config.nimgs_test}[role]


def _groups(config: RunConfig, role: str) -> int:
    """Groups of a role, after the drawing."""
    limit = {"train": config.max_groups_train, "val": config.train.val_groups, "test": None}[role]
    groups = _images(config, role) * config.groups_per_axis(role) ** 2
    return groups if limit is None else min(groups, limit)


def _patterns(config: RunConfig, role: str) -> Part:
    """A position that several groups share is measured once; an image has no more positions than pixels."""
    axis = min(config.groups_per_axis(role) * config.gridsize, config.size - config.N + 1)
    count = min(_groups(config, role) * config.group_size, _images(config, role) * axis**2)
    name, advice = ROLES[role]
    return Part(f"the {name} patterns", 4 * count * config.N**2, advice)


def _members(config: RunConfig, role: str) -> Part:
    members = _images(config, role) * config.groups_per_axis(role) ** 2 * config.group_size
    name, advice = ROLES[role]
    return Part(f"the groups of the {name} scan", 32 * members, f"{advice}, or gridsize")


def _sizes(config: NetworkConfig, name: str) -> str:
    """The keys of a network's size."""
    if name == "baseline":
        return "baseline.filters_scale"
    unrolled = isinstance(config.model, UnrolledModel)
    return "model.stages, model.blocks or model.width" if unrolled else "model.filters_scale"


def _validation(config: RunConfig, name: str) -> Part:
    members = 3  # of the baseline: a pattern, and a complex truth
    if name == "pinn":
        members = config.group_size + config.model.neighbours
    size = 4 * _groups(config, "val") * members * config.N**2
    return Part("the validation batches", size, "lower train.val_groups or model.neighbours")


# ---- networks


def parameters(config: NetworkConfig, name: str, N: int, C: int) -> int:
    """Trainable numbers of a network."""
    model = config.model
    if name == "pinn" and isinstance(model, UnrolledModel):
        recalled = model.memory * (model.stages - 1) * (model.width + 1) * model.width  # 1 × 1 convolutions
        return 1 + model.stages * _weights(_stage(model)) + recalled
    if name == "pinn" and isinstance(model, UNetModel):
        encoder, channels = _filters(N, model.filters_scale), C if model.object_big else 1
        return _weights(_convolutions(C, encoder)) + 2 * _weights(
            [*_convolutions(encoder[-1], encoder[1:][::-1]), (encoder[1], channels)]
        )
    encoder = [config.baseline.filters_scale * n for n in (32, 64, 128)]
    decoder = [*_convolutions(encoder[-1], encoder[::-1]), (encoder[0], 1)]
    return _weights(_convolutions(1, encoder)) + 2 * _weights(decoder)


def layer_numbers(config: NetworkConfig, name: str, N: int, C: int, R: int, kept: bool = True) -> float:
    """Numbers that the convolutions and poolings of one group give; of one stage if they are not ``kept``."""
    model = config.model
    if name == "pinn" and isinstance(model, UnrolledModel):
        outputs = sum(out for _, out in _stage(model)) + model.memory * model.width
        return (model.stages if kept else 1) * outputs * math.ceil(R / model.coarsening) ** 2
    if name == "pinn" and isinstance(model, UNetModel):
        return _coder_numbers(_filters(N, model.filters_scale), 1, N)
    return _coder_numbers([config.baseline.filters_scale * n for n in (32, 64, 128)], 0, N)


def _stage(model: UnrolledModel) -> list[tuple[int, int]]:
    """Channels (in, out) of a stage's convolutions."""
    w, pixels = model.width, model.coarsening**2
    return [((5 + model.misfit) * pixels, w), *[(w, w)] * (2 * model.blocks), (w, 2 * pixels)]


def _iterations(config: NetworkConfig, name: str) -> int:
    return config.model.stages if name == "pinn" and isinstance(config.model, UnrolledModel) else 0


def _filters(N: int, scale: int) -> list[int]:
    """Of the ``unet`` encoder."""
    return [32 * scale * 2**i for i in range(UNetModel.halvings(N))]


def _convolutions(channels: int, filters: list[int]) -> list[tuple[int, int]]:
    """Channels (in, out) of stacks of two."""
    before = [channels, *filters[:-1]]
    return [pair for one, n in zip(before, filters, strict=True) for pair in ((one, n), (n, n))]


def _weights(convolutions: list[tuple[int, int]]) -> int:
    """Numbers in 3 × 3 kernels and their biases."""
    return sum(9 * one * two + two for one, two in convolutions)


def _coder_numbers(filters: list[int], skipped: int, N: int) -> float:
    """Of an encoder with poolings and two decoders with upsamplings, which leave out ``skipped`` levels."""
    encoder = sum((2 + 1 / 4) * n * (N / 2**level) ** 2 for level, n in enumerate(filters))
    side = N / 2 ** len(filters)
    decoder = sum((2 + 4) * n * (side * 2**level) ** 2 for level, n in enumerate(filters[skipped:][::-1]))
    return encoder + 2 * decoder
