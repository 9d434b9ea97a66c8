"""One network trained on distributions of scans, stored as that of any run, with a card."""

from __future__ import annotations

import logging
from typing import Any

import keras
import numpy as np

from ptycho import __version__
from ptycho.config import PretrainConfig
from ptycho.config.mapping import completed, result_settings
from ptycho.networks import build_pinn, count_parameters
from ptycho.networks.unrolled import Unrolled
from ptycho.networks.weights import get_weights
from ptycho.run import names
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

NETWORK = "pinn"
TRANSMISSION = 0.5  # mean |O|² that amplitudes which are no counts are scaled to
INFERENCE = ("group_size", "batch_size")  # keys
TRIED = 100  # new examples of each form of batches, by which the card tells the error


def run(config: PretrainConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Train, or go on with it, and write the network and its card into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        settings = result_settings(config)
        place, seconds = folder.path / NETWORK / names.CHECKPOINTS, config.train.checkpoint_seconds
        checkpoints = Checkpoints(
            place, select_lasting(settings), seconds, lambda stored: select_lasting(completed(stored))
        )
        training = Pretraining(config)
        parameters = count_parameters(training.model)
        log.info("%d parameters, %d steps", parameters, config.steps)
        with folder.timed("training"):
            history = Training(training, standard_callbacks(checkpoints, stop)).run()
        folder.arrays(f"{NETWORK}/{names.SETUP}", draw_setup(training.examples).arrays())
        description = {"parameters": parameters, "complete": True, "run_config": settings}
        weights = get_weights(make_pinn(config, training.model))
        write_network(folder, NETWORK, weights, description, history.rows)
        with folder.timed("scoring"):
            errors = measure_errors(training)
        folder.json(names.METRICS, {"relative_error": errors})
        hours = sum(row["seconds"] for row in history.rows) / 3600
        folder.text(names.CARD, write_card(config, parameters, hours, errors, folder))
        checkpoints.remove()
    folder.manifest(device_facts(config.xla) | {"seed": config.seed, "resumed": folder.resumed})
    log.info("results: %s", folder.path)


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


def measure_errors(training: Pretraining) -> dict[str, dict[str, float]]:
    """Quartiles of the relative error of examples that were not trained on, by form of batches."""
    rows = {}
    for form in training.examples.forms:
        batches = -(-TRIED // form.batch)
        errors = training.measure_errors(form, batches)
        low, middle, high = np.quantile(errors, (0.25, 0.5, 0.75))
        row = {"quarter": low, "median": middle, "three_quarters": high}
        rows[form_name(form)] = {key: float(value) for key, value in row.items()}
    return rows


def write_card(
    config: PretrainConfig,
    parameters: int,
    hours: float,
    errors: dict[str, dict[str, float]],
    folder: RunFolder,
) -> str:
    """What one must know of the weights: made of what, how, how good, and which they are."""
    m, t = config.measurement, config.materials
    lines = [
        "# Network for many probes, objects and scans",
        "",
        f"PtychoPINN {__version__}, generator `{config.model.kind}`, {parameters:,} parameters (float32). ",
        f"SHA-256 of `{NETWORK}/{names.WEIGHTS}`: `{folder.recorded(f'{NETWORK}/{names.WEIGHTS}')}`. ",
        "Licence: BSD-3-Clause, as the program. No measured data was used.",
        "",
        "## Trained on",
        "",
        f"Simulated groups of patterns with their true objects: {config.steps:,} steps from seed "
        f"{config.seed}, {hours:.1f} hours of steps. Every example is drawn anew.",
        "",
        f"- probes: {_kinds(config.probes)}",
        f"- objects: {_kinds(config.objects)}",
        f"- materials: phase {_range(t.phase_rad)} rad, absorption {_range(t.absorption)}; "
        f"{t.unrelated:.0%} with unrelated phase and amplitude, {t.bright:.0%} from amplitude 0 to 1",
        f"- overlap {_range(m.overlap)}; photons in a pattern {_range(m.photons)}",
        f"- imperfect: background in {m.background_share:.0%}, dead pixels in {m.bad_share:.0%}, a wrong "
        f"probe in {m.probe_error_share:.0%}, wrong positions in {m.position_error_share:.0%} of them",
        f"- of the batches {m.again_share:.0%} begin with what the network makes of them, and "
        f"{m.solver_share:.0%} with rough objects after {m.solver_passes[0]} to {m.solver_passes[1]} updates "
        f"by physics alone; of the other examples {m.start_share:.0%} with a rough object, the rest with a "
        "constant",
        "",
        "## Relative error on new examples of the same distributions",
        "",
        "Mean distance from the true object over the mean contrast, in the illuminated region "
        "(`ptycho.networks.losses.object_error`), over all doses, overlaps and imperfections.",
        "",
        "| patterns, in a group | quarter of the examples below | half | three quarters |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {row['quarter']:.3f} | {row['median']:.3f} | {row['three_quarters']:.3f} |"
        for name, row in errors.items()
    ]
    return "\n".join(lines) + "\n"


def _kinds(distribution: Any) -> str:
    return ", ".join(distribution)


def _range(values: tuple[float, float]) -> str:
    return f"{values[0]:g} to {values[1]:g}"
