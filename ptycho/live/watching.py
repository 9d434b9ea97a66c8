"""The loop of a live reconstruction: look at what arrived, fit it, show it, until the scan has ended."""

from __future__ import annotations

import logging
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptycho.config import ConfigError, ScanRunConfig
from ptycho.files.atomic import WriteError, write_atomically
from ptycho.live import growing, page
from ptycho.live.beginning import Beginning, begin
from ptycho.live.collecting import Collector
from ptycho.live.finishing import finish
from ptycho.live.growing import Growing
from ptycho.live.joining import Joined, join
from ptycho.live.store import Store
from ptycho.live.stored_scan import raw_scan, section_of
from ptycho.preparation.dataset import FEWEST
from ptycho.reconstruction.state import Freedom

log = logging.getLogger(__name__)
CYCLE_S = 0.6  # of a cycle, about: what arrives is used in the one after the next
SPEED = 800.0  # pattern-steps in a second, of 128 × 128 pixels, before any were timed
PATIENCE_S = 0.3  # that new patterns wait while what is old is fitted again
PAUSE_S = 0.1  # where there is nothing to do
RESULT = "live.npz"
LATELY_S = 10.0  # over which rates are told


@dataclass(frozen=True)
class Habits:
    """How a live reconstruction goes about it.

    Attributes:
        first: patterns with which the first picture is made.
        refresh_s: between two pictures.
        finish_s: for the patterns together, once all are there.
    """

    first: int = 50
    refresh_s: float = 4.0
    finish_s: float = 45.0


@dataclass(frozen=True, eq=False)
class Setting:
    """What a live reconstruction works with.

    Attributes:
        collector, store: what arrives, and where it is.
        config: of the run that will follow; its section ``data`` says what the source does not.
        habits: how it goes about it.
        folder: where picture, numbers and page are.
        watched: what is watched, for who reads.
    """

    collector: Collector
    store: Store
    config: ScanRunConfig
    habits: Habits
    folder: Path
    watched: str

    @property
    def joined(self) -> Joined:
        """What has a frame and a position."""
        return join(self.store.frames, self.store.places)

    @property
    def freedom(self) -> Freedom:
        """What is found beside the object."""
        return Freedom(
            probe=self.config.probe.learn is not False,
            positions=self.config.solver.positions is not False,
        )

    def reader(self, begun: Beginning) -> growing.Read:
        return lambda rows: begun.detector.amplitudes(self.store.read(rows))


@dataclass
class Live:
    """What a live reconstruction has come to.

    Attributes:
        begun, grown: None: too few patterns so far.
        problem: why it could not begin.
        course: seconds since the start, and the deviance of the patterns that are kept out.
        speed: pattern-steps in a second.
        started: when it did, and ``last_picture``: when there was the last, in s.
        lags: moments, and the longest time from the arrival of a pattern to the end of its first cycle.
        used: moments, and how many patterns were used by then.
        painter, painting: what draws, and what it draws now.
        tried: patterns with which it could not begin.
    """

    begun: Beginning | None = None
    grown: Growing | None = None
    problem: str | None = None
    speed: float = 0.0
    started: float = field(default_factory=time.monotonic)
    course: list[tuple[float, float]] = field(default_factory=list)
    lags: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=1000))
    used: deque[tuple[float, int]] = field(
        default_factory=lambda: deque([(time.monotonic(), 0)], maxlen=1000)
    )
    last_picture: float = -np.inf
    painter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "painter"))
    painting: Future | None = None
    tried: int = 0


def watch(setting: Setting) -> Live:
    """Reconstruct what a collector puts into a store, until nothing more will come and all of it was fitted.

    Raises:
        ConfigError: the source can never be read, or the scan has too few patterns.
    """
    live, collector = Live(), setting.collector
    while True:
        if collector.error is not None:
            raise collector.error
        over = collector.ended is not None  # asked first: what is joined then is all
        joined = setting.joined
        worked = _advance(live, joined, setting, over)
        if time.monotonic() - live.last_picture > setting.habits.refresh_s:
            show(live, joined, setting, "reconstructing" if live.begun else "waiting")
        if over and (live.grown is None or not len(live.grown.waiting)):
            break
        if not worked:
            time.sleep(PAUSE_S)
    if live.grown is None:
        why = live.problem or (
            f"{len(joined.rows)} patterns have a frame and a position; must be at least {FEWEST}"
        )
        raise ConfigError(
            f"watch={setting.watched}: the scan has ended ({collector.ended}), and nothing can be made of "
            f"it: {why}"
        )
    return live


