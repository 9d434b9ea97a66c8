"""LSQ-ML of pty-chi, as runs call it; what runs it is an optional part, ``extras/lsqml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError, LsqmlConfig
from ptycho.installed import remedy
from ptycho.progress import Advance, silent
from ptycho.scan.dataset import Dataset
from ptycho.scan.reconstruction import Reconstruction

PART = "ptycho_lsqml"


class LsqmlError(RuntimeError):
    """Failure of pty-chi; one line with its last words."""


@dataclass(frozen=True, eq=False)
class LsqmlResult:
    """Result of LSQ-ML, in the units of the dataset.

    Attributes:
        reconstruction: object, probe and positions; its seconds are pty-chi's alone, without its imports and
            without the computation of ``r_factors``. pty-chi shifts only its first mode by fractions of a
            pixel; a position outside the canvas is set to its edge.
        r_factors: ``(E,)`` float64, ``Σ| |Ψ| − √n | / Σ√n`` of the fitted patterns after each epoch.
    """

    reconstruction: Reconstruction
    r_factors: np.ndarray


def check_available(python: str | None) -> None:
    """Raise ConfigError unless the part is there and ``python`` (None: this one) has pty-chi."""
    if (advice := remedy(PART)) is not None:
        raise ConfigError(f"lsqml: {advice}")
    if (missing := import_module(PART + ".fit").available(python)) is not None:
        raise ConfigError(missing)


def reconstruct(
    data: Dataset, settings: LsqmlConfig, seed: int, advance: Advance = silent, scratch: Path | None = None
) -> LsqmlResult:
    """Return the object, probe and positions that LSQ-ML finds, from the dataset's own probe and positions.

    Background, flux and point spread that the dataset knows are not used: pty-chi gets patterns as measured.

    Args:
        data: patterns of one object.
        settings: the section ``iterative``.
        seed: of the order of the patterns.
        advance: called after each epoch, with the number of patterns.
        scratch: where a folder for the exchange is made, as large as the patterns; None: the system's.

    Raises:
        ConfigError: the patterns are of several objects.
        LsqmlError: pty-chi cannot be run, or failed.
    """
    fit: Callable[..., LsqmlResult] = import_module(PART + ".fit").reconstruct
    return fit(data, settings, seed, advance, scratch)
