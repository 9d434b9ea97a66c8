"""A scan of any length whose patterns are simulated when they are read, and never stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptycho.scan.beam import Beam
from ptycho.scan.dataset import Dataset
from ptycho.scan.patterns import Patterns
from ptycho.scan.windows import inner_windows

PHOTONS, STEP = 1e5, 5.0
PERIOD = 1024  # pixels after which the sample repeats


class GeneratedRows:
    """Amplitudes ``√n``, ``n ~ Poisson(|F P O_j|²)``, the same whenever a pattern is read."""

    def __init__(self, sample: np.ndarray, probe: np.ndarray, corners: np.ndarray) -> None:
        self._sample, self._probe, self._corners = sample, probe, corners
        self.shape = (len(corners), *probe.shape)
        self.dtype = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self._corners)

    def __getitem__(self, index: Any) -> np.ndarray:
        chosen = np.arange(len(self))[index]
        N, found = self.shape[-1], np.empty((len(chosen), *self.shape[1:]), np.float32)
        for k in range(0, len(chosen), 256):
            part = chosen[k : k + 256]
            waves = self._probe * inner_windows(self._sample, self._corners[part] % PERIOD, N)
            intensity = np.abs(np.fft.fft2(waves, norm="ortho")) ** 2
            noise = np.stack([np.random.default_rng(j).standard_normal((N, N), np.float32) for j in part])
            # For many photons, the root of a Poisson count is normal with σ = ½.
            amplitude = np.maximum(np.sqrt(intensity) + noise / 2, 0)
            found[k : k + 256] = np.fft.fftshift(np.round(amplitude**2) ** 0.5, axes=(1, 2))
        return found


def generated_scan(count: int, N: int) -> Dataset:
    """Return ``count`` patterns of N² of a periodic sample, on a jittered square grid of 5 px."""
    rng, side = np.random.default_rng(0), int(np.ceil(count**0.5))
    grid = STEP * np.stack(np.divmod(np.arange(count), side), axis=1)
    corners = np.rint(grid + rng.uniform(0, 2, grid.shape)).astype(np.int64)
    axis = np.arange(N) - N / 2
    square = (axis[:, None] ** 2 + axis**2) / (N / 8) ** 2
    probe = np.exp(-square / 2 + 1j * square)
    probe = (np.sqrt(PHOTONS) / np.linalg.norm(probe) * probe).astype(np.complex64)
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(PERIOD), np.fft.fftfreq(PERIOD)))
    waves = rng.standard_normal((2, PERIOD, PERIOD))
    smooth = [np.fft.ifft2(np.fft.fft2(wave) * np.exp(-((frequency / 0.05) ** 2))).real for wave in waves]
    amplitude, phase = (part / np.abs(part).max() for part in smooth)
    sample = ((0.8 + 0.2 * amplitude) * np.exp(1j * phase)).astype(np.complex64)
    rows = GeneratedRows(np.pad(sample, (0, N), mode="wrap"), probe, corners)
    return Dataset(
        amplitudes=Patterns(rows),  # type: ignore[arg-type]
        beam=Beam(probe, corners.astype(np.float32)),
        image=np.zeros(count, np.int32),
        groups=np.arange(count, dtype=np.int32)[:, None],
        photon_scale=1.0,
        object_size=N + int(corners.max()) + 2,
        region_size=N,
    )
