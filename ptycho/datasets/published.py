"""Test splits written by the published PtychoPINN program's grid-lines workflow (hoidn/PtychoPINN).

``diffraction`` (G, N, N, C) are amplitudes divided by the photon scale, zero frequency at N//2, row-major
within the group; ``coords_offsets`` (G, 1, 2, C) is **(row, col) of the middle of each patch**, top-left
sample + (N − 1)/2. ``probeGuess`` (N, N) and the objects, ``YY_full`` (I, M, M, 1) or of the first object the
part that the groups' central squares tile, ``YY_ground_truth``, are known up to a positive factor, and may be
missing. For I images ``coords_offsets`` has every position I times in a row; this is put right here. A
training split is refused: that program shuffles its patterns and leaves its positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptycho.datasets.measurement import Measurement, Members
from ptycho.files.npz import NpzError, NpzFile
from ptycho.scan.dataset_checks import Shape, dark_frames, problems
from ptycho.scan.groups import smallest_region

KEYS = {
    "diffraction": ("fiu", np.float32),
    "coords_offsets": ("fiu", np.float64),
    "probeGuess": ("cfiu", np.complex64),
    "YY_full": ("cfiu", np.complex64),
    "YY_ground_truth": ("cfiu", np.complex64),
}


def read_published(archive: NpzFile, probe: np.ndarray | None) -> Measurement:
    """Read a test split in this program's conventions; ``probe (N, N)`` is for a file without one."""
    if "YY_full" in archive.keys and "YY_ground_truth" not in archive.keys:
        raise NpzError(
            "is a training split of the published program (YY_full without YY_ground_truth): its patterns "
            "are shuffled and coords_offsets is not, so that they have no positions; use its test.npz"
        )
    faults = ["lacks coords_offsets"] if "coords_offsets" not in archive.keys else []
    if probe is None and "probeGuess" not in archive.keys:
        faults.append("lacks probeGuess, and no other probe is known")
    members = Members(archive, KEYS, faults)
    faults, shapes = members.problems, members.shapes
    wrong = _shape_problems(shapes, probe)
    faults += wrong.values()
    read = {key: members.read(key) for key in shapes.keys() - wrong.keys() - {"diffraction"}}
    arrays = {key: array for key, array in read.items() if array is not None}
    statistics = members.statistics("diffraction")
    names = {"coords_offsets": "positions", "probeGuess": "probe", "YY_full": "objects"}
    values: dict[str, Any] = {ours: arrays[theirs] for theirs, ours in names.items() if theirs in arrays}
    shape, truth = None, None
    if not faults:
        values, shape, truth = _values(arrays, shapes["diffraction"], probe)
    faults += _in_their_words(problems(values, shape, statistics))
    if not faults and statistics is not None:
        faults += _in_their_words(dark_frames(values, statistics, counts=False))
    members.refuse()
    assert statistics is not None  # it is among the problems otherwise
    return Measurement(archive.path, "diffraction", values, statistics, False, "probeGuess" in shapes, truth)


def _shape_problems(shapes: dict[str, Shape], probe: np.ndarray | None) -> dict[str, str]:
    shape = shapes.get("diffraction")
    if shape is None:
        return {}
    if len(shape) != 4 or shape[1] != shape[2] or 0 in shape or round(shape[3] ** 0.5) ** 2 != shape[3]:
        text = f"diffraction has shape {shape}; must be (G, N, N, C) with G >= 1 and C a square number"
        return {"diffraction": text}
    G, N, _, C = shape
    wanted: dict[str, list[Shape]] = {"coords_offsets": [(G, 1, 2, C)], "probeGuess": [(N, N), (N, N, 1)]}
    faults = {
        key: f"{key} has shape {shapes[key]}; must be {allowed[0]} (G={G}, N={N}, C={C})"
        for key, allowed in wanted.items()
        if key in shapes and shapes[key] not in allowed
    }
    if "probeGuess" not in shapes and probe is not None and probe.shape != (N, N):
        faults["diffraction"] = (
            f"diffraction has shape {shape}; N must be {len(probe)}, the side of the probe"
        )
    whole, part = shapes.get("YY_full"), shapes.get("YY_ground_truth")
    if whole and not (len(whole) == 4 and whole[1] == whole[2] and whole[3] == 1 and whole[0]):
        faults["YY_full"] = f"YY_full has shape {whole}; must be (I, M, M, 1)"
    elif whole and G % whole[0]:
        faults["YY_full"] = f"YY_full has shape {whole}; its {whole[0]} images do not share {G} groups evenly"
    if part and (len(part) not in (2, 3) or part[2:] not in ((), (1,))):
        faults["YY_ground_truth"] = f"YY_ground_truth has shape {part}; must be (h, w, 1)"
    return faults


