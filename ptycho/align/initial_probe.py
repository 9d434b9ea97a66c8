"""Check the initial probe of a scan, estimate it, and compare a specified one with others.

Where the file has none, it is the one under which the patterns are explained best.

The modulus of its far field comes from the mean pattern, its phase from an optic with one number
(:mod:`ptycho.scan.optics`). Every number in a sensible range is a trial, and for a lens its astigmatism along
rows and columns; then object and probe of the best are refined together, which corrects what the mean pattern
has blurred. In a near field the mean pattern is propagated back to the sample, and only the refinement
remains.

A curvature and its negative differ by the sign of the positions (or a turn of the detector by 180°): the
estimate is right only if those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.align.aligned import AlignedScan, RunContext
from ptycho.align.geometry import rotation_is_open
from ptycho.align.orientation import REVERSED
from ptycho.config import OwnProbe
from ptycho.evaluation.trust import ORIENTATION
from ptycho.preparation.dataset import choose_probe, map_positions
from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import (
    Sample,
    Trial,
    TrialOptions,
    best_of,
    expected_noise,
    middle,
    place_anew,
)
from ptycho.scan.coarser import downsampled
from ptycho.scan.comparison import Rule, compare_shares, split_patterns
from ptycho.scan.dataset import Dataset
from ptycho.scan.finding import Finding
from ptycho.scan.optics import LENS, Optic, curvature_of, curved, measured_power, optics_of, pupil, refocused
from ptycho.scan.positions import rotation
from ptycho.scan.probe import intensity_of, masked


@dataclass(frozen=True)
class ProbeOptions:
    """Options of the estimate of the initial probe."""

    steps: int = 5  # of the object, for every number
    # for astigmatism, and the neighbours of a specified curvature: after 5 steps their score jumps by .3
    neighbour_steps: int = 12
    closer_steps: int = 40  # for another curvature of a specified probe; after 12 it errs by up to 7 %
    halvings: int = 3  # of the step between two numbers, around the best of the coarse scan
    step_sizes: int = 3  # of curvature and astigmatism, each half of the one before
    most_moves: int = 6  # to a better neighbour with one step size, at most
    object_steps: int = 3  # of the best one, of the object alone
    probe_steps: int = 20  # and then with the probe
    # by which another curvature, or another probe than the specified, is taken,
    another: Rule = Rule(2.0, 0.06)
    # and the specified probe with another curvature. Gains were .18 to 3.3 at 20 to 80 standard errors under
    # wrong probes, below .12 for positions of a wrong scale (``benchmarks/position_map.py defocus``).
    defocus: Rule = Rule(10.0, 0.2)
    # or by which a faint object, or one of few photons, shows it, if little but photon noise remains
    faint: Rule = Rule(4.0, 0.01)


OPTIONS = ProbeOptions()


@dataclass(frozen=True, eq=False)
class Guess:
    """An estimate of the probe.

    ``probe (N, N)`` is complex64, in the dataset's units: an object of transmission one and this probe give
    patterns of the mean energy.
    """

    probe: np.ndarray
    optic_probe: np.ndarray  # the same before its refinement
    text: str  # the optic in words
    best: Trial  # whose hypothesis is (name of the optic, number, astigmatism)
    tried: tuple[Trial, ...]
    refined: Trial  # of the refined probe; the best, if refining explains held-out patterns worse

    @property
    def finding(self) -> Finding:
        """Finding that says what was chosen, and why."""
        deviance, among = sorted(trial.mean_deviance for trial in self.tried), ""
        if len(deviance) > 1:
            among = (
                f": the best of {len(deviance)} in a short reconstruction, deviance of fitted and held-out "
                f"patterns {self.best.mean_deviance:.3g}, median {deviance[len(deviance) // 2]:.3g}"
            )
        refined = f"; then refined, {self.best.mean_deviance:.3g} → {self.refined.mean_deviance:.3g}"
        refined *= self.refined is not self.best
        return Finding("probe", self.text, f"estimated from the mean pattern{among}{refined}")


@dataclass(frozen=True, eq=False)
class _Search:
    """Trials of optics on the same patterns; ``modulus (N, N)`` is that of the pupil."""

    data: Dataset
    some: Dataset
    modulus: np.ndarray
    trial: TrialOptions
    options: ProbeOptions

    @classmethod
    def of(cls, data: Dataset, trial: TrialOptions, options: ProbeOptions) -> _Search:
        modulus = pupil(data.amplitudes.statistics.mean_intensity, data.good)
        return cls(data, middle(data, trial.count(data.N)), modulus, trial, options)

    def try_number(self, name: str, optic: Optic, number: float, astigmatism: float = 0.0) -> Trial:
        """Fit an object under the probe of one optic."""
        sample = self._sample(self._probe(optic, number, astigmatism, self.some))
        hypothesis = name, float(number), float(astigmatism)
        return sample.trial(hypothesis, sample.fit_object(self.options.steps))

    def try_optic(self, name: str, optic: Optic) -> list[Trial]:
        """Try the numbers of an optic: a coarse scan, then around the best."""
        return self.try_closer(name, optic, self.try_numbers(name, optic, optic.numbers(self.modulus)))

    def try_numbers(
        self, name: str, optic: Optic, numbers: Iterable[float], astigmatism: float = 0.0
    ) -> list[Trial]:
        """Try numbers of an optic."""
        return self.try_pairs(name, optic, [(number, astigmatism) for number in numbers])

    def try_pairs(self, name: str, optic: Optic, pairs: Sequence[tuple[float, float]]) -> list[Trial]:
        """Try pairs of a number of an optic and an astigmatism."""
        return list(side_by_side(lambda pair: self.try_number(name, optic, *pair), pairs))

    def try_closer(self, name: str, optic: Optic, trials: list[Trial]) -> list[Trial]:
        """Return trials of evenly spaced numbers, and of others around the best."""
        if len(trials) == 1:  # so narrow a pupil that rays of any curvature would leave the window
            return trials
        step = trials[1].hypothesis[1] - trials[0].hypothesis[1]
        for _ in range(self.options.halvings):
            step /= 2
            _, best, astigmatism = best_of(trials).hypothesis
            trials = [*trials, *self.try_numbers(name, optic, (best - step, best + step), astigmatism)]
        return trials

    def descend(self, optic: Optic, trial: Trial, step: float) -> Trial:
        """Go from a trial to the best of its neighbours as long as one is better, then in smaller steps.

        A neighbour has another curvature or astigmatism, within the numbers of the optic.
        """
        start, seen = trial, {trial.hypothesis[1:]}
        for size in step / 2.0 ** np.arange(self.options.step_sizes):
            for _ in range(self.options.most_moves):
                around = [pair for pair in self._neighbours(optic, trial, size) if pair not in seen]
                seen.update(around)
                best = best_of([trial, *self.try_pairs(trial.hypothesis[0], optic, around)])
                if best is trial:
                    break
                trial = best
            if trial is start:  # nothing is near
                break
        return trial

    def _neighbours(self, optic: Optic, trial: Trial, size: float) -> list[tuple[float, float]]:
        (_, c, a), numbers = trial.hypothesis, optic.numbers(self.modulus)
        low, high = min(numbers.min(), c), max(numbers.max(), c)
        most = max(np.abs(numbers).max(), abs(a))
        pairs = (c - size, a), (c + size, a), (c, a - size), (c, a + size)
        inside = [pair for pair in pairs if low <= pair[0] <= high and abs(pair[1]) <= most]
        return [(round(float(one), 6), round(float(other), 6)) for one, other in inside]

    def with_astigmatism(self, optic: Optic, trial: Trial) -> tuple[Trial, Trial]:
        """Return a longer trial of the same probe, and that of the best curvature and astigmatism near it."""
        numbers = optic.numbers(self.modulus)
        if len(numbers) == 1:
            return trial, trial
        longer = replace(self, options=replace(self.options, steps=self.options.neighbour_steps))
        start = longer.try_number(trial.hypothesis[0], optic, trial.hypothesis[1])
        return start, longer.descend(optic, start, float(numbers[1] - numbers[0]))

    def refine(self, optics: Mapping[str, Optic], best: Trial, tried: Sequence[Trial]) -> Guess:
        """Refine the probe of the ``best`` of the trials together with the object."""
        name, number, astigmatism = best.hypothesis
        start = self._probe(optics[name], number, astigmatism, self.data)
        sample, text = self._sample(start), optics[name].text(number)
        text += f" and the astigmatism {astigmatism:.4g}" if astigmatism else ""
        refined = refined_trial(sample, best, self.options)
        if refined is best:
            return Guess(start, start, text, best, tuple(tried), best)
        probe = scale_to_patterns(sample.beam_of(refined.estimate).probe[0], self.data)
        return Guess(probe, start, text, best, tuple(tried), refined)

    def _probe(self, optic: Optic, number: float, astigmatism: float, data: Dataset) -> np.ndarray:
        probe = optic.probe(self.modulus, number)
        return scale_to_patterns(curved(probe, 0.0, astigmatism) if astigmatism else probe, data)

    def _sample(self, probe: np.ndarray) -> Sample:
        return Sample.of(replace(self.some, beam=self.some.beam.with_probe(probe)), self.trial)


def guess_probe(
    data: Dataset, trial: TrialOptions = TrialOptions(), options: ProbeOptions = OPTIONS
) -> Guess:
    """Estimate the probe of a scan from its patterns and positions; some fifty numbers are tried.

    If it is that of a lens, so is its astigmatism along rows and columns.

    The probe of ``data`` only decides which patterns are used.
    """
    search, optics = _Search.of(data, trial, options), optics_of(data.fresnel)
    tried = [one for name in optics for one in search.try_optic(name, optics[name])]
    best = best_of(tried)
    if best.hypothesis[0] == LENS:
        start, near = search.with_astigmatism(optics[LENS], best)
        best = near if near.gain_over(start).passes(options.faint) else best
    return search.refine(optics, best, tried)


def guess_lens(data: Dataset, curvatures: Sequence[float]) -> Guess:
    """Estimate the probe of a lens from curvatures: the first two, unless another is better by a rule."""
    search, optics = _Search.of(data, TrialOptions(), OPTIONS), optics_of(None)
    tried = [search.try_number(LENS, optics[LENS], curvature) for curvature in curvatures]
    first = best_of(tried[:2])
    others = [one for one in tried[2:] if one.gain_over(first).passes(OPTIONS.another)]
    return search.refine(optics, best_of(others or tried[:2]), others or tried[:2])


class OtherProbe(NamedTuple):
    """A change of the specified probe, by which it explains the patterns clearly better."""

    conjugate: bool  # it becomes P*,
    reversed: bool  # reversed about the zero of both axes,
    change: float  # and its far field gets so much more curvature, in rad·px²,
    astigmatism: float  # and so much astigmatism
    negates: bool  # it is P*, or the curvature changes its sign
    text: str  # what it becomes, and what both explain

    def of(self, modes: np.ndarray, ratio: float = 1.0) -> np.ndarray:
        """Return what modes ``(…, N, N)`` become; ``ratio``: pixels of the scan that was tried over N."""
        waves = modes.conj() if self.conjugate else modes
        waves = REVERSED.patterns(waves) if self.reversed else waves
        return curved(waves, self.change / ratio**2, self.astigmatism / ratio**2)

    @property
    def finding(self) -> Finding:
        """A warning with its remedy; with a flag where the positions may be negated instead."""
        what = "defocus and astigmatism" if self.astigmatism else "defocus"
        text = f"the specified probe explains the patterns better with another {what}, now used ({self.text})"
        if not self.negates:
            return Finding.warning(f"{text}; check its defocus, or keep it with probe.learn=false")
        either = "its sign is the other one: wrong is that of the defocus, or that of the positions"
        return Finding.warning(f"{text}; {either} (then data.position_sign=-1)", ORIENTATION)


def find_other_probe(data: Dataset, both_signs: bool = True) -> OtherProbe | None:
    """Find a change of the specified probe that explains the patterns clearly better, or None.

    It is another curvature and an astigmatism along rows and columns; with ``both_signs`` also a curvature of
    the other sign, or the complex conjugate, as programs store it whose Fourier transform has the other sign.
    """
    search, probe = _Search.of(data, TrialOptions(), OPTIONS), data.probe[0]
    own = curvature_of(probe)
    optics = {"": refocused(probe, own, both_signs)}
    if both_signs:
        turned = REVERSED.patterns(probe.conj())
        optics |= {"conjugate": refocused(probe.conj(), -own), "reversed": refocused(turned, -own)}
    as_it_is = search.try_number("", optics[""], own)
    coarse = search.try_numbers("", optics[""], optics[""].numbers(search.modulus))
    if len(coarse) == 1:
        return None
    step = coarse[1].hypothesis[1] - coarse[0].hypothesis[1]
    coarse += [search.try_number(name, optics[name], -own) for name in optics if name]
    best = best_of(coarse)
    clear = best.gain_over(as_it_is).passes(OPTIONS.faint)
    starts = [best, as_it_is] if clear else [as_it_is]
    walks = [search.with_astigmatism(optics[start.hypothesis[0]], start) for start in starts]
    near, (own_start, _) = best_of([end for _, end in walks]), walks[-1]
    if not near.gain_over(own_start).passes(OPTIONS.faint):
        return None
    name, number, astigmatism = near.hypothesis
    search = replace(search, options=replace(OPTIONS, steps=OPTIONS.closer_steps))
    closer = search.try_numbers(name, optics[name], number + step * np.arange(-1, 2), astigmatism)
    closer = search.try_closer(name, optics[name], closer)
    guess = search.refine(optics, best_of(closer), closer)
    specified = search.try_number("", optics[""], own)
    refined = search.refine(optics, specified, [specified]).refined
    if not guess.refined.clearly_better_than(refined, OPTIONS.defocus):
        if not clear:  # of few photons, positions of a wrong scale prefer a near curvature
            return None
        others, noise = (refined, specified), expected_noise(data)
        if not (data.counts and guess.refined.explains_down_to_noise(others, noise, OPTIONS.faint)):
            return None
    _, better, astigmatism = guess.best.hypothesis
    text = (
        f"{'its complex conjugate, ' * bool(name)}curvature of its far field {own:.4g} → {better:.4g} "
        f"rad·px²{f', astigmatism changed by {astigmatism:.4g}' * bool(astigmatism)}; deviance of a short "
        f"reconstruction {refined.mean_deviance:.3g} → {guess.refined.mean_deviance:.3g}"
    )
    change = better + own if name else better - own
    negates = bool(name) or own * better < 0
    return OtherProbe(bool(name), name == "reversed", change, astigmatism, negates, text)


def refined_trial(sample: Sample, trial: Trial, options: ProbeOptions = OPTIONS) -> Trial:
    """Return a trial of the same probe after its refinement, or the trial itself.

    Few photons let the refinement fit their noise, which makes held-out patterns less likely.
    """
    estimate = sample.fit_object(options.object_steps, options.probe_steps)
    refined = sample.trial(trial.hypothesis, estimate)
    return trial if np.log(refined.held_out / trial.held_out).sum() > 0 else refined


def own_held_out(data: Dataset) -> np.ndarray:
    """Return deviances of held-out patterns under a scan's own probe, refined as an estimated one is.

    They are those of the patterns that estimates hold out, too. The rotation of electrons leaves a half turn
    open: the better of the two is taken.
    """
    options, deviances = TrialOptions(), []
    some = middle(data, options.count(data.N))
    split = split_patterns(some.positions, len(some.positions) // options.holdout_every, 0)
    for sign in (1, -1):
        turned = place_anew(some, some.amplitudes, sign * some.positions, some.good)
        sample = Sample.of(turned, options, split)
        trial = sample.trial(sign, sample.fit_object(OPTIONS.steps))
        deviances.append(refined_trial(sample, trial).held_out)
    return min(deviances, key=lambda held_out: held_out.mean())


def scale_to_patterns(probe: np.ndarray, data: Dataset) -> np.ndarray:
    """Scale ``probe (…, N, N)`` so that an object of one gives the patterns' mean energy; complex64."""
    energy = data.amplitudes.statistics.mean_energy / measured_power(probe, data.fresnel, data.good)
    return (np.sqrt(energy) / data.photon_scale * probe).astype(np.complex64)


