"""How arrays are displayed: colours of waves, phases without jumps of 2π, downsampled images, round lengths.

Hues are of equal lightness. Large images are downsampled to means of square blocks of pixels.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

SEQUENTIAL, CYCLIC = "viridis", "twilight"  # maps of Matplotlib for phases; both are perceptually uniform
WRAPPED, UNWRAPPED = "wrapped", "unwrapped"
ORIENTATION = "row ↓, column →, seen along the beam"
NOTES = {
    WRAPPED: "It is wrapped, −π and π have one colour: no consistent unwrapping was found.",
    UNWRAPPED: "It is unwrapped: jumps of 2π were removed.",
}

# Oklab → cube roots of cone responses → linear sRGB (B. Ottosson, "A perceptual color space for image
# processing", 2020, https://bottosson.github.io/posts/oklab).
LAB_TO_ROOTS = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
CONES_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def hue(image: np.ndarray, lightness: float = 0.75, chroma: float = 0.12) -> np.ndarray:
    """Return complex ``(H, W)`` as sRGB ``(H, W, 3)``: the phase as hue, the amplitude as lightness.

    The hue is the angle in the plane of Oklab, in which equal steps of the phase look equally large and all
    phases equally bright. Zero amplitude is black.

    Args:
        lightness, chroma: of the largest amplitude, in Oklch. sRGB has the default pair in every hue.
    """
    share = np.abs(image) / max(float(np.abs(image).max()), 1e-30)
    angle, radius = np.angle(image), share * chroma
    lab = np.stack([share * lightness, radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    linear = np.clip((lab @ LAB_TO_ROOTS.T) ** 3 @ CONES_TO_RGB.T, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def wheel(side: int) -> np.ndarray:
    """Return the key of :func:`hue`, RGBA ``(side, side, 4)``: a disk of the waves ``x + iy``, y upwards."""
    y, x = np.mgrid[1 : -1 : 1j * side, -1 : 1 : 1j * side]
    wave = np.where(np.hypot(x, y) <= 1, x + 1j * y, 0)
    return np.dstack([hue(wave), np.hypot(x, y) <= 1])


@dataclass(frozen=True, eq=False)
class ShownPhase:
    """A phase as a figure shows it.

    Attributes:
        values: ``(h, w)`` rad, NaN where nothing is known.
        kind: ``unwrapped``: jumps of 2π were removed; ``wrapped``: they are left in; empty: there are none.
    """

    values: np.ndarray
    kind: str = ""

    @property
    def colours(self) -> str:
        """Name of the colour map: of a wrapped phase −π and π have one colour."""
        return CYCLIC if self.kind == WRAPPED else SEQUENTIAL

    @property
    def note(self) -> str:
        """A sentence on the kind."""
        return NOTES.get(self.kind, "")

    @property
    def label(self) -> str:
        """Label of the colours."""
        return f"phase / {self.unit}"

    @property
    def unit(self) -> str:
        """Label of the unit: ``rad``, with the kind of the phase if it has one."""
        return ", ".join(filter(None, ("rad", self.kind)))

    def with_difference(self, difference: np.ndarray) -> ShownPhase:
        """Return the phase of another image, which differs by ``difference (h, w)`` rad, NaN where unknown.

        It is shown as this one is, so that the two are compared without steps of 2π between them.
        """
        values = self.values + difference
        return ShownPhase(np.angle(np.exp(1j * values)) if self.kind == WRAPPED else values, self.kind)


def show_phase(phase: np.ndarray, most_range: float = np.pi, most_jumps: float = 0.01) -> ShownPhase:
    """Return a wrapped phase ``(h, w)``, rad, NaN where nothing is known, as it is to be shown.

    Args:
        most_range: between the quantiles 0.002 and 0.998, rad, up to which a phase is shown as it is.
        most_jumps: share of neighbouring pixels that may still differ by more than π after unwrapping, as
            around residues; with more of them there is no consistent phase, and it stays wrapped.
    """
    known = phase[np.isfinite(phase)]
    if min(phase.shape) < 2 or not known.size or np.ptp(np.quantile(known, (0.002, 0.998))) <= most_range:
        return ShownPhase(phase)
    values = unwrap(phase)
    steps = np.concatenate([np.diff(values, axis=axis).ravel() for axis in (0, 1)])
    steps = np.abs(steps[np.isfinite(steps)])  # between neighbours of which both are known
    if len(steps) and np.mean(steps > np.pi) > most_jumps:
        return ShownPhase(phase, WRAPPED)
    return ShownPhase(values - np.nanmean(values), UNWRAPPED)


def unwrap(phase: np.ndarray) -> np.ndarray:
    """Return a phase ``(h, w)``, rad, without its jumps by 2π; NaN, where nothing is known, stays.

    Source: scikit-image's ``unwrap_phase`` (Herráez et al., Appl. Opt. 41 (2002) 7437).
    """
    from skimage.restoration import unwrap_phase

    known = np.isfinite(phase)
    unwrapped = unwrap_phase(np.ma.array(np.where(known, phase, 0).astype(float), mask=~known), rng=0)
    return np.where(known, np.ma.getdata(unwrapped), np.nan)


def residues(phase: np.ndarray) -> np.ndarray:
    """Return the residues (phase vortices) of a wrapped phase: ``(n, 3)`` of row, column and charge.

        charge = (W[φ₁₀ − φ₀₀] + W[φ₁₁ − φ₁₀] + W[φ₀₁ − φ₁₁] + W[φ₀₀ − φ₀₁]) / 2π,   W: wrapped to [−π, π)

    of each square of four pixels, whose middle is its place. The charge is 1 where the phase grows by 2π
    counter-clockwise in the picture (row ↓, column →). No unwrapping is consistent around a residue.

    Args:
        phase: ``(h, w)`` rad; NaN where nothing is known, and a square with a NaN has no residue.

    Source: Goldstein, Zebker & Werner, Radio Science 23 (1988) 713.
    """
    corners = phase[:-1, :-1], phase[1:, :-1], phase[1:, 1:], phase[:-1, 1:]
    steps = (b - a for a, b in zip(corners, (*corners[1:], corners[0]), strict=True))
    loop = np.sum([(step + np.pi) % (2 * np.pi) - np.pi for step in steps], axis=0)
    charge = np.rint(np.nan_to_num(loop) / (2 * np.pi))
    rows, cols = np.nonzero(charge)
    return np.stack([rows + 0.5, cols + 0.5, charge[rows, cols]], axis=1)


def shrink(values: np.ndarray, side: int) -> tuple[np.ndarray, int]:
    """Return means of blocks of ``values (H, W)``, so that no side is longer than ``side``.

    Values that are not finite are ignored; a block without finite values is NaN.

    Returns:
        The means, and the side of a block.
    """
    from skimage.measure import block_reduce

    factor = max(1, -(-max(values.shape) // side))
    if factor == 1:
        return values, 1
    known = np.where(np.isfinite(values), values, np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of blocks without finite values
        return block_reduce(known, (factor, factor), np.nanmean, cval=np.nan), factor


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


def length_text(nanometres: float) -> str:
    """Return a length with a unit in which it is no long number."""
    units = (1, 0.1, "Å"), (1e3, 1, "nm"), (1e6, 1e3, "µm")
    size, unit = next(((size, unit) for limit, size, unit in units if nanometres < limit), (1e6, "mm"))
    return f"{nanometres / size:.4g} {unit}"
