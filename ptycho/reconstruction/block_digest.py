"""What a block's fit is known by when a stopped run goes on: a hash of all that decides it."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from ptycho.files.atomic import sha256
from ptycho.reconstruction.learned import Network, Pull, StoredNetwork

if TYPE_CHECKING:
    from ptycho.reconstruction.blocks import Task


def digest_of(task: Task) -> str:
    """Of patterns, mask, start, objective, networks, and the version of this program."""
    terms, start, noise = task.terms, task.start, task.terms.likelihood
    data, content = noise.data, hashlib.sha256()
    priors = (terms.prior.target, terms.prior.weight) if isinstance(terms.prior, Pull) else ()
    beside = terms.prior.beside if isinstance(terms.prior, Pull) else terms.prior
    arrays = (start.object, start.modes, start.positions, start.flux, start.background, *priors)
    for array in (*arrays, data.good, terms.lit):
        content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    patterns = data.amplitudes if noise.instead is None else noise.instead
    for first in range(0, len(data.positions), noise.chunk):
        content.update(np.ascontiguousarray(patterns[first : first + noise.chunk]).tobytes())
    learned = None if terms.learned is None else (terms.learned.strength, _identity(terms.learned.network))
    coarse = getattr(task.fit, "keywords", {}).get("coarse")
    kind = (data.N, data.fresnel, noise.normalisation, noise.unit, noise.noise, noise.excess, terms.moves)
    settings = (kind, beside, learned, coarse and _identity(coarse), task.free, task.steps, program_version())
    content.update(repr(settings).encode())
    return content.hexdigest()[:24]


def _identity(network: Network) -> str:
    """What tells a network from others: the hash of its weights, where they are in a file."""
    return sha256(network.file) if isinstance(network, StoredNetwork) else repr(network)


@cache
def program_version() -> str:
    try:
        return version("ptychopinn")
    except PackageNotFoundError:
        return ""
