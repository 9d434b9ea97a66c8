"""Random numbers of a run of grid lines: a generator for every role, image and purpose."""

from __future__ import annotations

import numpy as np

ROLES = ("train", "val", "test")
STREAMS = ("object", "jitter", "noise", "draw", "elsewhere", "recorded")


def child_rng(seed: int, role: str, image: int, stream: str) -> np.random.Generator:
    """A generator of its own for every (seed, role, image, stream), independent of all the others."""
    key = (ROLES.index(role), image, STREAMS.index(stream))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
