"""A small scan simulated in double precision by loops, for the tests of the solver."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from helpers.datasets import single_patterns
from helpers.reference import random_complex
from ptycho.reconstruction.estimate import Estimate
from ptycho.reconstruction.scan_likelihood import ScanLikelihood

N = 16


def beam(row=0.0, col=0.0, width=5.0, curvature=0.09):
    """A curved Gaussian, not symmetric, with its centre (row, col) px from the window's; power 1."""
    axis = np.arange(N) - N // 2
    r, c = axis[:, None] - row, axis[None, :] - col
    wave = np.exp(-(r**2 + 1.3 * c**2) / (2 * width) + 1j * curvature * (r**2 - 0.7 * c**2) + 0.05j * r)
    return wave / np.linalg.norm(wave)


def smooth_object(rng, side, cutoff=0.18, contrast=1.0):
    """Complex, band-limited: amplitude near 0.8, phase within a radian."""
    q = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side), indexing="ij"))
    spectra = (np.fft.fft2(rng.normal(size=(side, side))) * np.exp(-((q / cutoff) ** 2)) for _ in range(2))
    noise = [np.fft.ifft2(spectrum).real for spectrum in spectra]
    amplitude, phase = (contrast * part / np.abs(part).max() for part in noise)
    return (0.8 + 0.2 * amplitude) * np.exp(1j * phase)


def intensity_of(image, modes, position, flux=1.0, background=0.0, sigma=(0, 0)):
    """``h ∗ Σ_m |F c P_m(x − s) O[w + x]|² + b`` of one pattern by loops, zero frequency at sample 0."""
    side = modes.shape[-1]
    whole = [int(np.floor(p + 0.5)) for p in position]
    q = np.fft.fftfreq(side)
    angle = np.add.outer((position[0] - whole[0]) * q, (position[1] - whole[1]) * q)
    window = np.array(
        [[image[whole[0] + i, whole[1] + j] for j in range(side)] for i in range(side)], complex
    )
    total = np.zeros((side, side))
    for mode in modes:
        moved = np.fft.ifft2(np.fft.fft2(mode) * np.exp(-2j * np.pi * angle))
        total += np.abs(np.fft.fft2(flux * moved * window) / side) ** 2
    return gaussian_filter(total, sigma, mode="wrap", truncate=12) + background


@dataclass(frozen=True, eq=False)
class Scan:
    """The truth: modes in √photons, so that intensities are in photons; positions of the top-left samples."""

    object: np.ndarray
    modes: np.ndarray
    positions: np.ndarray
    flux: np.ndarray
    background: np.ndarray
    point_spread: tuple[float, float] = (0.0, 0.0)  # σ along rows and columns, pixels

    @classmethod
    def of(cls, rng, photons=1e5, count=6, step=2.6, modes=None, contrast=1.0):
        """Return ``count²`` patterns of ``photons`` with :func:`beam`, or with ``modes`` of total power 1."""
        grid = np.stack(np.divmod(np.arange(count**2), count), axis=1)
        positions = step * grid + 1.9 + rng.uniform(-0.9, 0.9, grid.shape)
        side = N + int(np.ceil(positions.max())) + 2
        modes = beam()[None] if modes is None else modes
        return cls(
            smooth_object(rng, side, contrast=contrast),
            np.sqrt(photons) * np.asarray(modes),
            positions,
            np.ones(len(positions)),
            np.zeros((N, N)),
        )

    def intensity(self):
        """Expected photons ``(J, N, N)``, zero frequency at sample 0."""
        beams = zip(self.positions, self.flux, strict=True)
        shared = self.background, self.point_spread
        return np.array([intensity_of(self.object, self.modes, *beam, *shared) for beam in beams])

    def dataset(self, rng=None, intensity=None, **changes):
        """Return the measured scan, with Poisson noise of ``rng``, or without noise (None).

        ``intensity``: another one than :meth:`intensity`.
        """
        intensity = self.intensity() if intensity is None else np.asarray(intensity)
        counts = intensity if rng is None else rng.poisson(intensity)
        values = {"positions": self.positions, "probe": self.modes, "object_size": len(self.object)}
        values["amplitudes"] = np.fft.fftshift(np.sqrt(counts), axes=(-2, -1))
        beam = {key: changes.pop(key) for key in ("flux", "background") if key in changes}
        data = single_patterns(**(values | changes))
        return replace(data, beam=replace(data.beam, **beam))

    def estimate(self, f):
        """The truth as an estimate in the units of a normalisation f."""
        return Estimate(
            self.object.astype(np.complex64),
            (f * self.modes).astype(np.complex64),
            self.positions.astype(np.float64),
            self.flux.astype(np.float32),
            (f**2 * self.background).astype(np.float32),
            point_spread=np.array(self.point_spread, np.float32),
        )

    def rough(self, f):
        """Return the truth as an estimate, with a constant in place of the object."""
        return replace(self.estimate(f), object=np.full(self.object.shape, 0.8, np.complex64))


