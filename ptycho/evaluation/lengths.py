"""Round numbers and lengths, as scale bars and axes have them."""

from __future__ import annotations

import numpy as np


def round_down(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not above a positive ``value``."""
    value = max(value, 1e-300)
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)))


def scale_length(width: int, pixel_nm: float | None) -> tuple[float, str]:
    """Return a round length, about a fifth of the width of a picture: in pixels, and as text."""
    per_pixel = pixel_nm or 1.0
    length = round_down(width * per_pixel / 5)
    return length / per_pixel, length_text(length) if pixel_nm else f"{length:g} px"


def unit_of(nanometres: float) -> tuple[float, str]:
    """Return a unit in which a length is no long number: its size in nm, and its name."""
    units = (1, 0.1, "Å"), (1e3, 1, "nm"), (1e6, 1e3, "µm")
    return next(((size, unit) for limit, size, unit in units if nanometres < limit), (1e6, "mm"))


def length_text(nanometres: float) -> str:
    """Return a length with a unit in which it is no long number."""
    size, unit = unit_of(nanometres)
    return f"{nanometres / size:.4g} {unit}"
