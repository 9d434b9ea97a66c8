"""The network that comes with the program, in the form of a run's folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.scan_run_config import PRETRAINED

FOLDER = Path(__file__).resolve().parent.parent / PRETRAINED


def run_folder(run: str | Path) -> Path:
    """Return the folder that ``run=…`` names: ``pretrained`` is the network that comes with the program.

    A folder of that name is ``./pretrained``.
    """
    return FOLDER if str(run) == PRETRAINED else Path(run)


def check_prior_weights(file: str | None) -> None:
    """Raise unless ``solver.denoiser_weights`` names the weights of a learned prior; no TensorFlow.

    Raises:
        ConfigError: there is no such file, or it is another.
    """
    if file is None:
        return
    wanted = "must be prior/weights.npz of a folder that ptycho pretrain network=denoiser made"
    try:
        with np.load(file, allow_pickle=False) as stored:
            ours = bool(stored.files) and all(name.startswith("denoiser/") for name in stored.files)
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise ConfigError(f"solver.denoiser_weights={file}: cannot be read ({error}); {wanted}") from error
    if not ours:
        raise ConfigError(f"solver.denoiser_weights={file}: holds no weights of a prior; {wanted}")
