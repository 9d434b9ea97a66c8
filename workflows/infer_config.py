"""What the inference script is asked to do, and whether it can be done; nothing here imports TensorFlow."""

from __future__ import annotations

import difflib
import logging
import typing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ptycho.config import MODELS, ConfigError, NetworkConfig, PretrainConfig, StitchConfig, check
from ptycho.config import mapping as conversion
from ptycho.config.mapping import one_line, show, to_dataclass
from ptycho.config.memory import Phases, check_memory, inference_memory
from ptycho.readers import Measurement, inspect
from ptycho.run.folder import check_free
from ptycho.run.names import CONFIG, HISTORY, INFERENCE
from ptycho.run.network import StoredNetwork, is_stored, read_history, read_network
from ptycho.run.pretrained import run_folder
from ptycho.run.replacing import check_inputs
from ptycho.run.stored_config import read_config
from ptycho.scan.probe import described_widths, energy_diameter

log = logging.getLogger(__name__)

SAME = 1e-6  # relative difference of probes that is rounding


@dataclass(frozen=True)
class InferConfig:
    """The keys of ``conf/infer.yaml``."""

    run: str | None = None
    data: str | None = None
    models: tuple[str, ...] | None = None
    stitch: StitchConfig | None = None
    batch_size: int | None = None
    group_size: int | None = None
    output_dir: str | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        check(bool(self.run), "run", show(self.run), "the folder of a run")
        check(bool(self.data), "data", show(self.data), "an .npz file with diffraction patterns")
        check(bool(self.output_dir), "output_dir", show(self.output_dir), "the path of a folder")
        for name in self.models or ():
            check(name in MODELS, "models", f"[{name}]", f"drawn from [{', '.join(MODELS)}]")
        if self.models is not None:
            once = 0 < len(self.models) == len(set(self.models))
            check(once, "models", list(self.models), "null, or a list of names, each once")
        if self.batch_size is not None:
            check(1 <= self.batch_size <= 2**16, "batch_size", self.batch_size, "null, or from 1 to 65536")
        if self.group_size is not None:
            check(1 <= self.group_size <= 512, "group_size", self.group_size, "null, or from 1 to 512")


@dataclass(frozen=True, eq=False)
class InferJob:
    """An inference that can start: verified networks, checked data, and the folder it will fill."""

    config: InferConfig
    path: Path
    run: NetworkConfig
    networks: tuple[StoredNetwork, ...]
    data: Measurement

    @property
    def stitch(self) -> StitchConfig:
        return self.config.stitch or self.run.stitch

    @property
    def general(self) -> bool:
        """The network is one for many probes and scans."""
        return isinstance(self.run, PretrainConfig)

    @property
    def group_size(self) -> int | None:
        """Patterns in a group; None: as the file groups them.

        A network for many scans takes as many as it is meant for, or as an image has.
        """
        asked = self.config.group_size
        if asked is not None or not isinstance(self.run, PretrainConfig):
            return asked
        return min(self.run.group_size, fewest_patterns(self.data))

    @property
    def batch_size(self) -> int:
        return self.config.batch_size or self.run.batch_size


def infer_config(composed: DictConfig) -> InferConfig:
    """The validated configuration in what Hydra composed."""
    try:
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(one_line(str(error))) from error
    values = typing.cast(dict[str, Any], values)
    values.pop("hydra", None)
    stitch = values.get("stitch")
    if isinstance(stitch, dict) and "method" not in stitch:
        key, value = next(iter(stitch.items()), ("method", None))
        raise ConfigError(unknown_key(f"stitch.{key}", show(value)))
    for key, value in values.items():
        if key not in KEYS:
            raise ConfigError(unknown_key(key, show(value)))
    return to_dataclass(InferConfig, values)


KEYS = tuple(field.name for field in fields(InferConfig))


def unknown_key(key: str, value: str) -> str:
    """What to say about a key that does not exist, or not without the option of its group."""
    if key == "stitch.passes":
        return f"{key}={value}: needs stitch=refined beside it"
    if key.startswith("stitch."):
        return conversion.unknown_key(key, value)
    close = difflib.get_close_matches(key, KEYS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(KEYS)}"
    return f"{key}={value}: unknown key; {hint}"


