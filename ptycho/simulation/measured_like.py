"""A scan as a beamline measures it, with its truth, and without the operators that reconstruct it.

The sample has structure finer than the detector resolves, positions are real numbers, and nothing is
interpolated: so the reconstruction does not use the operators of the simulation ("inverse crime").

======== ==================================================================================================
``q``    ``oversampling``: the sample's pixels are q times finer than the object's
``S``    sample, ``(qM, qM)`` complex; coarse sample i is fine sample q·i
``P_q``  the probe on the fine grid: its far field padded with zeros to ``(qN, qN)``
``r``    position (row, col) in coarse pixels; ``q·r = w + s``, w whole, s in [−½, ½)
``Ψ``    ``1/(q²N) · crop_N Σ_x P_q(x − s) S[w + x] exp(−2πi k·x/(qN))``: the far field on the detector
``O``    the truth: the sample's far field cut to what fits M coarse pixels
``n``    photons, ``n ~ Poisson(λ)``, ``λ = c |Ψ|²``, c such that ``⟨Σ λ⟩ = nphotons``
         of slices S_l ``ψ_0 = P_q S_0``, ``ψ_l = S_l · F⁻¹[H Fψ_{l−1}]``, H of
         :class:`ptycho.config.waves.FreeSpace`, and the last one is on its way to the detector
         with imperfections ``λ = f_j c (Σ_m |Ψ_m|²) ∗ h + b``: flux, modes, point spread, background;
         the first mode of a probe that drifts is ``P + t_j Q``, t from −½ to ½ over the scan
======== ==================================================================================================

The shift by s is a phase ramp on the far field of the probe, which is exact. With q = 1, a probe that
vanishes at the edge and whole positions this is ``|F(P·O[r : r + N])|²``. NumPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage.draw import line

from ptycho.config import ConfigError, check
from ptycho.config.imperfections import Imperfections, check_detector
from ptycho.config.schema import Even, Integer, Number, key, settings
from ptycho.config.waves import FreeSpace, wavelength_m
from ptycho.scan.coarser import central
from ptycho.scan.probe import padded
from ptycho.simulation.imperfections import (
    HOT,
    Detector,
    draw_faults,
    draw_flux,
    draw_gaps,
    draw_variation,
    incoherent_modes,
    misstate_probe,
    record_positions,
    spread_and_scale,
    stream,
)

GOLDEN = np.pi * (3 - np.sqrt(5))  # angle between neighbours on a Fermat spiral


@settings(kw_only=True)
class ScanSettings:
    """Settings of a scan: object, positions and detector."""

    N: Even = key(64, "side of the patterns", ge=16, le=1024)
    n_positions: Integer = key(1000, "number of positions, with one pattern each", ge=2, le=10**6)
    nphotons: Number = key(1e6, "mean number of photons per pattern", ge=1, le=1e12)
    step_px64: Number = key(
        5.0,
        "mean distance of neighbouring positions in object pixels at N = 64; scales with N",
        ge=0.1,
        le=64,
    )
    path: Literal["fermat", "jittered", "snake"] = key(
        "fermat", "scan path: a Fermat spiral, a jittered grid, or a snake with every second row reversed"
    )
    sample: Literal["lines", "blobs"] = key("lines", "sample that is scanned")
    oversampling: Integer = key(
        2, "oversampling factor of the sample, relative to the object pixels", ge=1, le=8
    )
    slices: Integer = key(1, "number of slices of the sample, which share its phase", ge=1, le=64)
    slice_thickness_m: Number | None = key(None, "distance from one slice to the next", gt=0, unit="m")
    bad_pixels: Integer = key(0, "number of dead detector pixels, which the mask excludes", ge=0)
    hot_pixels: Integer = key(0, "number of hot detector pixels, which no mask excludes", ge=0)
    seed: Integer = key(0, "seed of all random numbers", ge=0, le=2**32 - 1)
    imperfections: Imperfections = key(
        Imperfections(), "deviations of the measurement from what the file states"
    )
    STREAMS: ClassVar[tuple[str, ...]] = ("sample", "path", "photons", "detector")

    def __post_init__(self) -> None:
        check_detector(self.N, self.bad_pixels, self.hot_pixels, self.imperfections)
        thickness = self.slice_thickness_m
        stated = (self.slices > 1) == (thickness is not None)
        check(stated, "slice_thickness_m", thickness, "stated with slices=2 or more")
        turns, lag = self.path == "snake", self.imperfections.backlash_px
        check(turns or lag == 0, "imperfections.backlash_px", lag, f"0 with path={self.path}, not snake")

    def rng(self, stream: str) -> np.random.Generator:
        """Return a generator of its own for each of ``STREAMS``."""
        return np.random.default_rng([self.seed, self.STREAMS.index(stream)])


@dataclass(frozen=True, eq=False)
class MeasuredLike:
    """A sample under a moving probe, in front of a detector."""

    sample: np.ndarray  # S, ``(qM, qM)`` complex128; slices of a thick one, ``(L, qM, qM)``
    probe: np.ndarray  # ``(N, N)`` complex, of any scale; or incoherent modes ``(K, N, N)``
    positions: np.ndarray  # ``(J, 2)`` float64, top-left samples of the patches in coarse pixels
    oversampling: int  # q
    nphotons: float  # mean of the patterns' sums
    good: np.ndarray  # ``(N, N)`` bool, pixels that work; the others read nothing
    hot: np.ndarray  # ``(N, N)`` bool, pixels that shine
    flux: np.ndarray | None = None  # ``(J,)``, of each pattern, one on average; None: the same in all
    background: float = 0.0  # counts per pixel, on average, from elsewhere
    point_spread_px: float = 0.0  # standard deviation of the detector's point spread
    saturation: int | None = None  # counts that no pixel exceeds; None: there is no limit
    between: FreeSpace | None = None  # from one slice to the next, in coarse pixels
    drift: np.ndarray | None = None  # Q, ``(N, N)``, by which the first mode changes; None: it does not

    def __post_init__(self) -> None:
        last = self.sample.shape[-1] / self.oversampling - self.N
        low, high = self.positions.min(), self.positions.max()
        if low < 0 or high > last:
            raise ValueError(f"positions are from {low:g} to {high:g}; must be from 0 to M − N = {last:g}")

    @property
    def N(self) -> int:
        """Side of the patterns in pixels."""
        return self.probe.shape[-1]

    @property
    def object(self) -> np.ndarray:
        """The truth O, ``(M, M)`` complex128: the sample as far as the coarse pixels can show it.

        Of slices their product.
        """
        side, q = self.sample.shape[-1], self.oversampling
        return np.fft.ifft2(np.fft.ifftshift(central(_far(self._slices.prod(axis=0)), side // q))) / q**2

    @property
    def _slices(self) -> np.ndarray:
        return self.sample.reshape(-1, *self.sample.shape[-2:])

    @property
    def dtype(self) -> np.dtype:
        """Integer type of the counts: 32 bits, or 64 where a pixel may count further."""
        brightest = 4 * self.nphotons  # all of it in one pixel: more than any pattern has
        most = brightest * (1 + HOT * bool(self.hot.any())) + self.background
        return np.dtype(np.uint32 if min(most, self.saturation or most) < 2**32 else np.uint64)

    @cached_property
    def scale(self) -> float:
        """c, photons for an intensity of one, from 64 patterns spread over the scan."""
        return self.nphotons / float(self._sampled.sum(axis=(1, 2)).mean())

    @property
    def photon_probe(self) -> np.ndarray:
        """``√c·P``, ``(…, N, N)``: the probe in √photons."""
        return np.sqrt(self.scale) * self.probe

    @property
    def times(self) -> np.ndarray:
        """t, ``(J,)``, from −½ to ½ over the scan."""
        return np.linspace(-0.5, 0.5, len(self.positions))

    def intensities(self, positions: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
        """Return ``Σ_m |Ψ_m|²`` at some positions ``(n, 2)``: ``(n, N, N)`` float64, zero frequency at N//2.

        ``times (n,)``: of a probe that drifts; None: it is where it is at time zero.
        """
        first, *others = self.probe.reshape(-1, self.N, self.N)
        if self.drift is not None and times is not None:
            first = first + times[:, None, None] * self.drift
        total = self._intensities(first, positions)
        for mode in others:
            total += self._intensities(mode, positions)
        return total

    def _intensities(self, mode: np.ndarray, positions: np.ndarray) -> np.ndarray:
        q, N = self.oversampling, self.N
        whole = np.rint(q * positions).astype(int)
        waves = self._shift_fine(mode, q * positions - whole)  # (n, qN, qN)
        first, *others = self._slices
        space, transfer = self.between, np.ones(())
        if space is not None:
            transfer = FreeSpace(space.length, q * space.row, q * space.col).transfer(q * N)
        for wave, (row, col) in zip(waves, whole, strict=True):
            part = np.s_[row : row + q * N, col : col + q * N]
            wave *= first[part]
            for layer in others:
                wave[:] = layer[part] * np.fft.ifft2(transfer * np.fft.fft2(wave))
        return np.abs(central(_far(waves), N) / (q**2 * N)) ** 2

    def counts(self, rng: np.random.Generator, most: int = 2**21) -> Iterator[np.ndarray]:
        """Yield the measured photons in blocks ``(n, N, N)`` of ``dtype``, ``most`` fine pixels each."""
        glow = np.where(self.hot, HOT * self.scale * float(self._sampled.max()), 0.0)
        detector = Detector(self.good, glow, self.background, self.saturation)
        elsewhere = rng.spawn(1)[0] if self.background else None
        step = max(1, most // (self.oversampling * self.N) ** 2)
        for start in range(0, len(self.positions), step):
            expected = self.expected(slice(start, start + step))
            yield detector.counts(expected, rng, elsewhere).astype(self.dtype)

    def expected(self, chosen: slice) -> np.ndarray:
        """Return the expected photons of some patterns, ``(n, N, N)``: λ without background."""
        counts = self.scale * self.intensities(self.positions[chosen], self.times[chosen])
        flux = None if self.flux is None else self.flux[chosen]
        return spread_and_scale(counts, flux, self.point_spread_px)

    @cached_property
    def _sampled(self) -> np.ndarray:
        chosen = np.unique(np.linspace(0, len(self.positions) - 1, 64).astype(int))
        return self.intensities(self.positions[chosen], self.times[chosen])

    def _shift_fine(self, mode: np.ndarray, shifts: np.ndarray) -> np.ndarray:
        """``P_q(x − s)`` of a mode ``(N, N)``, or one for each of the shifts ``(n, 2)`` in fine pixels.

        ``(n, qN, qN)`` complex128.
        """
        q, N = self.oversampling, self.N
        nu = (np.arange(N) - N // 2) / (q * N)  # cycles per fine pixel
        angle = shifts[:, 0, None, None] * nu[:, None] + shifts[:, 1, None, None] * nu
        far = padded(_far(mode) * np.exp(-2j * np.pi * angle), q * N)
        return np.fft.ifft2(np.fft.ifftshift(far, axes=(-2, -1))) * q**2


def simulate_measured_like(
    settings: ScanSettings,
    probe: np.ndarray,
    energy_eV: float | None = None,
    pixel_m: tuple[float, float] | None = None,
) -> MeasuredLike:
    """Simulate a scan by its settings under a probe ``(N, N)``; all numbers come from ``settings.seed``.

    ``energy_eV``, ``pixel_m``: of a sample of several slices, the photon energy and the object's pixel.
    """
    N, q = settings.N, settings.oversampling
    path = PATHS[settings.path](settings.n_positions, settings.step_px64 * N / 64, settings.rng("path"))
    positions = path - path.min(axis=0) + 1
    side = N + int(np.ceil(positions.max())) + 2
    good, hot = draw_faults(N, settings.bad_pixels, settings.hot_pixels, settings.rng("detector"))
    wrong, seed, share = settings.imperfections, settings.seed, settings.imperfections.probe_variation
    modes = incoherent_modes(probe.astype(complex), wrong.modes, wrong.coherence)
    gap = draw_gaps(N, wrong.gap_rows, wrong.gap_columns, stream(seed, "gap"))
    rng, L, between = settings.rng("sample"), settings.slices, None
    sample = make_sample(settings.sample, q * side, rng)
    if L > 1:
        assert settings.slice_thickness_m is not None and energy_eV is not None and pixel_m is not None
        between = FreeSpace.of(settings.slice_thickness_m, wavelength_m(energy_eV), pixel_m)
        others = (make_sample(settings.sample, q * side, rng) for _ in range(L - 1))
        sample = np.stack([sample, *others]) ** (1 / L)
    return MeasuredLike(
        sample=sample,
        between=between,
        probe=modes if wrong.modes > 1 else modes[0],
        positions=positions,
        oversampling=q,
        nphotons=settings.nphotons,
        good=good & gap,
        hot=hot & gap,
        flux=draw_flux(len(positions), wrong.flux_rms, stream(seed, "flux")) if wrong.flux_rms else None,
        background=wrong.background,
        point_spread_px=wrong.point_spread_px,
        saturation=wrong.saturation,
        drift=draw_variation(modes[0], share, stream(seed, "variation")) if share else None,
    )


def state_scan(
    settings: ScanSettings, scan: MeasuredLike, micrometre: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions ``(J, 2)`` and the probe ``(N, N)``, √photons, that are stated for the true ones.

    ``micrometre``: Fresnel number of one micrometre.
    """
    wrong, count = settings.imperfections, len(scan.positions)
    first = scan.photon_probe.reshape(-1, scan.N, scan.N)[0]
    positions = record_positions(scan.positions, wrong, row_of(count), settings.seed)
    return positions, misstate_probe(first, wrong, micrometre, settings.seed)


