"""What a fit is known by: a hash of all that decides it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from ptycho.files.atomic import sha256
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.learned import Network, StoredNetwork
from ptycho.reconstruction.scan_likelihood import ScanLikelihood

if TYPE_CHECKING:
    from ptycho.reconstruction.solver import Objective


def digest_of(objective: Objective, start: Estimate, refine: Refine, steps: int, *beside: object) -> str:
    """Return a hash of all that decides a fit: patterns, mask, start, objective, networks, and this program.

    Args:
        beside: further values that decide the fit: networks, or values with a unique representation.
    """
    noise, content = objective.likelihood, hashlib.sha256()
    anchor = () if objective.anchor is None else (objective.anchor.target, objective.anchor.weight)
    arrays = (*vars(start).values(), *anchor)
    region = None if objective.support is None else objective.support.region
    for array in (*arrays, noise.data.good, region):
        content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    content.update(_digest_of_patterns(noise))
    data = noise.data
    kind = (data.N, data.fresnel, data.between, noise.normalisation, noise.unit, noise.noise, noise.excess)
    version_ = program_version()
    others = [_identity(part) if isinstance(part, StoredNetwork) else repr(part) for part in beside]
    far = objective.support is not None and objective.support.far_field
    settings = (
        far,
        objective.moves,
        objective.weight_waves,
        objective.prior,
        objective.options,
        refine,
        steps,
    )
    content.update(repr((kind, settings, others, version_)).encode())
    return content.hexdigest()[:24]


def _digest_of_patterns(noise: ScanLikelihood) -> bytes:
    content = hashlib.sha256()
    patterns = noise.data.amplitudes if noise.instead is None else noise.instead
    for first in range(0, len(noise.data.positions), noise.chunk):
        content.update(np.ascontiguousarray(patterns[first : first + noise.chunk]).tobytes())
    return content.digest()


def _identity(network: Network) -> str:
    """Return what identifies a network: the hash of its weights, if they are in a file."""
    return sha256(network.file) if isinstance(network, StoredNetwork) else repr(network)


@cache
def program_version() -> str:
    """Return the version of the installed package; empty if it is not installed."""
    try:
        return version("ptychopinn")
    except PackageNotFoundError:
        return ""
