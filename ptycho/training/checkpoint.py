"""What a training has done so far, and its checkpoints: atomic, checksummed, without pickle.

The last two are kept. A checkpoint is one NPZ. ``weights/…``, ``best/…`` and ``optimizer/…`` are the
variables by path, ``meta`` is JSON (format, history, configuration), and ``sha256`` is the digest of all the
others. That is all that is needed to go on: the next step is step ``history.step`` of epoch
``history.epoch``, both counted from zero.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError
from ptycho.config.mapping import differences
from ptycho.files.atomic import WriteError, read_verified, remove_files, write_verified
from ptycho.files.reading import parse_json
from ptycho.networks.layers import Arrays

log = logging.getLogger(__name__)

Losses = dict[str, float]


@dataclass
class History:
    """Losses and times (seconds) of a training."""

    # For every complete epoch its number from one, mean losses, ``val_`` losses, ``learning_rate`` after it,
    # and ``seconds``.
    rows: list[Losses] = field(default_factory=list)
    running: list[Losses] = field(default_factory=list)  # of the steps done in the epoch that is not complete
    running_s: float = 0.0  # that they took
    compile_s: float = 0.0  # of the first step, once more for every process that went on with the training
    checkpoint_s: float = 0.0  # spent saving; no part of ``seconds``
    stopped: str | None = None  # why the training ended before its time

    @property
    def epoch(self) -> int:
        """Number of complete epochs."""
        return len(self.rows)

    @property
    def step(self) -> int:
        """Number of steps done in the running epoch."""
        return len(self.running)

    @property
    def best_epoch(self) -> int:
        """The first epoch, from one, with the smallest validation loss; 0 before any is complete."""
        losses = [row["val_loss"] for row in self.rows]
        return 1 + losses.index(min(losses)) if losses else 0

    @property
    def train_s(self) -> float:
        """Time of all complete epochs without compilation."""
        return sum(row["seconds"] for row in self.rows) - self.compile_s


FORMAT = 1
FILES = "epoch*-step*.npz"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A training between two steps: current and best weights, optimizer variables, and the history."""

    weights: Arrays
    best: Arrays
    optimizer: Arrays
    history: History

    def is_finite(self) -> bool:
        """Return whether all weights and optimizer variables are finite."""
        groups = (self.weights, self.best, self.optimizer)
        return all(np.isfinite(array).all() for group in groups for array in group.values())


class Checkpoints:
    """The checkpoints of one model's training.

    Args:
        folder: where they are; it is made with the first one.
        config: nested plain values; checkpoints made with others are refused.
        seconds: time between two checkpoints of an epoch.
    """

    def __init__(self, folder: Path, config: dict[str, Any], seconds: float) -> None:
        self.folder, self._config, self._seconds = folder, config, seconds
        self._good: list[Path] = []  # oldest first; written or read by this process
        self._saved_at = time.monotonic()

    def is_due(self) -> bool:
        """Return whether it is time for the next checkpoint."""
        return time.monotonic() - self._saved_at >= self._seconds

    def save(self, snapshot: Snapshot) -> None:
        """Store a snapshot and remove all but the last two; where that fails, warn and keep what there is."""
        history = snapshot.history
        path = self.folder / f"epoch{history.epoch:05d}-step{history.step:07d}.npz"
        self._saved_at = time.monotonic()
        if path in self._good:
            return
        if not snapshot.is_finite():
            log.warning("%s: not written, because a weight is NaN or infinite; the last ones stay", path)
            return
        try:
            write_verified(path, self._pack(snapshot))
            self._good = [*self._good, path][-2:]
            for other in self.folder.glob(FILES):
                if other not in self._good:
                    other.unlink()
        except (WriteError, OSError) as error:
            log.warning("no new checkpoint was written, training continues: %s", error)

    def restore(self, apply: Callable[[Snapshot], None]) -> bool:
        """Pass the newest usable snapshot to ``apply``; return False if there is none.

        A file that is damaged, or that ``apply`` refuses with a ValueError, is skipped with a warning.

        Raises:
            ConfigError: a checkpoint was made with another configuration.
        """
        paths = sorted(self.folder.glob(FILES), reverse=True)
        for path in paths:
            try:
                snapshot, config = load(path)
                self._check_config(path, config)
                apply(snapshot)
            except ConfigError:
                raise
            except Exception as error:  # a damaged archive raises whatever its bytes lead to
                log.warning("%s: cannot be used (%s); trying the checkpoint before it", path, error)
            else:
                self._good = [path]
                return True
        if paths:
            log.warning("%s: no checkpoint can be used; training starts from the beginning", self.folder)
        return False

    def remove(self) -> None:
        """Remove them all: the training is over and its result stored."""
        remove_files(self.folder, FILES)

    def _check_config(self, path: Path, config: dict[str, Any]) -> None:
        if changes := differences(config, self._config):
            raise ConfigError(
                f"{path}: was made with another configuration than config.yaml has ({'; '.join(changes)}); "
                f"restore config.yaml, or remove {self.folder} to train from the beginning"
            )

    def _pack(self, snapshot: Snapshot) -> Arrays:
        meta = {"format": FORMAT, "history": asdict(snapshot.history), "config": self._config}
        arrays = {"meta": np.frombuffer(json.dumps(meta).encode(), np.uint8)}
        for group in ("weights", "best", "optimizer"):
            arrays |= {f"{group}/{name}": array for name, array in getattr(snapshot, group).items()}
        return arrays


def load(path: Path) -> tuple[Snapshot, dict[str, Any]]:
    """Return the snapshot in a checkpoint file and the configuration it was made with.

    Raises:
        Exception: of any kind, where the file is damaged.
    """
    arrays = read_verified(path)
    meta = parse_json(arrays.pop("meta").tobytes())
    if meta["format"] != FORMAT:
        raise ValueError(f"it has format {meta['format']}; must be {FORMAT}")
    groups: dict[str, Arrays] = {"weights": {}, "best": {}, "optimizer": {}}
    for name, array in arrays.items():
        group, _, path_in_group = name.partition("/")
        groups[group][path_in_group] = array
    return Snapshot(**groups, history=History(**meta["history"])), meta["config"]
