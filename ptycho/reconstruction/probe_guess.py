"""A first guess of the probe of a scan whose file has none: that which lets the patterns be explained best.

The modulus of its far field comes from the mean pattern, its phase from an optic with one number
(:mod:`ptycho.scan.optics`). For every number in a sensible range, most patterns in the middle of
the scan make an object; what is judged is the sum of the R-factors of those, and of some patterns between
them that were kept out. Each alone errs: with too narrow a probe the patterns no longer overlap, and whatever
is in them can be explained; with too wide a one, those kept out are predicted with less contrast, and so less
badly.

Then object and probe are free together for some passes, which corrects what the mean pattern has blurred.

In a near field the mean pattern is brought back to the sample, and only the free passes remain.

A curvature and its negative differ by the sign of the positions (or a turn of the detector by 180°): a
guess is right only if those are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ptycho.reconstruction.misfit import misfit
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.short_fit import fit_shortly, middle
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.optics import Optic, optics_of, pupil, seen_power

COUNT = 60
STEPS = 5
EVERY = 8  # one of so many patterns is kept out
CLEARLY = 0.97  # of the badness: what is less is better
HALVINGS = 3  # of the step between two numbers, once the best of the coarse scan is known
OBJECT_STEPS, FREE_STEPS = 3, 20  # of the best: of the object alone, then with the probe


@dataclass(frozen=True)
class Fit:
    """An optic's number, and the R-factors of the patterns that were fitted and of those kept out."""

    optic: str
    number: float
    r_factor: float
    r_free: float

    @property
    def badness(self) -> float:
        return self.r_factor + self.r_free


@dataclass(frozen=True, eq=False)
class Guess:
    """What was guessed.

    Attributes:
        probe: ``(N, N)`` complex64, in the dataset's units: an object of transmission one and this probe give
            patterns of the mean energy.
        optic_probe: the same before its free passes.
        text: the optic in words.
        fit: of the optic's probe; ``tried``: of all.
        r_factor: after the free passes, of the patterns in the middle.
    """

    probe: np.ndarray
    optic_probe: np.ndarray
    text: str
    fit: Fit
    tried: tuple[Fit, ...]
    r_factor: float

    @property
    def finding(self) -> Finding:
        """What was settled, and why."""
        others, among = sorted(fit.badness for fit in self.tried), ""
        if len(others) > 1:
            among = (
                f": the best of {len(others)} in a short reconstruction, R-factor of fitted + "
                f"held-out patterns {self.fit.badness:.3f}, median {others[len(others) // 2]:.3f}"
            )
        freed = f"then free, {self.fit.r_factor:.3f} → {self.r_factor:.3f}"
        why = f"estimated from the mean pattern{among}; {freed}"
        return Finding("probe", self.text, why)


def guess_probe(data: Dataset, count: int = COUNT, steps: int = STEPS) -> Guess:
    """The probe of a scan, from its patterns and positions; that of ``data`` only decides which are used.

    A coarse scan of every optic, then ``HALVINGS`` times the two numbers half-way to the neighbours of its
    best; some fifty numbers in all.

    Args:
        data: a scan, read the right way.
        count: so many patterns in its middle are used.
        steps: of the solver, for every number.
    """
    some = middle(data, count)
    modulus, optics = pupil(data.amplitudes.statistics.mean_intensity, data.good), optics_of(data.fresnel)
    tried = [fit for name in optics for fit in search(some, modulus, name, optics[name], steps)]
    return _freed(data, some, modulus, optics, tried)


def guess_lens(data: Dataset, curvatures: Sequence[float], count: int = COUNT, steps: int = STEPS) -> Guess:
    """The same of a lens that has one of some curvatures; the first two, unless another is clearly better."""
    some, optics = middle(data, count), optics_of(None)
    modulus = pupil(data.amplitudes.statistics.mean_intensity, data.good)
    tried = [fit_number(some, modulus, "lens", optics["lens"], c, steps) for c in curvatures]
    first = min(tried[:2], key=lambda fit: fit.badness)
    better = [fit for fit in tried if fit.badness < CLEARLY * first.badness]
    return _freed(data, some, modulus, optics, better or tried[:2])


def _freed(
    data: Dataset, some: Dataset, modulus: np.ndarray, optics: Mapping[str, Optic], tried: list[Fit]
) -> Guess:
    """The best of the fits, whose probe is free for some passes then."""
    best = min(tried, key=lambda fit: fit.badness)
    optic = optics[best.optic]
    start = scale_to_patterns(optic.probe(modulus, best.number), data)
    image, freed = fit_shortly(_lit(some, start), OBJECT_STEPS, FREE_STEPS)
    return Guess(
        scale_to_patterns(freed.probe[0], data),
        start,
        optic.text(best.number),
        best,
        tuple(tried),
        misfit(image, freed).r_factor,
    )


def search(data: Dataset, modulus: np.ndarray, name: str, optic: Optic, steps: int) -> list[Fit]:
    """Fits of one optic of a name with the pupil ``modulus (N, N)``: a coarse scan, then around the best."""

    def tried(number: float) -> Fit:
        return fit_number(data, modulus, name, optic, number, steps)

    numbers = optic.numbers(modulus)
    fits = list(side_by_side(tried, numbers.tolist()))
    if len(numbers) == 1:  # so narrow a pupil that rays of any curvature would leave the window
        return fits
    step = numbers[1] - numbers[0]
    for _ in range(HALVINGS):
        step /= 2
        best = min(fits, key=lambda fit: fit.badness).number
        fits += side_by_side(tried, [best - step, best + step])
    return fits


def fit_number(data: Dataset, modulus: np.ndarray, name: str, optic: Optic, number: float, steps: int) -> Fit:
    """How well the probe of a pupil ``modulus (N, N)`` explains patterns, and others between them."""
    lit = _lit(data, scale_to_patterns(optic.probe(modulus, number), data))
    every = np.arange(len(data.positions))
    out = every[EVERY // 2 :: EVERY]
    used, free = lit.subset(np.setdiff1d(every, out), 1), lit.subset(out, 1)
    image, _ = fit_shortly(used, steps, 0)
    return Fit(name, float(number), misfit(image, used).r_factor, misfit(image, free).r_factor)


def _lit(data: Dataset, probe: np.ndarray) -> Dataset:
    return replace(data, beam=data.beam.with_probe(probe))


def scale_to_patterns(probe: np.ndarray, data: Dataset) -> np.ndarray:
    """``probe (…, N, N)`` so that an object of one lets it expect the patterns' mean energy; complex64."""
    light = data.amplitudes.statistics.mean_energy / seen_power(probe, data.fresnel, data.good)
    return (np.sqrt(light) / data.photon_scale * probe).astype(np.complex64)
