"""A trained network, loaded from a run's folder and used on new data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from ptycho.config import ConfigError, RunConfig
from ptycho.data import Dataset, load_dataset
from ptycho.inference import PredictStep, make_predict_step, predict_into
from ptycho.models import Geometry, build_baseline, build_pinn, set_weights
from ptycho.probe import probe_support
from ptycho.rows import Rows
from ptycho.saved import SavedNetwork, Setup, read_saved
from ptycho.stitching import Stitched, scan_pitch, stitch

VIEWS: dict[str, Callable[[RunConfig, Dataset], Dataset]] = {
    "pinn": lambda config, data: data,
    "baseline": lambda config, data: data.single_patterns(config.baseline.patterns_per_group),
}


def load_model(run: str | Path, name: str = "pinn") -> LoadedModel:
    """The network ``name`` (``pinn`` or ``baseline``) that a run trained.

    Raises:
        ConfigError: the folder holds no such network, or its files are damaged.
    """
    if name not in VIEWS:
        raise ConfigError(f"name={name}: must be one of {', '.join(VIEWS)}")
    return LoadedModel(read_saved(Path(run), name))


class LoadedModel:
    """A network with the weights of a run.

    Attributes:
        config: the run's configuration.
        setup: what it was trained for; ``probe`` is its probe.
    """

    def __init__(self, saved: SavedNetwork) -> None:
        self.name, self.config, self.setup = saved.name, saved.config, saved.setup
        self._saved = saved
        self._steps: dict[tuple[int, int], PredictStep] = {}
        self._step(self.setup.probe, self.setup.region_size)  # weights of another network are refused now

    @property
    def probe(self) -> np.ndarray:
        """The training probe, ``(N, N)`` complex64."""
        return self.setup.probe

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
        """Object regions of groups of diffraction patterns.

        Args:
            patterns: amplitudes ``√counts``, zero frequency at ``N//2``: ``(G, C, N, N)``, or ``(G, N, N)``
                for C = 1. The baseline takes single patterns, C = 1.
            offsets: ``(G, C, 2)`` or ``(C, 2)``, positions (row, col) in pixels relative to the group's
                centre. None: those of the run's regular grid.
            probe: ``(N, N)`` complex. None: the run's.
            photon_scale: s, if it is another than the run's.
            normalisation: f. None: ``√((N/2)² / ⟨Σ A²⟩)`` over these patterns.
            batch_size: groups in a batch, the last one padded. None: the run's.

        Returns:
            ``(G, R, R)`` complex64 in the object's own units.

        Raises:
            ConfigError: shapes that do not fit the network, or values that are no amplitudes.
        """
        setup = self.setup
        amplitudes = self._checked(patterns)
        energy = np.mean(np.sum(np.square(amplitudes, dtype=np.float64), axis=(2, 3)))
        f = normalisation or float(setup.N / 2 / np.sqrt(energy))
        shifts = self._checked_offsets(setup.offsets if offsets is None else offsets, len(amplitudes))
        light = setup.probe if probe is None else _checked_probe(probe, setup.N)
        scaled = ((photon_scale or setup.photon_scale) * f * light).astype(np.complex64)
        step, B = self._step(light, setup.region_size), batch_size or self.config.batch_size
        regions = np.empty((len(amplitudes), setup.region_size, setup.region_size), np.complex64)
        for start in range(0, len(amplitudes), B):
            batch = np.minimum(np.arange(start, start + B), len(amplitudes) - 1)
            x = tf.constant(np.float32(f) * amplitudes[batch])
            found = step(x, tf.constant(shifts[batch]), tf.constant(scaled)).numpy()
            regions[start : start + B] = found[: len(amplitudes) - start]
        return regions

    def view(self, data: Dataset) -> Dataset:
        """The dataset as this network takes it.

        Raises:
            ConfigError: its geometry is another than the run's.
        """
        found = {"N": data.N, "gridsize²": data.group_size, "region_size": data.region_size}
        config = self.config
        wanted = {"N": config.N, "gridsize²": config.group_size, "region_size": config.region_size}
        if found != wanted:
            raise ConfigError(f"the data have {_named(found)}; the network was trained for {_named(wanted)}")
        return VIEWS[self.name](config, data)

    def step_for(self, view: Dataset) -> PredictStep:
        """The compiled step ``(x, offsets, probe) → (B, R, R)`` for the probe and regions of ``view``."""
        return self._step(view.probe, view.region_size)

    def predict_regions(
        self, view: Dataset, regions: np.ndarray | Rows, batch_size: int | None = None
    ) -> None:
        """Write the regions of all groups of a :meth:`view` into ``regions (G, R, R)``."""
        predict_into(regions, self.step_for(view), view, batch_size or self.config.batch_size)

    def reconstruct(self, data: Dataset | str | Path, method: str | None = None) -> Stitched:
        """The stitched objects of a dataset, or of a run's dataset file; ``method`` as ``stitch.method``."""
        data = data if isinstance(data, Dataset) else load_dataset(data)
        view = self.view(data)
        regions = np.empty((view.n_groups, view.region_size, view.region_size), np.complex64)
        self.predict_regions(view, regions)
        asked = self.config.stitch
        return stitch(regions, view, method or asked.method, scan_pitch(data), asked.passes)

    def _step(self, probe: np.ndarray, region_size: int) -> PredictStep:
        """A predict step; a probe broader than the run's needs a network that works on a larger square."""
        support = max(probe_support(probe), self.setup.support)
        key = (support, region_size)
        if key not in self._steps:
            network = _network(self._saved, _Place(self.setup, region_size), support)
            self._steps[key] = make_predict_step(network, self.config.xla.compile)
        return self._steps[key]

    def _checked(self, patterns: np.ndarray) -> np.ndarray:
        N, C = self.setup.N, self.setup.group_size
        amplitudes = np.asarray(patterns)
        if C == 1 and amplitudes.ndim == 3:
            amplitudes = amplitudes[:, None]
        if amplitudes.ndim != 4 or amplitudes.shape[1:] != (C, N, N) or not len(amplitudes):
            also = f", or (G, {N}, {N})" if C == 1 else ""
            raise ConfigError(f"patterns has shape {np.shape(patterns)}; must be (G, {C}, {N}, {N}){also}")
        if amplitudes.dtype.kind not in "fiu":
            raise ConfigError(f"patterns has dtype {amplitudes.dtype}; must be real amplitudes")
        amplitudes = amplitudes.astype(np.float32, copy=False)
        if not np.isfinite(amplitudes).all() or amplitudes.min() < 0 or not amplitudes.any():
            raise ConfigError("patterns is zero everywhere, or holds NaN, infinity or negative numbers")
        return amplitudes

    def _checked_offsets(self, offsets: np.ndarray, n_groups: int) -> np.ndarray:
        shape = (n_groups, self.setup.group_size, 2)
        offsets = np.asarray(offsets, np.float32)
        if offsets.shape not in (shape, shape[1:]) or not np.isfinite(offsets).all():
            raise ConfigError(f"offsets has shape {offsets.shape}; must be {shape} or {shape[1:]}, finite")
        reach, room = np.abs(offsets).max(), (self.setup.region_size - self.setup.N) / 2
        if reach > room + 1e-3:
            raise ConfigError(f"offsets reach {reach:g} px from the centre; the regions hold {room:g} px")
        return np.broadcast_to(offsets, shape)


class _Place:
    """The geometry of a setup with regions of another side."""

    def __init__(self, setup: Setup, region_size: int) -> None:
        self.N, self.probe, self.group_size = setup.N, setup.probe, setup.group_size
        self.region_size = region_size


def _network(saved: SavedNetwork, place: Geometry, support: int) -> keras.Model:
    """The network that ``config.yaml`` describes, with the stored weights and no others."""
    if saved.name == "pinn":
        network = build_pinn(saved.config, place, support)
    else:
        network = build_baseline(saved.config, place)
    try:
        set_weights(network, saved.weights)
    except ValueError as error:
        raise ConfigError(f"{saved.run / saved.name}: {error}") from error
    return network


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