def likeness(mean: np.ndarray, probe: np.ndarray, blur: float = 1 / 32) -> float:
    """Return the correlation of the mean pattern ``(N, N)`` with the far field of a probe ``(…, N, N)``.

    The mean pattern of a scan is |F P|², blurred by what the object scatters. ``blur``: standard deviation of
    the Gaussian by which both are blurred, of N.
    """
    far = np.fft.fftshift(intensity_of(np.fft.fft2(probe.astype(complex))))
    images = (gaussian_filter(image, blur * len(mean), mode="wrap").ravel() for image in (mean, far))
    a, b = (image - image.mean() for image in images)
    norm = np.linalg.norm(a) * np.linalg.norm(b)
    return float(np.dot(a, b) / norm) if norm > 0 else 0.0


def check_probe(aligned: AlignedScan, alike: float = 0.4) -> AlignedScan:
    """Drop the file's probe where it is none: an object, or the probe of another beam.

    Args:
        alike: least correlation of the mean pattern with the far field of a probe; of right ones it is above
            .93, of wrong ones below .34 (flat and curved probes, 10⁴ to 10⁹ photons, N = 32 to 128).
    """
    scan, data, config = aligned.scan, aligned.data, aligned.config
    if scan.probe is None or not isinstance(config.probe, OwnProbe) or data.fresnel is not None:
        return aligned
    correlation = likeness(data.amplitudes.statistics.mean_intensity, data.probe)
    if correlation > alike:
        return aligned
    text = (
        "the probe of the file does not belong to the patterns: its far field and their mean have a "
        f"correlation of {correlation:.2f}; it is estimated instead; set probe=npz probe.file=… or "
        "probe=zone_plate"
    )
    scan = replace(scan, probe=None)
    modes, _ = choose_probe(scan, config.probe, config.run)
    return replace(aligned, scan=scan, data=data.under_probe(modes)).decided(Finding.warning(text))


