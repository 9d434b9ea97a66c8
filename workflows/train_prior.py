"""A prior learned from simulated scans, stored with a card."""

from __future__ import annotations

import logging
import shutil

from ptycho import __version__
from ptycho.config import PriorConfig
from ptycho.config.mapping import completed, result_settings
from ptycho.networks import count_parameters
from ptycho.networks.weights import get_weights
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.prior_training import PriorTraining
from ptycho.training.callbacks import standard_callbacks
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import Training
from workflows.command_line.device import device_facts, prepare_tensorflow

log = logging.getLogger(__name__)


def run(config: PriorConfig, folder: RunFolder, stop: StopRequest) -> None:
    """Make the examples and train, or go on with it, and write the network and its card into ``folder``."""
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        place, seconds = folder.path / names.PRIOR / names.CHECKPOINTS, config.train.checkpoint_seconds
        checkpoints = Checkpoints(place, result_settings(config), seconds, completed)
        examples = folder.path / names.EXAMPLES
        task = PriorTraining(config, examples, stop.check)
        parameters = count_parameters(task.model)
        log.info("%d parameters, %d steps, %d scans", parameters, config.steps, config.scans)
        with folder.timed("training"):
            history = Training(task, standard_callbacks(checkpoints, stop)).run()
        folder.arrays(f"{names.PRIOR}/{names.WEIGHTS}", get_weights(task.model))
        folder.table(f"{names.PRIOR}/{names.HISTORY}", history.rows)
        errors = {"classical": task.error(0), "learned": task.error(1)}
        folder.json(names.METRICS, {"error_left": errors})
        hours = sum(row["seconds"] for row in history.rows) / 3600
        folder.text(names.CARD, write_card(config, parameters, hours, errors, task.left_out, folder))
        checkpoints.remove()
        shutil.rmtree(examples)
    folder.manifest(device_facts(config.xla) | {"seed": config.seed, "resumed": folder.resumed})
    log.info("results: %s", folder.path)


def write_card(
    config: PriorConfig,
    parameters: int,
    hours: float,
    errors: dict[str, float],
    left_out: int,
    folder: RunFolder,
) -> str:
    """What one must know of the weights: made of what, how, how good, and which they are."""
    m, s = config.materials, config.scan
    weights = f"{names.PRIOR}/{names.WEIGHTS}"
    sides = ", ".join(str(form.N) for form in config.forms.values())
    lines = [
        "# Prior of objects",
        "",
        f"PtychoPINN {__version__}, `ptycho.networks.denoiser`, {parameters:,} parameters (float32). ",
        f"SHA-256 of `{weights}`: `{folder.recorded(weights)}`. ",
        "Licence: BSD-3-Clause, as the program. No measured data was used; photographs are those of",
        "`ptycho.simulation.object_kinds.PHOTOGRAPHS`.",
        "",
        f"Made by `python scripts/train_prior.py` from seed {config.seed}: {config.scans:,} simulated scans, "
        f"each fitted by maximum likelihood, {config.steps:,} steps on windows of {config.window} pixels; "
        f"{hours:.1f} hours, fits of both parts included.",
        "",
        f"- patterns of {sides}² pixels; probes: {', '.join(config.probes)}",
        f"- objects: {', '.join(config.objects)}",
        f"- phase {_range(m.phase_rad)} rad, absorption {_range(m.absorption)}; {m.unrelated:.0%} with "
        f"unrelated phase and amplitude, {m.bright:.0%} from amplitude 0 to 1",
        f"- overlap {_range(s.overlap)}; photons in a pattern {_range(s.photons)}",
        f"- a wrong probe in {s.probe_error_share:.0%}, wrong positions in {s.position_error_share:.0%}",
        "",
        f"What is left of a fit's error, the geometric mean over windows of {left_out} scans that were not "
        "trained on, of all doses and with wrong beams:",
        "",
        "| edge-preserving fits, of random weight and length | learned denoiser |",
        "|---|---|",
        f"| {errors['classical']:.3f} | {errors['learned']:.3f} |",
    ]
    return "\n".join(lines) + "\n"


def _range(values: tuple[float, float]) -> str:
    return f"{values[0]:g} to {values[1]:g}"
