"""Whether patterns determine the phase of an object: is a small phase that is put into it taken out again?

One pattern of a near field does not determine the phase of the wave on the detector; patterns together do, as
far as the illumination varies across the sample. Where it varies little, or λz/dx² is small, amplitude and
phase
make up for each other: steps gain next to nothing, patterns that were held out are explained all the same,
and halves of the scan err alike. So a known smooth phase χ is added to what was found,

    O → O e^{iχ},   share left = ⟨χ, arg(O′ conj(O))⟩ / ⟨χ, χ⟩

O′ is what some steps of the solver on the patterns alone (no prior) make of it, with the same parts of
the beam refined: a probe that was found can hide what is wrong in the object. ⟨·,·⟩ is over the
well-illuminated pixels, where χ is orthogonal to a constant and a plane, which no pattern determines; noise
is not correlated with χ. Zero: the patterns have taken χ out; one: they do not miss it. An object may be
wrong for other reasons, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.progress import silent
from ptycho.reconstruction.blocks import block_of, cut, patterns_of
from ptycho.reconstruction.estimate import Estimate, Refine
from ptycho.reconstruction.parameters import object_illumination
from ptycho.reconstruction.prior import NO_PRIOR
from ptycho.reconstruction.solver import Objective, fit


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
    """Return the share of a phase χ that stays in the object of a fit; see the module's text.

    Args:
        objective: of the fit.
        estimate: what it found, on the patterns of ``objective``.
        refine: what was refined with the object.
        seed: of χ.
    """
    objective = replace(
        objective, likelihood=replace(objective.likelihood, advance=silent), prior=NO_PRIOR, learned=None
    )
    data = objective.likelihood.data
    most = data.held_by(options.most_pixels, options.fewest)
    if len(estimate.positions) > 2 * most:
        block = block_of(estimate, data.central(most))
        objective, estimate = (
            replace(objective, likelihood=patterns_of(objective.likelihood, block)),
            cut(estimate, block),
        )
    illumination = object_illumination(estimate)
    illuminated = illumination > options.bright * illumination.max()
    put_in = draw_phase(illuminated, np.random.default_rng([seed, 11]), options)
    start = replace(estimate, object=(estimate.object * np.exp(1j * put_in)).astype(np.complex64))
    after = fit(objective, start, refine, options.steps, enough=0.0).estimate.object
    left = np.angle(after * estimate.object.conj())
    return float(
        np.vdot(put_in[illuminated], left[illuminated]) / np.vdot(put_in[illuminated], put_in[illuminated])
    )


def draw_phase(
    illuminated: np.ndarray, rng: np.random.Generator, options: PhaseOptions = PhaseOptions()
) -> np.ndarray:
    """Return χ, ``(M, M)`` float64: smooth, of mean and plane zero over the ``illuminated`` pixels."""
    rows, columns = np.indices(illuminated.shape)
    planes = np.stack([np.ones(illuminated.shape), rows - rows.mean(), columns - columns.mean()], axis=-1)
    noise = gaussian_filter(rng.normal(size=illuminated.shape), options.grain)
    smooth = noise - planes @ np.linalg.lstsq(planes[illuminated], noise[illuminated], rcond=None)[0]
    return options.height * smooth / smooth[illuminated].std()
