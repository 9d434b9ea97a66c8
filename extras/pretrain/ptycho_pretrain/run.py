"""Train one network on distributions of scans, and store it like that of any run, with a card."""

from __future__ import annotations

import logging
import shutil
from typing import Any

from ptycho import __version__
from ptycho.config.mapping import flat, result_settings
from ptycho.config.messages import show
from ptycho.networks import count_parameters
from ptycho.networks.layers import get_weights
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import write_network
from ptycho.run.record import device_facts, prepare_tensorflow
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import Training
from ptycho_pretrain.config import DenoiserConfig, KindsConfig, PretrainConfig
from ptycho_pretrain.denoiser_training import DenoiserTraining
from ptycho_pretrain.pretraining import KindsTraining, Pretraining

log = logging.getLogger(__name__)


def run(config: KindsConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Train, or resume the training, and write the network and its card into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        task, settings = make_training(config, folder, stop), result_settings(config)
        place, parameters = folder.path / task.name / names.CHECKPOINTS, count_parameters(task.model)
        checkpoints = Checkpoints(place, settings, config.train.checkpoint_seconds)
        log.info("%d parameters, %d steps", parameters, config.steps)
        with folder.timed("training"):
            rows = Training(task, standard_callbacks(checkpoints, stop)).run().rows
        if task.setup is not None:
            folder.arrays(f"{task.name}/{names.SETUP}", task.setup.arrays())
        description = {"parameters": parameters, "complete": True, "run_config": settings}
        write_network(folder, task.name, get_weights(task.stored), description, rows)
        with folder.timed("scoring"):
            errors = task.score()
        folder.json(names.METRICS, errors)
        hours = sum(row["seconds"] for row in rows) / 3600
        effort = f"{config.steps:,} steps from seed {config.seed}, {hours:.1f} hours"
        effort = f"{parameters:,} parameters (float32), {effort}"
        folder.text(names.CARD, write_card(config, task.name, effort, errors, folder))
        checkpoints.remove()
        shutil.rmtree(folder.path / names.EXAMPLES, ignore_errors=True)
    folder.manifest(device_facts(config.xla) | {"seed": config.seed, "resumed": folder.resumed})
    log.info("results: %s", folder.path)


def make_training(config: KindsConfig, folder: RunFolder, stop: StopRequest) -> KindsTraining:
    """The training of the network that ``config`` is of."""
    if isinstance(config, PretrainConfig):
        return Pretraining(config)
    assert isinstance(config, DenoiserConfig)
    return DenoiserTraining(config, folder.path / names.EXAMPLES, stop.check)


def write_card(config: KindsConfig, name: str, effort: str, errors: dict[str, Any], folder: RunFolder) -> str:
    """What one must know of the weights: made of what, how, how good, and which they are."""
    weights = f"{name}/{names.WEIGHTS}"
    sections = {key: flat(result_settings(config)[key]) for key in ("materials", "measurement", config.FORMS)}
    lines = [
        f"# Network of `ptycho pretrain network={config.network}`",
        "",
        f"PtychoPINN {__version__}, {effort}. ",
        f"SHA-256 of `{weights}`: `{folder.recorded(weights)}`. ",
        "Licence: BSD-3-Clause, as the program. No measured data was used; objects of the kind `photographs`",
        "are those of `ptycho_pretrain.object_kinds.PHOTOGRAPHS`.",
        "",
        "Trained on simulated scans (keys and units: docs/configuration.md):",
        "",
        f"- probes: {', '.join(config.probes)}",
        f"- objects: {', '.join(config.objects)}",
        *(
            f"- {key}: {', '.join(f'{name} {show(value)}' for name, value in section.items())}"
            for key, section in sections.items()
        ),
        "",
        "Errors on new examples of the same distributions, of all doses and imperfections:",
        "",
        *(f"- {key}: {value:.3f}" for key, value in flat(errors).items()),
    ]
    return "\n".join(lines) + "\n"
