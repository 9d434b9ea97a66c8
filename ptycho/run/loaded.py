"""A trained network, loaded from a run's folder and used on new data."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from ptycho.config import ConfigError, GeneralConfig, check
from ptycho.config.own_code import allow
from ptycho.files.file_array import FileArray
from ptycho.networks.layers import Geometry, make_predict_step, set_weights
from ptycho.reconstruction.stitching import PredictStep, predict_in_rounds, predict_into, predict_scan, stitch
from ptycho.run.network import StoredNetwork, read_network
from ptycho.run.stored_run import run_folder
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset
from ptycho.scan.probe import probe_support
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.competitors import COMPETITORS, geometry_of


def load_model(run: str | Path, name: str = "pinn", trust: str | None = None) -> LoadedModel:
    """Return the network ``name`` that a run trained, of its ``models``; ``pretrained``: the program's own.

    ``trust``: the ``model.target`` of a run whose generator is code of yours; it is imported.

    Raises:
        ConfigError: the folder holds no such network, its files are damaged, or it needs code that is not
            trusted.
    """
    allow([trust])
    check(name in COMPETITORS, "name", name, f"one of {', '.join(COMPETITORS)}")
    return LoadedModel(read_network(run_folder(run), name))


class MeasuredScan(Protocol):
    """A scan as :func:`ptycho.open_scan` gives it."""

    def dataset(self, group_size: int, tiles: bool) -> Dataset:
        """Return all usable patterns in groups, under the scan's probe or a guessed one."""