Placed = tuple[int, int, int, int]  # top, left, height, width


def _values(
    arrays: dict[str, Any], shape: Shape, probe: np.ndarray | None
) -> tuple[dict[str, Any], Shape, Placed | None]:
    """The attributes of a dataset, the patterns' shape, and where a partial truth lies."""
    G, N, _, C = shape
    listed = arrays["coords_offsets"][:, 0].transpose(0, 2, 1)  # (G, C, 2)
    whole = arrays.get("YY_full")
    if whole is not None:
        n_images = len(whole)
    else:  # as often as the list has its first position in a row
        same = np.all(listed == listed[:1], axis=(1, 2))
        n_images = len(same) if same.all() else int(np.argmin(same))
        n_images = n_images if n_images and len(listed) % n_images == 0 else 1
    if np.array_equal(np.repeat(listed[::n_images], n_images, axis=0), listed):
        listed = np.concatenate([listed[::n_images]] * n_images)
    positions = (listed.reshape(-1, 2) - (N - 1) / 2).astype(np.float32)
    groups = np.arange(G * C, dtype=np.int32).reshape(G, C)
    finite = bool(np.isfinite(positions).all())
    side = int(np.ceil(positions.max())) if np.isfinite(positions.max()) else 0
    values = {
        "positions": positions,
        "image": np.repeat(np.arange(n_images, dtype=np.int32), G // n_images * C),
        "groups": groups,
        "probe": arrays["probeGuess"].reshape(N, N) if "probeGuess" in arrays else probe,
        "photon_scale": 1.0,
        "object_size": len(whole[0]) if whole is not None else N + side,
        "region_size": smallest_region(positions, groups, N) if finite else N,
        "objects": whole[..., 0] if whole is not None else None,
    }
    part = arrays.get("YY_ground_truth")
    if whole is not None or part is None or not finite:
        return values, (G * C, N, N), None
    values["objects"], truth = _part_in_place(values, part.reshape(part.shape[:2]), N)
    return values, (G * C, N, N), truth


def _part_in_place(
    values: dict[str, Any], part: np.ndarray, N: int
) -> tuple[np.ndarray | None, Placed | None]:
    """The objects with the known part of the first: it is centred on what the groups' centres span."""
    positions, groups, M = values["positions"], values["groups"], values["object_size"]
    mine = groups[values["image"][groups[:, 0]] == 0]
    centres = positions[mine].mean(axis=1) + N / 2
    middle = (centres.min(axis=0) + centres.max(axis=0)) / 2
    corner = np.floor(middle - np.array(part.shape) / 2 + 0.5).astype(int)
    if np.any(corner < 0) or np.any(corner + part.shape > M):
        raise NpzError(f"YY_ground_truth has shape {part.shape}, more than the {M} × {M} pixels of the scan")
    objects = np.zeros((int(values["image"].max()) + 1, M, M), np.complex64)
    top, left, (height, width) = int(corner[0]), int(corner[1]), part.shape
    objects[0, top : top + height, left : left + width] = part
    return objects, (top, left, height, width)


def _in_their_words(found: list[str]) -> list[str]:
    """Problems with the keys of the file."""
    positions = "coords_offsets, less (N − 1)/2,"
    names = {"amplitudes": "diffraction", "positions": positions, "objects": "YY_full"}
    for ours, theirs in (names | {"probe ": "probeGuess "}).items():
        found = [theirs + text[len(ours) :] if text.startswith(ours) else text for text in found]
    return found
