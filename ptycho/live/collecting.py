"""What arrives is put on the disk by a thread of its own: a reconstruction never makes the beam wait."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter

from ptycho.config import ConfigError
from ptycho.live.arrivals import Arrivals, Source
from ptycho.live.store import Store

log = logging.getLogger(__name__)
PAUSE_S = 0.1  # where nothing came
AGAIN_S = 1.0  # where the disk takes nothing
TOLD = 5  # faults of one kind that are told one by one


class Collector:
    """Takes from a source and gives to a store until the source has ended.

    Args:
        source, store: they belong to the thread while it runs; of the store others may read.
        expected: how many frames there will be; None: what the source says, or unknown.
        timeout_s: ends it where nothing came for so long; ``wait_s``: the same before the first frame.

    Attributes:
        faults: what was wrong so far, and how often.
        ended: why nothing more will come; None: more may.
        error: why it could not go on.
        trouble: what is wrong now, and may mend.
    """

    def __init__(
        self, source: Source, store: Store, expected: int | None, timeout_s: float, wait_s: float
    ) -> None:
        self.source, self._store, self._expected = source, store, expected
        self._timeout, self._wait = timeout_s, wait_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self.faults: Counter[str] = Counter()
        self.ended: str | None = store.ended
        self.error: ConfigError | None = None
        self.trouble: str | None = None

    def start(self) -> None:
        if self.ended is None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread; what came is kept."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def expected(self) -> int | None:
        told = self.source.description
        return self._expected or (told.expected if told is not None else None)

    def _run(self) -> None:
        last = time.monotonic()
        try:
            while not self._stop.is_set() and self.ended is None:
                came = self.source.poll()
                self._count(came.faults)
                if came.frames or came.places:
                    self._keep(came)
                    last = time.monotonic()
                elif not came.ended:
                    self._stop.wait(PAUSE_S)
                self._end(came, time.monotonic() - last)
        except ConfigError as error:
            self.error = error
        except Exception as error:  # a thread that dies in silence would look like a beam that is off
            log.exception("the source cannot be read any more")
            self.error = ConfigError(f"the source cannot be read any more ({type(error).__name__}: {error})")
        finally:
            self.source.close()

    def _end(self, came: Arrivals, quiet_s: float) -> None:
        """Note that nothing more will come, if it is so."""
        count = self._store.counts
        done = self.expected is not None and min(count) >= self.expected
        limit = self._timeout if count[0] else self._wait
        if not (done or came.ended or quiet_s > limit):
            return
        reason = "complete" if done or came.ended else f"nothing came for {limit:g} s"
        self._store.end(reason)
        log.info("the scan has ended: %s; %d frames, %d positions", reason, *count)
        self.ended = reason

    def _keep(self, came: Arrivals) -> None:
        """Put on the disk what came; where it is full, wait until it is not."""
        if self.source.description is not None and self._store.description is None:
            self._store.describe(self.source.description)
        frames, places = list(came.frames), list(came.places)
        while True:
            try:
                self._count(self._store.add(frames, places, self.source.description))
                self.trouble = None
                return
            except OSError as error:
                self._count(Counter({"disk full" if error.errno == 28 else "disk error": 1}))
                self.trouble = (
                    f"the store cannot be written ({error.strerror}); frames wait until there is room"
                )
                frames = [frame for frame in frames if not self._store.has(frame.number)]
                if self._stop.wait(AGAIN_S):
                    return

    def _count(self, faults: Counter[str]) -> None:
        for what, count in faults.items():
            if self.faults[what] < TOLD:
                log.warning("%s%s", what, f" (× {count})" if count > 1 else "")
            self.faults[what] += count
