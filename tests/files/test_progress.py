"""Progress of a long loop: lines in a log, a bar on a terminal, speed and time left."""

import io
import logging
import sys
import time
from contextlib import closing
from types import SimpleNamespace

from ptycho import progress
from ptycho.progress import EachWarningOnce, next_run


def test_a_log_gets_plain_lines(monkeypatch, caplog):
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    caplog.set_level(logging.INFO)
    with closing(progress.Progress("pinn", total=8 * 16)) as shown:
        clock.now += 60  # compiling
        for k in (1, 2, 3):
            shown.advance(16, f"step {k}/8")
            clock.now += 8
        shown.advance(16)
    # Since the first step: two steps of 16 patterns in 16 s, five of 8 s are left. The last is 8 s later.
    assert [record.getMessage() for record in caplog.records] == ["pinn: step 3/8, 2 patterns/s, 40 s left"]
    assert sys.stderr.getvalue() == ""


def test_a_block_has_a_line_when_it_begins_and_one_a_minute(caplog):
    caplog.set_level(logging.INFO)
    with progress.heartbeat("geometry", every_s=0.02):
        time.sleep(0.2)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == ["geometry …", "geometry: 0 s so far"]
    time.sleep(0.06)
    assert len(caplog.records) == len(lines)
    with progress.heartbeat("short"):
        pass
    assert [record.getMessage() for record in caplog.records[len(lines) :]] == ["short …"]


def test_a_warning_has_one_line_however_often_it_occurs(monkeypatch):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(EachWarningOnce())
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])  # where a run finds it
    for _ in range(3):
        logging.warning("frame %d is dark", 7)
        logging.error("stop")
    next_run()
    logging.warning("frame %d is dark", 7)
    assert stream.getvalue().splitlines() == ["frame 7 is dark", *["stop"] * 3, "frame 7 is dark"]
