"""Callbacks of a training: checkpoints, a progress bar, early stopping, and stopping on a signal."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from ptycho.progress import Progress
from ptycho.training.checkpoint import Checkpoints
from ptycho.training.interrupt import StopRequest
from ptycho.training.loop import Callback, Training

log = logging.getLogger(__name__)


def standard_callbacks(
    checkpoints: Checkpoints | None = None,
    stop: StopRequest | None = None,
    patience: int | None = None,
    bar: bool | None = None,
    more: Iterable[Callback] = (),
) -> list[Callback]:
    """Return the callbacks of every training, in order: what is saved on a signal is saved before it stops.

    Args:
        checkpoints: a training that they hold is continued; None: nothing is saved.
        stop: None: signals end the process, or the training, as Python has it.
        patience: epochs without a better validation loss; None: any.
        bar: as for :class:`~ptycho.progress.Progress`.
        more: those of the user, after what is saved.
    """
    callbacks: list[Callback] = [ShowProgress(bar), *more]
    if checkpoints is not None:
        callbacks.insert(0, SaveCheckpoints(checkpoints, stop))
    if patience is not None:
        callbacks.append(Patience(patience))
    return callbacks if stop is None else [*callbacks, StopOnSignal(stop)]


class SaveCheckpoints(Callback):
    """Save a checkpoint after every epoch, at regular intervals, and when ``stop`` is requested.

    A training is resumed from its checkpoints with exactly the weights and losses that it would have had
    without the interruption.
    """

    def __init__(self, checkpoints: Checkpoints, stop: StopRequest | None = None) -> None:
        self._checkpoints, self._stop = checkpoints, stop

    def begin(self, training: Training) -> None:
        if self._checkpoints.restore(training.restore):
            epoch, step = training.history.epoch, training.history.step
            log.info("%s: resumed after epoch %d and %d further steps", training.task.name, epoch, step)

    def is_due(self) -> bool:
        return self._checkpoints.is_due()

    def pause(self, training: Training) -> None:
        if self.is_due() or (self._stop is not None and self._stop.signum is not None):
            self._save(training)

    def end_epoch(self, training: Training) -> None:
        self._save(training)

    def _save(self, training: Training) -> None:
        self._checkpoints.save(training.snapshot())
        training.history.checkpoint_s += training.clock.lap()


class ShowProgress(Callback):
    """A bar of patterns, and the loss."""

    def __init__(self, bar: bool | None = None) -> None:
        self._wanted = bar

    def begin(self, training: Training) -> None:
        task, history = training.task, training.history
        every = sum(map(task.steps, range(task.epochs)))
        done = sum(map(task.steps, range(history.epoch))) + history.step
        counts = every * task.patterns, done * task.patterns
        self._step = history.step
        self._progress = Progress(task.name, *counts, delay=0, bar=self._wanted)

    def pause(self, training: Training) -> None:
        if new := training.history.step - self._step:
            self._progress.advance(new * training.task.patterns, training.where)
            self._step += new

    def end_epoch(self, training: Training) -> None:
        self._step = 0

    def close(self) -> None:
        self._progress.close()


class Patience(Callback):
    """The end of a training, none of whose last ``epochs`` epochs brought a better validation loss."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs

    def reason_to_end(self, training: Training) -> str | None:
        if training.history.epoch - training.history.best_epoch < self._epochs:
            return None
        return f"no better validation loss in {self._epochs} epochs"


class StopOnSignal(Callback):
    """Stop between two steps after a signal.

    Before the end of the first step a signal ends the process at once, because there is little to save and
    the step takes long.

    Raises:
        Stopped: from ``pause`` and ``end_epoch``, if ``stop`` has received a signal.
    """

    def __init__(self, stop: StopRequest) -> None:
        self._stop, self._deferred, self._begun = stop, contextlib.ExitStack(), False

    def is_due(self) -> bool:
        return self._stop.signum is not None

    def pause(self, training: Training) -> None:
        if not self._begun:
            self._deferred.enter_context(self._stop.defer())
            self._begun = True
        self._check(training)

    def end_epoch(self, training: Training) -> None:
        self._check(training)

    def close(self) -> None:
        self._deferred.close()

    def _check(self, training: Training) -> None:
        if self.is_due():
            epoch, step = training.history.epoch, training.history.step
            log.warning("%s: stopping after epoch %d and %d steps more", training.task.name, epoch, step)
        self._stop.check()
