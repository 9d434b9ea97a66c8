"""The dataset value: patterns stored once, groups by index; its NPZ form and its batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ptycho import physics
from ptycho.checks import Statistics, blocks, problems
from ptycho.config import ConfigError
from ptycho.readers import NPZ_FORMAT, Measurement, inspect
from ptycho.scan import Scan, draw_neighbours, group_centres, group_offsets

Batch = dict[str, tf.Tensor]
Patterns = Any  # np.ndarray, or Rows: what indexing by integers and slices needs
VALUES = (
    "positions",
    "image",
    "groups",
    "probe",
    "photon_scale",
    "object_size",
    "region_size",
    "objects",
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Measured diffraction patterns of a scan.

    Attributes:
        amplitudes: ``(P, N, N)`` float32, ``√counts``, zero frequency at ``N//2``; in memory or in a file.
        positions: ``(P, 2)`` float32, (row, col) of the patch's top-left sample in object pixels.
        image: ``(P,)`` int32, the object a pattern belongs to.
        groups: ``(G, C)`` int32, indices into the patterns, row-major within the group.
        probe: ``(N, N)`` complex64.
        photon_scale: ``s``; counts have the mean ``s²|Ψ|²``.
        object_size: ``M``, side of the objects.
        region_size: ``R``, side of the object region that covers a group.
        objects: the truth, ``(I, M, M)`` complex64, or None where it is unknown.
        neighbours: ``(G, K)`` int32, patterns that a group's object must explain besides its own in
            training; None for none. A view for training only: not part of the NPZ form.
        statistics: of the amplitudes, where they are known already.
        counts: ``A²`` are photon counts; if not, they are in units of their own.
    """

    amplitudes: Patterns
    positions: np.ndarray
    image: np.ndarray
    groups: np.ndarray
    probe: np.ndarray
    photon_scale: float
    object_size: int
    region_size: int
    objects: np.ndarray | None = None
    neighbours: np.ndarray | None = None
    statistics: Statistics | None = None
    counts: bool = True

    def __post_init__(self) -> None:
        values = {key: getattr(self, key) for key in VALUES}
        shape, statistics = np.shape(self.amplitudes), None
        if len(shape) == 3:
            statistics = self.statistics or Statistics.of(blocks(self.amplitudes))
            object.__setattr__(self, "statistics", statistics)
        if found := problems(values, shape, statistics):
            raise ConfigError(f"dataset: {'; '.join(found)}")

    @property
    def N(self) -> int:
        return self.probe.shape[-1]

    @property
    def n_images(self) -> int:
        return int(self.image.max()) + 1 if self.objects is None else len(self.objects)

    @property
    def n_groups(self) -> int:
        return self.groups.shape[0]

    @property
    def group_size(self) -> int:
        return self.groups.shape[1]

    @cached_property
    def normalisation(self) -> float:
        """``f = √((N/2)² / ⟨Σ A²⟩)``, so that the mean energy of ``x = f·A`` is ``(N/2)²``."""
        assert self.statistics is not None
        return float(self.N / 2 / np.sqrt(self.statistics.mean_energy))

    @property
    def photon_amplitude(self) -> float | None:
        """Normalised amplitude of one photon, ``f``; None where the amplitudes are not those of counts."""
        return self.normalisation if self.counts else None

    @property
    def model_probe(self) -> np.ndarray:
        """``s·f·P``: the probe with which an object in its own units predicts ``x``; complex64."""
        return (self.photon_scale * self.normalisation * self.probe).astype(np.complex64)

    @cached_property
    def centres(self) -> np.ndarray:
        """Centre of each group's region, as a position; ``(G, 2)`` float32."""
        return group_centres(self.positions, self.groups, self.region_size, self.N)

    @cached_property
    def offsets(self) -> np.ndarray:
        """``r_k − centre`` of the group; ``(G, C, 2)`` float32."""
        return group_offsets(self.positions, self.groups, self.region_size, self.N)

    def with_amplitudes(self, amplitudes: np.ndarray, photon_scale: float) -> Dataset:
        return replace(self, amplitudes=amplitudes, photon_scale=photon_scale, statistics=None)

    def single_patterns(self, per_group: int | None) -> Dataset:
        """The same patterns as groups of one: the first ``per_group`` of every group, or all."""
        chosen = np.unique(self.groups[:, :per_group])
        return replace(self, groups=chosen[:, None].astype(np.int32), region_size=self.N + 2 * self._slack)

    def with_neighbours(self, count: int, radius: float, seed: int) -> Dataset:
        """The same groups, each with ``count`` neighbouring patterns; see :func:`draw_neighbours`."""
        if count == 0:
            return self
        scan, rng = Scan(self.positions, self.image, self.groups), np.random.default_rng(seed)
        return replace(self, neighbours=draw_neighbours(scan, self.centres, count, radius, rng))

    @property
    def _slack(self) -> int:
        """Margin of a single-pattern region: one pixel when positions are not whole numbers."""
        return int(np.any(self.positions != np.round(self.positions)))

    def batch(self, indices: np.ndarray, truth: bool = False) -> Batch:
        """Normalised amplitudes ``x (B, C, N, N)`` and ``offsets (B, C, 2)`` of some groups.

        With neighbours, also theirs, as ``near_x (B, K, N, N)`` and ``near_offsets (B, K, 2)``. With
        ``truth``, also the true object patches ``target (B, C, N, N)`` complex64.
        """
        members = self.groups[indices]
        batch = {"x": self.normalised(members), "offsets": tf.constant(self.offsets[indices])}
        if self.neighbours is not None:
            near = self.neighbours[indices]
            offsets = self.positions[near] - self.centres[indices][:, None]
            batch |= {"near_x": self.normalised(near), "near_offsets": tf.constant(offsets)}
        if truth:
            patches = self.true_patches(members.ravel())
            batch["target"] = tf.reshape(patches, (*members.shape, self.N, self.N))
        return batch

    def normalised(self, patterns: np.ndarray) -> tf.Tensor:
        """``x = f·A`` of some patterns, ``(*patterns.shape, N, N)`` float32."""
        return tf.constant(np.float32(self.normalisation) * self.amplitudes[patterns])

    def true_patches(self, patterns: np.ndarray) -> tf.Tensor:
        """The object under some patterns, ``(K, N, N)`` complex64."""
        if self.objects is None:
            raise ValueError("this dataset has no true objects")
        whole = np.floor(self.positions[patterns]).astype(np.int64)
        windows = np.empty((len(patterns), self.N + 1, self.N + 1), np.complex64)
        for image in np.unique(self.image[patterns]):
            chosen = self.image[patterns] == image
            windows[chosen] = physics.cut_windows(self.objects[image], whole[chosen], self.N + 1)
        fraction = tf.constant((self.positions[patterns] - whole)[:, None], tf.float32)
        return physics.extract_patches(tf.constant(windows), fraction, self.N)[:, 0]


