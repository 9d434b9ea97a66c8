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

from ptycho.datasets.measurement import Format, Member, Placed, Values
from ptycho.files.npz import NpzError, NpzFile
from ptycho.scan.groups import smallest_region

KEYS = {
    "probeGuess": Member("cfiu", np.complex64, "N N | N N 1"),
    "diffraction": Member("fiu", np.float32, "G N N C"),
    "coords_offsets": Member("fiu", np.float64, "G 1 2 C"),
    "YY_full": Member("cfiu", np.complex64, "I M M 1", optional=True),
    "YY_ground_truth": Member("cfiu", np.complex64, "h w | h w 1", optional=True),
}


def _training_split(archive: NpzFile) -> list[str]:
    if "YY_full" not in archive.keys or "YY_ground_truth" in archive.keys:
        return []
    return [
        "is a training split of the published program (YY_full without YY_ground_truth): its patterns "
        "are shuffled and coords_offsets is not, so that they have no positions; use its test.npz"
    ]


def _convert(arrays: dict[str, Any], shape: tuple[int, ...]) -> Values:
    """The attributes of a dataset, in this program's conventions, and where a partial truth lies."""
    G, N, _, C = shape
    if round(C**0.5) ** 2 != C:
        raise NpzError(f"diffraction has shape {shape}; must be (G, N, N, C) with C a square number")
    listed = arrays["coords_offsets"][:, 0].transpose(0, 2, 1)  # (G, C, 2)
    whole = arrays.get("YY_full")
    if whole is not None:
        n_images = len(whole)
        if G % n_images:
            raise NpzError(f"YY_full has shape {whole.shape}; its images do not share {G} groups evenly")
    else:  # as often as the list has its first position in a row
        same = np.all(listed == listed[:1], axis=(1, 2))
        n_images = len(same) if same.all() else int(np.argmin(same))
        n_images = n_images if n_images and len(listed) % n_images == 0 else 1
    if np.array_equal(np.repeat(listed[::n_images], n_images, axis=0), listed):
        listed = np.concatenate([listed[::n_images]] * n_images)
    positions = (listed.reshape(-1, 2) - (N - 1) / 2).astype(np.float32)
    groups = np.arange(G * C, dtype=np.int32).reshape(G, C)
    finite = bool(np.isfinite(positions).all())
    side = int(np.ceil(positions.max())) if finite else 0
    values = {
        "positions": positions,
        "image": np.repeat(np.arange(n_images, dtype=np.int32), G // n_images * C),
        "groups": groups,
        "probe": arrays["probeGuess"].reshape(N, N),
        "photon_scale": 1.0,
        "object_size": len(whole[0]) if whole is not None else N + side,
        "region_size": smallest_region(positions, groups, N) if finite else N,
        "objects": whole[..., 0] if whole is not None else None,
    }
    part = arrays.get("YY_ground_truth")
    if whole is not None or part is None or not finite:
        return Values(values, (G * C, N, N))
    values["objects"], truth = _part_in_place(values, part.reshape(part.shape[:2]), N)
    return Values(values, (G * C, N, N), truth)


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


PUBLISHED = Format(
    frozenset({"diffraction"}),
    KEYS,
    "diffraction",
    _convert,
    counts=False,
    names={
        "amplitudes": "diffraction",
        "positions": "coords_offsets, less (N − 1)/2,",
        "objects": "YY_full",
        "probe": "probeGuess",
    },
    probe_elsewhere=True,
    check=_training_split,
)
