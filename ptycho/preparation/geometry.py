"""Lengths of a measured scan: the pixel of the object, positions in it, and the probe on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.waves import conjugate_pitch_m
from ptycho.preparation.detector import window_of
from ptycho.readers.raw_scan import UNITS, listed
from ptycho.scan.finding import Finding
from ptycho.scan.positions import even_side, rotation, shift_to_margin
from ptycho.scan.probe import far_field, interpolated, waves_of

LARGEST_SPAN_M = 0.05  # a scan wider than this was stated in another unit


@dataclass(frozen=True)
class PixelSize:
    """Pitch (row, col) of the object's pixels in metres, or None where lengths stay in pixels.

    ``missing``: the keys of the values that it would take.
    """

    metres: tuple[float, float] | None
    missing: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The size in nm, or Å below 0.2 nm; one number where the pixels are square."""
        if self.metres is None:
            return "unknown: lengths are in pixels"
        unit, size = ("Å", 1e10) if max(self.metres) < 2e-10 else ("nm", 1e9)
        row, col = (size * value for value in self.metres)
        return f"{row:.4g} {unit}" if abs(row - col) < 1e-6 * row else f"{row:.4g} × {col:.4g} {unit}"


def object_pixel(
    energy_eV: float | None, distance_m: float | None, pixel_m: tuple[float, float] | None, side: int
) -> PixelSize:
    """Return ``dx = λ z / (N p)`` for a pattern that spans ``side = N·bin`` detector pixels of pitch p."""
    known = {"data.energy_eV": energy_eV, "data.distance_m": distance_m, "data.detector_pixel_m": pixel_m}
    missing = tuple(key for key, value in known.items() if value is None)
    return PixelSize(conjugate_pitch_m(energy_eV, distance_m, pixel_m, (side, side)), missing)


def positions_in_pixels(
    positions: np.ndarray,
    unit: str,
    pixel: PixelSize,
    side: int,
    ratio: np.ndarray | float,
    remarks: Sequence[str] = (),
) -> np.ndarray:
    """Return positions ``(J, 2)`` of any unit in object pixels, float64, of any origin.

    ``ratio``: object pixels in a pixel of positions that are in pixels, of both axes or (row, col). ``side``:
    of the window, in detector pixels. ConfigError: metres cannot become pixels, or the scan is absurdly
    large; ``remarks`` on the file are added if a length is missing.
    """
    factor = UNITS[unit]
    if factor is None:
        return positions * ratio
    metres = positions * factor
    span = np.ptp(metres, axis=0)
    if span.max() > LARGEST_SPAN_M:
        raise ConfigError(
            f"positions: the scan is {span[0]:.3g} m × {span[1]:.3g} m in the unit {unit}; "
            f"{other_unit(positions, pixel, side)}"
        )
    if pixel.metres is None:
        raise ConfigError(
            "positions are in metres, and the object's pixel is unknown: set "
            f"{', '.join(f'{key}=' for key in pixel.missing)}{''.join(f' ({line})' for line in remarks)}"
        )
    return metres / np.array(pixel.metres)


def turned_positions(
    positions: np.ndarray, pixel: PixelSize, degrees: float, affine: Sequence[Sequence[float]] | None
) -> np.ndarray:
    """Turn positions ``(J, 2)`` in object pixels into the detector's axes: ``r → A R r``, in metres.

        R = [[cos φ, −sin φ], [sin φ, cos φ]]    on (row, col)

    A positive φ turns from down, along the rows' index, to the right, along the columns': counter-clockwise
    where rows are drawn downwards.
    """
    matrix = rotation(degrees)
    if affine is not None:
        matrix = np.array(affine) @ matrix
    pitch = np.array((1.0, 1.0) if pixel.metres is None else pixel.metres)
    return (positions * pitch) @ matrix.T / pitch


