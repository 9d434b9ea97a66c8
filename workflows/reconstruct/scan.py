"""Process a measured scan: interpret it, train or load a network, reconstruct, assess, draw."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ptycho.align.aligned import RunContext
from ptycho.align.cached import align
from ptycho.config import ScanRunConfig
from ptycho.evaluation import scan_figures
from ptycho.evaluation.caustic import draw_caustic
from ptycho.evaluation.figures import quality
from ptycho.evaluation.trust import FLAGS
from ptycho.exports import product
from ptycho.exports.exported_scan import product_of
from ptycho.methods.assessment import assessment_arrays, picture_of, probe_caustic, well_illuminated
from ptycho.methods.half_scans import resolution
from ptycho.methods.pipeline import Assessed, assess, number
from ptycho.methods.prepared import Prepared, prepare
from ptycho.methods.table import LSQML, METHODS, NETWORK, SOLVER, MethodInputs
from ptycho.reconstruction.blocks import Executor, serial
from ptycho.reconstruction.lsqml import LsqmlError
from ptycho.run import names
from ptycho.run.folder import FileCache, RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network import read_network
from ptycho.run.network_training import check_network_memory, describe_trainings, split_scan, train_network
from ptycho.run.record import device_facts, prepare_tensorflow
from ptycho.run.scan_plan import interpret_scan
from ptycho.run.stored_run import run_folder
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import findings_of, report, warnings_of
from ptycho.scan.reconstruction import Reconstruction
from ptycho.training.checkpoint import History
from ptycho.training.competitors import training_geometry
from ptycho.training.interrupt import StopRequest

log = logging.getLogger(__name__)


def run(
    config: ScanRunConfig,
    folder: RunFolder,
    stop: StopRequest | None = None,
    executor: Executor | None = None,
) -> tuple[dict[str, Any], dict[str, Reconstruction]]:
    """Run the workflow, or what is left of it, and write everything into ``folder``.

    Return the rows of ``metrics.json``, and the reconstructions by name. ``executor`` fits the blocks of a
    large scan.
    """
    scan = interpret_scan(config.data, config.output_dir)
    cache = FileCache(folder.path / names.BLOCKS)
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        around = RunContext(folder.path, folder.timed, executor=executor or serial, cache=cache)
        log.info("%s: %s", config.data.paths, scan.raw.format)
        report(scan.decisions, log)
        aligned = align(scan, config, around)
        inputs = MethodInputs(aligned.config, around)
        prepared = prepare(config.data.name, aligned)
        if config.nepochs and NETWORK in config.models:
            check_network_memory(NETWORK, config, training_geometry(prepared.whole, None))
        reconstructions = {SOLVER: METHODS[SOLVER](prepared, {}, inputs)} if config.solver.steps else {}
        data = prepared.fitted(prepared.beam_under(reconstructions.get(SOLVER)))
        model, history, modes = network(config, data, folder, stop)
        inputs = replace(inputs, network=model, modes=modes)
        result, recons = reconstruct(prepared, reconstructions, inputs, history, folder)
        folder.json(names.METRICS, result | names.CONVENTIONS)
    seconds = {name: round(recon.seconds, 2) for name, recon in recons.items()}
    facts = {
        "seed": config.seed,
        "training": describe_trainings(history),
        "resumed": folder.resumed,
        "scans": {prepared.name: {"patterns": len(prepared.whole.positions), "N": prepared.whole.N}},
        "reconstruction_s": {prepared.name: seconds},
        "programs": {name: recon.program for name, recon in recons.items() if recon.program},
    }
    folder.manifest(device_facts(config.xla) | facts)
    cache.remove()
    if not FLAGS.keys() & set(result[result["product"]]["flags"]):
        log.info("%s: verdict: no problem found", prepared.name)
    log.info("results: %s", folder.path)
    return result, recons


def network(
    config: ScanRunConfig, scan: Dataset, folder: RunFolder, stop: StopRequest | None
) -> tuple[LoadedModel | None, dict[str, History], np.ndarray | None]:
    """The network of another run as it is, or one that is trained on the scan, from that or from nothing.

    The third is the probe that was learned in the training, if it was.
    """
    if NETWORK not in config.models:
        return None, {}, None
    if not config.nepochs:
        log.info("the network of %s is used; no training", config.run)
        return load_model(str(config.run), NETWORK), {}, None
    start = None
    if config.run is not None:
        log.info("the network of %s is trained on", config.run)
        start = read_network(run_folder(config.run), NETWORK).weights
    parts = split_scan(scan, config.val_fraction, config.seed)
    _, history, modes = train_network(NETWORK, config, parts, folder, stop=stop, start=start)
    return load_model(folder.path, NETWORK), {NETWORK: history}, modes


def reconstruct(
    prepared: Prepared,
    reconstructions: dict[str, Reconstruction],
    inputs: MethodInputs,
    history: dict[str, History],
    folder: RunFolder,
) -> tuple[dict[str, Any], dict[str, Reconstruction]]:
    """Reconstruct one scan by its methods; assess, store and draw the objects; return metrics and objects.

    ``reconstructions``: by the solver before any network, if it is specified.
    """
    config, reconstructions = inputs.config, dict(reconstructions)
    wanted: list[str] = [LSQML] if LSQML in config.models else []
    wanted += [] if inputs.network is None else [NETWORK]
    for name in wanted:
        with folder.timed("inference" if name == NETWORK else name):
            try:
                reconstructions[name] = METHODS[name](prepared, reconstructions, inputs)
            except LsqmlError as error:
                log.warning("%s; the table goes without it", error)
    done = assess(prepared, reconstructions, inputs)
    result = metrics_of(prepared, done)
    reconstructions = done.reconstructions
    for name, reconstruction in reconstructions.items():
        folder.arrays(names.recon(name), reconstruction.arrays())
    arrays = assessment_arrays(prepared, reconstructions, done.fits, done.halves)
    folder.arrays(names.ASSESSMENT, arrays)
    best = reconstructions[done.product]
    thickness = prepared.slice_thickness_m(best)
    exported = product_of(prepared.scan, prepared.whole, best, prepared.name, thickness)
    product.write(folder.place(names.PRODUCT), exported)
    draw(prepared, done, history, result, folder)
    return result, reconstructions


def metrics_of(prepared: Prepared, done: Assessed) -> dict[str, Any]:
    """Return ``metrics.json``: how far the results can be trusted, and how the file was interpreted."""
    pixel = prepared.scan.pixel.metres
    decisions = [*prepared.scan.decisions, *done.decisions]
    return done.rows | {
        "half_scan_frc": None if done.halves is None else resolution(done.halves, pixel),
        "pixel_m": None if pixel is None else list(pixel),
        "findings": {finding.what: [finding.value, finding.why] for finding in findings_of(decisions)},
        "warnings": warnings_of(decisions),
        "product": done.product,
    }


def draw(
    prepared: Prepared,
    done: Assessed,
    histories: dict[str, History],
    result: dict[str, Any],
    folder: RunFolder,
) -> None:
    """The objects with a scale bar, the probe, the error map, the misfit, half-scan FRC and the losses."""
    pixel, recons, halves = prepared.scan.pixel.metres, done.reconstructions, done.halves
    last = next(reversed(recons))
    best, fit = recons[done.product], done.fits[last]

    def store(name: str, figure: Figure) -> None:
        folder.figure(names.figure(name), figure)

    with folder.timed("drawing"):
        pictures = {name: picture_of(reconstruction, prepared) for name, reconstruction in recons.items()}
        titled = {_title(name, result[name]): picture for name, picture in pictures.items()}
        for name, (title, picture) in zip(pictures, titled.items(), strict=True):
            store(f"amp_phase_{name}", scan_figures.draw_reconstruction(picture, pixel, title))
        if len(recons) > 1:
            store("side_by_side", scan_figures.side_by_side(titled, pixel))
        if (sigma := best.errors) is not None:
            illuminated = well_illuminated(best, prepared) & best.covered
            title = f"{done.product}: one standard deviation by the noise of the patterns"
            errors = sigma.amplitude[0], sigma.phase[0]
            store("error_map", scan_figures.draw_errors(*errors, illuminated, pixel, title))
        if (focus := probe_caustic(prepared, best)) is not None:
            store("probe_caustic", draw_caustic(focus, f"{done.product}: probe"))
        if best.slices is not None:
            layers = [picture_of(replace(best, objects=layer[None]), prepared) for layer in best.slices]
            title = f"{done.product}: slices along the beam"
            store("slices", scan_figures.draw_slices(layers, pixel, title))
        if (beam := best.beam) is not None and beam.opr_modes is not None and beam.opr_weights is not None:
            varied = beam.probe[0], beam.opr_modes, beam.opr_weights
            title = f"{done.product}: the probe varies by {100 * beam.variation:.2g} % (rms)"
            store("probe_variation", scan_figures.draw_variation(*varied, pixel, title))
        places = prepared.beam_under(recons[last]).positions
        positions = places[prepared.kept[fit.inspected]]
        ratio = fit.used.residual / np.maximum(fit.used.measured, 1e-30)
        by_pixel = None if fit.causes is None else fit.causes.by_pixel
        curve = None if halves is None else (halves.frequency, halves.curves)
        rows = {name: history.rows for name, history in histories.items()}
        store("quality", quality(positions, ratio, curve, rows, by_pixel))


def _title(name: str, row: dict[str, Any]) -> str:
    """Name and misfit on one line, and each flag on a line of its own."""
    text = f"{name}: R {row['r_factor']:.3f}, free {number(row['r_free'])}, noise {number(row['r_noise'])}"
    return "\n".join([text, *(f"! {flag}" for flag in row["flags"])])
