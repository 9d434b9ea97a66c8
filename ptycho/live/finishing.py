"""The patterns of a scan together, once all have come: what no part of it tells is found."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ptycho.live.beginning import Beginning
from ptycho.live.growing import Growing, Read, improve
from ptycho.reconstruction.state import Freedom

BATCH_S = 2.0  # of a cycle


def finish(
    grown: Growing, begun: Beginning, read: Read, free: Freedom, seconds: float, speed: float
) -> Iterator[Growing]:
    """What the patterns lead to, after every stage, for about so many seconds.

    Args:
        speed: pattern-steps in a second.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        step = time.monotonic() + 5
        while time.monotonic() < min(step, until):
            grown = improve(grown, begun, read, free, BATCH_S * speed)
        yield grown