def check_scanned(positions: np.ndarray, frames: np.ndarray) -> None:
    """Raise ConfigError unless positions ``(J, 2)`` of ``frames (J,)`` in any unit are finite and differ."""
    if lost := frames[~np.isfinite(positions).all(axis=1)].tolist():
        some, more = listed(lost)
        raise ConfigError(
            f"positions: {len(lost)} of {len(frames)} frames have none (NaN), {some}{more}; leave them out: "
            f"data.drop=[{some}]"
        )
    if len(positions) < 2:
        raise ConfigError("positions: there is only one; a scan has several, which overlap")
    if not np.ptp(positions, axis=0).any():
        raise ConfigError(f"positions: all {len(positions)} are equal; nothing was scanned")


def check_steps(
    positions: np.ndarray,
    stated: np.ndarray,
    unit: str,
    pixel: PixelSize,
    side: int,
    N: int,
    magnified: str = "",
) -> None:
    """Raise ConfigError, with a more likely unit, if hardly anything was scanned, or nothing overlaps.

    Args:
        positions: ``(J, 2)`` in object pixels; ``stated``: as the file has them, in ``unit``.
        side: detector pixels that a pattern spans; ``N``: its width in object pixels.
        magnified: what to do if a beam that diverges makes the object's pixels smaller; empty: none does.
    """
    span, step = np.ptp(positions, axis=0), _step(positions)
    if span.max() < 1:
        raise ConfigError(
            f"positions: the scan spans {span[0]:.2g} × {span[1]:.2g} object pixels in the unit {unit}; "
            + (magnified or other_unit(stated, pixel, side))
        )
    if step > N:
        raise ConfigError(
            f"positions: neighbours are {step:.4g} object pixels apart in the unit {unit}, and patterns are "
            f"{N} wide, so that nothing overlaps; {other_unit(stated, pixel, side)}"
        )


def other_unit(stated: np.ndarray, pixel: PixelSize, side: int) -> str:
    """Return what to do about positions ``(J, 2)`` of an impossible unit: those where neighbours overlap."""
    step = _step(stated)
    low, high = (1e-9, 1e-4) if pixel.metres is None else (0.2 * min(pixel.metres), side * max(pixel.metres))
    likely = [unit for unit, size in UNITS.items() if size is not None and low <= step * size <= high]
    if pixel.metres is None and 0.2 <= step <= side:
        likely.append("px")
    if not likely:
        return "set the right data.unit="
    return f"are they in {' or '.join(likely)}? set data.unit={likely[0]}"


def _step(positions: np.ndarray) -> float:
    """The median distance from a position to the nearest other one, of those ``(J, 2)`` that are apart."""
    apart = np.unique(positions, axis=0)
    return float(np.median(_nearest(apart))) if len(apart) > 1 else 0.0


def _nearest(positions: np.ndarray) -> np.ndarray:
    from scipy.spatial import cKDTree

    return cKDTree(positions).query(positions, k=2)[0][:, 1]


def place_on_object(positions: np.ndarray, N: int) -> tuple[np.ndarray, int]:
    """Return top-left samples ``(J, 2)`` on a square object that holds all patches, and its side, even.

    At least one pixel is left on every side, for positions between pixels. Positions are shifted by whole
    pixels, so that an object that was sampled on the file's own pixels is sampled on them here, too.
    """
    corners = shift_to_margin(positions, 1)
    return corners, even_side(N + int(np.ceil(corners.max())) + 1)


