"""The doctor's checks: what is well is said so, what is broken fails with a remedy and exit code 1."""

from pathlib import Path

import pytest
from helpers.cli import ROOT

from workflows.command_line.one_shot import Unfit
from workflows.doctor import checks
from workflows.doctor.checks import BAD, DoctorConfig, report
from workflows.doctor.health import Step, failing_step


def test_here_nothing_fails(tmp_path):
    *found, last = report(DoctorConfig(output_dir=str(tmp_path), xla=False))
    text = "\n".join(found)
    assert last == "this machine is fit" and BAD not in text
    assert "filters: Bitshuffle" in text and "renamed; locked" in text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_fails(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checks, "write_atomically", full)
    with pytest.raises(Unfit, match=r"(?s)FAIL  disk .*No space left.*does not work: disk"):
        report(DoctorConfig(output_dir=str(tmp_path / "not" / "there"), xla=False))


def test_packages_of_another_version_and_missing_ones_are_named(monkeypatch):
    monkeypatch.setattr(checks, "version", lambda name: "0.0.1")
    state, text = checks.check_packages(Path())
    assert state == BAD and "numpy 0.0.1 (wanted: >=2.0)" in text and "optuna" not in text
    monkeypatch.undo()
    monkeypatch.setattr(checks, "requires", lambda _: ["no-such-package>=1; extra == 'tune'", "numpy<1"])
    assert [text.split()[0] for text in checks.unmet()] == ["numpy"]
    assert checks.unmet("tune") == ["no-such-package is missing"]
    assert "tune" in checks.check_extras(Path())[1]


def test_a_broken_filter_fails(monkeypatch):
    import hdf5plugin

    monkeypatch.setattr(hdf5plugin, "LZ4", lambda: {"compression": 32111})
    assert checks.check_hdf5(Path()) == (BAD, "broken filters: LZ4")


def test_what_breaks_in_a_check_is_its_line_and_the_exit_code(monkeypatch, in_process):
    monkeypatch.setattr(checks, "physical_memory", lambda: 1 / 0)
    code, out, _ = in_process(ROOT / "scripts" / "doctor.py", "xla=false")
    assert code == 1 and "FAIL  machine    ZeroDivisionError: division by zero\n" in out
    assert "→ unset limits that are not intended" in out
    assert out.endswith("does not work: machine\n")


def test_the_step_that_fails_is_named():
    steps = {"first": Step("x = 1", "a"), "second": Step("print(x); raise ValueError('broken')", "try this")}
    assert failing_step(steps) == "second (ValueError: broken). try this"
    slow = {"slow": Step("import time; time.sleep(60)", "wait")}
    assert failing_step(slow, timeout=1) == "slow (no answer after 1 s). wait"
    assert failing_step({"first": steps["first"]}) == ""


def test_a_broken_environment_ends_with_advice(in_process, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--no_such_flag=1")
    code, out, _ = in_process(ROOT / "scripts" / "doctor.py", "xla=true")
    assert code == 1 and "FAIL  XLA        step that fails: compile an addition" in out
    assert "unset both" in out
