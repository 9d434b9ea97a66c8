"""Configuration of the inference script, and checks that it can run; nothing here imports TensorFlow."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from ptycho.config import ConfigError, PretrainConfig, StitchConfig, check
from ptycho.config.mapping import AnyConfig
from ptycho.config.memory import Phases, check_memory, inference_memory
from ptycho.config.messages import show
from ptycho.config.network_config import LARGEST_BATCH
from ptycho.config.schema import Each, Flag, Integer, Text, Texts, key, settings
from ptycho.config.sections import Stitching
from ptycho.datasets import Measurement, inspect
from ptycho.quiet_start import require_tensorflow, start_tensorflow
from ptycho.run.folder import check_free
from ptycho.run.names import CONFIG, INFERENCE
from ptycho.run.network import StoredNetwork, read_network, trained_networks
from ptycho.run.replacing import check_inputs
from ptycho.run.stored_run import run_folder
from ptycho.scan.probe import described_widths
from ptycho.training.interrupt import StopRequest

SAME = 1e-6  # difference of probes, over the largest amplitude, that is rounding


@settings()
class InferConfig:
    """The keys of ``conf/lite/infer.yaml``."""

    run: Text | None = key(
        None,
        "pretrained (the network that is installed), or the folder of a run",
        allowed="the folder of a run",
    )
    data: Text | None = key(
        None, "NPZ file of diffraction patterns: a dataset of a run, or test.npz of the published program"
    )
    models: Each[Literal["pinn", "baseline", "unrolled", "unet", "fno"]] | None = key(
        None, "networks of the run, such as [pinn,baseline]; null: all that it trained", min_length=1
    )
    stitch: Stitching | None = key(None, "stitching of the patches into an object; null: as in the run")
    passes: Integer | None = key(
        None, "maximum number of passes of stitch=refined; null: as in the run", ge=1, le=10_000
    )
    batch_size: Integer | None = key(
        None, "number of groups in a batch; null: as in the run", ge=1, le=LARGEST_BATCH
    )
    group_size: Integer | None = key(
        None,
        "number of patterns in a group, each pattern with its nearest neighbours; null: the groups of the"
        " file, or tiles for a general network",
        ge=1,
        le=512,
    )
    output_dir: Text | None = key(None, "folder of the results")
    overwrite: Flag = key(False, "replace the results in output_dir")
    trust: Texts = key((), "your own code that the run names, as my_module:name; nothing else is imported")

    def __post_init__(self) -> None:
        check(bool(self.run), "run", show(self.run), "the folder of a run")
        check(bool(self.data), "data", show(self.data), "an .npz file with diffraction patterns")
        check(bool(self.output_dir), "output_dir", show(self.output_dir), "the path of a folder")


@dataclass(frozen=True, eq=False)
class InferJob:
    """An inference that can start: verified networks, checked data, and the folder it will fill."""

    config: InferConfig
    path: Path
    run: AnyConfig
    networks: tuple[StoredNetwork, ...]
    data: Measurement

    @property
    def stitch(self) -> StitchConfig:
        """How patches are stitched: as in the run, except for the keys that are specified."""
        asked = {"method": self.config.stitch, "passes": self.config.passes}
        return replace(self.run.stitch, **{name: value for name, value in asked.items() if value})  # type: ignore[arg-type]

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
        return self.config.batch_size or self.run.batch_size  # type: ignore[return-value]  # never None


def infer(config: InferConfig, stop: StopRequest) -> list[str]:
    """Do an inference; TensorFlow is imported once everything is known to be as it must be."""
    require_tensorflow(os.environ)
    job = plan(config, Path(str(config.output_dir)))
    start_tensorflow()
    from workflows.reconstruct.infer import run

    run(job, stop)
    return []


def plan(config: InferConfig, path: Path) -> InferJob:
    """Read and check everything that an inference into the folder ``path`` needs.

    Raises:
        ConfigError: a file or the geometry cannot be used, or the folder is not free.
    """
    assert config.run is not None and config.data is not None
    run = run_folder(config.run)
    trained, names = trained_networks(run, config.trust, config.models)
    networks = tuple(read_network(run, name) for name in names)
    if config.overwrite:
        check_inputs(path, {"run": run / CONFIG, "data": Path(config.data)})
    check_free(path, config.overwrite, INFERENCE)
    data = inspect(config.data, networks[0].setup.probe)
    if isinstance(trained, PretrainConfig) and not data.own_probe:
        raise ConfigError(
            f"data={config.data}: has no probe (key probe or probeGuess), and run={config.run} has none of "
            "its own; reconstruct it with scan_workflow.py, which estimates one"
        )
    for network in networks:
        _check_sizes(network, data, config.group_size)
    job = InferJob(config, path, trained, networks, data)
    data.check_patterns()
    check_memory(_memory(job))
    return job


def _check_sizes(network: StoredNetwork, data: Measurement, group_size: int | None) -> None:
    """An error if the data have another N or group size than the network's weights are bound to."""
    known = {"N": data.shape[-1], "group_size": group_size or data.values["groups"].shape[1]}
    wanted = {key: getattr(network.setup, key) for key in network.config.fixed_sizes(network.name)}
    sizes = {key: known[key] for key in wanted}
    fewest = fewest_patterns(data)
    if group_size is not None:
        check(group_size <= fewest, "group_size", group_size, f"from 1 to {fewest}, the patterns of an image")
    if sizes != wanted:
        has, needs = (", ".join(f"{key}={value}" for key, value in d.items()) for d in (sizes, wanted))
        raise ConfigError(f"data={data.path}: has {has}; {network.name} was trained for {needs}")


def fewest_patterns(data: Measurement) -> int:
    """Patterns of the image that has the fewest."""
    return int(np.bincount(data.values["image"])[np.unique(data.values["image"])].min())


def _memory(job: InferJob) -> Phases:
    values = job.data.values
    C = job.group_size or values["groups"].shape[1]
    shape, images = (C, job.data.shape[-1], values["region_size"]), int(values["image"].max()) + 1
    truth = values.get("objects") is not None
    models = map(job.run.architecture, job.run.networks)
    return inference_memory(models, job.batch_size, shape, images, values["object_size"], truth)


def describe_probe(data: Measurement, trained: np.ndarray) -> str:
    """How the probe of the data differs from the one that a network was trained with."""
    if not data.own_probe:
        return "the file has no probe; the run's is used"
    probe = data.values["probe"]
    if probe.shape == trained.shape and np.allclose(probe, trained, 0, SAME * np.abs(trained).max()):
        return "the file has the probe that the network was trained with"
    ours, theirs = described_widths(probe), described_widths(trained)
    return f"the probe of the file is used: {ours}; the run's: {theirs}"
