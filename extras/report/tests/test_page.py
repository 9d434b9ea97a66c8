"""The page of a run: one file, no request, no code from other files, and only parts with content."""

import json

import numpy as np
import pytest
from helpers.pages import Page, check_closed
from helpers.run_folders import J, probe_modes, write_run

from ptycho.files.lock import locked
from ptycho_report.page import report_page, view_of
from ptycho_report.page_record import gather_page
from ptycho_report.stored_recon import read_recon


@pytest.fixture(autouse=True)
def no_charts(monkeypatch):
    """Charts are drawn only in the page that the module shares, because they take most of the time."""
    monkeypatch.setattr("ptycho_report.scan_charts.figure_uri", lambda figure: "data:image/png;base64,")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    run = write_run(
        tmp_path_factory.mktemp("runs") / "mine",
        arrays={
            "sigma_amplitude": np.full((1, 48, 48), 0.01, np.float32),
            "sigma_phase": np.full((1, 48, 48), 0.02, np.float32),
            "flux": np.linspace(0.9, 1.1, J).astype(np.float32),
            "opr_modes": probe_modes()[1:],
            "opr_weights": np.linspace(-0.1, 0.1, J, dtype=np.complex64)[:, None],
        },
    )
    return report_page(gather_page(run))


@pytest.mark.parametrize(
    ("flags", "level", "sentence"),
    [
        ([], "good", "No problem was found"),
        (["amplitude_in_noise"], "weak", "can be used with the reservations"),
        (["amplitude_in_noise", "overfit"], "bad", "likely wrong"),
        (["some_score_is_limited", 5, None], "good", "No problem was found"),
    ],
)
def test_verdicts(tmp_path, flags, level, sentence):
    record = gather_page(write_run(tmp_path / "run", row={"flags": flags}))
    verdict = view_of(record)["verdict"]
    assert verdict.level == level and sentence in verdict.sentence
    named = [flag for flag in ("overfit", "amplitude_in_noise") if flag in flags]
    assert [reason.flag for reason in verdict.reasons] == named
    shown = "".join(Page(report_page(record)).inside.get("li", []))
    assert all(reason.remedy in shown and reason.means in shown for reason in verdict.reasons)


def test_a_run_that_did_not_end_says_so(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "metrics.json").unlink()
    text = report_page(gather_page(run))
    assert "The run did not end" in text and "step 7" in text
    with locked(run):
        text = report_page(gather_page(run))
        assert "The run is still going on" in text
        check_closed(text)


EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">'


def test_nothing_from_a_file_runs(tmp_path):
    name = "</script><script>alert(1)<"
    run = write_run(tmp_path / "<b>run", name="scan")
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["findings"] = {EVIL: [EVIL, EVIL], name: 5}
    metrics["warnings"], metrics["solver"]["flags"] = [EVIL, name], [EVIL]
    metrics["solver"]["r_factor"] = EVIL
    (run / "metrics.json").write_text(json.dumps(metrics))
    manifest = {key: {EVIL: EVIL} for key in ("versions", "timings_s")}
    manifest |= dict.fromkeys(("platform", "seed", "finished"), EVIL)
    (run / "manifest.json").write_text(json.dumps(manifest))
    (run / "run.log").write_text(f"{EVIL}\x1b[31m\n")
    (run / "files.json").write_text(json.dumps({"files.json": "", EVIL: ""}))
    config = (run / "config.yaml").read_text().replace("/scans/scan.cxi", json.dumps(f"/{EVIL}.cxi"))
    (run / "config.yaml").write_text(config)
    text = report_page(gather_page(run))
    page = check_closed(text)
    assert len(page.named("script")) == 1
    assert not [attrs for attrs in page.named("img") if not attrs["src"].startswith("data:image/png")]
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "metrics",
    [
        {
            "solver": 5,
            "product": ["solver"],
            "pixel_m": "x",
            "half_scan_frc": [1],
            "findings": [],
            "warnings": 3,
        },
        {"pixel_m": [0, -1], "half_scan_frc": {"frc50": "a", "frc50_m": None}, "product": "../../etc"},
        {"solver": {"flags": {"a": 1}, "r_factor": [1], "ssim": [None, "x"], "r_free": True}},
    ],
)
@pytest.mark.parametrize(
    "manifest", [{"versions": 5, "scans": 1, "timings_s": []}, {"finished": 3, "timings_s": {"total": "x"}}]
)
def test_wrong_types_raise_nothing(tmp_path, metrics, manifest):
    run = write_run(tmp_path / "run")
    (run / "metrics.json").write_text(json.dumps(metrics))
    (run / "manifest.json").write_text(json.dumps(manifest))
    check_closed(report_page(gather_page(run)))


def test_a_damaged_reconstruction_is_none(tmp_path):
    run = write_run(tmp_path / "run")
    path = run / "recons/solver/recon.npz"
    assert read_recon(run, "solver").probe.shape == (2, 16, 16)
    path.write_bytes(path.read_bytes()[:500])
    assert read_recon(run, "solver") is None
    np.savez(path, object=np.ones((4, 4), np.complex64), mask=np.ones((4, 4), bool))
    assert read_recon(run, "solver") is None


@pytest.mark.parametrize(
    "wavelength, drawn", [(1e-10, True), (1e-300, False), (-1, False), ("x", False), (1, False)]
)
def test_the_probe_along_the_beam_is_drawn_where_its_wavelength_can_be(tmp_path, wavelength, drawn):
    run = write_run(tmp_path / "run", row={"probe_focus": {"wavelength_m": wavelength}})
    assert ("Intensity of the strongest probe mode along" in report_page(gather_page(run))) == drawn
