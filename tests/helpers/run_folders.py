"""Folders of runs as the programs write them, made by hand in milliseconds."""

import json

import numpy as np
import yaml
from scipy.ndimage import gaussian_filter

from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.mapping import to_mapping

SIDE, J, N = 48, 20, 16


def sample(seed=0, shape=(SIDE, SIDE)):
    """A smooth complex object whose amplitude and phase both vary."""
    rng = np.random.default_rng(seed)
    one, two = (gaussian_filter(rng.normal(size=shape), 2.0, mode="wrap") for _ in "ab")
    return ((1 + 0.1 * one / one.std()) * np.exp(0.3j * two / two.std())).astype(np.complex64)


def positions_of(seed=1):
    """Five rows of four, each off its place by up to half a pixel."""
    places = np.stack(np.meshgrid(np.linspace(5, 27, 5), np.linspace(5, 26, 4), indexing="ij"), axis=-1)
    jitter = np.random.default_rng(seed).uniform(-0.5, 0.5, (J, 2))
    return (places.reshape(J, 2) + jitter).astype(np.float32)


def write_run(
    path, name="a", image=None, row=None, metrics=None, assessment=None, arrays=None, data=None, **keys
):
    """Write a finished run of the solver on a measured scan; arguments replace its usual content."""
    config = ScanRunConfig(data=DataConfig(file=(f"/scans/{name}.cxi",), **(data or {})), **keys)
    image = sample() if image is None else image
    scores = {"r_factor": 0.08, "r_free": 0.09, "r_noise": 0.07, "deviance": 1.1, "deviance_holdout": 1.2}
    values = {
        "solver": scores | {"flags": []} | (row or {}),
        "half_scan_frc": {"frc50": 0.5, "frc50_px": 2.0, "frc50_m": 4e-8, "frc1over7": None},
        "pixel_m": [2e-8, 2e-8],
        "findings": {"N": ["16", "the whole detector"], "solver: probe": ["kept", "1.1 → 1.2 ± 0.1"]},
        "warnings": [],
        "product": "solver",
    }
    manifest = {
        "versions": {"python": "3.12.1", "ptychopinn": "0.1.0"},
        "finished": "2024-02-03T04:05:06+00:00",
        "scans": {name: {"patterns": J, "N": N}},
        "timings_s": {"solver": 20.5, "total": 33.0},
    }
    (path / "recons/solver").mkdir(parents=True)
    (path / "config.yaml").write_text(yaml.safe_dump(to_mapping(config)))
    (path / "metrics.json").write_text(json.dumps(values | (metrics or {})))
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "run.log").write_text("12:00:00 INFO the solver begins\n12:00:05 INFO step 7\n")
    beam = {"probe": probe_modes(), "positions": positions_of(), "flux": np.ones(J, np.float32)}
    covered = np.zeros(image.shape, bool)
    covered[3:-3, 4:-2] = True
    recon = {"object": image[None], "mask": covered[None], **beam} | (arrays or {})
    np.savez(path / "recons/solver/recon.npz", **recon)
    if assessment is not False:
        np.savez(path / "assessment.npz", **(assessment_arrays() | (assessment or {})))
    return path


def probe_modes():
    """Two modes whose powers are as 3 to 1."""
    rows, cols = np.mgrid[:N, :N] - (N - 1) / 2
    disk = (np.hypot(rows, cols) < 5).astype(np.complex64)
    return np.stack([np.sqrt(3) * disk, disk * np.sign(cols)]).astype(np.complex64)


def assessment_arrays():
    return {
        "nominal_positions": positions_of()
        + np.where(np.arange(J)[:, None] % 2, 0.5, -0.5).astype(np.float32),
        "held_out": np.arange(0, J, 4),
        "frequency": np.linspace(0.1, 1, 10),
        "correlation": np.linspace(1, 0, 10),
        "solver_patterns": np.setdiff1d(np.arange(J), np.arange(0, J, 4)),
        "solver_r_factor": np.linspace(0.05, 0.1, J - 5),
        "solver_holdout_patterns": np.arange(0, J, 4),
        "solver_holdout_deviance": np.array([1.0, 1.1, 1.2, 1.3, 1.4]),
        "solver_course": np.array([100.0, 50.0, 20.0, 19.0]),
    }