def make_sample(
    kind: str, side: int, rng: np.random.Generator, darkest: float = 0.6, phase_rad: float = 2.0
) -> np.ndarray:
    """Return ``(1 − 0.4 t)·exp(i(4t − 2))`` of a thickness t from 0 to 1, ``(side, side)`` complex128."""
    drawn = SAMPLES[kind](side, rng)
    thickness = (drawn - drawn.min()) / np.ptp(drawn)
    return (1 - (1 - darkest) * thickness) * np.exp(1j * phase_rad * (2 * thickness - 1))


def _blobs(side: int, rng: np.random.Generator) -> np.ndarray:
    """Random islands of two sizes, with edges of a pixel or two."""
    noise = rng.normal(size=(2, side, side))
    islands = [gaussian_filter(n, sigma, mode="wrap") > 0 for n, sigma in zip(noise, (5, 12), strict=True)]
    return gaussian_filter(islands[0] + 1.0 * islands[1], 0.8, mode="wrap")


def fermat_spiral(count: int, step: float, rng: np.random.Generator) -> np.ndarray:
    """Return ``(count, 2)``: ``√k·step/√π`` at the angle ``k·GOLDEN``, turned at random; one a step²."""
    k = np.arange(count) + 0.5
    radius, angle = step / np.sqrt(np.pi) * np.sqrt(k), GOLDEN * k + rng.uniform(0, 2 * np.pi)
    return np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=1)


