"""One network trained on distributions of scans, stored as that of any run, with a card."""

from __future__ import annotations

import logging
import shutil
from typing import Any

import keras
import numpy as np

from ptycho import __version__
from ptycho.config import DenoiserConfig, KindsConfig, PretrainConfig
from ptycho.config.mapping import flat, result_settings
from ptycho.config.messages import show
from ptycho.networks import build_pinn, count_parameters
from ptycho.networks.unrolled import Unrolled
from ptycho.networks.weights import get_weights
from ptycho.run import names
from ptycho.run.denoiser_training import DenoiserTraining
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, write_network
from ptycho.run.pretraining import Pretraining, form_name
from ptycho.simulation.examples import Examples
from ptycho.simulation.kinds import choose_entry
from ptycho.simulation.probe_kinds import PROBE_KINDS, draw_probe
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import Training
from workflows.command_line.device import device_facts, prepare_tensorflow

log = logging.getLogger(__name__)

TRANSMISSION = 0.5  # mean |O|² that amplitudes which are no counts are scaled to
INFERENCE = ("group_size", "batch_size")  # keys
TRIED = 100  # new examples of each form of batches, by which the card tells the error


def run(config: KindsConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Train, or go on with it, and write the network and its card into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        task, settings = make_training(config, folder, stop), result_settings(config)
        checkpoints = Checkpoints(
            folder.path / task.name / names.CHECKPOINTS,
            select_lasting(settings),
            config.train.checkpoint_seconds,
        )
        parameters = count_parameters(task.model)
        log.info("%d parameters, %d steps", parameters, config.steps)
        with folder.timed("training"):
            rows = Training(task, standard_callbacks(checkpoints, stop)).run().rows
        if isinstance(task, Pretraining):
            folder.arrays(f"{task.name}/{names.SETUP}", draw_setup(task.examples).arrays())
            description = {"parameters": parameters, "complete": True, "run_config": settings}
            weights = get_weights(make_pinn(task.config, task.model))
            write_network(folder, task.name, weights, description, rows)
        else:
            folder.arrays(f"{task.name}/{names.WEIGHTS}", get_weights(task.model))
            folder.table(f"{task.name}/{names.HISTORY}", rows)
        with folder.timed("scoring"):
            errors = measure_errors(task)
        folder.json(names.METRICS, errors)
        hours = sum(row["seconds"] for row in rows) / 3600
        folder.text(names.CARD, write_card(task, parameters, hours, errors, folder))
        checkpoints.remove()
        shutil.rmtree(folder.path / names.EXAMPLES, ignore_errors=True)
    folder.manifest(device_facts(config.xla) | {"seed": config.seed, "resumed": folder.resumed})
    log.info("results: %s", folder.path)


def make_training(
    config: KindsConfig, folder: RunFolder, stop: StopRequest
) -> Pretraining | DenoiserTraining:
    """The training of the network that ``config`` is of."""
    if isinstance(config, PretrainConfig):
        return Pretraining(config)
    assert isinstance(config, DenoiserConfig)
    return DenoiserTraining(config, folder.path / names.EXAMPLES, stop.check)


def select_lasting(settings: dict[str, Any]) -> dict[str, Any]:
    """What a training keeps to the end. A change of ``steps`` in config.yaml ends it sooner or later; one of
    what an inference takes leaves it as it is."""
    kept = {key: value for key, value in settings.items() if key not in ("steps", *INFERENCE)}
    return kept | {"horizon": settings["horizon"] or settings["steps"]}


def make_pinn(config: PretrainConfig, network: Unrolled) -> keras.Model:
    """The PINN whose generator has the weights of ``network``."""
    pinn = build_pinn(config, network.geometry)
    for own, variable in zip(pinn.generator.variables, network.variables, strict=True):
        own.assign(variable)
    return pinn


def draw_setup(examples: Examples) -> Setup:
    """What the network is for, as one example: a probe of the distribution, a group of single patterns."""
    rng = np.random.default_rng(examples.config.seed)
    N = min(form.N for form in examples.forms)
    entry = choose_entry(examples.probes, rng)
    probe = draw_probe(PROBE_KINDS[entry.kind], N, entry.ranges, rng)
    normalisation = N / 2 / float(np.sqrt(TRANSMISSION * np.sum(np.abs(probe) ** 2)))
    return Setup(probe, 1.0, normalisation, N, 1, np.zeros((1, 2), np.float32), N)


def measure_errors(task: Pretraining | DenoiserTraining) -> dict[str, dict[str, Any]]:
    """Errors on examples that were not trained on, under the name of the score.

    Of groups: quartiles by form of batches. Of the denoiser: what is left of the error of edge-preserving
    fits, and of fits with its first version.
    """
    if isinstance(task, DenoiserTraining):
        return {"error_left": {"classical": task.error(0), "learned": task.error(1)}}
    rows = {}
    for form in task.examples.forms:
        errors = task.measure_errors(form, -(-TRIED // form.batch))
        quartiles = map(float, np.quantile(errors, (0.25, 0.5, 0.75)))
        rows[form_name(form)] = dict(zip(("quarter", "median", "three_quarters"), quartiles, strict=True))
    return {"relative_error": rows}


def write_card(
    task: Pretraining | DenoiserTraining,
    parameters: int,
    hours: float,
    errors: dict[str, dict[str, Any]],
    folder: RunFolder,
) -> str:
    """What one must know of the weights: made of what, how, how good, and which they are."""
    config, weights = task.config, f"{task.name}/{names.WEIGHTS}"
    sections = {key: flat(result_settings(config)[key]) for key in ("materials", "measurement", config.FORMS)}
    lines = [
        f"# Network of `ptycho pretrain network={config.network}`",
        "",
        f"PtychoPINN {__version__}, {parameters:,} parameters (float32), {config.steps:,} steps from seed "
        f"{config.seed}, {hours:.1f} hours. ",
        f"SHA-256 of `{weights}`: `{folder.recorded(weights)}`. ",
        "Licence: BSD-3-Clause, as the program. No measured data was used; objects of the kind `photographs`",
        "are those of `ptycho.simulation.object_kinds.PHOTOGRAPHS`.",
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
