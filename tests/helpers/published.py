"""A dataset as the published program writes it."""

import numpy as np

N = 32


def spot(row, col, side=96):
    """A smooth object, bright at (row, col)."""
    y, x = np.mgrid[:side, :side]
    return (0.4 + 0.6 * np.exp(-((y - row) ** 2 + (x - col) ** 2) / 18)).astype(complex)


def published(objects, probe, starts, gridsize=2, offset=4):
    """The file's arrays by loops, as its format is documented: row-major channels, middles of patches."""
    inner = [(offset * i, offset * j) for i in range(gridsize) for j in range(gridsize)]
    middle = (N - 1) / 2
    diffraction, listed = [], []
    for image in objects:
        for row, col in starts:
            group = [image[row + i : row + i + N, col + j : col + j + N] for i, j in inner]
            waves = [np.fft.fftshift(np.fft.fft2(probe * patch)) / N for patch in group]
            diffraction.append(np.stack([np.abs(wave) for wave in waves], axis=-1))
    for row, col in starts:
        group = [[row + i + middle for i, _ in inner], [col + j + middle for _, j in inner]]
        listed += [[group]] * len(objects)  # every position as often as there are images, in a row
    return {
        "diffraction": np.array(diffraction, np.float32),
        "coords_offsets": np.array(listed, np.float32),
        "probeGuess": 3 * probe.astype(np.complex64),  # up to a factor
    }