def likelihood_of(data, **changes):
    return ScanLikelihood(data, data.normalisation, **({"compile_xla": False} | changes))


def full_scan(count, point_spread=(0.0, 0.0)):
    """``count²`` patterns with two modes, positions between pixels, flux and background."""
    rng = np.random.default_rng(4)
    made = Scan.of(rng, 1.0, count=count)
    modes = 4 * random_complex(rng, (2, N, N)) * np.array([1, 0.4])[:, None, None]
    modes[1, :, 3] = 0  # the two modes and axes are distinguishable
    background = rng.uniform(0.5, 6, (N, N))
    flux = rng.uniform(0.7, 1.3, count**2)
    return replace(made, modes=modes, flux=flux, background=background, point_spread=point_spread)


def check_gradient(likelihood, scan, f, part):
    """Check gradients along random directions by central differences; a background may vary by pixel."""
    rng, at = np.random.default_rng(8), scan.estimate(f)
    at = replace(at, object=at.object * 1.05, positions=np.round(at.positions) + 0.2 * np.sign(at.positions))
    value = getattr(at, part)
    size = {"modes": float(np.abs(at.modes).max()), "background": float(at.background.max())}
    step = 2e-3 * size.get(part, 1.0)
    gradient = likelihood.evaluate(at, (part,)).gradients[part]
    assert gradient.shape == value.shape and gradient.dtype == value.dtype
    for _ in range(3):
        way = random_complex(rng, value.shape) if np.iscomplexobj(value) else rng.normal(size=value.shape)
        up, down = (
            likelihood.evaluate(replace(at, **{part: (value + sign * step * way).astype(value.dtype)})).value
            for sign in (1, -1)
        )
        slope = np.vdot(way, gradient).real
        size_of = np.linalg.norm(way) * np.linalg.norm(gradient)
        assert (up - down) / (2 * step) == pytest.approx(slope, rel=3e-3, abs=2e-3 * size_of)


def illuminated_mask(scan, share=0.3):
    """Pixels of the object with more than a share of the strongest illumination."""
    illumination = np.zeros(scan.object.shape)
    for row, col in np.floor(scan.positions + 0.5).astype(int):
        illumination[row : row + N, col : col + N] += np.sum(np.abs(scan.modes) ** 2, axis=0)
    return illumination > share * illumination.max()


def distance(found, truth, mask):
    """Relative error of a complex image on a mask, up to a complex factor."""
    a, b = found[mask].astype(complex), truth[mask].astype(complex)
    factor = np.vdot(a, b) / np.vdot(a, a)
    return np.linalg.norm(factor * a - b) / np.linalg.norm(b)


def moved_probes(scan):
    """``P(x − s_j)`` and the top-left sample of each window, by phase ramps; double precision."""
    q, corners = np.fft.fftfreq(N), np.floor(scan.positions + 0.5).astype(int)
    rest = scan.positions - corners
    ramps = [np.exp(-2j * np.pi * np.add.outer(r * q, c * q)) for r, c in rest]
    return [np.fft.ifft2(np.fft.fft2(scan.modes[0]) * ramp) for ramp in ramps], corners


def fisher_matrix(scan):
    """4 JᵀJ, J of √λ by the real and then the imaginary parts of the object: ``(2M², 2M²)``."""
    probes, corners = moved_probes(scan)
    side, dft = len(scan.object), np.fft.fft(np.eye(N), norm="ortho")
    fisher = np.zeros((2 * side**2,) * 2)
    for probe, (row, col) in zip(probes, corners, strict=True):
        window = scan.object[row : row + N, col : col + N]
        matrix = np.kron(dft, dft) * probe.ravel()  # object's window → far field
        far = matrix @ window.ravel()
        along = (far.conj() / np.maximum(np.abs(far), 1e-9))[:, None] * matrix
        jacobian = np.hstack([along.real, -along.imag])
        indices = (np.arange(row, row + N)[:, None] * side + np.arange(col, col + N)).ravel()
        places = np.concatenate([indices, indices + side**2])
        fisher[np.ix_(places, places)] += 4 * jacobian.T @ jacobian
    return fisher
