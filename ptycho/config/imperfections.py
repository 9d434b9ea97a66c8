"""How far a simulated measurement is from what is said of it: the settings of the group ``imperfections``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ptycho.config.errors import check
from ptycho.config.schema import Integer, Number, Pair, key, settings

MOST_MODES = 4


@settings("imperfections", kw_only=True)
class Imperfections:
    """How far a simulated measurement is from what its file says. The default: not at all.

    Raises:
        ConfigError: a value that is out of range, or that has no meaning beside another.
    """

    defocus_um: Number = key(0.0, "the given probe is of a plane downstream", ge=-1e6, le=1e6, unit="µm")
    astigmatism_waves: Number = key(0.0, "at the given probe's pupil's edge, at random", ge=-10, le=10)
    coma_waves: Number = key(0.0, "likewise", ge=-10, le=10)
    blob: Number = key(0.0, "norm of a smooth blob in the given probe, of the probe's norm", ge=0, le=10)
    probe_power: Number = key(1.0, "of the given probe over that of the true first mode", ge=1e-6, le=1e6)
    probe_shift_px: Pair = key(
        (0.0, 0.0),
        "(row, col) that the given probe is off",
        allowed="two numbers [row, col] from -100 to 100",
    )
    position_px: Number = key(0.0, "random error of each recorded coordinate, rms", ge=0, le=100, unit="px")
    drift_px: Number = key(0.0, "rms of a slow drift in each coordinate", ge=0, le=100, unit="px")
    scale_error: Number = key(0.0, "recorded distances are too large by this share", ge=-0.5, le=0.5)
    rotation_deg: Number = key(0.0, "positions are turned, rows to columns", ge=-180, le=180, unit="°")
    backlash_px: Number = key(0.0, "of every other row's columns; with path=snake", ge=-100, le=100)
    modes: Integer = key(1, "of the true probe; the given one is the first of them", ge=1, le=MOST_MODES)
    coherence: Number = key(1.0, "share of the first mode, below 1 where there are several", le=1)
    background: Number = key(0.0, "counts per pixel that are not the sample's", ge=0, le=1e6)
    gap_rows: Integer = key(0, "dead, between detector modules; the mask knows", ge=0, le=256, unit="px")
    gap_columns: Integer = key(0, "likewise", ge=0, le=256, unit="px")
    saturation: Integer | None = key(None, "no pixel counts further; null: not reached", ge=1, le=2**32 - 1)
    point_spread_px: Number = key(0.0, "of the detector, standard deviation", ge=0, le=10, unit="px")
    flux_rms: Number = key(0.0, "of the flux from pattern to pattern, of its mean", ge=0, le=1)

    def __post_init__(self) -> None:
        shift = self.probe_shift_px
        _check(
            max(map(abs, shift)) <= 100,
            "probe_shift_px",
            list(shift),
            "two numbers [row, col] from -100 to 100",
        )
        if self.modes == 1:
            _check(self.coherence == 1, "coherence", self.coherence, "1 with modes=1; say modes=2, 3 or 4")
        else:
            allowed = f"from 0.5 to below 1 with modes={self.modes}"
            _check(0.5 <= self.coherence < 1, "coherence", self.coherence, allowed)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from the default, which is perfection."""
        plain = asdict(Imperfections())
        own = {name: getattr(self, name) for name in plain}
        return {name: value for name, value in own.items() if value != plain[name]}


def _check(ok: bool, name: str, value: object, allowed: str) -> None:
    check(ok, f"imperfections.{name}", value, allowed)


def check_detector(N: int, bad_pixels: int, hot_pixels: int, wrong: Imperfections) -> None:
    """Refuse a detector of N × N pixels that has hardly any good ones.

    Raises:
        ConfigError: names the key.
    """
    for name, count in (("bad_pixels", bad_pixels), ("hot_pixels", hot_pixels)):
        most = N**2 // 4
        check(0 <= count <= most, name, count, f"from 0 to {most}, N²/4")
    for name in ("gap_rows", "gap_columns"):
        width, most = getattr(wrong, name), N // 4
        _check(width <= most, name, width, f"from 0 to {most}, N/4")
