"""PtychoPINN: physics-informed neural networks for ptychography.

A network turns groups of diffraction patterns into the complex object they came from. It is trained
without ground truth: its last layers are the physics of the measurement. A solver does the same for a
measured scan, by maximum likelihood.

The Python interface (``docs/api.md``)::

    scan = ptycho.open_scan("file.cxi", energy_eV=8800)
    result = ptycho.reconstruct(scan)
    result.plot()
    result.save("product.h5")

Notation, used everywhere (arrays are ``(…, row, col)``; layers that need channels are NHWC)

========= ====================================================================================
``I, M``    number of objects (images) and their side in pixels
``N``       side of a diffraction pattern, of the probe and of a patch
``J``       number of scan positions (= diffraction patterns)
``C``       patterns in a group, ``gridsize²``;  ``G`` groups;  ``B`` groups in a batch
``R``       side of the object region that covers a group, ``N + (gridsize − 1)·offset`` (+ jitter)
``r_k``     scan position (row, col): top-left sample of patch ``k`` in object pixels
``O``       object, complex64, order-one amplitude;  ``P`` the probe, complex64
``ψ_k``     exit wave ``P · O[r_k : r_k + N]``
``F``       unitary 2-D Fourier transform;  ``Ψ_k = F ψ_k`` the far field, zero frequency at ``N//2``
``n_k``     photon counts, ``n_k ~ Poisson(s² |Ψ_k|²)``;  ``A = √n`` measured diffraction amplitude
``s``       photon scale: mean over the training scan of ``Σ s²|Ψ|²`` is ``nphotons``
``f``       normalisation ``√((N/2)² / ⟨Σ A²⟩)``: the network sees ``x = f·A`` and the probe ``s·f·P``
========= ====================================================================================

The way of the data
    ``simulation`` or ``readers`` → ``scan`` (patterns stored once, groups by index) → ``networks`` (generator
    and ``physics``) trained by ``training`` → ``reconstruction`` (inference, stitching) →
    ``evaluation`` → ``run`` (the folder). ``workflows.reconstruct.grid_lines.run`` is that list;
    ``docs/architecture.md`` draws it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptycho.api.reconstruction import reconstruct
    from ptycho.api.result import Result
    from ptycho.api.scan import Scan, open_scan
    from ptycho.api.simulation import simulate
    from ptycho.api.training import train
    from ptycho.config import ConfigError
    from ptycho.progress import Event
    from ptycho.run.loaded import LoadedModel
    from ptycho.scan.beam import Beam
    from ptycho.scan.finding import Finding

__version__ = "0.1.0"
__all__ = [
    "Beam",
    "ConfigError",
    "Event",
    "Finding",
    "Result",
    "Scan",
    "load_model",
    "open_scan",
    "reconstruct",
    "simulate",
    "train",
]

_PLACES = {  # imported on first use: ``import ptycho`` loads nothing heavy
    "Beam": "ptycho.scan.beam",
    "ConfigError": "ptycho.config",
    "Event": "ptycho.progress",
    "Finding": "ptycho.scan.finding",
    "Result": "ptycho.api.result",
    "Scan": "ptycho.api.scan",
    "open_scan": "ptycho.api.scan",
    "reconstruct": "ptycho.api.reconstruction",
    "simulate": "ptycho.api.simulation",
    "train": "ptycho.api.training",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ptycho' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_model(run: str | Path, name: str = "pinn", trust: str | None = None) -> LoadedModel:
    """Return the network ``name`` (``pinn`` or ``baseline``) trained by the run in folder ``run``.

    ``run="pretrained"`` is the network that comes with the program, for any probe and scan. ``trust`` is the
    ``model.target`` of a run whose generator is your own code; without it none is imported.

    See :class:`ptycho.run.loaded.LoadedModel`. TensorFlow is imported here, not with the package.
    """
    from ptycho.api.reconstruction import start_keras

    start_keras()
    from ptycho.run.loaded import load_model as load

    return load(run, name, trust)
