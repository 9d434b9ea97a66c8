"""What is specified of the model of a scan, and how much is fitted to select the rest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ptycho.networks.denoiser import WEIGHTS
from ptycho.reconstruction.learned import Network, StoredNetwork
from ptycho.reconstruction.prior import Prior, kind_of
from ptycho.scan.dataset import Dataset
from ptycho.scan.probe_support import ProbeSupport

Choice = bool | None
"""Refine it (True), do not (False), or select by cross-validation (None)."""


@dataclass(frozen=True)
class SelectionOptions:
    """Options of the fits that select a model."""

    core_pixels: int = 2**20  # of the patterns of the core,
    fewest: int = 100  # which has so many patterns at least,
    most_pixels: int = 2**23  # unless these have more pixels than this;
    least: int = 36  # then so many patterns
    first_steps: int = 120  # of the first fit, from a constant,
    steps: int = 60  # and of the others, at most
    poor_fit: float = 1.2  # deviance of a first fit under a known probe, from which a better start is sought
    core_steps: int = 150  # of all refined parameters, once the model is selected
    beam_pixels: int = 2**23  # of the patterns that give the beam of a scan that is fitted in blocks
    learned_rounds: int = 1  # of each weight of a learned prior
    next_kind: float = 0.3  # least λ of a second-order regulariser over the best edge-preserving (measured)
    depths: tuple[float, ...] = (10.0, 100.0, 1e3, 1e4)  # λ_z that are tried between slices
    modes: int = 3  # of the probe, at most, or one more than it has
    opr_modes: int = 3  # by which it varies, at most,
    pupil: float = 0.75  # share of the far field, from which on a pupil is no limit
    variation: float = 1.5  # tried from this score on (measured: 1.13 to 1.24 of constant probes, else 2.3)
    background_excess: float = 5.0  # times what an uncertain object alone would give: a background
    darkest: float = 0.02  # share of the pixels whose mean intensity is the start of a background,
    background_steps: int = 8  # of expectation maximisation from there
    noise_rounds: int = 8  # until the noise of amplitudes changes
    same_noise: float = 0.03  # by a smaller share
    again: float = 0.1  # fall of the log-deviance from which refused parts of the beam are tried again

    def count(self, N: int) -> int:
        """Return how many patterns of ``N × N`` the core has, at least."""
        return max(self.least, min(self.fewest, self.most_pixels // N**2))

    def core(self, data: Dataset) -> Dataset:
        """Return the patterns nearest to the middle of a scan; all, if they are not many more."""
        most = data.held_by(self.core_pixels, self.count(data.N))
        if len(data.positions) <= 1.5 * most:
            return data
        return data.cut_out(data.central(most))


@dataclass(frozen=True)
class ModelOptions:
    """Parts refined besides the object; None: selected by cross-validation.

    Attributes:
        probe, positions, flux, background: whether they are refined.
        modes: number of the probe's modes; None: one more than the probe has, if that helps.
        probe_variation: number of its OPR modes, by which it varies; None: as many as help.
        weight_waves: number of cosines over the scan, of which their weights consist; None: independent.
        slices: number of slices of the object; None: as many as help, where the distance between them or
            lengths are known (``Dataset.between``).
        thickness_specified: that is the distance between slices; else half a depth of field, where the search
            begins.
        moves: model of the position corrections.
        prior: kind of regulariser: of :data:`~.prior.PRIORS`, ``learned`` or ``none``.
        strength: its weight λ, or κ; None: selected.
        noise: of a pixel, or ``auto``.
        support: of the probe; None: everywhere.
        pupil: limit the far field of the probe to its pupil; None: selected.
        steps: of a fit, at most.
        weights: file of the denoiser; by default the one that comes with the program.
        selection: how much is fitted to select.
    """

    probe: Choice = None
    positions: Choice = None
    flux: Choice = None
    background: Choice = None
    modes: int | None = None
    probe_variation: int | None = None
    weight_waves: int | None = None
    slices: int | None = 1
    thickness_specified: bool = False
    moves: str = "independent"
    prior: str = "learned"
    strength: float | None = None
    noise: str = "auto"
    support: ProbeSupport | None = None
    pupil: Choice = None
    steps: int = 400
    weights: Path = WEIGHTS
    selection: SelectionOptions = SelectionOptions()

    @property
    def network(self) -> Network:
        """The denoiser of the learned prior; its weights are read when it is first used."""
        return StoredNetwork(self.weights)

    @property
    def learned(self) -> bool:
        """Whether the learned prior is specified."""
        return self.prior == "learned"

    @property
    def classical(self) -> tuple[str, ...]:
        """The regularisers of :data:`PRIORS` of which one is used, alone or beside the learned one."""
        return ("edge_preserving", "second_order") if self.learned else (self.prior,)

    @property
    def weak_prior(self) -> Prior:
        """The regulariser while a model is selected: the specified one, else the weakest of its kind.

        An object that is rough where it is poorly illuminated decides nothing.
        """
        if self.prior == "none":
            return Prior()
        kind, specified = self.classical[0], None if self.learned else self.strength
        return Prior(kind, kind_of(kind).strengths[0] if specified is None else specified)
