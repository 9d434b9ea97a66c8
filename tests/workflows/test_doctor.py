"""The doctor's checks: what is well is said so, what is broken fails with a remedy, speed is judged."""

import json
import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest

from workflows.doctor import checks, speed
from workflows.doctor.checks import BAD, GOOD, NOTE

FACTS = {"version": "2.21.0", "start_s": 5, "device": "CPU", "compile_s": 1, "error": 1e-6, "rate": 1e4}


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(speed, "cores", lambda: 2)
    monkeypatch.setattr(checks, "available", lambda: "no pty-chi")


def test_here_nothing_fails(tmp_path):
    found = {check.part: check for check in checks.run_checks(tmp_path)}
    assert {part for part, check in found.items() if check.state == BAD} == set()
    assert "bitshuffle-LZ4" in found["HDF5"].text
    assert "renamed; locked" in next(check.text for part, check in found.items() if part.startswith("disk"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_fails(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checks, "write_atomically", full)
    check = checks.check_disk(tmp_path / "not" / "there")
    assert check.state == BAD and "No space left" in check.text and "output_dir" in check.remedy


def test_a_package_of_another_version_fails(monkeypatch):
    monkeypatch.setattr(checks, "version", lambda name: "0.0.1")
    check = checks.check_packages(Path())
    assert (
        check.state == BAD and "numpy 0.0.1 (wanted: >=2.0)" in check.text and "pip install" in check.remedy
    )


def test_a_broken_filter_fails(monkeypatch):
    import hdf5plugin

    monkeypatch.setattr(hdf5plugin, "LZ4", lambda: {"compression": 32111})
    check = checks.check_hdf5(Path())
    assert check.state == BAD and "broken: LZ4" in check.text


def test_what_breaks_in_a_check_is_its_line(monkeypatch, tmp_path):
    monkeypatch.setattr(checks, "physical_memory", lambda: 1 / 0)
    memory = next(check for check in checks.run_checks(tmp_path) if check.part == "memory")
    assert (memory.state, memory.text) == (BAD, "ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    "changes, states",
    [
        ({}, [GOOD, GOOD, GOOD]),
        ({"error": 0.1}, [GOOD, BAD, GOOD]),
        ({"error": float("nan")}, [GOOD, BAD, GOOD]),
        ({"rate": 1000.0}, [GOOD, GOOD, NOTE]),
    ],
)
def test_what_was_measured_is_judged(changes, states):
    assert [check.state for check in speed.judge(FACTS | changes)] == states


@pytest.mark.parametrize("out, err", [("", "Illegal instruction"), ("not json", "")])
def test_a_crash_of_tensorflow_is_a_line(out, err, monkeypatch):
    done = subprocess.CompletedProcess([], -4, out, err)
    monkeypatch.setattr(speed.subprocess, "run", lambda *_, **__: done)
    (check,) = speed.check_speed()
    assert check.state == BAD and check.text == (err or "exit code -4")


def test_the_deviance_by_hand():
    light, counts = np.full((2, 1), 2.0), np.array([[[0.0], [4.0]]])
    expected = 2 * sum(rate - n + n * np.log(n / rate) for rate, n in ((2.02, 0.02), (2.02, 4.02)))
    np.testing.assert_allclose(speed.deviance(light, counts), [expected])


def test_the_measurement_itself(capsys):
    """In this process, which has started TensorFlow already."""
    runpy.run_path(speed.__file__, run_name="__main__")
    facts = json.loads(capsys.readouterr().out)
    assert facts["error"] < speed.TOLERANCE and facts["rate"] > 100
