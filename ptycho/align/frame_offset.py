"""Test whether frames are late or early by one: a missed trigger puts every pattern at its neighbour's place.

The same patterns in the middle of the scan are reconstructed shortly at their own positions, at the next ones
and at the previous ones. In a raster of equal steps all three agree inside the lines, where an offset is a
common shift and does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptycho.reconstruction.scan_likelihood import side_by_side
from ptycho.reconstruction.trial import Sample, Trial, TrialOptions, middle_patterns, place_anew
from ptycho.scan.comparison import Rule
from ptycho.scan.dataset import Dataset
from ptycho.scan.split import split_patterns


@dataclass(frozen=True)
class FrameOffsetOptions:
    """Options of the trials, and limits of what is accepted."""

    object_steps: int = 3  # of the object alone
    probe_steps: int = 4  # then with the probe
    rule: Rule = Rule(5.0, 0.1)  # of an offset over none, and over the opposite one


OPTIONS = FrameOffsetOptions()


def find_frame_offset(
    data: Dataset,
    frames: np.ndarray,
    trial: TrialOptions | None = None,
    options: FrameOffsetOptions = OPTIONS,
) -> tuple[int, Trial, Trial] | None:
    """Return the offset that explains a scan clearly better than none, its trial, and that of none.

    Args:
        data: patterns of one scan, in the order of the frames.
        frames: ``(J,)`` numbers of their frames, rising.

    Returns:
        1, if frame j was measured at position j + 1, or −1; None: neither explains more, or there are too
        few patterns whose neighbours in time are known.
    """
    trial = trial or TrialOptions()
    numbers = np.full(frames.max() + 3, -1)
    numbers[frames + 1] = np.arange(len(frames))  # the pattern of a frame, after one without any
    places = {offset: numbers[frames + 1 + offset] for offset in (0, 1, -1)}
    between = np.flatnonzero((places[1] >= 0) & (places[-1] >= 0))
    if len(between) < trial.least:
        return None
    chosen = between[middle_patterns(data.subset(between, 1), trial.count(data.N))]
    split = split_patterns(data.positions[chosen], len(chosen) // trial.holdout_every, 0)

    def tried(offset: int) -> Trial:
        positions = data.positions[places[offset][chosen]]
        moved = place_anew(data, data.amplitudes[chosen], positions, data.good)
        sample = Sample.of(moved, trial, split)
        return sample.trial(offset, sample.fit_object(options.object_steps, options.probe_steps))

    none, *others = side_by_side(tried, list(places))
    best = clearly_better(none, others, options)
    return None if best is None else (best.hypothesis, best, none)


def clearly_better(
    none: Trial, others: Sequence[Trial], options: FrameOffsetOptions = OPTIONS
) -> Trial | None:
    """Return the better trial of two opposite offsets, if it leaves clearly less than the other and none."""
    best, other = sorted(others, key=lambda one: one.score)
    better = best.clearly_better_than(none, options.rule) and best.gain_over(other).passes(options.rule)
    return best if better else None
