"""From object regions of groups to objects; nothing here imports TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from scipy.spatial import cKDTree

from ptycho.config import check
from ptycho.files.file_array import FileArray
from ptycho.progress import Progress
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe import intensity_of
from ptycho.scan.reconstruction import Reconstruction, illuminated_area
from ptycho.scan.windows import add_windows, inner_windows, placed_windows

PredictStep = Callable[..., Any]
"""``(x, offsets, probe[, start])`` of a batch → its regions ``(B, R, R)``, an array or a tensor."""
Inputs = Callable[[np.ndarray], tuple[np.ndarray, ...]]


def predict_scan(
    regions: np.ndarray | FileArray,
    step: PredictStep,
    data: Dataset,
    batch_size: int,
    start: np.ndarray | None = None,
) -> None:
    """Write the object regions of all groups of a dataset into ``regions (G, R, R)``.

    ``start``: objects ``(I, M, M)`` complex64 to begin with, zero where nothing is known; None: a constant.
    """
    margin = (data.region_size - data.N + 1) // 2  # a region may reach beyond its object
    canvas = None if start is None else np.pad(start, ((0, 0), (margin, margin), (margin, margin)))

    def inputs(indices: np.ndarray) -> tuple[np.ndarray, ...]:
        known = data.normalised(data.groups[indices]), data.offsets[indices]
        if canvas is None:
            return known
        places = zip(data.group_image[indices], data.origins[indices] + margin, strict=True)
        cut = [inner_windows(canvas[i], place[None], data.region_size)[0] for i, place in places]
        return *known, np.stack(cut).astype(np.complex64)

    predict_into(regions, step, inputs, data.model_probe, batch_size)


def predict_in_rounds(
    regions: np.ndarray | FileArray,
    step: PredictStep,
    data: Dataset,
    batch_size: int,
    rounds: int,
    start: np.ndarray | None = None,
) -> None:
    """Run :func:`predict_scan` several times; each round begins with the stitched objects of the last.

    The first begins with ``start (I, M, M)``, or with zeros: the generator's constant.
    """
    shape = (data.n_images, data.object_size, data.object_size)
    start = np.zeros(shape, np.complex64) if start is None else start
    for _ in range(rounds - 1):
        predict_scan(regions, step, data, batch_size, start)
        start = stitch(regions, data, "probe").objects
    predict_scan(regions, step, data, batch_size, start)


def predict_into(
    regions: np.ndarray | FileArray, step: PredictStep, inputs: Inputs, probe: np.ndarray, batch_size: int
) -> None:
    """Write the object regions of all groups into ``regions``, in batches of one shape, the last filled up.

    Args:
        regions: ``(G, R, R)`` complex64, in memory or in a file.
        inputs: indices ``(B,)`` of groups → normalised amplitudes ``(B, C, N, N)``, offsets ``(B, C, 2)``
            and, if they begin with something, starts ``(B, R, R)``.
        probe: ``s·f·P``, ``(K, N, N)`` complex64.
    """
    groups = len(regions)
    patterns = inputs(np.zeros(1, int))[0].shape[1]
    with closing(Progress("inference", groups * patterns)) as progress:
        for start in range(0, groups, batch_size):
            stop = min(start + batch_size, groups)
            x, offsets, *starts = inputs(np.minimum(np.arange(start, start + batch_size), groups - 1))
            regions[start:stop] = np.asarray(step(x, offsets, probe, *starts))[: stop - start]
            progress.advance((stop - start) * patterns)


Regions = np.ndarray | FileArray


@dataclass(frozen=True, eq=False)
class Layout:
    """Layout of the regions of a dataset on its images.

    A region may reach beyond its object by ``margin`` pixels (with jitter); ``origins (G, 2)`` are its
    top-left samples on a canvas that is wider by the margin on every side.
    ``chunk`` regions are handled at once.
    """

    data: Dataset
    chunk: int = 256

    @property
    def margin(self) -> int:
        """Pixels by which a region may reach out of the object, ``⌈(R − N)/2⌉``."""
        return (self.data.region_size - self.data.N + 1) // 2

    @property
    def side(self) -> int:
        """Side of the canvas: that of the object and a margin on both sides."""
        return self.data.object_size + 2 * self.margin

    @cached_property
    def origins(self) -> np.ndarray:
        """Top-left sample of each group's region on the canvas, ``(G, 2)``."""
        return self.data.origins + self.margin

    def illumination(self, part: slice | np.ndarray) -> np.ndarray:
        """Return ``Σ_k |P_k|²`` on the regions of some groups, ``(K, R, R)`` float32.

        On a regular grid every group has the same, which is computed once.
        """
        data = self.data
        different, which = np.unique(data.offsets[part], axis=0, return_inverse=True)
        positions = different + np.float32((data.region_size - data.N) / 2)
        intensity = intensity_of(data.probe).astype(np.float32)
        return placed_windows(intensity, positions, data.region_size)[which.ravel()]

    def central_square(self, part: slice | np.ndarray) -> np.ndarray:
        """Return 1 on the central square of each region, whose side is the pitch, else 0, ``(K, R, R)``."""
        R, pitch = self.data.region_size, self.data.tiling.pitch
        square = np.zeros((len(self.origins[part]), R, R), np.float32)
        start = R // 2 - pitch // 2
        inside = slice(max(start, 0), start + pitch)  # a square larger than the region is all of it
        square[:, inside, inside] = 1
        return square


