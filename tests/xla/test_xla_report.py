"""The compile report: rows, saved models, and what it says where XLA is broken."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from ptycho.xla import translate
from ptycho.xla_report import health
from ptycho.xla_report.cases import CASES, CompileCase
from ptycho.xla_report.compile_report import markdown, try_case
from ptycho.xla_report.health import Diagnosis, Step, diagnose
from ptycho.xla_report.saved_model import inspect_saved_model

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "xla_report.py"
CPU = "/device:CPU:0"


@pytest.mark.parametrize("name", ["translate (taps)", "crop_and_resize bilinear (matrix)"])
def test_an_operator_compiles_and_agrees(name):
    row = try_case(name, CASES[name], "complex64", CPU, repeats=1)
    assert row.compiles
    assert 0 < row.value_difference < 1e-6 and 0 < row.gradient_difference < 1e-5
    assert f"| {name} | complex64 | {CPU} | yes |" in markdown([row])


def test_what_does_not_compile_becomes_a_row_with_the_reason():
    def build(dtype):
        return lambda image: tf.image.resize(image, (4, 4), "bicubic"), (tf.ones((1, 8, 8, 1), dtype),)

    row = try_case("resize", CompileCase(("float32",), build), "float32", CPU, repeats=1)
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


def test_the_script_writes_json_and_markdown(in_process, tmp_path):
    """In this process, but for the steps of the diagnosis, which has a fresh one for each."""
    options = ["--only", "nearest (exact)", "--dtypes", "float32", "--repeats", "1", "--out", str(tmp_path)]
    code, _, errors = in_process(SCRIPT, *options)
    assert code == 0, errors
    rows = json.loads((tmp_path / "xla_report.json").read_text())["rows"]
    assert [(r["case"], r["compiles"]) for r in rows] == [("crop_and_resize nearest (exact)", True)]
    assert "crop_and_resize nearest (exact)" in (tmp_path / "xla_report.md").read_text()


DTYPES = "float16, bfloat16, float32, float64, complex64, complex128"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtypes", "float32,nonsense"], f"--dtypes is nonsense; allowed: {DTYPES}."),
        (["--repeats", "0"], "--repeats is 0; allowed: whole numbers from 1 on."),
        (["--repeats", "few"], "argument --repeats: invalid int value: 'few'"),
        (["--saved-model", "."], "--saved-model is .; allowed: a folder that holds a saved_model.pb."),
        (["--out", "file"], "--out is file; allowed: a folder, or a path where none is yet."),
    ],
)
def test_a_wrong_option_is_one_line_before_tensorflow_is_imported(options, message, in_process, tmp_path):
    (tmp_path / "file").touch()
    assert in_process(SCRIPT, *options, blocked=("tensorflow",)) == (2, "", message + "\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "translate,nonsense"], "--only is nonsense; allowed: parts of translate (taps); "),
        (
            ["--only", "model", "--dtypes", "float16"],
            "--dtypes is float16; allowed: float32 with --only model.",
        ),
        (["--device", "TPU"], "--device is TPU; allowed: parts of "),
    ],
)
def test_an_option_that_chooses_nothing_is_one_line(options, message, in_process, monkeypatch, tmp_path):
    monkeypatch.setattr(health, "diagnose", lambda: Diagnosis("", "", ""))
    code, out, errors = in_process(SCRIPT, *options)
    assert code == 2 and not out
    assert errors.startswith(message) and errors.count("\n") == 1
    assert not (tmp_path / "outputs").exists()


def test_the_script_knows_every_dtype_without_tensorflow():
    taken = {dtype for case in CASES.values() for dtype in case.dtypes}
    assert set(runpy.run_path(str(SCRIPT))["DTYPES"]) == taken
