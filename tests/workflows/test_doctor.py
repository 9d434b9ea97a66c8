"""The doctor's checks: what is well is said so, what is broken fails with a remedy and exit code 1."""

from pathlib import Path

import pytest
from helpers.cli import ROOT

from ptycho.xla_report.health import Diagnosis
from workflows.doctor import checks
from workflows.doctor.checks import BAD, GOOD, NOTE


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(checks, "cores", lambda: 2)
    monkeypatch.setattr(checks, "available", lambda: "no pty-chi")


def test_here_nothing_fails(tmp_path):
    found = {part: (state, text) for part, state, text in checks.run_checks(tmp_path)}
    assert {part for part, (state, _) in found.items() if state == BAD} == set()
    assert "bitshuffle-LZ4" in found["HDF5"][1] and "renamed; locked" in found["disk"][1]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_fails(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checks, "write_atomically", full)
    disk = next(check for check in checks.run_checks(tmp_path / "not" / "there") if check[0] == "disk")
    assert disk[1] == BAD and "No space left" in disk[2]


def test_a_package_of_another_version_fails(monkeypatch):
    monkeypatch.setattr(checks, "version", lambda name: "0.0.1")
    state, text = checks.check_packages(Path())
    assert state == BAD and "numpy 0.0.1 (wanted: >=2.0)" in text


def test_a_broken_filter_fails(monkeypatch):
    import hdf5plugin

    monkeypatch.setattr(hdf5plugin, "LZ4", lambda: {"compression": 32111})
    state, text = checks.check_hdf5(Path())
    assert state == BAD and "broken filters: LZ4" in text


def test_what_breaks_in_a_check_is_its_line_and_the_exit_code(monkeypatch, in_process):
    monkeypatch.setattr(checks, "physical_memory", lambda: 1 / 0)
    code, out, _ = in_process(ROOT / "scripts" / "doctor.py", "speed=false")
    assert code == 1 and "FAIL  machine    ZeroDivisionError: division by zero\n" in out
    assert "→ unset limits that are not intended" in out
    assert out.endswith("does not work: machine\n")


@pytest.mark.parametrize("found, state", [(("", "", ""), GOOD), (("import TensorFlow", "no AVX", "x"), BAD)])
def test_a_crash_of_tensorflow_is_a_line(found, state, monkeypatch):
    monkeypatch.setattr(checks, "diagnose", lambda: Diagnosis(*found))
    said = checks.check_xla(Path())
    assert said[0] == state and found[1] in said[1]


def test_the_measurement_itself():
    """In this process, which has started TensorFlow already."""
    assert [checks.check_speed(Path(), reference=rate)[0] for rate in (1.0, 1e9)] == [GOOD, NOTE]
