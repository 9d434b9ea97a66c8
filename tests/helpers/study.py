"""Stubs of the programs that studies run: they record their calls, and write the files of a run."""

import json
import sys
from pathlib import Path

STUB = "import sys; sys.path.insert(0, {tests!r}); from helpers.study import run; run(sys.argv, {here!r})"


def make_scripts(here):
    """Write a program into ``here`` that replaces that of ``scripts/``."""
    text = STUB.format(tests=str(Path(__file__).parents[1]), here=str(here))
    (here / "grid_lines_workflow.py").write_text(text)


def table_rows(markdown):
    """The lines of all tables, as lists of texts."""
    return [
        [text.strip() for text in line.strip("|").split("|")]
        for line in markdown.splitlines()
        if line.startswith("| ")
    ]


def calls(here):
    """Return the calls since the last time, as lists of words."""
    path = here / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [line.split() for line in lines]


def run(argv, here):
    """Fail if ``here/broken`` names one of the words."""
    here, words = Path(here), argv[1:]
    with (here / "calls").open("a") as file:
        file.write(" ".join([Path(argv[0]).stem, *words]) + "\n")
    if (here / "broken").exists() and (here / "broken").read_text() in " ".join(words):
        sys.exit("error: it broke")
    given = dict(word.replace("'", "").split("=", 1) for word in words)
    fill_run(Path(given["output_dir"]), 0.9 + int(given["seed"]) / 100)


def fill_run(folder, amplitude):
    """Write the files of a complete run; stitched by grid, the amplitude's score is 0.1 lower."""
    still = {"ssim": [0.3, 1.0], "frc50": [None, None], "phase_rmse_rad": 0.0, "flags": []}
    scores = still | {"frc50": [0.6, None], "phase_rmse_rad": 0.02}
    losses = {"probe": 0, "grid": 0.1}
    stitched = {method: scores | {"ssim": [amplitude - loss, 0.99]} for method, loss in losses.items()}
    training = {"steps_s": 8.0, "compile_s": 5.0}
    metrics = {name: {"stitching": stitched} for name in ("pinn", "baseline")}
    manifest = {
        "platform": "Somewhere",
        "cpu_count": 2,
        "device": "CPU:0",
        "versions": {"tensorflow": "2.21.0"},
        "training": {"pinn": training, "baseline": training},
        "timings_s": {"simulation": 4.0},
    }
    values = {"metrics": metrics | {"constant": still, "truth_blurred_1px": still}, "manifest": manifest}
    values |= {f"{name}/model": {"parameters": 1234} for name in ("pinn", "baseline")}
    for name, value in values.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "datasets").mkdir(exist_ok=True)
