"""The loop of a live reconstruction: fit new patterns and show the object, until the scan has ended."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError, OwnProbe, ScanRunConfig
from ptycho.config.sections import LearnedProbe
from ptycho.files.atomic import WriteError, write_atomically
from ptycho.preparation.dataset import FEWEST
from ptycho.preparation.prepare import interpret
from ptycho_live import page
from ptycho_live.arrivals import ScanTable
from ptycho_live.collecting import Collector
from ptycho_live.fitting import final_positions, finish, improve, score, steps_of
from ptycho_live.state import LiveOptions, LiveState, begin, extend
from ptycho_live.store import Store

log = logging.getLogger(__name__)
RESULT = "live.npz"


class LiveRun:
    """A live reconstruction and its present estimate."""

    def __init__(
        self,
        collector: Collector,
        store: Store,
        config: ScanRunConfig,  # of the run that will follow; its section data has what the source lacks
        options: LiveOptions,
        folder: Path,  # of picture, numbers and page
        watched: str,  # the path or address that is watched, as text for the page
    ) -> None:
        self._collector, self._store, self._config, self._options = collector, store, config, options
        self._folder, self._watched = folder, watched
        self.state: LiveState | None = None  # too few patterns so far
        self.problem: str | None = None  # why it could not begin
        self.course: list[tuple[float, float]] = []  # seconds, and the deviance of the held-out patterns
        self.speed = 0.0  # pattern-steps per second
        self._tried, self._last_picture = 0, -np.inf
        self._started = time.monotonic()
        # of cycles with new patterns: moment, patterns used by then, longest time from arrival to a fit
        self._cycles: deque[tuple[float, int, float]] = deque(maxlen=1000)
        self._painter, self._painting = ThreadPoolExecutor(1, "painter"), Future[None]()
        self._painting.set_result(None)

    def watch(self) -> None:
        """Reconstruct what is collected, until nothing more will come and all of it was fitted.

        ConfigError: the source can never be read, or the scan has too few patterns.
        """
        collector = self._collector
        while True:
            if collector.error is not None:
                raise collector.error
            over = collector.ended is not None  # asked first: what is joined then is all
            table = self._store.table
            worked = self._advance(table, over)
            if time.monotonic() - self._last_picture > self._options.refresh_s:
                self._show(table, "reconstructing" if self.state else "waiting")
            if over and (self.state is None or not len(self.state.waiting)):
                break
            if not worked:
                time.sleep(self._options.pause_s)
        if self.state is None:
            few = f"{len(table.rows)} patterns have a frame and a position; must be at least {FEWEST}"
            raise ConfigError(
                f"watch={self._watched}: the scan has ended ({collector.ended}), and nothing can be made of "
                f"it: {self.problem or few}"
            )

    def complete(self) -> None:
        """Fit all patterns together, with a picture after every stage, and write the arrays."""
        assert self.state is not None
        table = self._store.table
        for state in finish(self.state, self._options.finish_s, self.speed):
            self.state = state
            self._show(table, "finishing")
        self._painting.result()
        self._show(table, "complete")
        self._painting.result()
        state, pixel = self.state, self.state.pixel_m
        arrays = {"object": state.filled(), "light": state.illumination, "probe": state.estimate.modes}
        arrays["positions"] = state.estimate.positions  # of the first samples of the windows in the object
        arrays["numbers"] = table.frames["index"][state.patterns["row"]]
        arrays |= {} if pixel is None else {"pixel_m": np.array(pixel)}
        write_atomically(self._folder / RESULT, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]

    def store_scan(self) -> ScanRunConfig:
        """Make the store a scan with the estimate's probe and positions; return the run that begins there."""
        assert self.state is not None
        state, store, probe = self.state, self._store, self._config.probe
        section = store.as_scan(self._config.data)
        with contextlib.closing((raw := store.open_scan(section)).patterns):
            scan = interpret(raw, section)
        refined = state.refined.probe and scan.N == state.N
        moves = np.zeros((len(store.table.rows), 2))
        own = np.searchsorted(store.table.rows, state.patterns["row"])
        moves[own] = final_positions(state) @ np.linalg.inv(state.matrix).T
        data = store.as_scan(self._config.data, moves, state.estimate.modes if refined else scan.probe)
        if refined:
            common = LearnedProbe.__dataclass_fields__
            probe = OwnProbe(**{name: getattr(probe, name) for name in common})
        log.info("%d patterns are in %s", len(moves), store.path)
        return replace(self._config, data=data, probe=probe)

    def _advance(self, table: ScanTable, over: bool) -> bool:
        """One cycle; whether there was something to do."""
        if self.state is None:
            self._try_to_begin(table, over)
        if self.state is None:
            return False
        options, rows = self._options, self.state.unknown(table.rows)
        positions = table.frames["position"][rows] @ self.state.matrix.T
        before = extend(self.state, rows, table.frames["index"][rows], positions)
        new, started = before.waiting, time.monotonic()
        arrived = table.frames["arrived"][before.patterns["row"][new]]
        fresh = len(new) > 0 and started - float(arrived.min()) < options.patience_s
        budget = (options.cycle_s / 2 if fresh else options.cycle_s) * self.speed
        self.state = improve(before, budget, sweep=fresh)
        now, done = time.monotonic(), int((self.state.patterns["visits"] - before.patterns["visits"]).sum())
        if done and before.illumination.any():  # the first cycle compiles, too
            rate = steps_of(before, budget) * done / max(now - started, 1e-3)
            self.speed += 0.2 * (rate - self.speed)
        if (first := ~np.isin(new, self.state.waiting)).any():
            self._cycles.append((now, self.state.used, now - float(arrived[first].min())))
        return done > 0

    def _try_to_begin(self, table: ScanTable, over: bool) -> None:
        """Interpret the scan once it has enough patterns; again with twice as many where that fails."""
        count, store = len(table.rows), self._store
        enough = count >= max(self._options.first, 2 * self._tried)
        if not enough and not (over and count > max(self._tried, FEWEST - 1)):
            return
        self._tried = count
        try:
            section = store.as_scan(self._config.data)
            raw, config = store.open_scan(section), replace(self._config, data=section)
            self.state = begin(raw, config, store.folder, store.read, self._options)
        except (ConfigError, OSError) as error:
            self.problem = str(error)
            log.warning("the scan cannot be interpreted yet: %s", error)
            return
        self.problem, self.speed = None, self._options.speed * (128 / self.state.N) ** 2

    def _show(self, table: ScanTable, word: str) -> None:
        """Have picture, numbers and page written; what is shown may be a moment old."""
        self._last_picture = time.monotonic()
        seconds = self._last_picture - self._started
        if self.state is not None and (value := score(self.state)) is not None:
            self.course.append((seconds, value))
        numbers = {"state": word, "watch": self._watched, "seconds": round(seconds, 1)}
        numbers |= self._numbers(table)
        if self._painting.done():
            self._painting.result()  # raises what went wrong with the last
            self._painting = self._painter.submit(self._paint, self.state, list(self.course), numbers)

    def _paint(
        self, state: LiveState | None, course: list[tuple[float, float]], numbers: dict[str, Any]
    ) -> None:
        """Write what is shown, beside the solver; on a full disk it stays as it was."""
        try:
            if state is not None and state.illumination.any():
                title = f"{numbers['state']}: {state.used} of {numbers['patterns']} patterns fitted"
                title += f", {len(state.waiting)} waiting"
                page.write_picture(self._folder, state, course, title)
            page.write_numbers(self._folder, numbers, self._options.refresh_s)
        except WriteError as error:  # the frames go before
            log.warning("%s", error)

    def _numbers(self, table: ScanTable) -> dict[str, Any]:
        """Return what :data:`~ptycho_live.page.NAMES` explains."""
        collector, state, rate_s = self._collector, self.state, self._options.rate_s
        since = time.monotonic() - rate_s
        numbers: dict[str, Any] = {
            "ended": collector.ended,
            "expected": collector.expected,
            "frames": len(table.frames),
            "frames_without_position": len(table.frames) - len(table.rows),
            "gaps": int(table.frames["index"].max(initial=-1)) + 1 - len(table.frames),
            "patterns": len(table.rows),
            "rate_in_hz": round(np.count_nonzero(table.frames["arrived"] > since) / rate_s, 1),
            "faults": dict(collector.faults),
            "problem": collector.trouble or self.problem or collector.source.problem,
        }
        if state is None:
            return numbers
        pixel, cycles = state.pixel_m, [cycle for cycle in self._cycles if cycle[0] > since]
        seconds = cycles[-1][0] - cycles[0][0] if len(cycles) > 1 else np.inf
        return numbers | {
            "patterns_used": state.used,
            "patterns_held_out": int(state.patterns["held_out"].sum()),
            "isolated_patterns": len(table.rows) - len(state.patterns),
            "backlog": len(state.waiting),
            "rate_used_hz": round((cycles[-1][1] - cycles[0][1]) / max(seconds, 1e-3), 1) if cycles else 0.0,
            "lag_s": round(max(lag for *_, lag in cycles), 2) if cycles else None,
            "longest_lag_s": round(max((lag for *_, lag in self._cycles), default=0.0), 2),
            "pattern_steps_per_s": round(self.speed),
            "deviance_holdout": round(self.course[-1][1], 4) if self.course else None,
            "object": list(state.estimate.object.shape),
            "pixel_m": None if pixel is None else list(pixel),
            "warnings": list(state.scan.warnings),
        }
