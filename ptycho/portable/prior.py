"""The network of a learned prior as a graph of real tensors with constant weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ptycho.config import ConfigError
from ptycho.networks.denoiser import load_denoiser
from ptycho.portable.network import frozen

VERSION = 1
INPUTS, OUTPUT = ("object", "noise"), "change"


@dataclass(frozen=True, kw_only=True)
class PriorDescription:
    """What an exported prior states about itself.

    Attributes:
        run: folder that it is of.
        side: of the square part of an object that it takes.
        precision: how the weights are stored.
        weights_sha256: of its ``weights.npz``.
    """

    run: str
    side: int
    precision: str
    weights_sha256: str

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, "name": "prior"} | asdict(self))


@dataclass(frozen=True, eq=False)
class PortablePrior:
    """``serve``: ``object (1, H, W, 4)``, ``noise (1, H, W, 1)`` → ``{"change": (1, H, W, 2)}``, all float32.

    See :class:`ptycho.networks.denoiser.Denoiser`.
    """

    description: PriorDescription
    serve: Any


def portable_prior(weights: Path, description: PriorDescription) -> PortablePrior:
    """The network of stored weights for objects of the description's side.

    Raises:
        ConfigError: they are those of another network.
    """
    try:
        network = load_denoiser(weights)
    except ValueError as error:
        raise ConfigError(f"{weights}: {error}") from error
    side = description.side
    sizes: tuple[tuple[int | None, ...], ...] = (1, side, side, 4), (1, side, side, 1)
    shapes = dict(zip(INPUTS, sizes, strict=True))
    return PortablePrior(description, frozen(lambda *given: {OUTPUT: network.call(list(given))}, shapes))