Weights = Callable[[Layout, slice], np.ndarray]
"""``(layout, part) → (K, R, R)``: weights of the regions of some groups."""
STITCHINGS: dict[str, Weights] = {"probe": Layout.illumination, "grid": Layout.central_square}


def stitch(regions: Regions, data: Dataset, method: str) -> Reconstruction:
    """Stitch the regions: weighted means at their positions, ``O = Σ w_g·O_g / Σ w_g``.

    The measurement leaves the global phase of every group open; :func:`synchronise_phases` makes the groups
    of an image agree first. ``method="probe"``: the weight is the illumination that the group put on its
    region, ``Σ_k |P_k|²``. ``method="grid"``: it is one on the central square whose side is the pitch of the
    groups and zero elsewhere, so that the squares of a regular grid tile (the published recipe).
    A pixel that a region leaves exactly zero, as a network does that covers the centre only, has no weight in
    the mean; the mask shows where the summed weight would be above a thousandth of its maximum all the same.

    Args:
        regions: ``(G, R, R)`` complex64, in memory or in a file.
        data: the dataset they were inferred from.
        method: a key of :data:`STITCHINGS`.
    """
    return stitch_each(regions, data, (method,))[method]


def stitch_each(regions: Regions, data: Dataset, methods: Iterable[str]) -> dict[str, Reconstruction]:
    """Stitch ``regions (G, R, R)`` by several methods as :func:`stitch`; phases are synchronised once."""
    methods = tuple(methods)
    for method in methods:
        check(method in STITCHINGS, "method", method, f"one of {', '.join(STITCHINGS)}")
    layout = Layout(data)
    factors = synchronise_phases(regions, layout)
    return {method: _weighted_mean(regions, factors, layout, STITCHINGS[method]) for method in methods}


def _weighted_mean(regions: Regions, factors: np.ndarray, layout: Layout, weights: Weights) -> Reconstruction:
    """``Σ w_g·c_g·O_g / Σ w_g``."""
    data, factors = layout.data, factors[:, None, None]
    shape = (data.n_images, layout.side, layout.side)
    total = np.zeros(shape, np.complex64)
    illumination, stated, square = (np.zeros(shape, np.float32) for _ in range(3))
    for start in range(0, data.n_groups, layout.chunk):
        part = slice(start, start + layout.chunk)
        w = weights(layout, part)
        image, origins, turned = data.group_image[part], layout.origins[part], regions[part] * factors[part]
        for i in np.unique(image):
            mine = image == i
            inferred, where = turned[mine], origins[mine]
            total[i] += add_windows(w[mine] * inferred, where, shape[1:])
            illumination[i] += add_windows(w[mine], where, shape[1:])
            stated[i] += add_windows(w[mine] * (inferred != 0), where, shape[1:])
            square[i] += add_windows(w[mine] * np.abs(inferred) ** 2, where, shape[1:])
    inner = np.s_[:, layout.margin : layout.side - layout.margin, layout.margin : layout.side - layout.margin]
    total, illumination, stated, square = total[inner], illumination[inner], stated[inner], square[inner]
    mask = illuminated_area(illumination)
    usable = mask & (stated > 0)
    objects = np.where(usable, total / np.where(usable, stated, 1), 0)
    apart = [_apart(*sums) for sums in zip(objects, square, stated, usable, strict=True)]
    return Reconstruction(objects.astype(np.complex64), mask, disagreement=np.array(apart))


def _apart(mean: np.ndarray, square: np.ndarray, weight: np.ndarray, usable: np.ndarray) -> float:
    """The disagreement of one image's regions, of O, ``Σ w|O_g|²`` and ``Σ w`` of each pixel; NaN: none."""
    w, known = weight[usable].astype(float), mean[usable].astype(complex)
    if not np.isfinite(known).all() or not w.any():
        return float("nan")
    spread = np.maximum(square[usable] - w * np.abs(known) ** 2, 0).sum()
    contrast = np.sum(w * np.abs(known - np.average(known, weights=w)) ** 2)
    return float(np.sqrt(spread / max(contrast, np.finfo(float).tiny)))