def place_scans(
    positions: np.ndarray,
    index: np.ndarray,
    N: int,
    shared: str,
    findings: list[Finding],
    fewest: int = 5,
    between: int = 8,
) -> np.ndarray:
    """Return positions ``(J, 2)`` in object pixels of several scans, shifted by whole pixels.

    Scans that share the probe alone are of different objects: they lie beside each other. Those of one object
    stay where their files place them, unless they do not overlap: then their middles coincide.

    Args:
        index: ``(J,)``, which scan a pattern belongs to.
        shared: ``object``, ``probe`` or ``both``.
        fewest: patterns of each scan; ConfigError: one has less.
        between: pixels between scans of different objects.
    """
    scans, counts = np.unique(index, return_counts=True)
    if len(scans) < 2 or counts.min() < fewest:
        raise ConfigError(
            f"data.shared={shared}: the scans have {', '.join(map(str, counts))} patterns that are used; "
            f"must be at least {fewest} of each of two (data.drop, data.stride and data.frames count through "
            "all files)"
        )
    lows, highs = (np.array([f(positions[index == k], axis=0) for k in scans]) for f in (np.min, np.max))
    if shared == "probe":
        columns = int(np.ceil(np.sqrt(len(scans))))
        cells = np.stack(np.divmod(np.arange(len(scans)), columns), axis=1)
        shifts = cells * (np.ceil(np.max(highs - lows)) + N + between) - np.floor(lows)
        placement = "beside each other: they are of different objects"
    else:
        apart = ((lows > highs[0] + N) | (highs + N < lows[0])).any(axis=1)
        middles = (lows + highs) / 2
        shifts = np.where(apart[:, None], np.rint(middles[0] - middles), 0.0)
        placement = "by the positions of the files"
        placement += "; those that do not overlap with the first, middle on middle" if apart.any() else ""
    findings.append(Finding("scans", " + ".join(map(str, counts)) + " patterns", f"placed {placement}"))
    return positions + shifts[np.searchsorted(scans, index)]


def remove_common_fraction(positions: np.ndarray, unit: str, tolerance: float = 1e-3) -> np.ndarray:
    """Return positions ``(J, 2)`` in object pixels without the fraction of a pixel that all of them share.

    Where all steps are whole pixels, to a ``tolerance``, and the origin is not that of the object's pixels,
    the samples of the object are taken to lie at the positions. The origin is the file's own in ``unit``
    ``px``, unless the positions are stated from their mean or their middle.
    """
    steps = positions - positions[0]
    if np.abs(steps - np.round(steps)).max() > tolerance:
        return positions
    middles = positions.mean(axis=0), (positions.min(axis=0) + positions.max(axis=0)) / 2
    centred = any(np.abs(middle).max() < tolerance for middle in middles)
    return np.round(steps) if centred or unit != "px" else positions


def unfit_probe(probe: np.ndarray, frame: tuple[int, int], most: float = 1e15) -> str | None:
    """Return why a probe ``(K, h, w)`` of a file cannot be used, or None.

    It must be square or as large as a ``frame``, and not above ``most``: single precision sums its square.
    """
    if probe.shape[1] != probe.shape[2] and probe.shape[1:] != frame:
        return f"has shape {probe.shape} and is not square"
    largest = float(np.abs(probe).max())
    if largest == 0:
        return "is zero"
    return f"reaches {largest:.3g}, and more than {most:g} is refused" if largest > most else None


def resampled_probe(
    probe: np.ndarray, probe_pixel: tuple[float, float] | None, pixel: PixelSize, N: int
) -> tuple[np.ndarray, str]:
    """Return modes ``(K, N, N)`` complex64 of a probe ``(K, h, w)``, and what was done.

    A probe of the same window (``h·dx`` fixed by the detector's pitch) is resampled by cutting or padding its
    far field, as is one of a detector that is not square; one of another pixel size by cubic interpolation.
    """
    modes, h, w = probe.shape
    if h == w == N:
        return probe.astype(np.complex64), f"the file's, {modes} modes of {h} × {h}"
    if h == w and probe_pixel is not None and pixel.metres is not None:
        ratio = h * probe_pixel[0] / (N * pixel.metres[0])
        if not 0.98 < ratio < 1.02:
            return interpolated(probe, N, pixel.metres[0] / probe_pixel[0]), "the file's, interpolated"
    far = window_of(far_field(probe), (h // 2, w // 2), N) * (N / np.sqrt(h * w))
    size = f"{h}" if h == w else f"{h} × {w}"
    return waves_of(far), f"the file's, its far field cut or padded from {size} to {N}"


def isolated(positions: np.ndarray, far: float = 5.0) -> np.ndarray:
    """Return indices ``(n,)`` of positions ``far`` times the median nearest distance from all others."""
    if len(positions) < 3:
        return np.zeros(0, int)
    return np.flatnonzero(_nearest(positions) > far * max(_step(positions), 1e-9))
