"""The live page: words and units, assessment, colours of the probe, and no executable part of a file."""

import pytest
from helpers.run_folders import write_run

from ptycho_live import page
from ptycho_live.live_command import _show_verdict

NUMBERS = {
    "state": "reconstructing",
    "watch": "beam/<scan>.h5",
    "seconds": 12.3,
    "faults": {"repeated": 2},
    "problem": None,
    "lag_s": 0.4,
    "deviance_holdout": 1.02,
    "object": [210, 220],
    "pixel_m": [2e-8, 1.5e-8],
    "warnings": [],
}


@pytest.mark.parametrize(
    ("state", "sentence"), [("reconstructing", "still being measured"), ("complete", "not been assessed yet")]
)
def test_what_was_not_assessed_is_not_called_good(tmp_path, state, sentence):
    page.write_numbers(tmp_path, NUMBERS | {"state": state}, 4.0)
    text = (tmp_path / page.PAGE).read_text()
    assert 'class="verdict open"' in text and sentence in text and "report.html" not in text


def test_the_live_page_ends_with_the_verdict_of_the_run_and_no_longer_reloads(tmp_path):
    run = write_run(tmp_path / "run", row={"flags": ["overfit"]})
    (run / page.NUMBERS).write_text('{"state": "complete"}')
    (run / "report.html").touch()
    _show_verdict(run)
    text = (run / page.PAGE).read_text()
    assert '<p class="verdict bad"><strong>The image is likely wrong.' in text
    assert "problems are solved: overfit (" in text
    assert '<a href="report.html">' in text and "refresh" not in text