def plan(config: InferConfig, path: Path) -> InferJob:
    """Read and check everything that an inference into the folder ``path`` needs.

    Raises:
        ConfigError: a file or the geometry cannot be used, or the folder is not free.
    """
    assert config.run is not None and config.data is not None
    run = run_folder(config.run)
    if not run.is_dir():
        raise ConfigError(f"run={run}: no such folder; it must be the folder of a run")
    settings = read_config(run)
    networks = tuple(read_network(run, name) for name in _names(config, settings, run))
    if config.overwrite:
        check_inputs(path, {"run": run / CONFIG, "data": Path(config.data)})
    check_free(path, config.overwrite, INFERENCE)
    data = inspect(config.data, networks[0].setup.probe)
    if isinstance(settings, PretrainConfig) and not data.own_probe:
        raise ConfigError(
            f"data={config.data}: has no probe (key probe or probeGuess), and run={config.run} has none of "
            "its own; reconstruct it with scan_workflow.py, which finds one"
        )
    for network in networks:
        _check_sizes(network, data, config.group_size)
    job = InferJob(config, path, settings, networks, data)
    data.check_patterns()
    check_memory(_memory(job))
    for network in networks:
        _warn_of_history(run, network.name)
    return job


def _names(config: InferConfig, settings: NetworkConfig, run: Path) -> tuple[str, ...]:
    """The networks that are asked for, or all that the run has trained."""
    if config.models is not None:
        return config.models
    names = tuple(name for name in settings.models if is_stored(run, name))
    if not names:
        raise ConfigError(f"run={run}: holds no trained network; it must be the folder of a finished run")
    return names


def _warn_of_history(run: Path, name: str) -> None:
    """A damaged history takes nothing away from a network, but tells of what happened to its folder."""
    try:
        if (run / name / HISTORY).exists():
            read_history(run, name)
    except ConfigError as error:
        log.warning("%s; it is passed over: an inference has no use for it", error)


def _check_sizes(network: StoredNetwork, data: Measurement, group_size: int | None) -> None:
    """An error if the data have another N or group size than the network's weights are bound to."""
    known = {"N": data.shape[-1], "group_size": group_size or data.values["groups"].shape[1]}
    wanted = {key: getattr(network.setup, key) for key in network.config.fixed_sizes(network.name)}
    found = {key: known[key] for key in wanted}
    fewest = fewest_patterns(data)
    if group_size is not None:
        check(group_size <= fewest, "group_size", group_size, f"from 1 to {fewest}, the patterns of an image")
    if found != wanted:
        has, needs = (", ".join(f"{key}={value}" for key, value in d.items()) for d in (found, wanted))
        raise ConfigError(f"data={data.path}: has {has}; {network.name} was trained for {needs}")


def fewest_patterns(data: Measurement) -> int:
    """Patterns of the image that has the fewest."""
    return int(np.bincount(data.values["image"])[np.unique(data.values["image"])].min())


def _memory(job: InferJob) -> Phases:
    values = job.data.values
    C = job.group_size or values["groups"].shape[1]
    shape, images = (C, job.data.shape[-1], values["region_size"]), int(values["image"].max()) + 1
    truth = values.get("objects") is not None
    return inference_memory(job.run, job.batch_size, shape, images, values["object_size"], truth)


def describe_probe(data: Measurement, trained: np.ndarray) -> str:
    """How the probe of the data differs from the one that a network was trained with."""
    if not data.own_probe:
        return "the file has no probe; the run's is used"
    probe = data.values["probe"].astype(complex)
    if probe.shape != trained.shape:
        ours, theirs = described_widths(probe), described_widths(trained)
        return f"the probe of the file is used: {ours}; the run's: {theirs}"
    scale = np.vdot(probe, trained) / np.vdot(probe, probe).real
    rest = np.linalg.norm(scale * probe - trained) / np.linalg.norm(trained)
    if rest < SAME and abs(scale - 1) < SAME:
        return "the file has the probe that the network was trained with"
    widths = [energy_diameter(p) for p in (probe, trained)]
    return (
        f"the probe of the file is used: {widths[0]:.1f} pixels across, the run's {widths[1]:.1f}; apart "
        f"from a factor {abs(scale):.3g} they differ by {100 * rest:.2g} %"
    )
