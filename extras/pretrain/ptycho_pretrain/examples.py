"""Training examples of many probes, objects and scans: groups of patterns with their true objects.

An example is a group of C patterns around one place: a random object under a random probe, at positions of
a random scan, measured with a random dose and, now and then, with faults. Step t of a training has the same
batch whatever came before it: its random numbers are those of (seed, t).

======== ==================================================================================================
``r_k``  true positions (row, col) relative to the region's centre, of which the network sees ``offsets``
``P``    true probe (modes ``(K, N, N)``), of which the network sees ``s·f·P`` or a slightly wrong one
``n``    ``n ~ Poisson(s² Σ_m |F(P_m·O_k)|² + b)``; ``x = f √n``, −1 in dead pixels
======== ==================================================================================================

NumPy and SciPy alone; nothing is interpolated: fractions of a pixel move the probe.
"""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np
from scipy import fft
from scipy.ndimage import gaussian_filter

from ptycho.config.schema import Range
from ptycho.scan.probe import energy_diameter, intensity_of
from ptycho.scan.windows import add_windows, inner_windows
from ptycho.simulation.imperfections import incoherent_modes
from ptycho_pretrain.config import BatchConfig, MeasurementConfig, PretrainConfig
from ptycho_pretrain.distributions import Distributions, disturb_positions, disturb_probe, transmission
from ptycho_pretrain.kinds import choose_entry, rotation
from ptycho_pretrain.object_kinds import OBJECT_KINDS
from ptycho_pretrain.probe_kinds import PROBE_KINDS, draw_probe

COHERENCE = (0.6, 0.95)  # share of the first mode
LATTICES = ("square", "hexagonal", "spiral", "random")


class Example(TypedDict):
    """A batch, float32 and complex64.

    ``x (B, C, N, N)``, ``offsets (B, C, 2)``, ``probe (B, 1, K, N, N)``, ``start (B, R, R)`` (zero: none),
    ``target (B, R, R)``, and ``illumination (B, R, R)``: ``Σ_k Σ_m |P_m|²`` over its maximum. ``again``, a
    bool: begin with what the network makes of the batch. ``passes``, int32: begin with what so many updates
    by physics alone make of ``start``.
    """

    x: np.ndarray
    offsets: np.ndarray
    probe: np.ndarray
    start: np.ndarray
    target: np.ndarray
    illumination: np.ndarray
    again: np.ndarray
    passes: np.ndarray


