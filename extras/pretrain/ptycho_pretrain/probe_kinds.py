"""Kinds of probes, ``(N, N)`` complex, centred at ``N//2``.

======== ==================================================================================================
``d``    ``diameter``: of the illuminated part, in units of N
``ν``    spatial frequency, cycles per pixel; ``ν_m = reach``, that of the pupil's edge
``c``    ``λz`` in pixels²: propagation multiplies the far field by ``exp(−iπcν²)``
======== ==================================================================================================

Lenses have a pupil in ν, and their probe is out of focus: geometry makes it ``2cν_m`` pixels wide. Apertures
are cut out of a plane or curved wave in x. The parameters ``shift`` and ``stretch``, which :func:`draw_probe`
applies to every kind, move a probe off the centre and make it longer one way. NumPy and SciPy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.ndimage import affine_transform, gaussian_filter

from ptycho.scan.probe import central_wave, centred_axes, smooth_disk
from ptycho.simulation.imperfections import frequencies, multiply_far_field
from ptycho_pretrain.kinds import Kind, Parameter, draw_values, rotation

DIAMETER = Parameter(0.15, 0.75)
REACH = Parameter(0.06, 0.4)
SHIFT = Parameter(0.0, 0.05)
STRETCH = Parameter(1.0, 1.3)
COMMON = {"shift": SHIFT, "stretch": STRETCH}  # of every kind


def draw_probe(kind: Kind, N: int, ranges: Mapping, rng: np.random.Generator) -> np.ndarray:
    """Draw a random probe of a kind, its largest amplitude one; ``(N, N)`` complex64."""
    values = draw_values(kind, ranges, rng)
    shift, stretch = values.pop("shift") * N, values.pop("stretch")
    probe = kind.draw(N, rng, **values)
    probe = _stretch_and_shift(probe, shift, stretch, rng)
    return (probe / np.abs(probe).max()).astype(np.complex64)


def zone_plate(N: int, rng: np.random.Generator, *, diameter: float, reach: float, stop: float) -> np.ndarray:
    """Return the focus of a Fresnel zone plate with a central stop, off the sample; ``(N, N)``."""
    return _lens(N, rng, diameter, reach, lambda nu, _: (nu <= 1) & (nu >= stop))


def disk(N: int, rng: np.random.Generator, *, diameter: float, edge: float) -> np.ndarray:
    """Return a disk ``(N, N)`` with a flat phase, its edge smoothed by ``edge`` pixels."""
    return smooth_disk(N, diameter * N, edge)


def gaussian(N: int, rng: np.random.Generator, *, diameter: float, curvature: float) -> np.ndarray:
    """Return a Gaussian beam beside its waist, ``(N, N)``.

    90 % of its energy is within ``diameter``, with ``curvature`` rad there.
    """
    square = (np.hypot(*centred_axes(N)) / (diameter * N / 2)) ** 2
    return np.exp(-1.151 * square) * np.exp(1j * curvature * rng.choice([-1, 1]) * square)


def pinhole(N: int, rng: np.random.Generator, *, diameter: float, fresnel: float) -> np.ndarray:
    """Return a round hole some way before the sample, ``(N, N)``; Fresnel number ``fresnel`` = radius²/λz."""
    radius = diameter * N / 2
    return propagate(disk(N, rng, diameter=diameter, edge=0.5), radius**2 / fresnel)


def diffuser(
    N: int, rng: np.random.Generator, *, diameter: float, grain: float, strength: float
) -> np.ndarray:
    """Return a disk ``(N, N)`` behind a plate of random phase: ``strength`` rad, ``grain`` pixels."""
    radius = diameter * N / 2
    phase = gaussian_filter(rng.normal(size=(N, N)), grain, mode="wrap")
    wave = disk(N, rng, diameter=diameter, edge=1.0) * np.exp(1j * strength * phase / phase.std())
    return propagate(wave, radius**2 / 8) * (np.hypot(*centred_axes(N)) < 0.48 * N)


def vortex(N: int, rng: np.random.Generator, *, diameter: float, reach: float, charge: float) -> np.ndarray:
    """Return a lens with a phase that winds about its axis ``round(charge)`` times; ``(N, N)``."""
    turns = round(charge) * rng.choice([-1, 1])
    return _lens(N, rng, diameter, reach, lambda nu, theta: (nu <= 1) * np.exp(1j * turns * theta))


def aberrated(
    N: int, rng: np.random.Generator, *, diameter: float, reach: float, strength: float
) -> np.ndarray:
    """Return a lens with astigmatism, coma, spherical aberration and a hard or a soft edge; ``(N, N)``."""
    astigmatism, coma, sphere = strength * rng.normal(size=3)
    turn, soft = rng.uniform(0, 2 * np.pi, 2), rng.random() < 0.5

    def pupil(nu: np.ndarray, theta: np.ndarray) -> np.ndarray:
        phase = astigmatism * nu**2 * np.cos(2 * theta + turn[0]) + sphere * (6 * nu**4 - 6 * nu**2 + 1)
        phase = phase + coma * (3 * nu**3 - 2 * nu) * np.cos(theta + turn[1])
        open_ = np.exp(-1.5 * nu**4) if soft else nu <= 1
        return open_ * np.exp(1j * np.where(nu < 1.5, phase, 0))

    return _lens(N, rng, diameter, reach, pupil)


def disturb_phase(probe: np.ndarray, rms: float, rng: np.random.Generator) -> np.ndarray:
    """Return a slightly wrong probe ``(…, N, N)`` complex64.

    Its far field has a smooth random phase of ``rms`` rad within its support.
    """
    N = probe.shape[-1]
    x, y = (axis / axis.max() for axis in centred_axes(N))
    phase = sum(
        a * term for a, term in zip(rng.normal(size=5), (x * x, y * y, x * y, x**3, y**3), strict=True)
    )
    power = np.abs(np.fft.fftshift(np.fft.fft2(probe.reshape(-1, N, N)[0]))) ** 2
    mean = np.sum(power * phase) / power.sum()
    spread = np.sqrt(np.sum(power * (phase - mean) ** 2) / power.sum())
    return multiply_far_field(probe, np.exp(1j * rms * (phase - mean) / spread)).astype(np.complex64)


def _lens(
    N: int,
    rng: np.random.Generator,
    diameter: float,
    reach: float,
    pupil: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """The wave ``λz = c = dN/2ν_m`` away from the focus of ``pupil(ν/ν_m, angle)``, on either side."""
    window = 2 * N  # computed wider, and cropped
    row, col = frequencies(window)
    nu, theta = np.hypot(row, col), np.arctan2(row, col)
    c = rng.choice([-1, 1]) * diameter * N / 2 / reach
    return central_wave(pupil(nu / reach, theta) * np.exp(-1j * np.pi * c * nu**2), N)


def propagate(wave: np.ndarray, c: float) -> np.ndarray:
    """Propagate a wave ``(N, N)`` further on, ``λz = c``."""
    row, col = frequencies(len(wave))
    return multiply_far_field(wave, np.exp(-1j * np.pi * c * (row**2 + col**2)))


def _stretch_and_shift(
    probe: np.ndarray, shift: float, stretch: float, rng: np.random.Generator
) -> np.ndarray:
    """Stretched along a random direction, without more than the window, and moved by ``shift`` pixels."""
    N, angle, way = len(probe), *rng.uniform(0, 2 * np.pi, 2)
    turn = rotation(angle)
    inverse = turn @ np.diag([1.0, stretch]) @ turn.T  # narrower one way: the support stays inside
    centre = np.full(2, N // 2)
    moved = centre + shift * np.array([np.sin(way), np.cos(way)])
    return affine_transform(probe, inverse, centre - inverse @ moved, order=3, mode="constant")


PROBE_KINDS: dict[str, Kind] = {
    draw.__name__: Kind(draw, {"diameter": DIAMETER} | parameters | COMMON)
    for draw, parameters in (
        (zone_plate, {"reach": REACH, "stop": Parameter(0.0, 0.6)}),
        (disk, {"edge": Parameter(0.5, 2.0)}),
        (gaussian, {"curvature": Parameter(0.0, 8.0)}),
        (pinhole, {"fresnel": Parameter(2.0, 30.0, log=True)}),
        (diffuser, {"grain": Parameter(2.0, 6.0), "strength": Parameter(0.3, 2.0)}),
        (vortex, {"reach": REACH, "charge": Parameter(0.6, 3.4)}),
        (aberrated, {"reach": REACH, "strength": Parameter(0.2, 2.0)}),
    )
}
"""Kind to function ``(N, rng, **parameters)`` → probe ``(N, N)`` complex of any scale."""
