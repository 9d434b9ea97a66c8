"""Standard deviations of the most likely object: its changes when the noise of the patterns is drawn anew.

1. The noise is drawn anew around the measured counts: n* ~ Poisson(n); without photon counts, a normal error
   of the strength that the likelihood has. Draws around the expectations of the estimated object would give
   too small a σ: it is smoother than the true one, and a fit to it is closer.
2. From the object O, under the refined beam, a few steps of the solver (of a learned prior: rounds, in which
   the network receives the draw) lead to the object O* of each draw; its global phase, which no pattern
   determines, is set to that of O.
3. Of d = (O* − O) · conj(O)/|O| the real part is the change of the amplitude, the imaginary part over |O|
   that of the phase. Neighbours are illuminated alike: with L = Σ_j Σ_m |c_j P_m|² and a Gaussian G

       σ_a² = G[L ⟨(Re d)²⟩] / (L G[1]),   σ_φ² = G[L ⟨(Im d)²⟩] / (L G[1] |O|²)

4. Of a large scan this is done in its middle; elsewhere σ_a is assumed proportional to 1/√L, with the factor
   of the middle.

The steps minimise the same objective, with the same prior. The bias of the prior and errors of the beam are
not in σ. Source: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 6. Coverage of the
intervals: ``benchmarks/error_map.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.progress import silent
from ptycho.reconstruction.blocks import Block, block_of, cut, patterns_of
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.likelihood import UNMEASURED
from ptycho.reconstruction.parameters import illuminated, object_illumination
from ptycho.reconstruction.prior import NO_PRIOR
from ptycho.reconstruction.scan_likelihood import ScanLikelihood, fits_of
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit, fit_learned
from ptycho.scan.reconstruction import ErrorMap

ANY_PHASE = np.pi / np.sqrt(3)  # σ of a phase of which nothing is known


@dataclass(frozen=True)
class ErrorMapOptions:
    """Options of the computation of an error map."""

    draws: int = 2  # of the noise
    steps: int = 16  # of the fit of a draw, at most,
    rounds: int = 3  # or of the learned prior
    width: float = 2.0  # of G, pixels
    middle_pixels: int = 2**22  # of the patterns in the middle of a larger scan,
    fewest: int = 100  # and of these at least


OPTIONS = ErrorMapOptions()


def map_errors(
    objective: Objective, estimate: Estimate, mask: np.ndarray, seed: int, options: ErrorMapOptions = OPTIONS
) -> ErrorMap:
    """Return the error map ``(1, M, M)`` of the object of a fit; of slices, that of their product.

    ``mask``: ``(M, M)`` bool, outside of which σ is infinite.
    """
    data, illumination = objective.likelihood.data, object_illumination(estimate)
    most = data.held_by(options.middle_pixels, options.fewest)
    if len(estimate.positions) > 2 * most and objective.likelihood.instead is None:
        # σ_a² L of a large scan, and that of the phase, are those of its middle
        inside, here, block = _cut_out(objective, estimate, most)
        part, known = object_illumination(here), mask & (illumination > 0)
        region = mask[block.window] & illuminated(part)
        both = _deviations(inside, here, mask[block.window], seed, options)
        spread = [float(np.median(deviation[region] ** 2 * part[region])) for deviation in both]
        nowhere = np.full(illumination.shape, np.inf)
        amplitude, sideways = (
            np.sqrt(np.divide(s, illumination, out=nowhere.copy(), where=known)) for s in spread
        )
    else:
        amplitude, sideways = _deviations(objective, estimate, mask, seed, options)
    size = np.abs(estimate.projection)
    phase = np.divide(sideways, size, out=np.full(size.shape, np.inf), where=size > 0)
    phase = np.where(phase < ANY_PHASE, phase, np.inf)
    return ErrorMap(amplitude[None].astype(np.float32), phase[None].astype(np.float32))


def _cut_out(objective: Objective, estimate: Estimate, most: int) -> tuple[Objective, Estimate, Block]:
    """Return objective and estimate of so many patterns in the middle of a scan."""
    block = block_of(estimate, objective.likelihood.data.central(most))
    inside = replace(objective, likelihood=patterns_of(objective.likelihood, block))
    return inside, cut(estimate, block), block


def _deviations(
    objective: Objective, estimate: Estimate, mask: np.ndarray, seed: int, options: ErrorMapOptions
) -> list[np.ndarray]:
    """Return standard deviations along and across the object, ``(M, M)`` each, infinite outside the mask."""
    illumination = object_illumination(estimate)
    image = estimate.projection.astype(complex)
    size = np.abs(image)
    along = np.divide(image.conj(), size, out=np.ones_like(image), where=size > 0)
    radial, across = np.zeros(illumination.shape), np.zeros(illumination.shape)

    def fit_to_draw(draw: int) -> np.ndarray:
        drawn = replace(objective, likelihood=measure_again(objective.likelihood, [seed, 9, draw]))
        if objective.learned is None:
            return fit(drawn, estimate, OBJECT_ALONE, options.steps).estimate.projection
        return fit_learned(drawn, estimate, options.rounds).estimate.projection

    for again in fits_of(fit_to_draw, range(options.draws), estimate.object.size):
        change = along * (turn_towards(image, again, illumination * mask) - image)
        radial += change.real**2 / options.draws
        across += change.imag**2 / options.draws
    return [np.sqrt(smooth(part, illumination, mask, options.width)) for part in (radial, across)]


def turn_towards(image: np.ndarray, again: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Turn an object ``again (M, M)`` by the phase that brings it nearest to another, under weights."""
    return again * np.exp(1j * np.angle(np.sum(weight * again.conj() * image)))


