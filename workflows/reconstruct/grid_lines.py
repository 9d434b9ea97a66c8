"""The grid-lines workflow: simulate, train, infer, stitch, score, draw."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from ptycho.config import ITERATIVE, RunConfig
from ptycho.evaluation.alignment import position_error_px, probe_error
from ptycho.evaluation.metrics import Region
from ptycho.evaluation.trust import doubt_probe
from ptycho.networks.layers import Geometry, make_predict_step
from ptycho.preparation.numbers import SampleOptions
from ptycho.preparation.pixels import hot_pixels, outlying_pixels
from ptycho.progress import Progress
from ptycho.reconstruction import lsqml
from ptycho.reconstruction.stitching import STITCHINGS, predict_scan, stitch_each
from ptycho.run import names
from ptycho.run.folder import RunFolder
from ptycho.run.network import regular_offsets
from ptycho.run.network_training import (
    TrainingScans,
    check_network_memory,
    describe_trainings,
    train_network,
)
from ptycho.run.record import device_facts, prepare_tensorflow
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.dataset_file import load_dataset, to_arrays
from ptycho.scan.patterns import Patterns
from ptycho.scan.reconstruction import Reconstruction
from ptycho.simulation.simulate import simulate
from ptycho.simulation.truth import Truth, read_truth
from ptycho.training.checkpoint import History
from ptycho.training.competitors import COMPETITORS
from ptycho.training.interrupt import StopRequest
from workflows.reconstruct.assess import draw_comparison, in_its_frame, score_models, store_recon

log = logging.getLogger(__name__)


def run(
    config: RunConfig, folder: RunFolder, stop: StopRequest | None = None
) -> tuple[dict[str, Any], dict[str, Reconstruction]]:
    """Run the workflow, or what is left of it, and write everything into ``folder``.

    Return the scores by name, and the reconstructions by name.
    """
    with folder.logged(), folder.timed("total"):
        prepare_tensorflow()
        log.info("the run is resumed" if folder.resumed else "the run begins")
        log.info("XLA: compile=%s, translate=%s", config.xla.compile, config.xla.translate)
        for name in config.networks:
            count = 1 if COMPETITORS[name].supervised else config.group_size
            check_network_memory(name, config, Geometry(config.N, config.region_size, count, config.N))
        data = read_stored_data(config, folder) or simulate_and_store(config, folder)
        test, iterated_beams = data["test"], list[Beam]()
        facts: dict[str, Any] = {"seed": config.seed, "resumed": folder.resumed}
        stitched: dict[str, dict[str, Reconstruction]] = {}
        histories: dict[str, History] = {}
        learned: dict[str, np.ndarray] = {}
        for name in config.networks:
            view = COMPETITORS[name].view
            parts = view(config, data["train"]), view(config, data["val"])
            scans = TrainingScans(*parts, regular_offsets(config.offset, parts[0].group_size))
            model, histories[name], modes = train_network(name, config, scans, folder, stop=stop)
            shown = test
            if modes is not None and config.test_probe is None:
                shown, learned[name] = test.under_probe(modes), modes[0]
            stitched[name] = reconstruct(name, model, config, shown, folder)
        if ITERATIVE in config.models and (iterated := reconstruct_by_lsqml(config, test, folder)):
            objects, iterated_beams, facts[ITERATIVE] = iterated
            stitched[ITERATIVE] = {config.stitch.method: objects}
        assert test.objects is not None  # it is simulated
        truth, region = test.objects, Region(*test.tiling.rectangle)
        doubts = doubt_probe(test.probe, data["train"].probe)
        recons = {name: by_method[config.stitch.method] for name, by_method in stitched.items()}
        loose = [name for name in recons if config.imperfect or name == ITERATIVE]
        moved = {name: in_its_frame(truth, recons[name], region) for name in loose}
        beams = beam_errors(folder, test, iterated_beams, learned) if config.imperfect else {}
        scores = score_models(truth, region, stitched, config.stitch.method, folder, doubts, moved, beams)
        draw_comparison(truth, region, test.probe, recons, histories, scores, folder, moved)
    folder.manifest(device_facts(config.xla) | facts | {"training": describe_trainings(histories)})
    log.info("results: %s", folder.path)
    return scores, recons


def read_stored_data(config: RunConfig, folder: RunFolder) -> dict[str, Dataset] | None:
    """The three datasets just as this run wrote them; None where one is missing or another."""
    if not folder.resumed:
        return None
    files = {role: names.dataset(config.N, config.gridsize, role) for role in ("train", "val", "test")}
    needed = [*files.values(), *([names.TRUTH] if config.imperfect else [])]
    other = [name for name in needed if not folder.holds(name)]
    if other:
        log.warning("%s: missing, changed or damaged; the datasets are simulated again", ", ".join(other))
        return None
    return {role: load_dataset(folder.path / name) for role, name in files.items()}


def simulate_and_store(config: RunConfig, folder: RunFolder) -> dict[str, Dataset]:
    """Simulate the three datasets and store them, with the truth if they do not contain it."""
    with folder.timed("simulation"):
        data, truth = simulate(config)
        if config.hot_pixels:
            data = without_hot_pixels(data)
    for role, part in data.items():
        log.info("%s: %d patterns in %d groups", role, len(part.amplitudes), part.n_groups)
    with folder.timed("writing"):
        for role, part in data.items():
            folder.arrays(names.dataset(config.N, config.gridsize, role), to_arrays(part))
        if truth is not None:
            folder.arrays(names.TRUTH, truth.keyed())
    return data


def without_hot_pixels(data: dict[str, Dataset]) -> dict[str, Dataset]:
    """Mark hot pixels of the training patterns as bad, like those of a measured scan."""
    train = data["train"]
    good = np.ones((train.N, train.N), bool) if train.good is None else train.good
    some = np.unique(np.linspace(0, len(train.amplitudes) - 1, SampleOptions().frames).astype(int))
    frames = np.square(train.amplitudes[some], dtype=float)
    bright, _ = outlying_pixels(frames.mean(axis=0), good)
    hot = hot_pixels(frames, good, bright, (train.N // 2, train.N // 2))
    log.info("%d hot pixels found; they are masked", hot.sum())
    good = good & ~hot
    return {
        role: replace(part, amplitudes=Patterns(np.where(good, part.amplitudes[:], 0)), good=good)
        for role, part in data.items()
    }


def reconstruct(
    name: str, model: keras.Model, config: RunConfig, test: Dataset, folder: RunFolder
) -> dict[str, Reconstruction]:
    """Infer on the test scan, stitch by every method, and store the objects of ``stitch.method``."""
    view = COMPETITORS[name].view(config, test)
    with folder.timed(f"{name}_inference"):
        regions = predict_regions(model, view, config.batch_size, config.xla.compile)
    with folder.timed("stitching"):
        stitched = stitch_each(regions, view, STITCHINGS)
    store_recon(name, stitched[config.stitch.method], folder)
    return stitched


def predict_regions(model: keras.Model, data: Dataset, batch_size: int, compile_xla: bool) -> np.ndarray:
    """Return object regions of all groups in order, ``(G, R, R)`` complex64 in the object's own units."""
    regions = np.empty((data.n_groups, data.region_size, data.region_size), np.complex64)
    predict_scan(regions, make_predict_step(model, compile_xla), data, batch_size)
    return regions


