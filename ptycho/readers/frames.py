"""Select the frames of a scan that are used, and the position that belongs to each."""

from __future__ import annotations

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.readers.archive import Archive, Patterns, Selected
from ptycho.readers.raw_scan import ReadOptions


def checked_frames(config: DataConfig | ReadOptions, count: int) -> np.ndarray:
    """Return indices ``(J,)`` of the frames used: every ``stride``-th, at most ``frames``, none dropped."""
    wrong = [index for index in config.drop if not 0 <= index < count]
    if wrong:
        raise ConfigError(
            f"data.drop={wrong[0]}: must be from 0 to {count - 1}; the scan has {count} patterns"
        )
    used = np.zeros(count, bool)
    used[:: config.stride] = True
    used[list(config.drop)] = False
    return np.flatnonzero(used)[: config.frames]


def listed(indices: list[int], most: int = 100) -> tuple[str, str]:
    """Return ``most`` numbers of frames as ``data.drop`` takes them, and in words how many more there are."""
    more = f" and {len(indices) - most} more" if len(indices) > most else ""
    return ",".join(map(str, indices[:most])), more


def check_positioned(positions: np.ndarray, frames: np.ndarray) -> None:
    """Raise ConfigError for ``positions (J, 2)`` of the used ``frames (J,)`` that are not finite."""
    wrong = frames[~np.isfinite(positions).all(axis=1)].tolist()
    if wrong:
        some, more = listed(wrong)
        raise ConfigError(
            f"positions: {len(wrong)} of {len(frames)} frames have none (NaN), {some}{more}; leave them out: "
            f"data.drop=[{some}]"
        )


def paired(
    file: Archive, source: Patterns, positions: np.ndarray, choice: ReadOptions
) -> tuple[Patterns, np.ndarray]:
    """Pair patterns and positions, where the user's keys say which of either have no counterpart.

    Those of ``positions (P, 2)`` belong to the frames that are used, if there are as many; else position i to
    frame i, if every frame that is used, or every ``stride``-th, has one. NaN stands for a frame without one.
    """
    count, places = source.shape[0], len(positions)
    if count == places or file.problems:
        return source, positions
    if choice.growing:
        both = min(count, places)
        return Selected(source, np.arange(both)), positions[:both]
    used, every = checked_frames(choice, count), np.full((count, 2), np.nan)
    if len(used) == places < count:
        every[used] = positions
        file.notes.append(f"{count} patterns, {places} positions: those of the {places} that are used")
        return source, every
    first_ones = choice.frames is not None and used[-1] < places
    if not (first_ones or choice.stride > 1):
        message = f"{source.label} holds {count} patterns, and there are {places} positions; exclude those "
        message += f"that have no counterpart: data.frames={min(count, places)} takes the first ones"
        drop = f", data.drop=[…] {count - places} patterns by their numbers" if count > places else ""
        file.complain(message + drop)
        return source, positions
    many, what = (
        (places, "positions have no pattern") if places > count else (count, "patterns have no position")
    )
    file.warnings.append(
        f"{abs(count - places)} of {many} {what}, and are excluded; position i is taken as that of frame i"
    )
    if places < count and not first_ones:
        return Selected(source, np.arange(places)), positions
    every[: min(count, places)] = positions[:count]
    return source, every