def complete(live: Live, setting: Setting) -> None:
    """All patterns together, for so many seconds, with a picture after every stage."""
    assert live.begun is not None and live.grown is not None
    joined, read = setting.joined, setting.reader(live.begun)
    for grown in finish(live.grown, live.begun, read, setting.freedom, setting.habits.finish_s, live.speed):
        live.grown = grown
        show(live, joined, setting, "finishing")
    _painted(live)
    show(live, joined, setting, "complete")
    _painted(live)
    arrays = _arrays(live.grown, live.begun, setting.store)
    write_atomically(setting.folder / RESULT, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def _arrays(grown: Growing, begun: Beginning, store: Store) -> dict[str, np.ndarray]:
    """What was found: positions are those of the first samples of the windows in the object."""
    image = growing.filled(grown.object, grown.light, begun.N)
    found = {"object": image, "light": grown.light, "probe": grown.modes}
    found |= {"positions": grown.positions - grown.origin, "numbers": store.frames.indices[grown.rows]}
    return found | ({} if begun.pixel_m is None else {"pixel_m": np.array(begun.pixel_m)})


def _advance(live: Live, joined: Joined, setting: Setting, over: bool) -> bool:
    """One cycle; whether there was something to do."""
    if live.begun is None:
        _try_to_begin(live, joined, setting, over)
    if live.begun is None or live.grown is None:
        return False
    places = live.begun.in_pixels(joined.positions)
    before = growing.extend(live.grown, joined.rows, joined.indices, places, joined.arrived)
    began, new = time.monotonic(), before.waiting
    fresh = len(new) > 0 and began - float(before.arrived[new].min()) < PATIENCE_S
    budget = (CYCLE_S / 2 if fresh else CYCLE_S) * live.speed
    read = setting.reader(live.begun)
    grown = growing.improve(before, live.begun, read, setting.freedom, budget, sweep=fresh)
    now, done = time.monotonic(), int((grown.visits - before.visits).sum())
    if done and before.light.any():  # the first cycle compiles, too
        rate = growing.steps_of(before, budget) * done / max(now - began, 1e-3)
        live.speed += 0.2 * (rate - live.speed)
    if len(first := np.setdiff1d(new, grown.waiting)):
        live.lags.append((now, now - float(grown.arrived[first].min())))
        live.used.append((now, grown.used))
    live.grown = grown
    return done > 0


def _try_to_begin(live: Live, joined: Joined, setting: Setting, over: bool) -> None:
    """Understand the scan once it has enough patterns; again with twice as many where that fails."""
    count = len(joined.rows)
    enough = count >= max(setting.habits.first, 2 * live.tried)
    if not enough and not (over and count > max(live.tried, FEWEST - 1)):
        return
    live.tried = count
    try:
        told, store, config = setting.store.description, setting.store, setting.config
        if told is None:
            raise ConfigError("the source has not said how the scan is taken")
        section = section_of(config.data)
        raw = raw_scan(store, joined, told, section)
        live.begun = begin(raw, replace(config, data=section), store.folder)
        live.problem = None
    except ConfigError as error:
        live.problem = str(error)
        log.warning("the scan cannot be interpreted yet: %s", error)
        return
    for finding in live.begun.findings:
        log.info("%s", finding)
    live.grown = growing.nothing(live.begun)
    live.speed = SPEED * (128 / live.begun.N) ** 2


def show(live: Live, joined: Joined, setting: Setting, state: str) -> None:
    """Have picture, numbers and page written; what is shown may be a moment old."""
    live.last_picture = time.monotonic()
    seconds, grown, begun = live.last_picture - live.started, live.grown, live.begun
    if grown is not None and begun is not None and grown.light.any():
        value = growing.judged(grown, begun, setting.reader(begun))
        if value is not None:
            live.course.append((seconds, value))
    numbers = numbers_of(live, joined, setting, state, seconds)
    if live.painting is None or live.painting.done():
        _painted(live)
        live.painting = live.painter.submit(_paint, live, numbers, setting)


def _painted(live: Live) -> None:
    """Wait for the picture that is being drawn, and raise what went wrong with it."""
    if live.painting is not None:
        live.painting.result()


def _paint(live: Live, numbers: dict[str, Any], setting: Setting) -> None:
    """Write what is shown, beside the solver; on a full disk it stays as it was."""
    grown, begun, course, folder = live.grown, live.begun, list(live.course), setting.folder
    try:
        if grown is not None and begun is not None and grown.light.any():
            title = f"{numbers['state']}: {grown.used} of {numbers['patterns']} patterns fitted"
            title += f", {len(grown.waiting)} waiting"
            image = growing.filled(grown.object, grown.light, begun.N)
            figure = page.draw(image, grown.light, grown.modes[0], course, begun.pixel_m, title)
            page.write_picture(folder, figure)
        page.write_numbers(folder, numbers, setting.habits.refresh_s)
    except WriteError as error:  # the frames go before
        log.warning("%s", error)


def numbers_of(live: Live, joined: Joined, setting: Setting, state: str, seconds: float) -> dict[str, Any]:
    """``live.json``."""
    grown, begun, now, collector = live.grown, live.begun, time.monotonic(), setting.collector
    lately = [lag for moment, lag in live.lags if now - moment < LATELY_S]
    numbers: dict[str, Any] = {
        "state": state,
        "watch": setting.watched,
        "seconds": round(seconds, 1),
        "ended": collector.ended,
        "expected": collector.expected,
        "frames": int(len(joined.rows) + joined.waiting),
        "frames_without_position": joined.waiting,
        "positions_without_frame": joined.unused,
        "gaps": joined.gaps,
        "patterns": len(joined.rows),
        "rate_in_hz": _rate(joined.arrived, now),
        "faults": dict(collector.faults),
        "problem": collector.trouble or live.problem or getattr(collector.source, "problem", None),
    }
    if grown is None or begun is None:
        return numbers
    known = len(grown.rows)
    covered = (
        int(np.count_nonzero(grown.light > page.LIT * np.median(grown.light[grown.light > 0])))
        if grown.light.any()
        else 0
    )
    area = None if begun.pixel_m is None else round(covered * begun.pixel_m[0] * begun.pixel_m[1] * 1e12, 4)
    return numbers | {
        "patterns_used": grown.used,
        "patterns_held_out": int(grown.judges.sum()),
        "isolated_patterns": len(joined.rows) - known,
        "backlog": len(grown.waiting),
        "rate_used_hz": _rate_used(live, now),
        "lag_s": round(max(lately), 2) if lately else None,
        "longest_lag_s": round(max((lag for _, lag in live.lags), default=0.0), 2),
        "updates_per_pattern": round(float(grown.visits[~grown.judges].mean()), 2) if known else 0,
        "pattern_steps_per_s": round(live.speed),
        "deviance_holdout": round(live.course[-1][1], 4) if live.course else None,
        "covered_um2": area,
        "object": list(grown.object.shape),
        "pixel_m": None if begun.pixel_m is None else list(begun.pixel_m),
        "warnings": list(begun.scan.warnings),
    }


def _rate(arrived: np.ndarray, now: float) -> float:
    return round(float(np.count_nonzero(arrived > now - LATELY_S)) / LATELY_S, 1)


def _rate_used(live: Live, now: float) -> float:
    recent = [(moment, count) for moment, count in live.used if now - moment < LATELY_S]
    if len(recent) < 2:
        return 0.0
    return round((recent[-1][1] - recent[0][1]) / max(now - recent[0][0], 1e-3), 1)
