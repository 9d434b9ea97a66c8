"""What stands on stderr when a program starts: its own lines, and what is wrong with TensorFlow."""

import os
import re
import sys

import pytest
from helpers.cli import ROOT, fresh

from ptycho import quiet_start

TENSORFLOW = re.compile(r"^[IWEF]\d{4} |absl|cuda|oneDNN", re.M)
START = "from ptycho.quiet_start import start_tensorflow; start_tensorflow(); "
LINES = """
import os, sys
from ptycho.quiet_start import noise, without_lines
with without_lines(noise()):
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
    os.write(2, b"I0000 00:00:1795.545394   11689 port.cc:153] oneDNN custom operations are on.\\n")
    os.write(2, b"E0000 00:00:1795.306359  11833 cuda_platform.cc:52] failed call to cuInit: error (303)\\n")
    os.write(2, b"E0000 00:00:1795.306359  11833 cuda_dnn.cc:52] CuDNN is broken\\n")
    sys.stderr.write("a line of the program\\n")
    END
sys.stderr.write("after\\n")
"""


def test_a_start_where_nothing_is_wrong_says_nothing(tmp_path):
    """Nor are functions of several shapes news; something else is said."""
    shapes = "f = tf.function(lambda x: x + 1); [f(tf.zeros(n)) for n in range(1, 10)]; "
    said = "import os, tensorflow as tf; print(int(tf.constant(3) + 4)); " + shapes
    said += "print(os.environ['TF_FORCE_GPU_ALLOW_GROWTH']); tf.get_logger().warning('something else')"
    done = fresh(tmp_path, "-c", START + said)
    assert (done.returncode, done.stdout) == (0, "7\ntrue\n")
    assert re.fullmatch(r"WARNING:tensorflow:something else\n", done.stderr)


STAND_IN = """
import os
from types import SimpleNamespace
os.write(2, b"I0000 00:00:1795.545394   11689 port.cc:153] oneDNN custom operations are on.\\n")
config = SimpleNamespace(list_physical_devices=lambda kind: [], set_visible_devices=lambda *_: None)
def get_logger():
    return SimpleNamespace(addFilter=lambda _: None)
"""


@pytest.mark.parametrize(("level", "shown"), [("0", True), ("2", False)])
def test_who_asks_for_all_lines_is_given_them(tmp_path, level, shown):
    """In the place of TensorFlow, which takes seconds to start, what writes a line of its kind."""
    (tmp_path / "tensorflow.py").write_text(STAND_IN)
    where = f"{tmp_path}{os.pathsep}{ROOT}"
    done = fresh(tmp_path, "-c", START, TF_CPP_MIN_LOG_LEVEL=level, PYTHONPATH=where)
    assert done.returncode == 0 and bool(TENSORFLOW.search(done.stderr)) == shown, done.stderr


@pytest.mark.parametrize("device", [False, True])
def test_real_errors_are_shown(tmp_path, device):
    """That CUDA cannot begin is one of them where there is a device."""
    pattern = str(tmp_path) if device else "/no/such"
    words = f"import ptycho.quiet_start as q; q.DEVICES = ({pattern!r},)\n{LINES.replace('END', 'pass')}"
    lines = fresh(tmp_path, "-c", words).stderr.splitlines()
    assert [line.split("] ")[-1].split(":")[0] for line in lines] == [
        *(["failed call to cuInit"] if device else []),
        *("CuDNN is broken", "a line of the program", "after"),
    ]


@pytest.mark.parametrize("end", ["os.abort()", "os._exit(3)", "raise ImportError('no TensorFlow')"])
def test_the_last_words_of_a_process_are_not_lost(tmp_path, end):
    done = fresh(tmp_path, "-c", LINES.replace("END", end))
    assert done.returncode != 0 and "CuDNN is broken" in done.stderr and "oneDNN" not in done.stderr
    assert ("no TensorFlow" in done.stderr) == ("raise" in end)


def test_tensorflow_that_is_there_is_left_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", object())
    monkeypatch.setattr(quiet_start, "without_lines", None)
    quiet_start.start_tensorflow()


@pytest.mark.parametrize("name", [None, *quiet_start.RANKS])
def test_each_process_of_a_machine_has_a_gpu_of_its_own(monkeypatch, name):
    for other in quiet_start.RANKS:
        monkeypatch.delenv(other, raising=False)
    if name is None:
        assert quiet_start.own_gpu(["a", "b"]) == ["a"]
        return
    seen = []
    for rank in range(3):
        monkeypatch.setenv(name, str(rank))
        seen += quiet_start.own_gpu(["a", "b"])
    assert seen == ["a", "b", "a"]
    assert quiet_start.own_gpu([]) == []
