"""The compile report: rows, saved models, and what it says where XLA is broken."""

import json
from pathlib import Path

import pytest
import tensorflow as tf

from ptycho.xla import translate
from ptycho.xla_report.cases import CASES, CompileCase
from ptycho.xla_report.compile_report import markdown, try_case
from ptycho.xla_report.health import Diagnosis, Step, diagnose
from ptycho.xla_report.saved_model import inspect_saved_model
from workflows.doctor.xla import DTYPES

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "xla_report.py"
CPU = "/device:CPU:0"


def test_an_operator_compiles_and_agrees():
    name = "translate (taps)"
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


def test_a_broken_environment_ends_with_advice(in_process, monkeypatch):
    """Each step of the diagnosis has a process of its own."""
    monkeypatch.setenv("XLA_FLAGS", "--no_such_flag=1")
    code, _, errors = in_process(SCRIPT)
    assert code == 2
    assert "Step that fails" in errors and "unset both" in errors


def test_the_script_writes_json_and_markdown(in_process, tmp_path, monkeypatch):
    """Without the diagnosis, which has a fresh process for each step: see above."""
    monkeypatch.setattr("workflows.doctor.xla.diagnose", lambda: Diagnosis("", "", ""))
    words = ["only='nearest (exact)'", "dtypes=float32", "repeats=1", f"output_dir={tmp_path}"]
    code, _, errors = in_process(SCRIPT, *words)
    assert code == 0, errors
    rows = json.loads((tmp_path / "xla_report.json").read_text())["rows"]
    assert [(r["case"], r["compiles"]) for r in rows] == [("crop_and_resize nearest (exact)", True)]
    assert "crop_and_resize nearest (exact)" in (tmp_path / "xla_report.md").read_text()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "dtypes=[float32,nonsense]",
            "error: dtypes=[float32, nonsense]: must be a list drawn from [float16, ",
        ),
        ("repeats=0", "error: repeats=0: must be an integer >= 1"),
        ("saved_model=.", "error: saved_model=.: must be a folder that holds a saved_model.pb"),
        ("output_dir=file", "error: output_dir=file: must be a folder, or a path where none is yet"),
    ],
)
def test_a_wrong_key_is_one_line_before_tensorflow_is_imported(word, message, in_process, tmp_path):
    (tmp_path / "file").touch()
    code, out, errors = in_process(SCRIPT, word, blocked=("tensorflow",))
    assert (code, out) == (2, "") and errors.startswith(message) and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["only=[translate,nonsense]"], "error: only=nonsense: must be part of translate (taps); "),
        (["only=model", "dtypes=float16"], "error: dtypes=float16: must be of float32 here"),
        (["device=TPU"], "error: device=TPU: must be part of "),
    ],
)
def test_a_key_that_chooses_nothing_is_one_line(words, message, in_process, monkeypatch, tmp_path):
    monkeypatch.setattr("workflows.doctor.xla.diagnose", lambda: Diagnosis("", "", ""))
    code, out, errors = in_process(SCRIPT, *words)
    assert code == 2 and not out
    assert errors.startswith(message) and errors.count("\n") == 1
    assert not (tmp_path / "outputs").exists()


def test_the_script_knows_every_dtype_without_tensorflow():
    assert {dtype for case in CASES.values() for dtype in case.dtypes} == set(DTYPES)
