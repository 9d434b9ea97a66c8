"""A near-field scan as a beamline measures it, with its truth: a sample behind a diffuser.

======== ==================================================================================================
``W``    side of the window in which waves are propagated, ``2N``: the detector sees its middle, so that
         nothing of what a periodic window wraps around reaches it
``S``    sample, ``(M + W − N, …)`` complex: band-limited, and moved by fractions of a pixel exactly
``D``    illumination in the sample's plane ``(W, W)``: a smooth random phase through an aperture wider than
         the detector, some way in front of the sample
``r``    position (row, col) in pixels; ``O`` and ``P`` of the truth are the middles of S and D
``Ψ``    ``crop_N F⁻¹[H F(D · S(r + x))]``, H of :class:`ptycho.config.waves.Fresnel`
``n``    photons, ``n ~ Poisson(c |Ψ|²)``, c such that ``⟨Σ λ⟩ = nphotons``
======== ==================================================================================================

The reconstruction shares the formula of H with this and nothing else. NumPy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.config.waves import Fresnel
from ptycho.scan.probe import radius
from ptycho.simulation.measured_like import PATHS, MeasuredLike, make_sample


@dataclass(frozen=True, eq=False, kw_only=True)
class NearFieldScan(MeasuredLike):
    """A sample that is moved through a wide wave in front of a detector.

    ``sample`` is S, ``margin`` pixels larger than the object on every side; ``probe`` is D ``(W, W)``.
    """

    fresnel: Fresnel  # the way from the sample to the detector

    @property
    def N(self) -> int:
        """Side of the detector."""
        return len(self.probe) // 2

    @property
    def margin(self) -> int:
        """Pixels of the wave on each side of the detector's window."""
        return (len(self.probe) - self.N) // 2

    @property
    def object(self) -> np.ndarray:
        """The truth, ``(M, M)`` complex128."""
        inner = slice(self.margin, -self.margin)
        return self.sample[inner, inner]

    @property
    def photon_probe(self) -> np.ndarray:
        """The truth of the probe on the detector's window, ``(N, N)``, in √photons."""
        return np.sqrt(self.scale) * self._inner(self.probe)

    @cached_property
    def _sampled(self) -> np.ndarray:
        return self.intensities(self.positions)

    def intensities(self, positions: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
        """Return ``|Ψ|²`` at some positions ``(n, 2)``: ``(n, N, N)`` float64, as the detector lies."""
        return np.stack([self._intensity(position) for position in positions])

    def _intensity(self, position: np.ndarray) -> np.ndarray:
        W, whole = len(self.probe), np.floor(position).astype(int)
        rest = position - whole
        nu = np.fft.fftfreq(len(self.sample))
        ramp = np.exp(2j * np.pi * np.add.outer(rest[0] * nu, rest[1] * nu))
        moved = np.fft.ifft2(self._spectrum * ramp)[whole[0] : whole[0] + W, whole[1] : whole[1] + W]
        return np.abs(self._inner(self.fresnel.propagated(self.probe * moved))) ** 2

    @cached_property
    def _spectrum(self) -> np.ndarray:
        return np.fft.fft2(self.sample)

    def _inner(self, wave: np.ndarray) -> np.ndarray:
        inner = slice(self.margin, self.margin + self.N)
        return wave[inner, inner]


def simulate_near_field(
    N: int,
    n_positions: int,
    step_px: float,
    fresnel: Fresnel,
    nphotons: float,
    seed: int = 0,
    path: str = "fermat",
    sample: str = "blobs",
    ahead: float = 1.0,
    blur: float = 0.7,
) -> NearFieldScan:
    """Return a scan behind a diffuser; every random number comes from ``seed``.

    Args:
        N: side of the detector.
        n_positions: so many patterns, ``step_px`` pixels apart.
        fresnel: the way from the sample to the detector.
        nphotons: in a pattern, on average.
        path: of :data:`ptycho.simulation.measured_like.PATHS`; ``sample``: of its ``SAMPLES``.
        ahead: way from the diffuser to the sample, over that from the sample to the detector.
        blur: σ of the finest structure of the sample, in pixels.
    """
    streams = [np.random.default_rng([seed, stream]) for stream in range(3)]
    positions = PATHS[path](n_positions, step_px, streams[0])
    positions = positions - positions.min(axis=0) + 1
    side = N + int(np.ceil(positions.max())) + 2
    drawn = make_sample(sample, side + N, streams[1])
    real, imaginary = (gaussian_filter(part, blur, mode="wrap") for part in (drawn.real, drawn.imag))
    return NearFieldScan(
        sample=real + 1j * imaginary,
        probe=diffuse_wave(N, Fresnel(ahead * fresnel.row, ahead * fresnel.col), streams[2]),
        positions=positions,
        oversampling=1,
        nphotons=nphotons,
        good=np.ones((N, N), bool),
        hot=np.zeros((N, N), bool),
        fresnel=fresnel,
    )


def diffuse_wave(
    N: int,
    way: Fresnel,
    rng: np.random.Generator,
    aperture: float = 1.6,
    edge: float = 0.04,
    grain: float = 2.5,
) -> np.ndarray:
    """Return D: a plane wave behind a wide aperture and a diffuser, some ``way`` further; ``(W, W)``.

    ``aperture``: its diameter, and ``edge``: σ of its edge, over N; ``grain``: σ of the diffuser, in pixels.
    """
    W = 2 * N
    disk = radius(W) < aperture * N / 2
    amplitude = gaussian_filter(disk.astype(float), edge * N)
    phase = gaussian_filter(rng.normal(size=(W, W)), grain, mode="wrap")
    return way.propagated(amplitude * np.exp(1j * phase / phase.std()))
