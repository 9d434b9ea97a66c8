"""A physics-informed network, trained on simulated lines.

    python examples/train_network.py

The network sees diffraction patterns alone: its loss compares the patterns that its object would give with
those that were measured. A run simulates the scans, trains, reconstructs an object that it never saw, and
scores it; its folder is then the network.
"""

from pathlib import Path

import numpy as np

import ptycho
from ptycho.config import RunConfig, ZonePlateProbe
from ptycho.run.folder import RunFolder


def main(folder: str | Path = "outputs/example", **changes) -> np.ndarray:
    from workflows.grid_lines import run

    settings = {"models": ("pinn",), "probe": ZonePlateProbe(), "set_phi": True, "nepochs": 4}
    config = RunConfig(**(settings | changes))
    place = RunFolder(Path(folder), overwrite=True)
    run(config, place)
    place.config(config)

    network = ptycho.load_model(folder)
    made = network.reconstruct(next(Path(folder).glob("datasets/*/*/test.npz")))
    print("objects", made.objects.shape, "of patterns that the network was not trained on")
    return made.objects


if __name__ == "__main__":
    main()
