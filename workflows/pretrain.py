"""One network trained on distributions of scans, stored as that of any run, with a card."""

from __future__ import annotations

import logging
from typing import Any

import keras
import numpy as np

from ptycho.config import PretrainConfig
from ptycho.config.mapping import completed, result_settings
from ptycho.networks import build_pinn, parameter_count
from ptycho.networks.unrolled import Unrolled
from ptycho.networks.weights import get_weights
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import Setup, write_network
from ptycho.simulation.kinds import chosen
from ptycho.simulation.probe_kinds import PROBE_KINDS, make
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import StopRequest
from ptycho.training.pretraining import Pretraining
from workflows.device import device_facts, prepare_tensorflow

log = logging.getLogger(__name__)

NETWORK = "pinn"
TRANSMISSION = 0.5  # mean |O|² that amplitudes which are no counts are scaled to


def run(config: PretrainConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Train, or go on with it, and write the network into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        settings = result_settings(config)
        place, seconds = folder.path / NETWORK / names.CHECKPOINTS, config.train.checkpoint_seconds
        checkpoints = Checkpoints(place, lasting(settings), seconds, lambda stored: lasting(completed(stored)))
        training = Pretraining(config, checkpoints, stop)
        log.info("%d parameters, %d steps", parameter_count(training.network), config.steps)
        with folder.timed("training"):
            history = training.run()
        folder.arrays(f"{NETWORK}/{names.SETUP}", typical_setup(config).arrays())
        description = {
            "parameters": parameter_count(training.network),
            "complete": True,
            "run_config": settings,
        }
        weights = get_weights(as_pinn(config, training.network))
        write_network(folder, NETWORK, weights, description, history.rows)
        folder.json(names.METRICS, {"errors": history.rows[-1] if history.rows else {}})
    folder.manifest(device_facts(config.xla) | {"seed": config.seed, "resumed": folder.resumed})
    log.info("results: %s", folder.path)


def lasting(settings: dict[str, Any]) -> dict[str, Any]:
    """What a training keeps to the end: a change of ``steps`` in config.yaml ends it sooner or later."""
    return {key: value for key, value in settings.items() if key != "steps"}


def as_pinn(config: PretrainConfig, network: Unrolled) -> keras.Model:
    """The PINN whose generator has the weights of ``network``."""
    pinn = build_pinn(config, network.geometry)
    for own, trained in zip(pinn.generator.variables, network.variables, strict=True):
        own.assign(trained)
    return pinn


def typical_setup(config: PretrainConfig) -> Setup:
    """What the network is for, as one example: a probe of the distribution, a group of single patterns."""
    from ptycho.simulation.examples import Examples

    examples, rng = Examples(config), np.random.default_rng(config.seed)
    N = min(form.N for form in config.forms)
    entry = chosen(examples.probes, rng)
    probe = make(PROBE_KINDS[entry.kind], N, entry.ranges, rng)
    normalisation = N / 2 / float(np.sqrt(TRANSMISSION * np.sum(np.abs(probe) ** 2)))
    return Setup(probe, 1.0, normalisation, N, 1, np.zeros((1, 2), np.float32), N)
