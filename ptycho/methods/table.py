"""The methods: what makes an object of a prepared scan, each given what those before it have made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ptycho.align.context import RunContext
from ptycho.config import ScanRunConfig
from ptycho.methods import lsqml, network, solver
from ptycho.methods.lsqml import LSQML
from ptycho.methods.network import NETWORK, TrainedNetwork
from ptycho.methods.prepared import Prepared
from ptycho.methods.solver import SOLVER
from ptycho.scan.reconstruction import Reconstruction


@dataclass(frozen=True, eq=False)
class MethodInputs:
    """What the methods have at hand.

    Attributes:
        config: their settings.
        where: a folder for scratch, and times.
        network: for ``pinn``; None: there is none.
        modes: of the probe that was learned in its training, ``(K, N, N)``; None: none was.
    """

    config: ScanRunConfig
    context: RunContext
    network: TrainedNetwork | None = None
    modes: np.ndarray | None = None


Made = Mapping[str, Reconstruction]
Method = Callable[[Prepared, Made, MethodInputs], Reconstruction]


def _infer(prepared: Prepared, made: Made, inputs: MethodInputs) -> Reconstruction:
    assert inputs.network is not None
    batch_size = inputs.config.batch_size
    return network.reconstruct(
        prepared, inputs.network, made.get(SOLVER), inputs.modes, batch_size, inputs.context
    )


METHODS: dict[str, Method] = {
    SOLVER: lambda prepared, made, inputs: solver.reconstruct(prepared, inputs.config, inputs.context),
    LSQML: lambda prepared, made, inputs: lsqml.reconstruct(prepared, inputs.config, inputs.context),
    NETWORK: _infer,
}
"""Name to method."""
