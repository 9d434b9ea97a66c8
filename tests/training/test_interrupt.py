"""Stops by signals, in fresh processes: the process ends at once, wherever the main thread is."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from helpers.cli import ROOT

from ptycho.training.interrupt import SIGNALS, StopRequest, remove_traces

# The lock only needs the error class of the configuration; importing the rest would take half a second.
BEGIN = f"""
import hashlib, os, sys, time, types
sys.path.insert(0, {str(ROOT)!r})
sys.modules["ptycho.config"] = types.SimpleNamespace(ConfigError=ValueError)
from ptycho.training import interrupt

class Thing: pass

def ready():
    print("ready", flush=True)

def forever():
    ready()
    while True: pass

stop = interrupt.StopRequest(farewell=lambda: "farewell")
with stop:
"""
SAYS = "stopping after this step; a second signal stops at once\n"
AT_ONCE_S = 5.0  # on a machine where many tests run; a hundredth of a second on an idle one

BUSY = {
    "asleep": "ready(); time.sleep(60)",
    "in C, which released the GIL": "ready(); hashlib.pbkdf2_hmac('sha512', b'', b'', 2_000_000_000)",
    "in Python": "forever()",
    "under a bare except": """
while True:
    try: forever()
    except BaseException: pass
""",
    "in __del__": """
Thing.__del__ = lambda self: forever()
thing = Thing()
del thing
time.sleep(60)
""",
    "with a cleanup that fails": "with stop.end_with(lambda: 'farewell', lambda: 1 / 0): forever()",
}


def programs(text, count):
    """Start programs whose lines run while signals are handled, and wait until they are ready."""
    code = BEGIN + "".join(f"    {line}\n" for line in text.strip().splitlines())
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(count)]
    for process in started:
        assert process.stdout.readline() == "ready\n", process.communicate()
    return started


def program(text):
    return programs(text, 1)[0]


def ended(process, number):
    """Return exit code, stdout and stderr of a process that gets a signal and must end at once."""
    began = time.monotonic()
    process.send_signal(number)
    try:
        process.wait(30)
        seconds = time.monotonic() - began
        out, err = process.communicate()
    finally:
        process.kill()
    assert seconds < AT_ONCE_S
    return process.returncode, out, err


@pytest.mark.parametrize(("text", "number"), [*zip(BUSY.values(), itertools.cycle(SIGNALS))], ids=BUSY)
def test_a_signal_ends_the_process_wherever_it_is(text, number):
    code, out, err = ended(program(text), number)
    assert (code, out) == (128 + number, "")
    assert err == f"stopped by {number.name}\nfarewell\n"


def test_a_cleanup_that_hangs_is_ended_by_the_kernel():
    text = "stop.patience_s = 1\nwith stop.end_with(lambda: 'farewell', lambda: time.sleep(60)): forever()"
    process = program(text)
    code, _, err = ended(process, signal.SIGTERM)
    assert code == -signal.SIGALRM and err == "stopped by SIGTERM\nfarewell\n"


def test_a_block_that_defers_decides_where_it_stops():
    text = """
with stop.end_with(lambda: "farewell", lambda: print("cleaned", flush=True)), stop.defer():
    ready()
    while stop.signum is None: time.sleep(0.01)
    print("finishing", flush=True)
    stop.check()
print("never")
"""
    code, out, err = ended(program(text), signal.SIGINT)
    assert (code, out) == (130, "finishing\ncleaned\n")
    assert err == f"{SAYS}stopped by SIGINT\nfarewell\n"


@pytest.mark.parametrize("end", ["pass", "raise ValueError", "sys.exit(3)"])
def test_a_block_that_defers_stops_at_its_end_at_the_latest(end):
    text = f"""
with stop.defer():
    ready()
    while stop.signum is None: time.sleep(0.01)
    {end}
print("never")
"""
    code, out, err = ended(program(text), signal.SIGTERM)
    assert (code, out, err) == (143, "", f"{SAYS}stopped by SIGTERM\nfarewell\n")


@pytest.mark.parametrize(
    ("text", "second"),
    [(BUSY["in C, which released the GIL"], signal.SIGTERM), ("forever()", signal.SIGINT)],
    ids=["C", "Python"],
)
def test_a_second_signal_ends_it_at_once(text, second):
    process = program(f"with stop.defer(): {text}")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == SAYS
    code, out, err = ended(process, second)
    assert (code, out) == (128 + second, "")
    assert err == f"stopped by {second.name}\nfarewell\n"


def test_no_signal_is_lost_where_deferring_begins_or_ends():
    """The programs only begin and end it; on either side, the signal must have an effect."""
    text = """
ready()
while True:
    with stop.defer():
        for _ in range(20): stop.check()
"""
    for number, process in zip(SIGNALS * 3, programs(text, 6), strict=True):
        code, out, err = ended(process, number)
        assert (code, out) == (128 + number, "")
        assert err.removeprefix(SAYS) == f"stopped by {number.name}\nfarewell\n"


def test_afterwards_everything_is_as_before():
    before = [signal.getsignal(number) for number in SIGNALS], threading.enumerate()
    with StopRequest():
        assert signal.getsignal(signal.SIGINT) != before[0][0]
    assert ([signal.getsignal(number) for number in SIGNALS], threading.enumerate()) == before
    assert signal.set_wakeup_fd(-1) == -1


def test_what_this_process_would_leave_behind(tmp_path):
    own, other = os.getpid(), os.getpid() + 1
    below = tmp_path / "pinn" / "checkpoints"
    for folder in (below, tmp_path / f".staging.{own}.tmp" / "deep", tmp_path / f".staging.{other}.tmp"):
        folder.mkdir(parents=True)
    names = [f".a.npz.{own}.tmp", f".a.npz.{other}.tmp", "a.npz", f"{own}.tmp"]
    for name in names:
        (below / name).write_text("")
        (tmp_path / f".staging.{own}.tmp" / "deep" / name).write_text("")
    for holder, stays in ((other, True), (own, False)):
        (tmp_path / ".lock").write_text(f"{holder}\n")
        remove_traces(tmp_path)
        assert (tmp_path / ".lock").exists() == stays
    assert sorted(path.name for path in below.iterdir()) == sorted(names[1:])
    assert sorted(path.name for path in tmp_path.iterdir()) == [f".staging.{other}.tmp", "pinn"]
    remove_traces(tmp_path / "none")
