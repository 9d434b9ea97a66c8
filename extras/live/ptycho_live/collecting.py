"""Write frames and positions to the disk in a thread: a reconstruction never delays the measurement."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass

from ptycho.config import ConfigError
from ptycho_live.arrivals import Arrivals, Source
from ptycho_live.store import Store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CollectOptions:
    """Limits that decide when a scan has ended, and pauses between two calls of its source."""

    frames: int | None = None  # of the complete scan; None: as in the source's description, or unknown
    timeout_s: float = 60.0  # time without arrivals after which the scan has ended
    wait_s: float = 86400.0  # the same before the first frame
    pause_s: float = 0.1  # until the next call, if nothing arrived
    retry_s: float = 1.0  # until the next attempt, if the disk is full
    logged: int = 5  # faults of one kind that are logged one by one


class Collector:
    """Thread that takes from a source and gives to a store until the source has ended."""

    def __init__(self, source: Source, store: Store, options: CollectOptions) -> None:
        self.source, self._store, self._options = source, store, options
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self.faults = Counter[str]()  # what was wrong so far, and how often
        self.ended = store.description.ended  # why nothing more will come; None: more may
        self.error: ConfigError | None = None  # why it could not go on
        self.trouble: str | None = None  # what is wrong now, and may mend

    def start(self) -> None:
        """Start the thread, unless the scan has ended already."""
        if self.ended is None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread; what has arrived is kept."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def expected(self) -> int | None:
        """Number of frames of the complete scan, from the options or the source; None: unknown."""
        return self._options.frames or self._store.description.expected

    def _run(self) -> None:
        last = time.monotonic()
        try:
            while not self._stop.is_set() and self.ended is None:
                arrivals = self.source.poll()
                self._count(arrivals.faults)
                if arrivals.frames or len(arrivals.positions):
                    self._keep(arrivals)
                    last = time.monotonic()
                elif not arrivals.ended:
                    self._stop.wait(self._options.pause_s)
                self._end(arrivals.ended, time.monotonic() - last)
        except ConfigError as error:
            self.error = error
        except Exception as error:  # a thread that dies in silence would look like a beam that is off
            log.exception("the source cannot be read any more")
            self.error = ConfigError(f"the source cannot be read any more ({type(error).__name__}: {error})")
        finally:
            self.source.close()

    def _end(self, ended: bool, quiet_s: float) -> None:
        """Note the end of the scan, if it is complete or nothing has arrived for too long."""
        count, expected = self._store.counts, self.expected
        limit = self._options.timeout_s if count[0] else self._options.wait_s
        complete = ended or (expected is not None and min(count) >= expected)
        if complete or quiet_s > limit:
            reason = "complete" if complete else f"nothing came for {limit:g} s"
            self._store.end(reason)
            log.info("the scan has ended: %s; %d frames, %d positions", reason, *count)
            self.ended = reason

    def _keep(self, arrivals: Arrivals) -> None:
        """Write arrivals to the disk; if the disk is full, wait until it is not."""
        while True:
            try:
                self._count(self._store.add(arrivals.frames, arrivals.positions, self.source.description))
                self.trouble = None
                return
            except OSError as error:
                self._count(Counter({"disk full" if error.errno == 28 else "disk error": 1}))
                why = error.strerror or error
                self.trouble = f"the store cannot be written ({why}); frames wait until there is room"
                if self._stop.wait(self._options.retry_s):
                    return

    def _count(self, faults: Counter[str]) -> None:
        for what, count in faults.items():
            if self.faults[what] < self._options.logged:
                log.warning("%s%s", what, f" (× {count})" if count > 1 else "")
            self.faults[what] += count