class Examples(Distributions[PretrainConfig]):
    """The examples of a configuration; maps of thickness are made when they are first needed, and kept."""

    def __init__(self, config: PretrainConfig) -> None:
        super().__init__(config)
        self._maps: dict[int, np.ndarray] = {}

    def form_of(self, step: int) -> BatchConfig:
        """Return the form of the batch of a step; with N, C and modes different from step to step."""
        return choose_entry(self.forms, self._rng(step))

    def batch(self, step: int) -> Example:
        """Return the batch of a step."""
        rng = self._rng(step)
        return self.draw_batch(choose_entry(self.forms, rng), rng)

    def draw_batch(self, form: BatchConfig, rng: np.random.Generator) -> Example:
        """Draw a random batch of a form."""
        measurement, chance = self.config.measurement, rng.random()
        again = chance < measurement.again_share
        solved = not again and chance < measurement.again_share + measurement.solver_share
        low, high = measurement.solver_passes
        passes = rng.integers(low, high + 1) if solved else 0
        started = 1.0 if solved else measurement.start_share
        every = [self._example(form, started, child) for child in rng.spawn(form.batch)]
        stacked = {key: np.stack([example[key] for example in every]) for key in every[0]}
        return Example(again=np.asarray(again), passes=np.int32(passes), **stacked)  # type: ignore[typeddict-item]

    def _rng(self, step: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, 2, step])  # branch 2 of the seed: steps

    def _example(self, form: BatchConfig, started: float, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """One example; it begins with a rough object with the chance ``started``."""
        measurement, R = self.config.measurement, form.region_size
        entry = choose_entry(self.probes, rng)
        probe = draw_probe(PROBE_KINDS[entry.kind], form.N, entry.ranges, rng)
        thickness, other = self._cut_part(R, rng), self._cut_part(R, rng)
        target = transmission(thickness, other, self.config.materials, rng)
        positions = place_positions(form, energy_diameter(probe), measurement.overlap, rng)
        modes = incoherent_modes(probe.astype(complex), form.modes, rng.uniform(*COHERENCE))
        modes = modes.astype(np.complex64)
        illumination, whole = group_illumination(modes, positions, R), np.round(positions + form.reach)
        waves = shift_modes(modes, positions + form.reach - whole)
        waves *= inner_windows(target, whole.astype(int), form.N)[:, None]
        energy = np.sum(np.abs(fft.fft2(waves, norm="ortho")) ** 2, axis=1)  # (C, N, N)
        x, scale = measure_group(fft.fftshift(energy, axes=(-2, -1)), measurement, rng)
        stated = scale * disturb_probe(modes, measurement, rng)
        positions = disturb_positions(positions, (-form.reach, form.reach), measurement, rng)
        start = np.zeros_like(target)
        if rng.random() < started:
            start = roughen(target, illumination, rng)
        return {
            "x": x.astype(np.float32),
            "offsets": positions.astype(np.float32),
            "probe": stated[None].astype(np.complex64),
            "start": start,
            "target": target,
            "illumination": (illumination / illumination.max()).astype(np.float32),
        }

    def _cut_part(self, side: int, rng: np.random.Generator) -> np.ndarray:
        """A window of one of the maps, turned and mirrored at random, ``(side, side)``."""
        thickness = self._map(int(rng.integers(self.config.maps)))
        row, col = rng.integers(0, len(thickness) - side + 1, 2)
        part = np.rot90(thickness[row : row + side, col : col + side], int(rng.integers(4)))
        return (part if rng.random() < 0.5 else part.T).astype(np.float32)

    def _map(self, number: int) -> np.ndarray:
        if number not in self._maps:
            rng = np.random.default_rng([self.config.seed, 0, number])  # branch 0: maps
            entry = choose_entry(self.objects, rng)
            thickness = OBJECT_KINDS[entry.kind].sample(self.config.map_side, entry.ranges, rng)
            self._maps[number] = thickness.astype(np.float16)
        return self._maps[number]


def place_positions(
    form: BatchConfig, diameter: float, overlap: Range, rng: np.random.Generator
) -> np.ndarray:
    """Return C neighbouring positions of a random scan about the region's centre, ``(C, 2)`` in ``reach``.

    Their mean distance is ``diameter·(1 − overlap)``, or less where they would reach too far.
    """
    if form.C == 1:
        return rng.uniform(-0.5, 0.5, (1, 2))
    step = diameter * (1 - rng.uniform(*overlap))
    points = draw_lattice(LATTICES[rng.integers(len(LATTICES))], 2 * form.C + 16, rng)
    middle = points[rng.integers(len(points) // 4)] + rng.uniform(-0.5, 0.5, 2)
    nearest = np.argsort(np.hypot(*(points - middle).T))[: form.C]
    positions = step * points[nearest]
    positions = rng.permutation(positions - positions.mean(axis=0))
    reach = np.abs(positions).max()
    if reach > form.reach - 0.5:
        positions *= (form.reach - 0.5) / reach
    return positions + rng.uniform(-0.5, 0.5, 2)


def draw_lattice(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw about ``count`` points ``(n, 2)`` around zero, innermost first, one per unit area."""
    half = math.ceil(math.sqrt(count)) // 2 + 1
    rows, cols = (axis.ravel().astype(float) for axis in np.mgrid[-half : half + 1, -half : half + 1])
    if kind == "hexagonal":
        side = math.sqrt(2 / math.sqrt(3))  # of triangles of which two have unit area
        cols, rows = side * (cols + 0.5 * (rows % 2)), side * rows * math.sqrt(3) / 2
    points = np.stack([rows, cols], axis=1)
    if kind == "spiral":
        k = np.arange(count) + 0.5
        golden = np.pi * (3 - math.sqrt(5)) * k
        points = np.sqrt(k / np.pi)[:, None] * np.stack([np.sin(golden), np.cos(golden)], axis=1)
    if kind == "random":
        points = points + rng.uniform(-0.5, 0.5, points.shape)
    points = points + rng.uniform(0, 0.15) * rng.uniform(-1, 1, points.shape)
    angle = rng.uniform(0, 2 * np.pi) * (rng.random() < 0.5)
    points = points[np.argsort(np.hypot(*points.T), kind="stable")][:count]
    return points @ rotation(angle).T


def shift_modes(modes: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Move modes ``(K, N, N)`` by fractions of a pixel ``(C, 2)``, exactly: ``(C, K, N, N)`` complex64."""
    nu = np.fft.fftfreq(modes.shape[-1])
    rows, cols = (np.exp(-2j * np.pi * shifts[:, axis, None] * nu) for axis in (0, 1))
    ramp = (rows[:, :, None] * cols[:, None, :]).astype(np.complex64)
    return fft.ifft2(fft.fft2(modes)[None] * ramp[:, None])


def group_illumination(modes: np.ndarray, positions: np.ndarray, side: int) -> np.ndarray:
    """Return ``Σ_k Σ_m |P_m|²`` on the region, at the nearest whole positions; ``(side, side)`` float32."""
    N = modes.shape[-1]
    whole = np.round(positions + (side - N) / 2).astype(int)
    return add_windows(np.broadcast_to(intensity_of(modes), (len(whole), N, N)), whole, (side, side))


def measure_group(
    energy: np.ndarray, measurement: MeasurementConfig, rng: np.random.Generator, spread: float = 1.3
) -> tuple[np.ndarray, float]:
    """Return normalised amplitudes ``x = f√n`` of intensities ``(C, N, N)``, and ``s·f``.

    ``spread``: f of a scan over that of one of its groups lies within this factor.
    """
    N = energy.shape[-1]
    photons = math.exp(rng.uniform(*np.log(measurement.photons)))
    scale = photons / energy.sum(axis=(1, 2)).mean()  # s²
    expected = scale * energy
    if rng.random() < measurement.background_share:
        expected = expected + rng.uniform(*measurement.background) * photons / N**2
    counts = rng.poisson(expected)
    f = N / 2 / math.sqrt(max(counts.sum(axis=(1, 2)).mean(), 1)) * spread ** rng.uniform(-1, 1)
    x = f * np.sqrt(counts)
    if rng.random() < measurement.bad_share:
        x = np.where(draw_dead_pixels(N, rng.uniform(*measurement.bad_pixels), rng), -1, x)
    return x, f * math.sqrt(scale)


def draw_dead_pixels(N: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a mask ``(N, N)`` bool: single pixels, and half of the time the gap between two modules."""
    dead = rng.random((N, N)) < 0.2 * share
    if rng.random() < 0.5:
        width = round(0.5 * share * N)
        start = rng.integers(0, N - width + 1)
        np.moveaxis(dead, rng.integers(2), 0)[start : start + width] = True
    return dead


def roughen(target: np.ndarray, illumination: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an object as it may be after a few passes of a solver: blurred, noisy, its phase a little off.

        Ō + γ (G_σ O − Ō) e^{iε(x)} + noise,    zero where the illumination is weak

    The noise is that of photons, ∝ 1/√illumination. All are ``(R, R)``, the result complex64.
    """
    sigma, gamma = rng.uniform(0, 2.5) * (rng.random() < 0.6), rng.uniform(0.6, 1.05)
    mean = target.mean()
    blurred = gaussian_filter(target, sigma) if sigma else target
    slow = gaussian_filter(rng.normal(size=target.shape), 16, mode="wrap")
    slow = (slow - slow.mean()) * rng.uniform(0, 0.4) / slow.std()
    estimate = (mean + gamma * (blurred - mean)) * np.exp(1j * slow)
    contrast = math.exp(rng.uniform(math.log(0.01), math.log(0.5))) * float(np.std(target))
    noise = rng.normal(size=(2, *target.shape))
    if rng.random() < 0.5:
        noise = gaussian_filter(noise, (0, 1, 1)) * 3
    level = contrast / np.sqrt(np.maximum(illumination / illumination.max(), 0.01))
    estimate = estimate + level * (noise[0] + 1j * noise[1])
    return np.where(illumination > 1e-3 * illumination.max(), estimate, 0).astype(np.complex64)