def training_batches(
    data: Dataset, batch_size: int, seed: int, epoch: int, truth: bool = False, first: int = 0
) -> Iterator[Batch]:
    """Full batches of one epoch in an order that (seed, epoch) decides; the remainder is dropped.

    ``first`` batches are passed over.
    """
    order = np.random.default_rng([seed, epoch]).permutation(data.n_groups)
    for step in range(first, data.n_groups // batch_size):
        yield data.batch(order[step * batch_size : (step + 1) * batch_size], truth)


def padded_batches(data: Dataset, batch_size: int, truth: bool = False) -> Iterator[tuple[Batch, int]]:
    """All groups in order with their real number; the last batch repeats its last group to fill up."""
    for start in range(0, data.n_groups, batch_size):
        indices = np.arange(start, start + batch_size)
        real = min(batch_size, data.n_groups - start)
        yield data.batch(np.minimum(indices, data.n_groups - 1), truth), real


def to_arrays(data: Dataset) -> dict[str, np.ndarray]:
    """The NPZ form of a dataset: its attributes by name, and ``format``."""
    arrays = {key: np.asarray(getattr(data, key)) for key in ("amplitudes", *VALUES)}
    if data.objects is None:
        del arrays["objects"]
    return arrays | {"format": np.asarray(NPZ_FORMAT)}


def load_dataset(path: str | Path) -> Dataset:
    """Read a dataset that :func:`to_arrays` described, patterns included; nothing is unpickled.

    Raises:
        ConfigError: one line with everything that is wrong with the file.
    """
    with tempfile.TemporaryDirectory() as scratch:
        found = inspect(path)
        data = dataset_of(found, Path(scratch))
        return replace(data, amplitudes=data.amplitudes[:])


def dataset_of(found: Measurement, scratch: Path, **changes: Any) -> Dataset:
    """The dataset in an inspected file; its patterns stay in a file, if need be one in ``scratch``."""
    values = found.values | changes
    amplitudes = found.amplitudes(scratch)
    return Dataset(amplitudes=amplitudes, statistics=found.statistics, counts=found.counts, **values)
