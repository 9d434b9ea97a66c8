"""The names of a run's files, relative to its folder."""

from __future__ import annotations

from ptycho.config import MODELS, RunConfig

CONFIG = "config.yaml"
RECORD = "files.json"
METRICS = "metrics.json"
MANIFEST = "manifest.json"
LOG = "run.log"
DATASETS = "datasets"
RECONS = "recons"
VISUALS = "visuals"
WEIGHTS, SETUP, HISTORY, DESCRIPTION = "weights.npz", "setup.npz", "history.csv", "model.json"
CHECKPOINTS = "checkpoints"

INFERENCE = (CONFIG, RECORD, RECONS, VISUALS, METRICS, MANIFEST, LOG)
"""What an inference writes."""
TRAINING = (*INFERENCE, DATASETS, *MODELS)
"""What a training run writes."""


def dataset(config: RunConfig, role: str) -> str:
    return f"{DATASETS}/N{config.N}/gs{config.gridsize}/{role}.npz"


def recon(name: str) -> str:
    return f"{RECONS}/{name}/recon.npz"


def figure(name: str) -> str:
    return f"{VISUALS}/{name}.png"