def estimate_probe(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Return a scan whose probe is estimated from its patterns."""
    turned, curvatures = _rotated(aligned), aligned.rotation.curvatures
    guess = guess_lens(turned, curvatures) if curvatures else guess_probe(turned)
    return replace(aligned.under(guess.probe), estimated=True).decided(guess.finding)


def compare_probe(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Replace the specified probe by one of the curvature that parallax shows, if that is clearly better."""
    turned = _rotated(aligned)
    guess, own = guess_lens(turned, aligned.rotation.curvatures), own_held_out(turned)
    other = guess.refined.held_out
    if not compare_shares(other, own).passes(ProbeOptions.another):
        return aligned
    text = (
        f"the specified probe explains held-out patterns worse (deviance {own.mean():.3g}) than {guess.text} "
        f"({other.mean():.3g}), which is used instead; check its defocus, or keep it with probe.learn=false"
    )
    return replace(aligned.under(guess.probe), estimated=True).decided(Finding.warning(text))


def compare_defocus(aligned: AlignedScan, context: RunContext) -> AlignedScan:
    """Give the specified probe another curvature and astigmatism, or its conjugate, if that explains more.

    A curvature of the other sign explains what positions of the other sign do. Positions are as they were
    read here, so none is tried with ``data.orientation=auto``.
    """
    view, auto = downsampled(aligned.data), aligned.config.data.orientation == "auto"
    found = find_other_probe(view.data, both_signs=not auto)
    if found is None:
        return aligned
    probe = masked(found.of(aligned.data.probe, view.ratio), aligned.config.probe)
    return replace(aligned, data=aligned.data.under_probe(probe)).decided(found.finding)


def _rotated(aligned: AlignedScan) -> Dataset:
    """Return the patterns at rotated positions, those of the largest scan if there are several."""
    turned = map_positions(aligned.scan, aligned.data, rotation(aligned.rotation.degrees))[1]
    if not aligned.joins_scans:
        return turned
    index = aligned.scan.scan_index  # the places of the scans are not known yet
    return turned.subset(np.flatnonzero(index == np.bincount(index).argmax()), 1)


def has_no_probe(aligned: AlignedScan) -> bool:
    """Return whether neither the file nor the configuration has a probe."""
    return aligned.scan.probe is None and isinstance(aligned.config.probe, OwnProbe)


def shows_another_probe(aligned: AlignedScan, fewest: int = 48) -> bool:
    """Return whether a specified probe may be replaced, and parallax shows a curvature to compare it with.

    ``fewest``: patterns that the comparison needs; of fewer, too few are held out.
    """
    shown = bool(aligned.rotation.curvatures)
    return shown and _probe_is_open(aligned) and len(aligned.data.positions) >= fewest


def _probe_is_open(aligned: AlignedScan) -> bool:
    """Return whether a specified probe may be replaced."""
    config = aligned.config
    return config.learns_probe and config.run is None and not aligned.estimated


def may_be_defocused(aligned: AlignedScan) -> bool:
    """Return whether the specified probe of a scan may have another curvature; parallax shows electrons'."""
    config, far = aligned.config.data, aligned.data.fresnel is None
    of_photons = config.shared is None and not rotation_is_open(aligned.scan, config)
    return far and of_photons and _probe_is_open(aligned) and aligned.suffices_for_trials
