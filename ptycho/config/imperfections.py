"""How far a simulated measurement is from what is said of it: the settings of the group ``imperfections``."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ptycho.config.errors import check

MOST_MODES = 4


@dataclass(frozen=True, kw_only=True)
class Imperfections:
    """How far a simulated measurement is from what its file says. The default: not at all.

    Attributes:
        defocus_um: the given probe is that of a plane so much further downstream.
        astigmatism_waves, coma_waves: aberrations of the given probe at the pupil's edge, in directions
            drawn at random.
        blob: norm of a smooth blob in the given probe, of the probe's norm.
        probe_power: power of the given probe over that of the true first mode.
        probe_shift_px: (row, col) that the given probe is off.
        position_px: standard deviation of each recorded coordinate, independent from position to position.
        drift_px: rms of a slow drift in each coordinate.
        scale_error: recorded distances are too large by this share, 0.01 for 1 %.
        rotation_deg: recorded positions are turned by this angle, from rows to columns.
        backlash_px: columns of every other row are recorded so much too far on; for snake scans.
        modes: incoherent modes of the true probe; the given one is the first of them.
        coherence: share of the first mode in the power.
        background: counts per pixel and pattern, on average, that are not the sample's.
        gap_rows, gap_columns: widths of a dead row and column between detector modules; the mask knows.
        saturation: no pixel counts further; null: it is not reached.
        point_spread_px: standard deviation of the detector's Gaussian point spread.
        flux_rms: standard deviation of the flux from pattern to pattern, of its mean.

    Raises:
        ConfigError: a value that is out of range, or that has no meaning beside another.
    """

    defocus_um: float = 0.0
    astigmatism_waves: float = 0.0
    coma_waves: float = 0.0
    blob: float = 0.0
    probe_power: float = 1.0
    probe_shift_px: tuple[float, ...] = (0.0, 0.0)
    position_px: float = 0.0
    drift_px: float = 0.0
    scale_error: float = 0.0
    rotation_deg: float = 0.0
    backlash_px: float = 0.0
    modes: int = 1
    coherence: float = 1.0
    background: float = 0.0
    gap_rows: int = 0
    gap_columns: int = 0
    saturation: int | None = None
    point_spread_px: float = 0.0
    flux_rms: float = 0.0

    def __post_init__(self) -> None:
        for key, (low, high) in RANGES.items():
            value = getattr(self, key)
            _check(low <= value <= high, key, value, f"from {low:g} to {high:g}")
        shift = self.probe_shift_px
        _check(
            len(shift) == 2 and all(abs(s) <= 100 for s in shift),
            "probe_shift_px",
            list(shift),
            "two numbers [row, col] from -100 to 100",
        )
        limit = self.saturation
        _check(limit is None or 1 <= limit < 2**32, "saturation", limit, "from 1 to 4294967295, or null")
        if self.modes == 1:
            _check(self.coherence == 1, "coherence", self.coherence, "1 with modes=1; say modes=2, 3 or 4")
        else:
            allowed = f"from 0.5 to below 1 with modes={self.modes}"
            _check(0.5 <= self.coherence < 1, "coherence", self.coherence, allowed)

    @property
    def changed(self) -> dict[str, object]:
        """The settings that differ from the default, which is perfection."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


RANGES: dict[str, tuple[float, float]] = {
    "defocus_um": (-1e6, 1e6),
    "astigmatism_waves": (-10, 10),
    "coma_waves": (-10, 10),
    "blob": (0, 10),
    "probe_power": (1e-6, 1e6),
    "position_px": (0, 100),
    "drift_px": (0, 100),
    "scale_error": (-0.5, 0.5),
    "rotation_deg": (-180, 180),
    "backlash_px": (-100, 100),
    "modes": (1, MOST_MODES),
    "background": (0, 1e6),
    "gap_rows": (0, 256),
    "gap_columns": (0, 256),
    "point_spread_px": (0, 10),
    "flux_rms": (0, 1),
}


def _check(ok: bool, key: str, value: object, allowed: str) -> None:
    check(ok, f"imperfections.{key}", value, allowed)


def check_detector(N: int, bad_pixels: int, hot_pixels: int, wrong: Imperfections) -> None:
    """Refuse a detector of N × N pixels that has hardly any good ones.

    Raises:
        ConfigError: names the key.
    """
    for key, count in (("bad_pixels", bad_pixels), ("hot_pixels", hot_pixels)):
        most = N**2 // 4
        check(0 <= count <= most, key, count, f"from 0 to {most}, N²/4")
    for key in ("gap_rows", "gap_columns"):
        width, most = getattr(wrong, key), N // 4
        check(width <= most, f"imperfections.{key}", width, f"from 0 to {most}, N/4")
