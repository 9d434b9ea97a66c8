"""The dataset value: patterns stored once, groups by index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.waves import FreeSpace, Fresnel
from ptycho.scan.beam import Beam, vary_probe
from ptycho.scan.dataset_checks import problems
from ptycho.scan.groups import (
    Tiling,
    draw_neighbours,
    estimated_tiling,
    group_centres,
    group_offsets,
    grouped,
    smallest_region,
)
from ptycho.scan.patterns import Patterns
from ptycho.scan.positions import Scan

MARGIN = 6  # pixels around some patterns, into which their positions may move
VALUES = ("image", "groups", "photon_scale", "object_size", "region_size", "objects")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Measured diffraction patterns of a scan.

    Attributes:
        amplitudes: :class:`Patterns` ``(J, N, N)`` float32, ``√counts``, zero frequency at ``N//2``; an array
            is taken, too.
        beam: probe ``(K, N, N)`` complex64, positions ``(J, 2)`` float32, flux and background, the latter in
            counts.
        image: ``(J,)`` int32, the object a pattern belongs to.
        groups: ``(G, C)`` int32, indices into the patterns, row-major within the group.
        photon_scale: ``s``; counts have the mean ``s²|Ψ|²``.
        object_size: ``M``, side of the objects.
        region_size: ``R``, side of the object region that covers a group.
        objects: the truth, ``(I, M, M)`` complex64, or None where it is unknown.
        neighbours: ``(G, K)`` int32, patterns that a group's object must explain besides its own in
            training; None for none. A view for training only: not part of the NPZ form.
        counts: ``A²`` are photon counts; if not, they are in units of their own.
        stated_tiling: the lattice of the groups, if it is known; None: it is estimated from the groups.
        good: ``(N, N)`` bool, pixels that were measured at all; None: all. The others hold zero here, and −1
            once normalised.
        exact: fractions of a pixel move the probe rather than the object; see
            :func:`ptycho.physics.split_positions`.
        tiles: new groups share the patterns among them, as tiles of the scan; if not, each pattern has one.
        fresnel: of patterns that are a near field, the detector's middle at ``N//2``; None: a far field.
        between: from one slice to the next, of objects that are slices; None: their spacing is unknown.
    """

    amplitudes: Patterns
    beam: Beam
    image: np.ndarray
    groups: np.ndarray
    photon_scale: float
    object_size: int
    region_size: int
    objects: np.ndarray | None = None
    neighbours: np.ndarray | None = None
    counts: bool = True
    stated_tiling: Tiling | None = None
    good: np.ndarray | None = None
    exact: bool = False
    tiles: bool = False
    fresnel: Fresnel | None = None
    between: FreeSpace | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.amplitudes, Patterns):
            object.__setattr__(self, "amplitudes", Patterns(self.amplitudes))
        values = {key: getattr(self, key) for key in VALUES}
        values |= {"probe": self.beam.probe, "positions": self.beam.positions}
        shape = self.amplitudes.shape
        statistics = self.amplitudes.statistics if len(shape) == 3 else None
        if faults := problems(values, shape, statistics):
            raise ConfigError(f"dataset: {'; '.join(faults)}")

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.beam.N

    @property
    def probe(self) -> np.ndarray:
        """Modes ``(K, N, N)`` complex64, the strongest first."""
        return self.beam.probe

    @property
    def positions(self) -> np.ndarray:
        """``(J, 2)`` float32."""
        return self.beam.positions

    @property
    def n_images(self) -> int:
        """I, the number of objects that were scanned."""
        return int(self.image.max()) + 1 if self.objects is None else len(self.objects)

    @property
    def n_groups(self) -> int:
        """G, the number of groups."""
        return self.groups.shape[0]

    @property
    def group_size(self) -> int:
        """C, the number of patterns in a group."""
        return self.groups.shape[1]

    @cached_property
    def normalisation(self) -> float:
        """``f = √((N/2)² / ⟨Σ A²⟩)``, so that the mean energy of ``x = f·A`` is ``(N/2)²``."""
        return float(self.N / 2 / np.sqrt(self.amplitudes.statistics.mean_energy))

    @property
    def model_probe(self) -> np.ndarray:
        """``s·f·P``, with which an object in its own units predicts ``x``; ``(K, N, N)`` complex64."""
        return self._as_model(self.probe)

    @property
    def model_opr_modes(self) -> np.ndarray | None:
        """The same of the beam's ``opr_modes``, ``(K', N, N)`` complex64; None: the probe does not vary."""
        return None if self.beam.opr_modes is None else self._as_model(self.beam.opr_modes)

    def model_probes(self, patterns: np.ndarray) -> np.ndarray:
        """Return :attr:`model_probe`; of a varying probe those of patterns ``(n,)``, ``(n, 1, K, N, N)``."""
        varied = self.beam.opr_modes, self.beam.opr_weights
        if varied[0] is None or varied[1] is None:
            return self.model_probe
        return self._as_model(vary_probe(self.probe, varied[0], varied[1][patterns]))[:, None]

    def _as_model(self, waves: np.ndarray) -> np.ndarray:
        return (self.photon_scale * self.normalisation * waves).astype(np.complex64)

    def under(self, beam: Beam) -> Dataset:
        """Return the same patterns under another beam, in groups of the same size."""
        exact = self.exact or beam.between_pixels
        if np.array_equal(beam.positions, self.positions):
            return replace(self, beam=beam, exact=exact, stated_tiling=self.tiling)
        return self._regrouped(self.group_size, beam=beam, exact=exact)

    def under_probe(self, modes: np.ndarray) -> Dataset:
        """Return the same patterns under modes ``(K, N, N)`` of any scale, with the present probe's power."""
        return replace(self, beam=self.beam.with_probe(modes).scaled_to(self.beam.power))

    @property
    def model_background(self) -> np.ndarray | None:
        """``f²·b``, in the units of ``x²``, zero frequency at sample 0; ``(N, N)`` float32, or None."""
        if self.beam.background is None:
            return None
        return (self.normalisation**2 * np.fft.ifftshift(self.beam.background)).astype(np.float32)

    @cached_property
    def centres(self) -> np.ndarray:
        """Centre of each group's region, as a position; ``(G, 2)`` float32."""
        return group_centres(self.positions, self.groups, self.region_size, self.N)

    @cached_property
    def offsets(self) -> np.ndarray:
        """``r_k − centre`` of the group; ``(G, C, 2)`` float32."""
        return group_offsets(self.positions, self.groups, self.region_size, self.N)

    @cached_property
    def origins(self) -> np.ndarray:
        """Top-left sample of each group's region on its object, ``(G, 2)`` int64; it may be negative."""
        return np.round(self.centres - (self.region_size - self.N) / 2).astype(np.int64)

    @cached_property
    def group_image(self) -> np.ndarray:
        """Image of each group, ``(G,)``."""
        return self.image[self.groups[:, 0]]

    @cached_property
    def tiling(self) -> Tiling:
        """The lattice of the groups as it was stated, or else as they lie."""
        return self.stated_tiling or estimated_tiling(
            self.origins, self.group_image, self.N, self.region_size, self.object_size
        )

    def single_patterns(self, per_group: int | None) -> Dataset:
        """Return the same patterns as groups of one: the first ``per_group`` of every group, or all."""
        chosen = np.unique(self.groups[:, :per_group])
        side = self.N + 2 * self.beam.between_pixels  # a margin if positions are not whole numbers
        groups = chosen[:, None].astype(np.int32)
        return replace(self, groups=groups, region_size=side, stated_tiling=self.tiling)

    def regrouped(self, group_size: int) -> Dataset:
        """Return the same patterns, each the first of a group with its nearest ones; or in :attr:`tiles`.

        Groups are no larger than an image has patterns; so in :meth:`tiled` and :meth:`subset`.
        """
        return self._regrouped(group_size)

    def _regrouped(self, group_size: int, **changes: Any) -> Dataset:
        """The same with other values, in new groups; not checked in between, when the old ones do not fit."""
        beam, image = changes.get("beam", self.beam), changes.get("image", self.image)
        groups = grouped(beam.positions, image, group_size, self.tiles)
        side = smallest_region(beam.positions, groups, self.N)
        changes |= {"stated_tiling": self.tiling, "neighbours": None}
        return replace(self, groups=groups, region_size=side, **changes)

    def tiled(self, group_size: int) -> Dataset:
        """Return the same patterns in groups that share them among each other; see :func:`tiled_groups`."""
        return replace(self, tiles=True).regrouped(group_size)

    def central(self, count: int) -> np.ndarray:
        """Return indices ``(n,)``, in order, of the patterns nearest to the scan's middle, n ≤ ``count``."""
        distance = np.linalg.norm(self.positions - np.median(self.positions, axis=0), axis=1)
        return np.sort(np.argsort(distance, kind="stable")[:count])

    def subset(self, indices: np.ndarray, group_size: int) -> Dataset:
        """Return patterns ``indices (n,)``, each the first of a group with its nearest ones; or in tiles."""
        beam, image, amplitudes = self.beam.at(indices), self.image[indices], self.amplitudes.some(indices)
        return self._regrouped(group_size, beam=beam, image=image, amplitudes=amplitudes)

    def cut_out(self, indices: np.ndarray, group_size: int = 1) -> Dataset:
        """Return :meth:`subset` of ``indices (n,)`` on an object just large enough, with a margin."""
        part = self.subset(indices, group_size)
        corner = np.floor(part.positions.min(axis=0)) - MARGIN
        side = self.N + int(np.ceil((part.positions - corner).max())) + MARGIN
        return part.on_window(corner, side)

    def on_window(self, corner: np.ndarray, side: int) -> Dataset:
        """Return the same patterns on a part of their object, ``side`` wide from ``corner (2,)`` on."""
        positions = self.positions - corner.astype(np.float32)
        beam = replace(self.beam, positions=positions)
        return replace(self, beam=beam, object_size=side, objects=None, stated_tiling=None)

    def held_by(self, pixels: int, least: int) -> int:
        """Return how many patterns have so many pixels together; ``least`` of them at least."""
        return max(least, pixels // self.N**2)

    def with_neighbours(self, count: int, radius: float, seed: int) -> Dataset:
        """Return the same groups, each with ``count`` neighbouring patterns; see :func:`draw_neighbours`."""
        if count == 0:
            return self
        scan, rng = Scan(self.positions, self.image, self.groups), np.random.default_rng(seed)
        return replace(self, neighbours=draw_neighbours(scan, self.centres, count, radius, rng))

    def normalised(self, patterns: np.ndarray | slice) -> np.ndarray:
        """Return what a network is shown of some patterns: :meth:`measured` without flux and background.

            x = √max(f² (A² − b), 0) / c

        Patterns that are shifted on the detector are brought back by whole pixels. A point spread of the
        detector stays in them, and no network's forward model has one.

        Returns:
            ``(*patterns.shape, N, N)`` float32, negative where nothing was measured.
        """
        x, beam = self.measured(patterns), self.beam
        lacking = x < 0
        if beam.background is not None:
            x = np.sqrt(np.maximum(np.square(x) - np.float32(self.normalisation**2) * beam.background, 0))
        if not beam.steady:
            x = x / beam.flux[patterns][..., None, None]
        x = np.where(lacking, np.float32(-1), x)
        if self.amplitudes.shifts is not None:
            whole = np.rint(self.amplitudes.shifts[patterns]).astype(int)
            for index in np.ndindex(whole.shape[:-1]):
                x[index] = np.roll(x[index], -whole[index], (0, 1))
        return x

    def measured(self, patterns: np.ndarray | slice) -> np.ndarray:
        """Return ``f·A`` of some patterns, ``(*patterns.shape, N, N)`` float32, negative: not measured."""
        x = np.float32(self.normalisation) * self.amplitudes[patterns]
        return x if self.good is None else np.where(self.good, x, np.float32(-1))
