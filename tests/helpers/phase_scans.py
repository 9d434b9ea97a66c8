"""A scan over a phase object whose probe is known, and probes that are a little wrong."""

import numpy as np
from scipy.ndimage import gaussian_filter

from ptycho.scan.beam import Beam
from ptycho.scan.groups import smallest_region
from ptycho.simulation.simulate import noise_free_amplitudes

from . import reference
from .datasets import single_patterns

N = 32


def phase_object(side, rng, strength=0.6):
    phase = gaussian_filter(rng.normal(size=(side, side)), 1.5)
    return np.exp(1j * strength * phase / phase.std()).astype(np.complex64)


def aberrated(probe, rng, strength):
    """A probe times ``1 + strength·f``, f smooth, random, complex, of variance one where it is bright."""
    f = reference.random_complex(rng, probe.shape)
    f = gaussian_filter(f.real, N / 10) + 1j * gaussian_filter(f.imag, N / 10)
    intensity = np.abs(probe) ** 2
    return probe * (1 + strength * f / np.sqrt(np.average(np.abs(f) ** 2, weights=intensity)))


def scan_with(probe, seed=0, side=8, step=3.5, jitter=0.6, photons=1e5, strength=0.6):
    """A scan of ``side × side`` whole-pixel positions over a phase object, in photon counts."""
    rng = np.random.default_rng(seed)
    grid = step * np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
    positions = np.round(grid + rng.uniform(0, jitter * step, grid.shape)).astype(np.float32)
    size = N + int(positions.max()) + 2
    probe = probe.astype(np.complex64)
    exact = noise_free_amplitudes(phase_object(size, rng, strength), Beam(probe, positions)).astype(float)
    scale = np.sqrt(photons / np.mean(np.sum(exact**2, axis=(1, 2))))
    groups = np.arange(len(positions), dtype=np.int32)[:, None]
    amplitudes = np.sqrt(rng.poisson((scale * exact) ** 2))
    region_size = smallest_region(positions, groups, N)
    scales = {"photon_scale": float(scale), "region_size": region_size}
    return single_patterns(amplitudes, probe, positions, size, **scales)
