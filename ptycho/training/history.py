"""What a training has done so far. With the variables of model and optimizer it is all that is needed to
go on: the next step is step ``history.step`` of epoch ``history.epoch``, both counted from zero."""

from __future__ import annotations

from dataclasses import dataclass, field

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