def reconstruct_by_lsqml(
    config: RunConfig, test: Dataset, folder: RunFolder
) -> tuple[Reconstruction, list[Beam], dict[str, Any]] | None:
    """Return objects, beams of the images and facts of pty-chi's LSQ-ML on the very same patterns, from the
    same probe and positions; None where it fails. Seconds are of the solver alone.
    """
    M, runs = test.object_size, list[lsqml.LsqmlResult]()
    objects, mask = np.zeros((test.n_images, M, M), np.complex64), np.zeros((test.n_images, M, M), bool)
    count = config.iterative.epochs * len(test.positions)
    with folder.timed(ITERATIVE), closing(Progress(ITERATIVE, count)) as progress:
        for i in np.unique(test.image):
            part = test.subset(np.flatnonzero(test.image == i), 1)
            try:
                run = lsqml.reconstruct(part, config.iterative, config.seed, progress.advance, folder.path)
            except lsqml.LsqmlError as error:
                log.warning("%s; the table goes without it", error)
                return None
            image, epochs = run.reconstruction, len(run.r_factors)
            runs.append(run)
            objects[i], mask[i] = image.objects[i], image.mask[i]
            log.info("lsqml: %d epochs, R %.4f, %.1f s", epochs, run.r_factors[-1], image.seconds)
    facts = {
        "seconds": round(sum(run.reconstruction.seconds for run in runs), 2),
        "epochs": [len(run.r_factors) for run in runs],
        "r_factor": [float(run.r_factors[-1]) for run in runs],
    }
    beams = [run.reconstruction.beam for run in runs if run.reconstruction.beam is not None]
    reconstruction = Reconstruction(objects, mask)
    stored = {
        "YY_pred": reconstruction.object,
        "probe": np.stack([beam.probe for beam in beams]),
        "positions": np.concatenate([beam.positions for beam in beams]),
    }
    folder.arrays(names.recon(ITERATIVE), reconstruction.arrays() | stored)
    return reconstruction, beams, facts


def beam_errors(
    folder: RunFolder, test: Dataset, refined: list[Beam], learned: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Return the errors of probe and positions: as given, as learned, and as LSQ-ML ``refined`` them."""
    truth = read_truth(folder.path / names.TRUTH)
    errors = {"given": _errors(truth, test, [test.probe[0]], test.positions)}
    for name, probe in learned.items():
        errors[name] = _errors(truth, test, [probe], test.positions)
    if refined:
        positions = np.concatenate([beam.positions for beam in refined])  # images follow one another
        errors[ITERATIVE] = _errors(truth, test, [beam.probe[0] for beam in refined], positions)
    for name, values in errors.items():
        log.info("%s: probe error %.3f, position error %.3f px", name, *values.values())
    return {"beam": errors}


def _errors(truth: Truth, test: Dataset, probes: list[np.ndarray], positions: np.ndarray) -> dict[str, float]:
    return {
        "probe_error": float(np.mean([probe_error(probe, truth.probe[0]) for probe in probes])),
        "position_error_px": position_error_px(positions, truth.positions, test.image),
    }
