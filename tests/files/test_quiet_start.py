"""Lines on stderr when a program starts: those of the program, and errors of TensorFlow."""

import re

import pytest
from helpers.cli import fresh

from ptycho import quiet_start
from ptycho.config.memory import cores

START = "from ptycho.quiet_start import start_tensorflow; start_tensorflow(for_solver=True); "
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
    """Retracing of functions is not reported either; other messages are. The solver's cores share nothing."""
    shapes = "f = tf.function(lambda x: x + 1); [f(tf.zeros(n)) for n in range(1, 10)]; "
    code = "import os, tensorflow as tf; print(int(tf.constant(3) + 4)); " + shapes
    code += "print(os.environ['TF_FORCE_GPU_ALLOW_GROWTH']); tf.get_logger().warning('something else')"
    code += "; print(tf.config.threading.get_intra_op_parallelism_threads())"
    unset = f"import os; os.environ.pop({quiet_start.THREADS!r}, None); "  # the tests have one of their own
    done = fresh(tmp_path, "-c", unset + START + code)
    assert (done.returncode, done.stdout) == (0, f"7\ntrue\n{max(1, cores() // 4)}\n")
    assert re.fullmatch(r"WARNING:tensorflow:something else\n", done.stderr)


@pytest.mark.parametrize("device", [False, True])
def test_real_errors_are_shown(tmp_path, device):
    pattern = str(tmp_path) if device else "/no/such"
    words = f"import ptycho.quiet_start as q; q.DEVICES = ({pattern!r},)\n{LINES.replace('END', 'pass')}"
    lines = fresh(tmp_path, "-c", words).stderr.splitlines()
    assert [line.split("] ")[-1].split(":")[0] for line in lines] == [
        *(["failed call to cuInit"] if device else []),
        *("CuDNN is broken", "a line of the program", "after"),
    ]


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
