"""Arrays → PNG files in the page itself: in colours for the eye, and in 16 bits to read values from."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ptycho.evaluation.display import WRAPPED, ShownPhase, hue, scale_length, shrink, wheel

HERO = 420  # pixels of a side, at most
LEVELS = 2**16 - 1
GREY, MAGMA, DIVERGING = "gray", "magma", "RdBu_r"
SHADES = 255  # of a picture for the eye; one more is clear


@dataclass(frozen=True)
class Picture:
    """A picture with its scale."""

    uri: str  # the PNG file as a data URI
    width: int
    height: int
    low: float  # values of the ends of the colours
    high: float
    unit: str  # of them
    bar: str  # a gradient of the colours as a data URI; empty: the colours have no scale
    scale_px: float  # width of the scale bar in pixels of the picture
    scale_text: str  # what it stands for


@dataclass(frozen=True)
class Map:
    """A map whose values the page reads out: 16 bits in red and green, blue where it is known."""

    title: str
    unit: str
    colours: str  # their name
    uri: str  # the PNG file as a data URI
    width: int
    height: int
    first: float  # value of 0
    last: float  # value of 65535
    low: float  # values of the ends of the colours
    high: float


def coloured(
    values: np.ndarray,
    ends: tuple[float, float],
    colours: str,
    unit: str,
    pixel_nm: float | None,
    pixels: int = 1,
) -> Picture:
    """Return a picture of ``values (h, w)``, NaN left clear, of at most ``HERO`` pixels, with a scale bar.

    ``pixel_nm``, ``pixels``: of the object, and how many of them along a side are one value.
    """
    small, factor = shrink(values, HERO)
    length, text = scale_length(pixels * values.shape[1], pixel_nm)
    height, width = small.shape
    uri, bar = (palette_png(part, ends, colours) for part in (small, np.linspace(*ends, 64)[None]))
    return Picture(uri, width, height, *ends, unit, bar, length / (pixels * factor), text)


def coloured_phase(
    phase: ShownPhase, ends: tuple[float, float], pixel_nm: float | None, pixels: int = 1
) -> Picture:
    """Draw a phase as :func:`coloured`; its unit says whether it is wrapped."""
    values, factor = shrink_phase(phase, HERO)
    return coloured(values, ends, phase.colours, phase.unit, pixel_nm, pixels * factor)


def shrink_phase(phase: ShownPhase, side: int) -> tuple[np.ndarray, int]:
    """Shrink a phase ``(h, w)`` as :func:`shrink` does; a wrapped one as angles: of −3 and 3 it is π."""
    if phase.kind != WRAPPED or max(phase.values.shape) <= side:
        return shrink(phase.values, side)
    waves, factor = shrink(np.exp(1j * phase.values), side)
    return np.angle(waves), factor


def palette_png(values: np.ndarray, ends: tuple[float, float], colours: str) -> str:
    """Return ``(h, w)`` as the data URI of a PNG file of a byte a pixel, clear where not finite."""
    import matplotlib
    from PIL import Image

    known, span = np.isfinite(values), max(ends[1] - ends[0], 1e-30)
    share = np.clip((np.where(known, values, ends[0]) - ends[0]) / span, 0, 1)
    shades = np.where(known, np.round(share * (SHADES - 1)), SHADES).astype(np.uint8)
    image = Image.fromarray(shades, "P")
    levels = np.clip(np.arange(SHADES + 1) / (SHADES - 1), 0, 1)
    image.putpalette(matplotlib.colormaps[colours](levels, bytes=True)[:, :3].tobytes())
    file = io.BytesIO()
    image.save(file, "PNG", transparency=SHADES, compress_level=6)
    return data_uri(file.getvalue())


def coloured_wave(wave: np.ndarray, pixel_nm: float | None, side: int = 320) -> Picture:
    """Return a picture of a complex ``(N, N)`` with a scale bar: amplitude as lightness, phase as hue."""
    factor = max(1, -(-max(wave.shape) // side))
    rgb = hue(wave[::factor, ::factor])
    length, text = scale_length(wave.shape[1], pixel_nm)
    height, width = rgb.shape[:2]
    return Picture(_png_of(rgb), width, height, 0, 0, "", "", length / factor, text)


def colour_wheel() -> str:
    """Return the key of the colours of :func:`coloured_wave`, as a data URI."""
    return _png_of(wheel(101))


def _png_of(shares: np.ndarray) -> str:
    return png(np.round(255 * shares).astype(np.uint8))


def readable(
    title: str, values: np.ndarray, ends: tuple[float, float], colours: str, unit: str, side: int
) -> Map:
    """Return a map of ``values (h, w)``, NaN where nothing is known, of at most ``side`` pixels."""
    small, _ = shrink(values, side)
    known = np.isfinite(small)
    first, last = (float(small[known].min()), float(small[known].max())) if known.any() else (0.0, 1.0)
    share = (np.where(known, small, first) - first) / max(last - first, 1e-30)
    level = np.round(LEVELS * share).astype(np.uint16)
    rgb = np.stack([level >> 8, level & 255, np.where(known, 255, 0)], axis=-1).astype(np.uint8)
    return Map(title, unit, colours, png(rgb), small.shape[1], small.shape[0], first, last, *ends)


def png(image: np.ndarray) -> str:
    """Return ``(h, w, 3 or 4)`` uint8 as the data URI of a PNG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG", compress_level=6)
    return data_uri(file.getvalue())


def data_uri(content: bytes) -> str:
    """Return a PNG file as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def figure_uri(figure: Figure) -> str:
    """Return a Matplotlib figure as a data URI."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=120)
    return data_uri(file.getvalue())
