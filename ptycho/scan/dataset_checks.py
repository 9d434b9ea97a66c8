"""What a dataset must satisfy, whether it was simulated or comes from a file: every problem, by name."""

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


def problems(values: Mapping[str, Any], amplitudes: Shape | None, statistics: Statistics | None) -> list[str]:
    """Return everything that is wrong with a dataset.

    Args:
        values: the attributes of a :class:`ptycho.scan.dataset.Dataset` but for the amplitudes; what could
            not be read is left out, and what depends on it is not checked.
        amplitudes: their shape; None to check only what stands by itself, where shapes are known not to fit.
        statistics: of the amplitudes; None if they could not be read.
    """
    given = {key: value for key, value in values.items() if value is not None}
    faults: list[str] = []
    if amplitudes is not None:
        shapes = {key: value.shape for key, value in given.items() if isinstance(value, np.ndarray)}
        sizes = {"M": given["object_size"]} if "object_size" in given else {}
        faults += wrong_shapes(shapes | {"amplitudes": amplitudes}, SHAPES, sizes).values()
    fitting = amplitudes is not None and not faults
    faults += _number_problems(given) + _amplitude_problems(statistics)
    if fitting:
        faults += _scan_problems(given)
    if not faults and statistics is not None and {"probe", "photon_scale"} <= given.keys():
        faults = _range_problems(given, statistics)
    return faults


def wrong_shapes(
    shapes: Mapping[str, Shape], wanted: Mapping[str, str], sizes: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return by key which ``shapes`` are not as ``wanted``, or empty, and what they must be.

    Args:
        wanted: letters and numbers, ``J N N``, or several such, ``N N | K N N``. A letter is the size that
            the first of the keys gives it.
        sizes: those of some letters.
    """
    known, faults = dict(sizes or {}), {}
    for key in (key for key in wanted if key in shapes):
        shape, choices = shapes[key], [choice.split() for choice in wanted[key].split("|")]
        letters = next((choice for choice in choices if len(choice) == len(shape)), choices[0])
        if len(letters) == len(shape):
            for letter, size in reversed([*zip(letters, shape, strict=True)]):
                if size or letter.isdigit():
                    known.setdefault(letter, int(letter) if letter.isdigit() else size)
        expected = [known.get(letter, letter) for letter in letters]
        if list(shape) != expected or 0 in shape:
            names, numbers = (f"({', '.join(map(str, some))})" for some in (letters, expected))
            said = names if names == numbers else f"{names} = {numbers}"
            said = f"{said}, not empty" if 0 in shape else said
            faults[key] = f"{key} has shape {shape}; must be {said if letters else 'one number'}"
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
    if bad or statistics.negative:
        return [
            f"amplitudes holds NaN, infinity or negative numbers (NaN or infinity in {bad} and negative "
            f"numbers in {statistics.negative} of {len(statistics.energies)} patterns)"
        ]
    if not statistics.energies.any():
        return ["amplitudes is zero everywhere; no photon was counted"]
    return []


def _scan_problems(given: Mapping[str, Any]) -> list[str]:
    """What is wrong between positions, groups and images whose shapes fit."""
    needed = "probe", "positions", "image", "groups", "object_size", "region_size"
    if not given.keys() >= {*needed}:
        return []
    positions, image, groups, M, R = (given[key] for key in needed[1:])
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
