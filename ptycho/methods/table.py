"""The methods: what makes an object of a prepared scan, each given what those before it have made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ptycho.align.context import RunContext
from ptycho.config import ScanRunConfig
from ptycho.methods import denoised, lsqml, network, solver
from ptycho.methods.denoised import DENOISED
from ptycho.methods.lsqml import LSQML
from ptycho.methods.network import NETWORK, TrainedNetwork
from ptycho.methods.prepared import Prepared
from ptycho.methods.solver import SOLVER
from ptycho.scan.reconstruction import Reconstruction


@dataclass(frozen=True, eq=False)
class Means:
    """What the methods have at hand.

    Attributes:
        config: their settings.
        where: a folder for scratch, and times.
        network: for ``pinn``; None: there is none.
        modes: of the probe that was learned in its training, ``(K, N, N)``; None: none was.
    """

    config: ScanRunConfig
    where: RunContext
    network: TrainedNetwork | None = None
    modes: np.ndarray | None = None


Made = Mapping[str, Reconstruction]
Method = Callable[[Prepared, Made, Means], Reconstruction]


def _infer(each: Prepared, made: Made, means: Means) -> Reconstruction:
    assert means.network is not None
    batch_size = means.config.batch_size
    return network.reconstruct(each, means.network, made.get(SOLVER), means.modes, batch_size, means.where)


METHODS: dict[str, Method] = {
    SOLVER: lambda each, made, means: solver.reconstruct(each, means.config, means.where),
    LSQML: lambda each, made, means: lsqml.reconstruct(each, means.config, means.where),
    NETWORK: _infer,
    DENOISED: lambda each, made, means: denoised.reconstruct(each, list(made.values())[-1]),
}
"""Name to method: ``denoised`` takes the last reconstruction there is."""
