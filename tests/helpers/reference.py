"""Slow references in NumPy and SciPy that share nothing with the code under test.

Loops and defining sums in double precision: each function is what its formula says, and nothing else.
"""

import itertools

import numpy as np
from scipy.special import j0, xlogy


def random_complex(rng, shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def relative(found, expected):
    """``‖found − expected‖ / ‖expected‖``."""
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def pixel(image, row, col):
    """``image[row, col]``, zero outside."""
    inside = 0 <= row < image.shape[0] and 0 <= col < image.shape[1]
    return image[row, col] if inside else 0.0


def corners(position):
    """The four pixels around a point (row, col), each with its bilinear weight."""
    whole = [int(np.floor(p)) for p in position]
    part = [p - w for p, w in zip(position, whole, strict=True)]
    for down, right in itertools.product((0, 1), repeat=2):
        weight = (part[0] if down else 1 - part[0]) * (part[1] if right else 1 - part[1])
        yield whole[0] + down, whole[1] + right, weight


def extract(image, position, N):
    """``patch[i, j] = image(position + (i, j))``: bilinear, zero outside."""
    patch = np.zeros((N, N), complex)
    for i, j in itertools.product(range(N), repeat=2):
        for row, col, weight in corners((position[0] + i, position[1] + j)):
            patch[i, j] += weight * pixel(image, row, col)
    return patch


def place(patch, position, shape):
    """Every sample of a patch spread over the four pixels around its place; what falls outside is lost."""
    canvas = np.zeros(shape, complex)
    for i, j in np.ndindex(patch.shape):
        for row, col, weight in corners((position[0] + i, position[1] + j)):
            if 0 <= row < shape[0] and 0 <= col < shape[1]:
                canvas[row, col] += weight * patch[i, j]
    return canvas


def far_field(wave):
    """Unitary transform by its defining sum; sample k holds the frequency ``k − N//2``."""

    def kernel(n):
        return np.exp(-2j * np.pi * np.outer(np.arange(n) - n // 2, np.arange(n)) / n) / np.sqrt(n)

    return kernel(wave.shape[0]) @ wave @ kernel(wave.shape[1]).T


def fresnel(wave, numbers, finer=8):
    """Fresnel diffraction of a wave alone in space, by its integral: ``∫ ψ(x) exp(iπ(X − x)²/F)/(iF)``.

    ``numbers``: F = λz/dx² along rows and columns; between its samples the wave is what its transform says.
    """

    def matrix(n, number):
        x, places = np.arange(n * finer) / finer, np.arange(n)
        q = np.fft.fftfreq(n)
        between = np.exp(2j * np.pi * np.outer(x, q)) @ np.exp(-2j * np.pi * np.outer(q, places)) / n
        kernel = np.exp(1j * np.pi * np.subtract.outer(places, x) ** 2 / number) / np.sqrt(1j * number)
        return kernel @ between / finer

    rows, cols = (matrix(n, number) for n, number in zip(wave.shape, numbers, strict=True))
    return rows @ wave @ cols.T


def moved(wave, shift):
    """A periodic wave moved by fractions of a pixel: each of its frequencies turns by a phase of its own."""
    rows, cols = (np.fft.fftfreq(side) for side in wave.shape)
    ramp = np.exp(-2j * np.pi * (shift[0] * rows[:, None] + shift[1] * cols))
    return np.fft.ifft2(np.fft.fft2(wave) * ramp)


def exact_diffraction(image, positions, probe):
    """``|F(P_s · O[w : w + N])|`` at every position w + s, the probe moved by s, ``(K, N, N)``."""
    N, found = probe.shape[0], []
    for position in positions:
        row, col = np.floor(np.asarray(position, float) + 0.5).astype(int)
        illumination = moved(probe, np.asarray(position, float) - (row, col))
        found.append(np.abs(far_field(illumination * image[row : row + N, col : col + N])))
    return np.array(found)


def diffraction(image, positions, probe):
    """``|F(P · patch)|`` at every position, ``(K, N, N)``."""
    N = probe.shape[0]
    return np.array([np.abs(far_field(probe * extract(image, p, N))) for p in positions])


def poisson_deviance(rate, counts):
    """Mean of ``2[λ − n + n·log(n/λ)]``."""
    rate, counts = np.asarray(rate, float), np.asarray(counts, float)
    return np.mean(2 * (rate - counts + xlogy(counts, counts) - xlogy(counts, rate)))


def total_variation(image):
    """Mean step between row neighbours plus mean step between column neighbours."""
    height, width = image.shape
    rows = [abs(image[i + 1, j] - image[i, j]) for i in range(height - 1) for j in range(width)]
    cols = [abs(image[i, j + 1] - image[i, j]) for i in range(height) for j in range(width - 1)]
    return np.mean(rows) + np.mean(cols)


def zone_plate_wave(radius_nm, wavelength_nm, defocus_nm, nu_stop, nu_max, samples=4001):
    """The defocused focus as a Hankel transform, ``2π ∫ exp(−iπλzν²) J₀(2πνr) ν dν``, trapezoidal."""
    nu = np.linspace(nu_stop, nu_max, samples)
    pupil = nu * np.exp(-1j * np.pi * wavelength_nm * defocus_nm * nu**2)
    bessel = j0(2 * np.pi * np.multiply.outer(np.asarray(radius_nm, float), nu))
    return 2 * np.pi * np.trapezoid(bessel * pupil, nu, axis=-1)


def region_origin(positions, region_size, N):
    """Top-left sample of a group's region: the mean position less the margin, on a whole pixel."""
    return [round(float(np.mean(positions[:, axis])) - (region_size - N) / 2) for axis in (0, 1)]


def cut(image, origin, side):
    """A square window by loops, zero outside."""
    rows, cols = range(origin[0], origin[0] + side), range(origin[1], origin[1] + side)
    return np.array([[pixel(image, r, c) for c in cols] for r in rows])


def true_regions(data):
    """The regions of all groups, ``(G, R, R)``, cut from the true objects."""
    members = zip(data.image[data.groups[:, 0]], data.positions[data.groups], strict=True)
    found = [(i, map(int, region_origin(places, data.region_size, data.N))) for i, places in members]
    return np.array([cut(data.objects[i], [*o], data.region_size) for i, o in found], np.complex64)


def ring_correlation(a, b):
    """Frequency and Fourier ring correlation: rings one by one, from a matrix Fourier transform."""
    height, width = a.shape
    hann = np.outer(*[0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(n) + 0.5) / n) for n in a.shape])
    dft = [np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) for n in a.shape]
    fa, fb = (dft[0] @ (hann * (x - np.average(x, weights=hann))) @ dft[1] for x in (a, b))
    step, curve = 1 / min(a.shape), []
    for k in range(1, min(a.shape) // 2 + 1):
        cross = power_a = power_b = 0.0
        for i in range(height):
            for j in range(width):
                f = np.sqrt((min(i, height - i) / height) ** 2 + (min(j, width - j) / width) ** 2)
                if abs(f - k * step) < step / 2:
                    cross += (fa[i, j] * np.conj(fb[i, j])).real
                    power_a += abs(fa[i, j]) ** 2
                    power_b += abs(fb[i, j]) ** 2
        curve.append((k * step / 0.5, cross / np.sqrt(power_a * power_b)))
    return np.array(curve).T
