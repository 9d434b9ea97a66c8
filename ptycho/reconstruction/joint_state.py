"""What the joint solver changes, and the plans by which it does: see :mod:`ptycho.reconstruction.joint`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ptycho.scan.dataset import Dataset
from ptycho.scan.groups import grouped, smallest_region
from ptycho.scan.probe import orthogonal_modes

UPDATES = 24  # batches of an early pass
WEAK = 0.03  # power of a mode that is made where none is known


@dataclass(frozen=True, eq=False)
class State:
    """What explains the patterns of a scan, in the normalised units of its dataset.

    Attributes:
        object: ``(M, M)`` complex64.
        modes: ``s·f·P``, ``(K, N, N)`` complex64, the strongest first.
        positions: ``(J, 2)`` float64, top-left samples.
        flux: c, ``(J,)`` float32.
        background: b, ``(N, N)`` float32, normalised intensity, zero frequency at sample 0.
    """

    object: np.ndarray
    modes: np.ndarray
    positions: np.ndarray
    flux: np.ndarray
    background: np.ndarray

    @classmethod
    def of(cls, data: Dataset, object_: np.ndarray, modes: int | None = None) -> State:
        """That of a dataset, with an object ``(M, M)`` and so many modes; None: those that it has."""
        known = data.model_probe.reshape(-1, data.N, data.N)
        wanted = len(known) if modes is None else modes
        return cls(
            object_.astype(np.complex64),
            more_modes(known, wanted)[:wanted],
            data.positions.astype(np.float64),
            np.ones(len(data.positions), np.float32) if data.flux is None else data.flux,
            _background(data),
        )


def explained(data: Dataset, state: State, normalisation: float, group_size: int) -> Dataset:
    """A dataset with the probe, positions, flux and background of a state, in new groups.

    Args:
        normalisation: f of the dataset in whose units the state is.
    """
    scale = data.photon_scale * normalisation
    weaker, dark = state.modes[1:] / scale, state.background / normalisation**2
    positions = state.positions.astype(np.float32)
    groups = grouped(positions, data.image, group_size, data.tiles)
    return replace(
        data,
        groups=groups,
        region_size=smallest_region(positions, groups, data.N),
        stated_tiling=data.tiling,
        probe=(state.modes[0] / scale).astype(np.complex64),
        weaker_modes=weaker.astype(np.complex64) if len(weaker) else None,
        positions=positions,
        flux=None if np.all(state.flux == 1) else state.flux.astype(np.float32),
        background=np.fft.fftshift(dark).astype(np.float32) if dark.any() else None,
        exact=data.exact or bool(np.any(positions != np.round(positions))),
        neighbours=None,
    )


@dataclass(frozen=True)
class Freedom:
    """What is found; the rest is taken as known."""

    probe: bool = True
    positions: bool = False
    flux: bool = False
    background: bool = False
    object: bool = True


@dataclass(frozen=True)
class Pass:
    """One way through all patterns: in so many batches, with momentum μ, and what is free in it."""

    batches: int
    momentum: float
    free: Freedom


def from_scratch(passes: int, free: Freedom) -> list[Pass]:
    """Passes from a constant object: the object alone, then with the probe, then everything that is free."""
    probe = replace(free, positions=False)
    early = [Pass(UPDATES, 0.0, Freedom(False))] + [Pass(UPDATES, 0.0, probe)] * 4
    return (early + [Pass(3, 0.8, probe)] + [Pass(3, 0.8, free)] * max(passes - 6, 0))[:passes]


def continued(passes: int, free: Freedom) -> list[Pass]:
    """Passes that go on from :func:`from_scratch`."""
    return ([Pass(3, 0.8, free)] * (passes // 2) + [Pass(1, 0.9, free)] * passes)[:passes]


def from_an_object(passes: int, free: Freedom) -> list[Pass]:
    """Passes from an object that explains the patterns well: all else is fitted to it, then it is free."""
    others = replace(free, object=False)
    first = 6 if others != Freedom(False, object=False) else 0
    return ([Pass(1, 0.5, others)] * first + [Pass(1, 0.9, free)] * max(passes - first, 0))[:passes]


def more_modes(known: np.ndarray, count: int) -> np.ndarray:
    """At least ``count`` modes ``(K, N, N)``: the known ones, and products of the strongest with x, y, xy, ….

    Each new one has ``WEAK`` of the strongest one's power and is orthogonal to all others.
    """
    N, modes = known.shape[-1], list(known)
    axis = np.arange(N) - N / 2
    powers = [(p, total - p) for total in range(1, 8) for p in range(total + 1)]
    for row, col in powers[: max(count - len(known), 0)]:
        made = known[0] * (axis[:, None] ** row * axis[None, :] ** col)
        for mode in orthogonal_modes(np.stack(modes))[0]:
            made = made - mode * (np.vdot(mode, made) / max(np.vdot(mode, mode).real, 1e-30))
        scale = np.sqrt(WEAK * np.sum(np.abs(known[0]) ** 2) / np.sum(np.abs(made) ** 2))
        modes.append(scale * made)
    return np.stack(modes).astype(np.complex64)


def _background(data: Dataset) -> np.ndarray:
    """The dataset's, in the units of a state; zero where none is known."""
    known = data.model_background
    return np.zeros((data.N, data.N), np.float32) if known is None else known