def smooth(
    variance: np.ndarray, illumination: np.ndarray, mask: np.ndarray, width: float = OPTIONS.width
) -> np.ndarray:
    """Return ``G[L v] / (L G[1])`` of ``variance (M, M)`` over the illuminated mask; else infinite."""
    known = mask & (illumination > 0)
    over, under = (
        gaussian_filter(np.where(known, part, 0.0), width, mode="constant")
        for part in (illumination * variance, 1.0)
    )
    return np.divide(over, illumination * under, out=np.full(illumination.shape, np.inf), where=known)


def measure_again(likelihood: ScanLikelihood, seed: list[int]) -> ScanLikelihood:
    """Return the likelihood of patterns whose noise is drawn anew, around those that were measured."""
    return replace(likelihood, instead=Redrawn(likelihood, tuple(seed)), advance=silent)


@dataclass(frozen=True, eq=False)
class Redrawn:
    """Amplitudes of a likelihood with their noise drawn anew each time they are read, always the same."""

    likelihood: ScanLikelihood
    seed: tuple[int, ...]

    def __getitem__(self, part: slice) -> np.ndarray:
        """``(j, N, N)`` float32; the noise depends on where the part begins."""
        rng, likelihood = np.random.default_rng([*self.seed, part.start]), self.likelihood
        measured = np.asarray(likelihood.amplitudes(part), float) / likelihood.unit
        if likelihood.noise == "poisson":
            known = measured != UNMEASURED
            drawn = np.where(known, np.sqrt(rng.poisson(np.square(np.where(known, measured, 0)))), UNMEASURED)
        else:
            drawn = measured + rng.standard_normal(measured.shape) / 2
        return (likelihood.unit * drawn).astype(np.float32)


@dataclass(frozen=True)
class PhaseOptions:
    """Options of the phase χ that is added, and of its fit."""

    grain: float = 3.0  # pixels: σ of its features
    height: float = 0.3  # rad: its standard deviation
    steps: int = 30
    bright: float = 0.5  # of the strongest illumination, above which it is compared
    most_pixels: int = 2**21  # of the patterns in the middle that are fitted,
    fewest: int = 36  # and of these at least


def phase_left(
    objective: Objective,
    estimate: Estimate,
    refine: Refine,
    seed: int,
    options: PhaseOptions = PhaseOptions(),
) -> float:
    """Return the share of a small smooth phase χ, put into the object of a fit, that the patterns leave.

        O → O e^{iχ},   share left = ⟨χ, arg(O′ conj(O))⟩ / ⟨χ, χ⟩ over the well-illuminated pixels

    O′ is what some steps on the patterns alone (no prior) make of it. Zero: the patterns determine the phase;
    one: they do not, as in a near field whose illumination hardly varies across the sample. ``refine`` is
    what was refined with the object, because a probe that was found can hide what is wrong in it.
    """
    likelihood = replace(objective.likelihood, advance=silent)
    objective = replace(objective, likelihood=likelihood, prior=NO_PRIOR, learned=None)
    most = likelihood.data.held_by(options.most_pixels, options.fewest)
    if len(estimate.positions) > 2 * most:
        objective, estimate, _ = _cut_out(objective, estimate, most)
    illumination = object_illumination(estimate)
    illuminated = illumination > options.bright * illumination.max()
    phase = draw_phase(illuminated, np.random.default_rng([seed, 11]), options)
    start = replace(estimate, object=(estimate.object * np.exp(1j * phase)).astype(np.complex64))
    after = fit(objective, start, refine, options.steps, enough=0.0).estimate.object
    left, put_in = np.angle(after * estimate.object.conj())[illuminated], phase[illuminated]
    return float(np.vdot(put_in, left) / np.vdot(put_in, put_in))


def draw_phase(
    illuminated: np.ndarray, rng: np.random.Generator, options: PhaseOptions = PhaseOptions()
) -> np.ndarray:
    """Return χ, ``(M, M)`` float64: smooth, of mean and plane zero over the ``illuminated`` pixels."""
    rows, columns = np.indices(illuminated.shape)
    planes = np.stack([np.ones(illuminated.shape), rows - rows.mean(), columns - columns.mean()], axis=-1)
    noise = gaussian_filter(rng.normal(size=illuminated.shape), options.grain)
    smooth = noise - planes @ np.linalg.lstsq(planes[illuminated], noise[illuminated], rcond=None)[0]
    return options.height * smooth / smooth[illuminated].std()