class LoadedModel:
    """A network with the weights of a run.

    Attributes:
        config: the run's configuration.
        setup: what it was trained for; ``probe`` is its probe.
    """

    def __init__(self, stored: StoredNetwork) -> None:
        self.name, self.config, self.setup = stored.name, stored.config, stored.setup
        self._stored, self._competitor = stored, COMPETITORS[stored.name]
        self._steps: dict[Geometry, PredictStep] = {}
        setup = self.setup  # weights of another network are refused now
        self._step(Geometry(setup.N, setup.region_size, setup.group_size, setup.support))

    def __repr__(self) -> str:
        kind = self.name if self.name == "baseline" else self.config.model.kind
        sizes = ", ".join(f"{key}={size}" for key, size in self.fixed.items()) or "any N and group_size"
        return f"LoadedModel({self.name}: {kind}, {sizes}, from {self._stored.run})"

    @property
    def probe(self) -> np.ndarray:
        """The training probe, ``(N, N)`` complex64."""
        return self.setup.probe

    @property
    def general(self) -> bool:
        """Whether it was trained for many probes, objects and scans, and to go on from a solver's object."""
        return isinstance(self.config, GeneralConfig)

    @property
    def fixed(self) -> dict[str, int]:
        """The sizes that its weights are bound to; a network whose weights fit any scan has none."""
        return {key: getattr(self.setup, key) for key in self.config.fixed_sizes(self.name)}

    def predict(
        self,
        patterns: np.ndarray,
        offsets: np.ndarray | None = None,
        probe: np.ndarray | None = None,
        *,
        photon_scale: float | None = None,
        normalisation: float | None = None,
        batch_size: int | None = None,
    ) -> np.ndarray:
        """Return object regions of groups of diffraction patterns.

        Args:
            patterns: amplitudes ``√counts``, zero frequency at ``N//2``: ``(G, C, N, N)``, or ``(G, N, N)``
                for C = 1. N and C are the run's where :attr:`fixed` has them.
            offsets: ``(G, C, 2)`` or ``(C, 2)``, positions (row, col) in pixels relative to the group's
                centre. None: those of the run's regular grid.
            probe: ``(N, N)`` complex. None: the run's; a network for many scans has none.
            photon_scale: s, if it is another than the run's; > 0.
            normalisation: f > 0. None: ``√((N/2)² / ⟨Σ A²⟩)`` over these patterns.
            batch_size: groups in a batch, the last one padded. None: the run's.

        Returns:
            ``(G, R, R)`` complex64 in the object's own units; R is the run's, or as much as the offsets need.

        Raises:
            ConfigError: an argument cannot be used; the message names it.
        """
        setup = self.setup
        amplitudes = self._checked(patterns)
        groups, C, N = amplitudes.shape[:3]
        energy = np.mean(np.sum(np.square(amplitudes, dtype=np.float64), axis=(2, 3)))
        f = _positive("normalisation", normalisation, N / 2 / math.sqrt(energy))
        s = _positive("photon_scale", photon_scale, setup.photon_scale)
        B = (self.config.batch_size or 1) if batch_size is None else batch_size
        check(isinstance(B, int | np.integer) and B >= 1, "batch_size", B, "an integer >= 1")
        if self.general:
            check(probe is not None, "probe", probe, "given: this network has no probe of its own")
        modes = _checked_probe(setup.probe if probe is None else probe, N)
        shifts = _checked_offsets(setup.offsets if offsets is None else offsets, groups, C)
        reach = float(np.abs(shifts).max())
        check(reach <= N / 2, "offsets", f"up to {reach:g} px", f"at most N/2 = {N / 2:g} px from the centre")
        R = N + max(setup.region_size - setup.N, math.ceil(2 * reach - 1e-3))
        support = probe_support(modes) if N != setup.N else max(probe_support(modes), setup.support)
        step = self._step(Geometry(N, R, C, support))
        regions = np.empty((groups, R, R), np.complex64)
        scaled = (s * f * modes[None]).astype(np.complex64)
        predict_into(regions, step, lambda part: (np.float32(f) * amplitudes[part], shifts[part]), scaled, B)
        return regions

    def view(self, data: Dataset) -> Dataset:
        """Return the dataset as this network takes it.

        Raises:
            ConfigError: its N or group size is another than the weights are bound to.
        """
        view = self._competitor.view(self.config, data)
        sizes = {key: getattr(view, key) for key in self.fixed}
        if sizes != self.fixed:
            raise ConfigError(
                f"the data have {_named(sizes)}; {self.name} was trained for {_named(self.fixed)}"
            )
        return view

    def step_for(self, view: Dataset) -> PredictStep:
        """Return the compiled step ``(x, offsets, probe) → (B, R, R)`` for sizes and probe of ``view``."""
        if self.general:  # as it was trained; compiled, whole positions are copied
            return self._step(geometry_of(replace(view, exact=True)))
        return self._step(geometry_of(view, self.setup.support if view.N == self.setup.N else 0))

    def predict_regions(
        self,
        view: Dataset,
        regions: np.ndarray | FileArray,
        batch_size: int | None = None,
        start: np.ndarray | None = None,
    ) -> None:
        """Write the regions of all groups of a :meth:`view` into ``regions (G, R, R)``.

        ``start``: objects ``(I, M, M)`` that an ``unrolled`` network begins with; None: a constant.
        """
        step, size = self.step_for(view), batch_size or self.config.batch_size or 1
        if self.general:  # in two rounds: what overlaps agrees better in the second
            predict_in_rounds(regions, step, view, size, 2, start)
        else:
            predict_scan(regions, step, view, size, start)

    def reconstruct(
        self,
        data: Dataset | MeasuredScan | str | Path,
        method: str | None = None,
        start: np.ndarray | None = None,
    ) -> Reconstruction:
        """Return the stitched objects of a scan, of a dataset, or of a run's dataset file.

        Args:
            data: a scan is read in groups as the network was trained with, under its own probe; where it has
                none, one is guessed.
            method: as ``stitch.method``; None: that of the run.
            start: objects ``(I, M, M)`` that an ``unrolled`` network begins with; None: a constant.

        Returns:
            Objects ``(I, M, M)`` complex64 and their mask; of a scan with its beam, whose positions are
            (row, col) of each patch's first sample in the object, in object pixels.

        Raises:
            ConfigError: the data do not fit the network, or are too few.
        """
        beam = None
        if isinstance(data, str | Path):
            data = load_dataset(data)
        elif not isinstance(data, Dataset):
            tiles = self.general or bool(getattr(self.config, "tiles", False))
            C = self.config.group_size if isinstance(self.config, GeneralConfig) else self.setup.group_size
            data = data.dataset(C or 1, tiles)
            beam = data.beam
        if data.fresnel is not None:
            raise ConfigError("the scan is a near field; networks are for far fields: use ptycho.reconstruct")
        view = self.view(data)
        regions = np.empty((view.n_groups, view.region_size, view.region_size), np.complex64)
        self.predict_regions(view, regions, start=start)
        reconstruction = stitch(regions, view, method or self.config.stitch.method)
        return replace(reconstruction, beam=beam, general=self.general)

    def _step(self, geometry: Geometry) -> PredictStep:
        """The network that ``config.yaml`` describes, with the stored weights and no others."""
        if geometry not in self._steps:
            network = self._competitor.build(self.config, geometry)
            try:
                set_weights(network, self._stored.weights)
            except ValueError as error:
                raise ConfigError(f"{self._stored.run / self.name}: {error}") from error
            self._steps[geometry] = make_predict_step(network, self.config.xla.compile)
        return self._steps[geometry]

    def _checked(self, patterns: np.ndarray) -> np.ndarray:
        amplitudes = np.asarray(patterns)
        if amplitudes.ndim == 3:
            amplitudes = amplitudes[:, None]
        shape, fixed = amplitudes.shape, self.fixed
        square = len(shape) == 4 and shape[2] == shape[3] and 0 not in shape
        sizes = {"N": shape[-1], "group_size": shape[1]} if square else {}
        if not square or sizes | fixed != sizes:
            C, N = fixed.get("group_size", "C"), fixed.get("N", "N")
            raise ConfigError(
                f"patterns has shape {np.shape(patterns)}; must be (G, {C}, {N}, {N}), "
                f"or (G, {N}, {N}) for C = 1"
            )
        if amplitudes.dtype.kind not in "fiu":
            raise ConfigError(f"patterns has dtype {amplitudes.dtype}; must be real amplitudes")
        least, most = amplitudes.min(), amplitudes.max()  # a larger square, summed, may leave float32
        fits = least >= 0 and 0 < most <= 1e18  # NaN does not
        check(fits, "patterns", f"{least:g} to {most:g}", "amplitudes, √counts, at most 1e+18, not all zero")
        return amplitudes.astype(np.float32, copy=False)


def _checked_offsets(offsets: np.ndarray, groups: int, group_size: int) -> np.ndarray:
    shape = (groups, group_size, 2)
    offsets = np.asarray(offsets, np.float32)
    if offsets.shape not in (shape, shape[1:]) or not np.isfinite(offsets).all():
        raise ConfigError(f"offsets has shape {offsets.shape}; must be {shape} or {shape[1:]}, finite")
    return np.broadcast_to(offsets, shape)


def _positive(name: str, value: float | None, default: float) -> float:
    number = default if value is None else value
    check(math.isfinite(number) and number > 0, name, number, "a finite number > 0")
    return float(number)


def _checked_probe(probe: np.ndarray, N: int) -> np.ndarray:
    probe = np.asarray(probe)
    if probe.shape != (N, N) or probe.dtype.kind not in "cfiu":
        raise ConfigError(
            f"probe has shape {probe.shape} and dtype {probe.dtype}; must be ({N}, {N}) numbers"
        )
    if not (np.isfinite(probe).all() and probe.any()):
        raise ConfigError("probe is zero, or holds NaN or infinity")
    return probe.astype(np.complex64)


def _named(values: dict[str, int]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())
