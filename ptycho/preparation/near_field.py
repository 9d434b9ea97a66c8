"""A scan whose detector is in the near field of the sample: its lengths, its window, its probe; what one is.

======== ==================================================================================================
``z01``  from the focus or source to the sample, ``data.source_distance_m``; a parallel beam: infinite
``z12``  from the sample to the detector, ``data.distance_m``
``p``    pitch of the detector, ``b × b`` pixels summed to one
``M``    magnification, ``(z01 + z12) / z01``; of a parallel beam 1
``dx``   pixel of the object, ``p b / M``
``z``    effective distance, ``z12 / M``
``F``    ``λ z / dx²``: a wave of q cycles per pixel arrives F q pixels aside
======== ==================================================================================================

A beam that diverges makes the pattern that a parallel one makes at the distance z, M times as large (Fresnel
scaling theorem: Paganin, Coherent X-Ray Optics, appendix B). Its probe is what remains of it beside the
spherical wave.

The window is wider than the detector, by pixels that were not measured: intensity is scattered in and out
across its edge, and a window that ends with the detector would wrap it around. ``F/4`` is added on every
side: as much as waves of half the steepest slope go aside.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter

from ptycho.config import ConfigError
from ptycho.config.data import DataConfig
from ptycho.config.waves import Fresnel, wavelength_m
from ptycho.preparation.geometry import PixelSize
from ptycho.readers.raw_scan import RawScan
from ptycho.scan.probe import interpolated


@dataclass(frozen=True)
class NearField:
    """The lengths of a scan."""

    energy_eV: float
    distance_m: float  # z12
    pitch_m: tuple[float, float]  # p·b, (row, col)
    source_distance_m: float | None = None  # z01; None: a parallel beam

    @property
    def magnification(self) -> float:
        """``M = 1 + z12/z01`` of a point source; 1 for a parallel beam."""
        return 1.0 if self.source_distance_m is None else 1 + self.distance_m / self.source_distance_m

    @property
    def effective_distance_m(self) -> float:
        """``z12/M`` in metres: the distance of the equal parallel-beam experiment."""
        return self.distance_m / self.magnification

    @property
    def pixel_m(self) -> tuple[float, float]:
        """Pitch (row, col) of the object's pixels: that of the detector over the magnification."""
        return self.pitch_m[0] / self.magnification, self.pitch_m[1] / self.magnification

    @property
    def fresnel(self) -> Fresnel:
        """``λz/dx²`` along rows and columns, at the effective distance."""
        length = wavelength_m(self.energy_eV) * self.effective_distance_m
        return Fresnel(length / self.pixel_m[0] ** 2, length / self.pixel_m[1] ** 2)

    @property
    def margin(self) -> int:
        """Pixels beside the detector, on every side: F/4, and 4 by which probes are shifted."""
        return math.ceil(max(self.fresnel.numbers) / 4) + 4

    @property
    def way(self) -> str:
        """Description of the lengths and their source, for the log."""
        beam, source = "a parallel beam (data.source_distance_m: none)", self.source_distance_m
        if source is not None:
            beam = f"{source:.4g} m behind the source, magnified {self.magnification:.4g} times"
        numbers = " × ".join(f"{number:.4g}" for number in dict.fromkeys(self.fresnel.numbers))
        return (
            f"{beam}, effective distance {self.effective_distance_m:.4g} m, λz/dx² = {numbers}; "
            "set data.physics=far_field to change it"
        )


def near_field_of(raw: RawScan, pitch: tuple[float, float] | None, config: DataConfig) -> NearField | None:
    """Return the lengths of a near field; None: the scan is one of a far field.

    ``pitch``: of the detector's pixels as the frames are turned, (row, col). ConfigError: one is unknown.
    """
    if not config.near_field:
        return None
    known = {"energy_eV": raw.energy_eV, "distance_m": raw.distance_m, "detector_pixel_m": pitch}
    if missing := [f"data.{key}=" for key, value in known.items() if value is None]:
        raise ConfigError(
            f"data.physics=near_field: needs what the file does not say: set {', '.join(missing)}"
        )
    assert raw.energy_eV is not None and raw.distance_m is not None and pitch is not None
    binned = config.bin * pitch[0], config.bin * pitch[1]
    return NearField(raw.energy_eV, raw.distance_m, binned, config.source_distance_m)


def probe_in_window(
    probe: np.ndarray, probe_pixel: tuple[float, float] | None, pixel: PixelSize, N: int
) -> tuple[np.ndarray, str]:
    """Return modes ``(K, N, N)`` complex64 of a probe ``(K, h, w)`` in object pixels, and what was done.

    Beyond its edge it goes on as it is there.
    """
    assert pixel.metres is not None
    step = 1.0 if probe_pixel is None else pixel.metres[0] / probe_pixel[0]
    step = 1.0 if 0.98 < step < 1.02 else step
    sides = " × ".join(map(str, probe.shape[-2:]))
    if step == 1 and probe.shape[-2:] == (N, N):
        return probe.astype(np.complex64), f"the file's, {len(probe)} modes of {sides}"
    resampling = "interpolated and " if step != 1 else ""
    why = f"the file's, {resampling}cut or continued from {sides} to {N}"
    return interpolated(probe, N, step, "nearest"), why


def magnification_hint(near: NearField | None, looks_near: bool) -> str:
    """Return what to do about a scan below a pixel, if a diverging beam would explain it; or nothing."""
    explained = looks_near if near is None else near.source_distance_m is None
    what = "a near field of a beam that diverges magnifies: if it is one, set data.physics=near_field and "
    lengths = "data.source_distance_m=, from the focus or source to the sample; or data.unit="
    return what + lengths if explained else ""


def looks_like_near_field(
    mean: np.ndarray, good: np.ndarray, edge: float = 0.5, peak: float = 6.0, part: float = 1 / 8
) -> str | None:
    """Return a warning where a mean pattern ``(H, W)`` has no dark surround and no bright maximum.

    The far field of a beam that is narrower than the window falls off towards the detector's edge, and is
    brightest somewhere; a near field fills the detector evenly.

    Args:
        edge: least intensity of the outer frame over the mean of the middle (diffuse far fields have 0.37).
        peak: largest intensity over the mean, of a near field at most.
        part: of the detector's side: the width of the outer frame, and of the smoothing.
    """
    frame, middle = np.ones(mean.shape, bool), np.zeros(mean.shape, bool)
    frame[_central(mean.shape, 1 - 2 * part)] = False
    middle[_central(mean.shape, 1 / 2)] = True
    if not (good & frame).any() or not (good & middle).any():
        return None
    size = max(3, round(part * min(mean.shape)))
    smooth = uniform_filter(np.where(good, mean, mean[good].mean()), size, mode="nearest")
    dim = smooth[good & frame].min()
    if not dim > edge * mean[good & middle].mean() or smooth.max() > peak * mean[good].mean():
        return None
    return (
        "the patterns look like a near field: the intensity reaches the edge of the detector and has no "
        "central maximum; set data.physics=near_field (with data.distance_m, data.detector_pixel_m, and "
        "data.source_distance_m for a diverging beam), or data.physics=far_field if they are not"
    )


def _central(shape: tuple[int, ...], share: float) -> tuple[slice, ...]:
    return tuple(slice(n - round(n * (1 + share) / 2), round(n * (1 + share) / 2)) for n in shape)
