"""What a dataset must satisfy: every problem, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptycho.scan.groups import overreach
from ptycho.scan.patterns import Statistics

Shape = tuple[int, ...]
SHAPES = {
    "probe": "N N | K N N",
    "image": "J",
    "positions": "J 2",
    "amplitudes": "J N N",
    "good": "N N",
    "groups": "G C",
    "objects": "I M M",
}


def problems(values: Mapping[str, Any], amplitudes: Shape, statistics: Statistics | None) -> list[str]:
    """Return everything that is wrong with a dataset.

    Args:
        values: the attributes of a :class:`ptycho.scan.dataset.Dataset` but for the amplitudes.
        amplitudes: their shape.
        statistics: of the amplitudes; None if they are no patterns.
    """
    given = {key: value for key, value in values.items() if value is not None}
    shapes = {key: value.shape for key, value in given.items() if isinstance(value, np.ndarray)}
    faults = _wrong_shapes(shapes | {"amplitudes": amplitudes}, given["object_size"])
    fitting = not faults
    faults += _number_problems(given) + _amplitude_problems(statistics)
    if fitting:
        faults += _scan_problems(given)
    if not faults and statistics is not None:
        faults = _range_problems(given, statistics)
    return faults


def _wrong_shapes(shapes: Mapping[str, Shape], M: int) -> list[str]:
    """Return which ``shapes`` are not as :data:`SHAPES`, or empty; a letter is the size that comes first."""
    known, faults = {"M": M}, []
    for key in (key for key in SHAPES if key in shapes):
        shape, choices = shapes[key], [choice.split() for choice in SHAPES[key].split("|")]
        letters = next((choice for choice in choices if len(choice) == len(shape)), choices[0])
        if len(letters) == len(shape):
            for letter, size in reversed([*zip(letters, shape, strict=True)]):
                if size:
                    known.setdefault(letter, size)
        expected = [known.get(letter, letter) for letter in letters]
        if list(shape) != expected or 0 in shape:
            names, numbers = (f"({', '.join(map(str, some))})" for some in (letters, expected))
            said = names if names == numbers else f"{names} = {numbers}"
            faults.append(f"{key} has shape {shape}; must be {said}{', not empty' if 0 in shape else ''}")
    return faults


def _number_problems(given: Mapping[str, Any]) -> list[str]:
    """Values that are impossible whatever the others are."""
    faults = []
    probe, scale = given.get("probe"), given.get("photon_scale", 1.0)
    if probe is not None and not (np.isfinite(probe).all() and probe.any()):
        faults.append("probe is zero, or holds NaN or infinity; must be finite and not zero")
    if not (np.isfinite(scale) and scale > 0):
        faults.append(f"photon_scale={scale}; must be a finite number > 0")
    for key in ("objects", "positions"):
        if key in given and not np.isfinite(given[key]).all():
            faults.append(f"{key} holds NaN or infinity; must be finite")
    return faults


def _amplitude_problems(statistics: Statistics | None) -> list[str]:
    if statistics is None:
        return []
    bad = int(np.count_nonzero(~np.isfinite(statistics.energies)))
    if bad:
        return [f"amplitudes holds NaN or infinity in {bad} of {len(statistics.energies)} patterns"]
    if not statistics.energies.any():
        return ["amplitudes is zero everywhere; no photon was counted"]
    return []


def _scan_problems(given: Mapping[str, Any]) -> list[str]:
    """What is wrong between positions, groups and images whose shapes fit."""
    needed = "positions", "image", "groups", "object_size", "region_size"
    positions, image, groups, M, R = (given[key] for key in needed)
    J, N, faults = len(positions), given["probe"].shape[-1], []
    if groups.min() < 0 or groups.max() >= J:
        faults.append(f"groups points outside the {J} patterns")
    n_images = len(given["objects"]) if "objects" in given else int(image.max()) + 1
    if image.min() < 0 or image.max() >= n_images:
        faults.append(f"image points outside the {n_images} objects")
    if n_images * M**2 > 2**28:  # 2 GiB of complex64
        faults.append(f"object_size={M}: {n_images} objects of {M} × {M} pixels; at most 2^28 pixels in all")
    if np.isfinite(positions).all() and (positions.min() < 0 or positions.max() > M - N):
        outside = int(np.any((positions < 0) | (positions > M - N), axis=1).sum())
        faults.append(
            f"positions reach from {positions.min():g} to {positions.max():g}; must lie within [0, {M - N}] "
            f"so that every patch is inside its object ({outside} of {J} do not)"
        )
    if faults:
        return faults
    if np.any(image[groups] != image[groups[:, :1]]):
        return ["a group mixes patterns of different images"]
    missing = overreach(positions, groups, R, N)
    return [f"region_size={R} does not cover the groups; {missing:g} px miss"] if missing > 1e-3 else []


def _range_problems(given: Mapping[str, Any], statistics: Statistics) -> list[str]:
    """Whether what the network would be given can be represented."""
    f, info = given["probe"].shape[-1] / 2 / np.sqrt(statistics.mean_energy), np.finfo(np.float32)
    peak = f * given["photon_scale"] * float(np.abs(given["probe"]).max())
    return [
        f"{name} is out of the range of float32 once normalised (factor {value:g})"
        for name, value in (("amplitudes", f), ("photon_scale times probe", peak))
        if not info.tiny < value < info.max
    ]
