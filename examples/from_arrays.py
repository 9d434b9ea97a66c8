"""From arrays to an object.

    python examples/from_arrays.py

A weak phase object is scanned by a curved Gaussian beam, in plain NumPy: the exit wave is the product of
probe and object, a pattern its intensity in the far field, and photons are counted. Three arrays are all
that the reconstruction needs.
"""

import numpy as np

import ptycho


def exit_waves(image: np.ndarray, probe: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """``ψ_j = P · O[r_j : r_j + N]``, ``(J, N, N)``, at whole positions."""
    N = len(probe)
    return np.stack([probe * image[row : row + N, col : col + N] for row, col in positions])


def intensities(waves: np.ndarray) -> np.ndarray:
    """``|F ψ|²``, zero frequency at ``[N//2, N//2]``."""
    return np.abs(np.fft.fftshift(np.fft.fft2(waves, norm="ortho"), axes=(-2, -1))) ** 2


def main(N: int = 64, side: int = 12, photons: float = 1e6, **solver) -> ptycho.Result:
    rng = np.random.default_rng(0)
    x = np.arange(N) - N / 2
    radius = np.hypot(x[:, None], x)
    probe = np.exp((-8 + 6j) * (radius / N) ** 2 * np.pi)

    step = N // 10  # 90 % overlap of the windows
    grid = step * np.stack(np.mgrid[:side, :side], axis=-1).reshape(-1, 2)
    positions = grid + rng.integers(0, 2, grid.shape)  # a grid alone would leave its own period open
    row, col = np.mgrid[: N + positions.max(), : N + positions.max()]
    image = np.exp(0.5j * np.sin(row / 3) * np.cos(col / 5)) * (1 - 0.2 * (np.sin(row / 7 + col / 4) > 0))

    intensity = intensities(exit_waves(image, probe, positions))
    counts = rng.poisson(photons * intensity / intensity.sum(axis=(1, 2)).mean())

    scan = ptycho.Scan.from_arrays(counts, positions, probe, counts=True, truth=image)
    result = ptycho.reconstruct(scan, **solver)
    print(scan)
    print(result)
    print("relative error against the truth:", result.scores["reference_comparison"]["relative_error"])
    return result


if __name__ == "__main__":
    main().save("from_arrays.npz")
