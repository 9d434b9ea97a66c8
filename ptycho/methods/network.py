"""A trained network on a measured scan, as it is."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from ptycho.align.context import RunContext
from ptycho.evaluation.doubts import doubt_probe
from ptycho.files.file_array import FileArray
from ptycho.methods.prepared import Prepared
from ptycho.reconstruction.stitching import stitch
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.reconstruction import Reconstruction

NETWORK = "pinn"


class TrainedNetwork(Protocol):
    """Interface of a trained network; :class:`ptycho.run.loaded.LoadedModel` is one."""

    @property
    def general(self) -> bool:
        """Whether it was trained for many scans, and to go on from an object that a solver began."""

    @property
    def probe(self) -> np.ndarray:
        """Probe of its training, ``(N, N)``."""

    def view(self, data: Dataset) -> Dataset:
        """Return the dataset as this network takes it."""

    def predict_regions(
        self,
        view: Dataset,
        regions: np.ndarray | FileArray,
        batch_size: int | None = None,
        start: np.ndarray | None = None,
    ) -> None:
        """Write the regions of all groups into ``regions (G, R, R)``; see ``LoadedModel``."""


def reconstruct(
    prepared: Prepared,
    network: TrainedNetwork,
    solved: Reconstruction | None,
    modes: np.ndarray | None,
    batch_size: int | None,
    context: RunContext,
) -> Reconstruction:
    """Return the network's object under the best beam; a general one starts from the solver's object.

    Args:
        solved: by the solver; None: the beam is the initial one.
        modes: of the probe that was learned in the training, ``(K, N, N)``; None: none was.
        batch_size: groups in a batch; None: the network's own.
    """
    beam = prepared.beam_under(solved)
    if modes is not None:
        beam = beam.with_probe(modes).scaled_to(beam.power)
    data, began = prepared.fitted(beam), time.perf_counter()
    start = solved.objects if network.general and solved is not None else None
    reconstruction = infer(network, data, batch_size, context.scratch, start)
    doubts = {} if network.general else doubt_probe(data.probe, network.probe)
    decisions = tuple(Finding.warning(text, flag) for flag, text in doubts.items())
    seconds = time.perf_counter() - began
    return replace(reconstruction, beam=beam, general=network.general, decisions=decisions, seconds=seconds)


def infer(
    network: TrainedNetwork,
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
