"""The programs that read runs."""

import csv
import json
import re

import pytest
from helpers.cli import ROOT, files
from helpers.pages import check_closed
from helpers.run_folders import write_run

from ptycho.files.lock import locked

REPORT, COMPARE = (ROOT / "scripts" / f"{name}.py" for name in ("report", "compare"))
NO_TENSORFLOW = {"blocked": ("tensorflow", "keras")}


def test_a_folder_of_runs_has_an_index_of_their_pages(in_process, tmp_path):
    for name, year in (("batch/2025/a", 2025), ("mine & <b>", 2026)):
        run = write_run(tmp_path / name, name=name[0])
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["finished"] = f"{year}-01-01T00:00:00+00:00"
        (run / "manifest.json").write_text(json.dumps(manifest))
        assert in_process(REPORT, run)[0] == 0
    going = write_run(tmp_path / "batch" / "running", name="b")
    (going / "metrics.json").unlink()
    before = files(tmp_path)
    with locked(going):
        code, out, err = in_process(REPORT, tmp_path, **NO_TENSORFLOW)
    assert code == 0 and out.startswith(f"report: {tmp_path}/index.html ("), err
    after = files(tmp_path)
    assert {name: after[name] for name in before} == before and len(after) == len(before) + 1
    text = (tmp_path / "index.html").read_text()
    links = [attrs["href"] for attrs in check_closed(text).named("a") if attrs["href"] != "#main"]
    assert links == ["mine%20%26%20%3Cb%3E/report.html", "batch/2025/a/report.html"]  # the newest first
    assert "running: step 7" in text and "mine &amp; &lt;b&gt;" in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", '{"product": "solver", "solver": {"r_factor": ' + "9" * 400 + "}}"),
        (
            "config.yaml",
            "a0: &a0 [x, x]\n" + "".join(f"a{k + 1}: &a{k + 1} [*a{k}, *a{k}]\n" for k in range(60)),
        ),
        ("files.json", '{"files.json": "", "' + "a" * 300 + '": "", "a\\u0000b": ""}'),
    ],
    ids=lambda text: text[:12],
)
def test_one_bad_run_does_not_take_down_the_pages_of_all(in_process, tmp_path, name, content):
    for folder in "ab":
        write_run(tmp_path / folder, name="scan")
    (tmp_path / "a" / name).write_text(content)
    code, _, err = in_process(REPORT, tmp_path)
    assert code == 0 and '<th scope="row">b</th>' in (tmp_path / "index.html").read_text(), err
    code, _, err = in_process(COMPARE, tmp_path)
    assert code == 0 and '<th scope="row">b</th>' in (tmp_path / "compare.html").read_text(), err


def test_a_report_replaces_nothing_but_a_page(in_process, tmp_path):
    run = write_run(tmp_path / "run")
    (run / "files.json").write_text('{"files.json": "", "metrics.json": ""}')
    (tmp_path / "notes.txt").write_text("mine")
    for output, message in (
        (tmp_path / "notes.txt", "is no page of this program, and nothing replaces it"),
        (run / "metrics.json", "is a file of the run"),
        (tmp_path, "is a folder; name a file in it"),
    ):
        code, out, err = in_process(REPORT, run, f"output={output}")
        assert (code, out) == (2, "") and message in err, err
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        (REPORT, ["nothing"], "run=nothing: holds no run"),
        (REPORT, ["output=x.html"], "run=null: must be the folder of a run"),
        (COMPARE, ["output=x.html"], r"runs=\[\]: must be folders of runs"),
        (COMPARE, ["nothing"], "runs=nothing: no such folder"),
    ],
)
def test_mistakes_are_one_line(in_process, tmp_path, script, words, message):
    code, out, err = in_process(script, *words, **NO_TENSORFLOW)
    assert (code, out) == (2, "") and re.fullmatch(rf"error: .*{message}.*\n", err), err
    assert not files(tmp_path)


def test_runs_are_compared(in_process, tmp_path):
    for name, value in (("a", 1.2), ("b", 1.1)):
        row = {"deviance_holdout": value}
        write_run(tmp_path / "runs" / name, name="scan", seed=int(10 * value), row=row)
    (tmp_path / "other").mkdir()
    code, out, err = in_process(COMPARE, "runs", "other", "output=both.html", **NO_TENSORFLOW)
    assert code == 0, err
    assert "skipped: other: holds no run" in out and re.search(r"\| b +\| finished \| solver", out)
    rows = list(csv.DictReader((tmp_path / "both.csv").open()))
    assert [(row["run"], row["deviance_holdout"], row["seed"]) for row in rows] == [
        ("a", "1.2", "12"),
        ("b", "1.1", "11"),
    ]
    page = (tmp_path / "both.html").read_text()
    assert "the best of these" in page and "deviance of the held-out patterns" in page
