"""The compile report: rows, saved models, and what it says where XLA is broken."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from ptycho.xla import translate
from ptycho.xla.compile_report import markdown, try_probe
from ptycho.xla.health import Step, diagnose
from ptycho.xla.probes import PROBES, Probe
from ptycho.xla.saved_model import inspect_saved_model

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "xla_report.py"
CPU = "/device:CPU:0"


@pytest.mark.parametrize("name", ["translate (taps)", "crop_and_resize bilinear (matrix)"])
def test_an_operator_compiles_and_agrees(name):
    row = try_probe(name, PROBES[name], "complex64", CPU, repeats=1)
    assert row.compiles and row.value_difference < 1e-6 and row.gradient_difference < 1e-4
    assert f"| {name} | complex64 | {CPU} | yes |" in markdown([row])


def test_what_does_not_compile_becomes_a_row_with_the_reason():
    def build(dtype):
        return lambda image: tf.image.resize(image, (4, 4), "bicubic"), (tf.ones((1, 8, 8, 1), dtype),)

    row = try_probe("resize", Probe(("float32",), build), "float32", CPU, repeats=1)
    assert not row.compiles and "InvalidArgumentError" in row.error
    assert "| no: InvalidArgumentError" in markdown([row])


def test_operations_of_a_saved_model(tmp_path):
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec((2, 8, 8, 1)), tf.TensorSpec((2, 2))])
        def good(self, images, shifts):
            return {"y": translate(images, shifts)}

        @tf.function(input_signature=[tf.TensorSpec((2, 8, 8, 1))])
        def bad(self, images):
            compiled = tf.function(lambda x: x + 1.0, jit_compile=True)
            return {"y": tf.image.crop_and_resize(compiled(images), [[0.0, 0, 1, 1]], [0], (4, 4))}

    model = Model()
    tf.saved_model.save(model, tmp_path / "good", signatures=model.good)
    tf.saved_model.save(model, tmp_path / "bad", signatures=model.bad)
    good, bad = inspect_saved_model(tmp_path / "good"), inspect_saved_model(tmp_path / "bad")
    assert not any(good.without_kernel.values()) and not good.only_xla and not good.must_compile
    assert bad.without_kernel == {"XLA_CPU_JIT": ["CropAndResize"], "XLA_GPU_JIT": ["CropAndResize"]}
    assert len(bad.must_compile) == 1
    with pytest.raises(FileNotFoundError, match=r"holds no saved_model\.pb"):
        inspect_saved_model(tmp_path)


def test_the_step_that_fails_is_named():
    steps = (Step("first", "x = 1", "a"), Step("second", "raise ValueError('broken')", "try this"))
    diagnosis = diagnose(steps)
    assert diagnosis == ("second", "ValueError: broken", "try this")
    assert diagnose((Step("slow", "import time; time.sleep(60)", "wait"),), timeout=1).failed == "slow"
    assert not diagnose(steps[:1]).failed


def test_a_broken_environment_ends_with_advice(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--no_such_flag=1")
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Step that fails" in done.stdout and "unset both" in done.stdout


def test_the_script_writes_json_and_markdown(tmp_path):
    options = ["--only", "nearest (exact)", "--dtypes", "float32", "--repeats", "1", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "xla_report.json").read_text())["rows"]
    assert [r["compiles"] for r in rows] == [True]
    assert "crop_and_resize nearest (exact)" in (tmp_path / "xla_report.md").read_text()