def jittered_grid(count: int, step: float, rng: np.random.Generator, snake: bool = False) -> np.ndarray:
    """Return a square grid ``(count, 2)``, row by row, each position moved by up to a third of the step.

    ``snake``: every second row is scanned backwards.
    """
    width = row_of(count)
    rows, cols = np.divmod(np.arange(count), width)
    cols = np.where(rows % 2, width - 1 - cols, cols) if snake else cols
    grid = np.stack([rows, cols], axis=1).astype(float)
    return step * (grid + rng.uniform(-1 / 3, 1 / 3, grid.shape))


def row_of(count: int) -> int:
    """Return the number of positions in each row of a grid."""
    return int(np.ceil(np.sqrt(count)))


SAMPLES: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "lines": lambda side, rng: line_amplitude(side, side, rng),
    "blobs": _blobs,
}
"""Kind to function: (side, rng) → thickness ``(side, side)`` of any scale."""
PATHS: dict[str, Callable[[int, float, np.random.Generator], np.ndarray]] = {
    "fermat": fermat_spiral,
    "jittered": jittered_grid,
    "snake": partial(jittered_grid, snake=True),
}
"""Kind to function: (positions, step, rng) → ``(positions, 2)`` of any origin, in coarse pixels."""


def _far(waves: np.ndarray) -> np.ndarray:
    """``Σ_x ψ(x) exp(−2πi k·x/n)``, k = 0 at n//2."""
    return np.fft.fftshift(np.fft.fft2(waves), axes=(-2, -1))


BLURS = ((1.0, 1.0), (5.0, 2.0), (10.0, 5.0))  # (σ in pixels, weight)


def line_amplitude(size: int, n_lines: int, rng: np.random.Generator) -> np.ndarray:
    """Return the amplitude of a "grid lines" object: blurred random line segments, maximum one.

    Segments with uniform random end points are counted on a canvas of side ``2·size``; the sum of its
    Gaussian blurs ``Σ w·G_σ`` (σ, w = 1, 1; 5, 2; 10, 5 px) is cropped to its centre.

    Returns:
        ``(size, size)`` float64 in [0, 1].

    Raises:
        ConfigError: so few lines were drawn that none came near the object.
    """
    canvas = np.zeros((2 * size, 2 * size))
    for r0, c0, r1, c1 in rng.integers(0, 2 * size, (n_lines, 4)):
        canvas[line(r0, c0, r1, c1)] += 1.0
    blurred = np.sum([weight * gaussian_filter(canvas, sigma) for sigma, weight in BLURS], axis=0)
    start = size // 2
    cropped = blurred[start : start + size, start : start + size]
    if not cropped.max() > 0:
        raise ConfigError(f"object.n_lines={n_lines}: no line crosses the object; draw more lines")
    return cropped / cropped.max()
