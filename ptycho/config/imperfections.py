"""Settings of the group ``imperfections``: how a simulated measurement differs from its description."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from annotated_types import Ge, Le

from ptycho.config.messages import check
from ptycho.config.schema import Integer, Number, key, settings

Shift = Annotated[Number, Ge(-100), Le(100)]


@settings("imperfections", kw_only=True)
class Imperfections:
    """Deviations of a simulated measurement from what its file states; none by default.

    ConfigError: a value that is out of range, or that has no meaning beside another.
    """

    defocus_um: Number = key(
        0.0, "defocus of the stated probe; its plane is downstream of the sample", ge=-1e6, le=1e6, unit="µm"
    )
    astigmatism_waves: Number = key(
        0.0, "astigmatism of the stated probe at the edge of the pupil, along a random axis", ge=-10, le=10
    )
    coma_waves: Number = key(
        0.0, "coma of the stated probe at the edge of the pupil, along a random axis", ge=-10, le=10
    )
    blob: Number = key(
        0.0, "norm of a smooth additive error of the stated probe, relative to the probe's", ge=0, le=10
    )
    probe_power: Number = key(
        1.0, "power of the stated probe, as a fraction of that of the first true mode", ge=1e-6, le=1e6
    )
    probe_shift_px: tuple[Shift, Shift] = key(
        (0.0, 0.0), "shift (row, col) of the stated probe", allowed="two numbers [row, col] from -100 to 100"
    )
    position_px: Number = key(0.0, "rms random error of each recorded coordinate", ge=0, le=100, unit="px")
    drift_px: Number = key(0.0, "rms slow drift of each coordinate", ge=0, le=100, unit="px")
    scale_error: Number = key(0.0, "relative scale error of the recorded positions", ge=-0.5, le=0.5)
    rotation_deg: Number = key(
        0.0, "rotation error of the recorded positions, from rows to columns", ge=-180, le=180, unit="°"
    )
    backlash_px: Number = key(0.0, "backlash of columns in each second row, with path=snake", ge=-100, le=100)
    modes: Integer = key(1, "number of modes of the true probe; the stated probe is the first", ge=1, le=4)
    coherence: Number = key(1.0, "fraction of the power in the first mode; below 1 if modes is above 1", le=1)
    probe_variation: Number = key(
        0.0,
        "drift of the aberrations of the first true mode: norm of its change over the scan, as a fraction of "
        "its norm",
        ge=0,
        le=2,
    )
    background: Number = key(0.0, "background counts per pixel", ge=0, le=1e6)
    gap_rows: Integer = key(
        0, "rows of dead pixels between detector modules, which the mask excludes", ge=0, le=256, unit="px"
    )
    gap_columns: Integer = key(
        0, "columns of dead pixels between detector modules, which the mask excludes", ge=0, le=256, unit="px"
    )
    saturation: Integer | None = key(None, "count at which pixels saturate; null: never", ge=1, le=2**32 - 1)
    point_spread_px: Number = key(0.0, "rms width of the detector's point spread", ge=0, le=10, unit="px")
    flux_rms: Number = key(0.0, "rms variation of the flux, as a fraction of its mean", ge=0, le=1)

    def __post_init__(self) -> None:
        fits, allowed = self.coherence == 1, "1 with modes=1; say modes=2, 3 or 4"
        if self.modes > 1:
            fits, allowed = 0.5 <= self.coherence < 1, f"from 0.5 to below 1 with modes={self.modes}"
        check(fits, "imperfections.coherence", self.coherence, allowed)

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from the default, which is perfection."""
        plain = asdict(Imperfections())
        return {name: getattr(self, name) for name in plain if getattr(self, name) != plain[name]}


def check_detector(N: int, bad_pixels: int, hot_pixels: int, wrong: Imperfections) -> None:
    """Refuse a detector of N × N pixels that has hardly any good ones."""
    for name, count in (("bad_pixels", bad_pixels), ("hot_pixels", hot_pixels)):
        most = N**2 // 4
        check(0 <= count <= most, name, count, f"from 0 to {most}, N²/4")
    for name in ("gap_rows", "gap_columns"):
        width, most = getattr(wrong, name), N // 4
        check(width <= most, f"imperfections.{name}", width, f"from 0 to {most}, N/4")
