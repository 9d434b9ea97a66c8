"""The methods: what makes an object of a prepared scan, each given what those before it have made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ptycho.align.aligned import RunContext
from ptycho.config import ITERATIVE as LSQML
from ptycho.config import NETWORK, ScanRunConfig
from ptycho.evaluation.trust import doubt_probe
from ptycho.files.file_array import FileArray
from ptycho.methods import solver
from ptycho.methods.prepared import Prepared
from ptycho.methods.solver import SOLVER
from ptycho.progress import Progress
from ptycho.reconstruction import lsqml
from ptycho.reconstruction.stitching import stitch
from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import Reconstruction

if TYPE_CHECKING:
    from ptycho.run.loaded import LoadedModel

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MethodInputs:
    """Inputs of the methods."""

    config: ScanRunConfig  # their settings
    context: RunContext  # folder for scratch, clock, progress bar, executor and cache
    network: LoadedModel | None = None  # for ``pinn``; None: there is none
    # of the probe that was learned in its training, ``(K, N, N)``; None: none was
    modes: np.ndarray | None = None


Reconstructions = Mapping[str, Reconstruction]
Method = Callable[[Prepared, Reconstructions, MethodInputs], Reconstruction]


def _reconstruct_by_solver(
    prepared: Prepared, earlier: Reconstructions, inputs: MethodInputs
) -> Reconstruction:
    config = inputs.config
    options = solver.options_for(prepared, config.solver, config.probe, config.models, config.data.shared)
    settings = config.solver.block, config.seed, config.xla.compile
    return solver.reconstruct(prepared, options, inputs.context, *settings)


def _reconstruct_by_lsqml(
    prepared: Prepared, earlier: Reconstructions, inputs: MethodInputs
) -> Reconstruction:
    """Reconstruct from the same patterns, the file's probe and positions; held-out positions stay."""
    config, context, data = inputs.config, inputs.context, prepared.fitted(prepared.whole.beam)
    patterns = config.iterative.epochs * len(data.positions)
    with closing(Progress(LSQML, patterns, bar=context.bar)) as progress:
        result = lsqml.reconstruct(data, config.iterative, config.seed, progress.advance, context.scratch)
    reconstruction, epochs = result.reconstruction, result.r_factors
    text = "lsqml: %s, %d epochs, R %.4f, %.1f s"
    log.info(text, reconstruction.program, len(epochs), epochs[-1], reconstruction.seconds)
    assert reconstruction.beam is not None
    out = Beam(reconstruction.beam.probe, prepared.whole.beam.at(prepared.out).positions)
    return replace(reconstruction, beam=prepared.beam_of(reconstruction.beam, out))


def _reconstruct_by_network(
    prepared: Prepared, earlier: Reconstructions, inputs: MethodInputs
) -> Reconstruction:
    """Return the network's object under the best beam; a general one starts from the solver's object."""
    network, solved = inputs.network, earlier.get(SOLVER)
    assert network is not None
    beam = prepared.beam_under(solved)
    if inputs.modes is not None:
        beam = beam.with_probe(inputs.modes).scaled_to(beam.power)
    data, began = prepared.fitted(beam), time.perf_counter()
    start = solved.objects if network.general and solved is not None else None
    reconstruction = infer(network, data, inputs.config.batch_size, inputs.context.scratch, start)
    doubts = {} if network.general else doubt_probe(data.probe, network.probe)
    decisions = tuple(Finding.warning(text, flag) for flag, text in doubts.items())
    seconds = time.perf_counter() - began
    return replace(reconstruction, beam=beam, general=network.general, decisions=decisions, seconds=seconds)


def infer(
    network: LoadedModel,
    data: Dataset,
    batch_size: int | None,
    scratch: Path,
    start: np.ndarray | None = None,
) -> Reconstruction:
    """Return the network's object, by ``stitch=probe``; it begins with ``start (1, M, M)``, or a constant."""
    view = network.view(data)
    shape = (view.n_groups, view.region_size, view.region_size)
    regions = FileArray.temporary(scratch, shape, np.complex64)
    network.predict_regions(view, regions, batch_size, start)
    return stitch(regions, view, "probe")


METHODS: dict[str, Method] = {
    SOLVER: _reconstruct_by_solver,
    LSQML: _reconstruct_by_lsqml,
    NETWORK: _reconstruct_by_network,
}
"""Name to method."""
