"""What a network is built for. Only sizes: the weights of most networks fit any."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    """Sizes that an executable is built for.

    Attributes:
        N: side of a pattern.
        region_size: R, side of the object region that covers a group.
        group_size: C, patterns in a group.
        support: even side of the central square outside which every probe that it will be given is zero.
        exact: fractions of a pixel move the probe, exactly, rather than the object, by interpolation.
        masked: patterns may hold pixels that were not measured; they are negative.
    """

    N: int
    region_size: int
    group_size: int
    support: int
    exact: bool = False
    masked: bool = False

    def __post_init__(self) -> None:
        if self.support % 2 or not 0 < self.support <= self.N:
            raise ValueError(f"support={self.support}: must be even and at most N={self.N}")
        if self.region_size < self.N:
            raise ValueError(f"region_size={self.region_size}: must be at least N={self.N}")
