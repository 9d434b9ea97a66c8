"""The checks of the doctor: passed ones are listed, failed ones have a remedy and exit code 1."""

from helpers.cli import ROOT

from workflows.doctor import BAD, DoctorConfig, report


def test_here_nothing_fails(tmp_path):
    *found, last = report(DoctorConfig(output_dir=str(tmp_path), xla=False))
    text = "\n".join(found)
    assert last == "this machine is fit" and BAD not in text
    assert "filters: Bitshuffle" in text and "renamed; locked" in text
    assert list(tmp_path.iterdir()) == []


def test_a_broken_environment_ends_with_advice(in_process, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--no_such_flag=1")
    code, out, _ = in_process(ROOT / "scripts" / "doctor.py", "xla=true")
    assert code == 1 and "FAIL  XLA " in out and "no_such_flag" in out
    assert "→ unset TF_XLA_FLAGS" in out
