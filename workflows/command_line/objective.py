"""The number of a finished run that a Hydra sweeper minimises, as ``hydra/sweeper=optuna`` does."""

from __future__ import annotations

import math
from pathlib import Path

from ptycho.config import ConfigError
from ptycho.files.json_file import read_json
from ptycho.run.names import METRICS
from ptycho.run.network import read_history


def objective(run: Path) -> float:
    """Return the deviance of held-out patterns under a scan's product, as ``ptycho tune`` does.

    Without held-out patterns it is that of all. For grid lines it is the PINN's, else the baseline's, best
    validation loss. NaN: the run has neither, or failed.
    """
    try:
        metrics = read_json(run / METRICS)
    except (OSError, ValueError):
        return math.nan
    if "product" in metrics:
        row = metrics[metrics["product"]]
        held_out = row.get("deviance_holdout")
        return float(row["deviance"] if held_out is None else held_out)
    for name in ("pinn", "baseline"):
        try:
            return min(row["val_loss"] for row in read_history(run, name))
        except (ConfigError, KeyError, ValueError):
            continue
    return math.nan
