"""Progress of a training: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import logging
import sys
import time

from tqdm import tqdm

log = logging.getLogger(__name__)

LINE_INTERVAL_S = 10.0


class Progress:
    """Shows epoch, step, loss, patterns per second and time left.

    Args:
        title: what is being trained.
        epochs, steps: epochs, and steps in each.
        patterns: diffraction patterns in a step.
        done: steps that were done before, by another process.
    """

    def __init__(self, title: str, epochs: int, steps: int, patterns: int, done: int = 0) -> None:
        self._title, self._epochs, self._steps, self._patterns = title, epochs, steps, patterns
        self._total, self._before, self._done = epochs * steps, done, done
        self._bar = (
            tqdm(
                total=self._total * patterns,
                initial=done * patterns,
                desc=title,
                unit="pattern",
                unit_scale=True,
            )
            if sys.stderr.isatty()
            else None
        )
        self._start = self._last_line = time.monotonic()

    def step(self, epoch: int, step: int, loss: float) -> None:
        """One training step is done; ``epoch`` and ``step`` count from one."""
        self._done += 1
        if self._done == self._before + 1:  # the first step compiles; it says nothing about the speed
            self._start = self._last_line = time.monotonic()
        if self._bar is not None:
            where = f"epoch {epoch}/{self._epochs}, step {step}/{self._steps}"
            self._bar.set_postfix_str(f"{where}, loss {loss:.4g}", refresh=False)
            self._bar.update(self._patterns)
        elif self._done > self._before + 1 and time.monotonic() - self._last_line >= LINE_INTERVAL_S:
            self._last_line = time.monotonic()
            log.info(
                "%s: epoch %d/%d, step %d/%d, loss %.4g, %s",
                self._title,
                epoch,
                self._epochs,
                step,
                self._steps,
                loss,
                self._speed(),
            )

    def _speed(self) -> str:
        steps_per_s = (self._done - self._before - 1) / max(time.monotonic() - self._start, 1e-9)
        left = (self._total - self._done) / steps_per_s
        return f"{steps_per_s * self._patterns:.0f} patterns/s, {left:.0f} s left"

    def close(self) -> None:
        """Release the terminal; safe to call twice."""
        if self._bar is not None:
            self._bar.close()