def synchronise_phases(regions: Regions, layout: Layout) -> np.ndarray:
    """Return unit factors ``c_g`` by which the regions agree best where neighbours overlap.

    With the illuminations ``w``, ``A_gh = Σ w_g w_h O_g conj(O_h)`` over the overlap of neighbours g and h
    has the phase ``θ_g − θ_h`` if region g carries the phase ``θ_g``. The leading eigenvector of ``A``,
    normalised by its row sums, estimates ``exp(iθ_g)`` for all groups at once; ``c_g`` is its conjugate.
    Groups that no chain of overlaps connects are solved apart; each such set keeps its own mean phase.
    Source: Singer, Appl. Comput. Harmon. Anal. 30 (2011) 20-36.

    Args:
        regions: ``(G, R, R)`` complex64, in memory or in a file.
        layout: of the dataset they were inferred from.

    Returns:
        ``(G,)`` complex64, ``|c_g| = 1``.
    """
    factors = np.ones(len(regions), np.complex64)
    starts = range(0, len(regions), layout.chunk)
    if not all(np.isfinite(regions[k : k + layout.chunk]).all() for k in starts):
        return factors
    image = layout.data.group_image
    for i in np.unique(image):
        mine = np.flatnonzero(image == i)
        factors[mine] = _synchronise(regions, mine, layout)
    return factors


def _synchronise(regions: Regions, mine: np.ndarray, layout: Layout) -> np.ndarray:
    """:func:`synchronise_phases` for the groups ``mine`` of one image."""
    pairs = _neighbours(layout.origins[mine])
    products = _products(regions, mine, layout, pairs)
    rows, cols = np.concatenate([pairs, pairs[:, ::-1]]).T
    values = np.concatenate([products, products.conj()])
    agreement = coo_array((values, (rows, cols)), (len(mine),) * 2).tocsr()
    links = abs(agreement)
    n_sets, member_of = connected_components(links > 1e-6 * links.max(), directed=False)
    factors = np.ones(len(mine), np.complex64)
    for k in range(n_sets):
        members = np.flatnonzero(member_of == k)
        if len(members) > 1:
            factors[members] = _leading_phases(agreement[members][:, members]).conj()
    return factors


def _leading_phases(agreement: csr_array) -> np.ndarray:
    """``exp(iθ_g)`` of connected groups from their Hermitian ``A``; the mean of the phases is zero."""
    n = agreement.shape[0]
    scale = diags_array(1 / np.sqrt(np.asarray(abs(agreement).sum(axis=1)).ravel()))
    matrix = scale @ agreement @ scale
    if n < 3:  # too small for the iterative solver
        _, vectors = np.linalg.eigh(matrix.toarray())
    else:
        _, vectors = eigsh(matrix, k=1, which="LA", v0=np.ones(n, complex))
    leading = vectors[:, -1]
    return np.exp(1j * (np.angle(leading) - np.angle(leading.sum())))


def _neighbours(origins: np.ndarray, nearest: int = 8) -> np.ndarray:
    """Return pairs ``(g, h)``, g < h, of every group with its ``nearest`` neighbours; ``(K, 2)``."""
    count = min(nearest + 1, len(origins))
    _, near = cKDTree(origins).query(origins, k=count)
    pairs = np.stack([np.repeat(np.arange(len(origins)), count), near.ravel()], axis=1)
    return np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)


def _products(regions: Regions, mine: np.ndarray, layout: Layout, pairs: np.ndarray) -> np.ndarray:
    """``A_gh`` for pairs of the groups ``mine``; ``(K,)`` complex128."""
    size = layout.chunk

    @lru_cache(4)  # chunks in the order of the scan, in which neighbours are a few chunks apart at most
    def weighted(chunk: int) -> np.ndarray:
        members = mine[chunk * size : (chunk + 1) * size]
        return layout.illumination(members) * regions[members]

    origins, products = layout.origins[mine], np.empty(len(pairs), complex)
    chunks = pairs // size
    for k in np.lexsort((chunks[:, 0], chunks[:, 1])):
        g, h = pairs[k]
        of_g, of_h = weighted(chunks[k, 0])[g % size], weighted(chunks[k, 1])[h % size]
        products[k] = _overlap(of_g, of_h, *(origins[h] - origins[g]))
    return products


def _overlap(of_g: np.ndarray, of_h: np.ndarray, row: int, col: int) -> complex:
    """``Σ of_g · conj(of_h)`` over the pixels that the two share; h lies at (row, col) from g."""
    R = len(of_g)
    if max(abs(row), abs(col)) >= R:
        return 0j
    of_g = of_g[max(row, 0) : R + min(row, 0), max(col, 0) : R + min(col, 0)]
    of_h = of_h[max(-row, 0) : R - max(row, 0), max(-col, 0) : R - max(col, 0)]
    return complex(np.vdot(of_h, of_g))
