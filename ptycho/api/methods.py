"""A scan reconstructed by one of the methods and scored, or a network trained on it; imports TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptycho.align.aligned import AlignedScan, RunContext
from ptycho.align.cached import align
from ptycho.api.result import Result
from ptycho.api.scan import Scan
from ptycho.config import ScanRunConfig
from ptycho.exports.exported_scan import product_of
from ptycho.files.lock import locked
from ptycho.methods.assessment import assessment_arrays, well_illuminated
from ptycho.methods.half_scans import resolution
from ptycho.methods.pipeline import assess
from ptycho.methods.prepared import prepare
from ptycho.methods.table import METHODS, NETWORK, SOLVER, MethodInputs
from ptycho.preparation.dataset import check_disk
from ptycho.progress import Event
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.loaded import LoadedModel, load_model
from ptycho.run.network_training import describe_trainings, split_scan, train_network
from ptycho.scan.finding import findings_of, warnings_of
from ptycho.scan.reconstruction import Reconstruction


def reconstruct_and_assess(
    method: str,
    scan: Scan,
    aligned: AlignedScan,
    context: RunContext,
    with_halves: bool,
    network: LoadedModel | None = None,
) -> Result:
    """Reconstruct an aligned scan and score it by the steps of the command line: a row of metrics.json."""
    config = aligned.config
    prepared = prepare(scan.name, aligned)
    inputs, reconstructions = MethodInputs(config, context, network), dict[str, Reconstruction]()
    for name in (SOLVER, NETWORK) if method == NETWORK else (method,):
        if name != SOLVER or config.solver.steps:
            reconstructions[name] = METHODS[name](prepared, reconstructions, inputs)
    done = assess(prepared, reconstructions, inputs, method, with_halves)
    scores, last = done.rows[method], done.reconstructions[method]
    if with_halves:
        pixel = prepared.scan.pixel.metres
        scores["half_scan_frc"] = None if done.halves is None else resolution(done.halves, pixel)
    if scan.truth is not None:
        scores.setdefault("reference_comparison", None)
    context.on_event(Event("scores", method, scores))
    return Result(
        method,
        scores,
        product_of(prepared.scan, prepared.whole, last, prepared.name, prepared.slice_thickness_m(last)),
        prepared.beam_under(last),
        last.covered,
        well_illuminated(last, prepared),
        tuple(finding.in_words(context.words) for finding in findings_of(done.decisions)),
        tuple(finding.in_words(context.words) for finding in prepared.scan.findings),
        tuple(map(context.words, (*prepared.scan.warnings, *warnings_of(done.decisions)))),
        assessment_arrays(prepared, done.reconstructions, done.fits, done.halves),
        last,
        prepared,
    )


def train_on_scan(
    scan: Scan,
    config: ScanRunConfig,
    bar: bool | None = None,  # as for ptycho.progress.Progress
    callbacks: Sequence[Any] = (),  # of Keras or of the loop
) -> LoadedModel:
    """Train the PINN that ``config`` describes, store it in its ``output_dir``, and read it back."""
    path = Path(str(config.output_dir))
    check_disk(scan.geometry.raw, config.data, path)
    with locked(path):
        folder = RunFolder(path, config.overwrite)
        with folder.replacing(), folder.logged():
            folder.config(config)
            aligned = align(scan.geometry, config, RunContext(path, folder.timed, bar))
            prepared = prepare(scan.name, aligned)
            parts = split_scan(prepared.fitted(prepared.whole.beam), config.val_fraction, config.seed)
            history = train_network(NETWORK, config, parts, folder, bar=bar, callbacks=callbacks).history
            best = history.rows[history.best_epoch - 1]
            folder.json(names.METRICS, {NETWORK: {key: best[key] for key in ("epoch", "loss", "val_loss")}})
        folder.manifest({"seed": config.seed, "training": describe_trainings({NETWORK: history})})
    return load_model(path, NETWORK)
