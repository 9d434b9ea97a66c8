"""A physics-informed network, trained on the patterns of one scan and used on another.

    python examples/train_network.py

The network sees diffraction patterns alone: its loss compares the patterns that its object would give with
those that were measured. Its folder is read back by ``ptycho.load_model``.
"""

from pathlib import Path

import numpy as np

import ptycho


def main(folder: str | Path = "outputs/example", N: int = 64, count: int = 400, **settings) -> np.ndarray:
    measured, other = (ptycho.simulate(N, count, nphotons=1e8, seed=seed) for seed in (1, 2))
    network = ptycho.train(measured, folder, overwrite=True, **settings)
    result = network.reconstruct(other)
    print("object", result.object.shape, "of patterns that the network was not trained on")
    return result.objects


if __name__ == "__main__":
    main()
