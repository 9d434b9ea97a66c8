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
    """Inputs of the methods.

    Attributes:
        config: their settings.
        context: folder for scratch, clock, progress bar, executor and cache.
        network: for ``pinn``; None: there is none.
        modes: of the probe that was learned in its training, ``(K, N, N)``; None: none was.
    """

    config: ScanRunConfig
    context: RunContext
    network: TrainedNetwork | None = None
    modes: np.ndarray | None = None


Reconstructions = Mapping[str, Reconstruction]
Method = Callable[[Prepared, Reconstructions, MethodInputs], Reconstruction]


def _infer(prepared: Prepared, earlier: Reconstructions, inputs: MethodInputs) -> Reconstruction:
    assert inputs.network is not None
    batch_size = inputs.config.batch_size
    return network.reconstruct(
        prepared, inputs.network, earlier.get(SOLVER), inputs.modes, batch_size, inputs.context
    )


METHODS: dict[str, Method] = {
    SOLVER: lambda prepared, earlier, inputs: solver.reconstruct(prepared, inputs.config, inputs.context),
    LSQML: lambda prepared, earlier, inputs: lsqml.reconstruct(prepared, inputs.config, inputs.context),
    NETWORK: _infer,
}
"""Name to method."""
