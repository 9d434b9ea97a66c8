"""Studies: cells without results, stored results, and runs of grid lines from a definition to a report."""

import pytest
import yaml
from helpers.study import calls, make_scripts
from matplotlib.image import imread

from benchmarks.study import processes
from benchmarks.study.__main__ import HERE, KINDS, main
from benchmarks.study.framework import Cell, Store, load, pick
from ptycho.config import ConfigError

STUDY = {
    "kind": "grid_lines",
    "seeds": [0, 1],
    "stitching": ["probe", "grid"],
    "experiments": [
        {
            "name": "gs2_ideal",
            "title": "the first",
            "published": {"amplitude": 0.9, "phase": 0.8, "source": "someone"},
        },
        {"name": "many_baseline", "title": "the second", "model": "baseline"},
    ],
    "differences": [{"title": "ahead", "cell": "gs2_ideal", "minus": "many_baseline"}],
}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY, sort_keys=False))
    make_scripts(tmp_path)
    monkeypatch.setattr(processes, "SCRIPTS", tmp_path)
    return tmp_path


CELLS = [
    Cell(name="a/1", settings={"x": 1, "y": [1.5]}, groups=("a",)),
    Cell(name="a/2", settings={"x": 2}, groups=("a", "even")),
    Cell(name="b", settings={"x": 2}),
]


def test_what_has_a_result_is_not_due(tmp_path):
    store = Store(tmp_path / "out")
    assert store.due(CELLS) == CELLS and store.result(CELLS[0]) is None
    store.keep(CELLS[0], {"score": 0.5, "none": None})
    assert store.result(CELLS[0]) == {"score": 0.5, "none": None}
    assert store.due(CELLS) == CELLS[1:]
    (tmp_path / "out/b.json").write_text('{"settings": {"x": 2}, "res')  # torn, by another's hand
    assert store.due(CELLS) == CELLS[1:]
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.*")) == ["1.json", "b.json"]


def test_cells_are_picked_by_name_pattern_and_group():
    assert pick(CELLS, []) == CELLS
    assert pick(CELLS, ["even", "b"]) == CELLS[1:] and pick(CELLS, ["a"]) == pick(CELLS, ["a/*"]) == CELLS[:2]
    with pytest.raises(ConfigError, match=r"--only=c: must be a cell, a pattern .*, or one of a, even"):
        pick(CELLS, ["b", "c"])


@pytest.mark.parametrize(
    ("name", "run", "count"),
    [("grid_lines", [], 3 * 19), ("zero_shot", [], 63 * 2), ("robustness", ["run+=models=[pinn]"], 12)],
)
def test_a_study_of_the_repository(name, run, count):
    """Every experiment is there and valid; of the zero-shot study, three scans are in two panels."""
    study = load(HERE / f"{name}.yaml", run, KINDS)
    cells = study.cells()
    assert len({cell.name for cell in cells}) == len(cells) == count
    study.check_due(cells[:2])


def test_a_study_from_its_failure_to_its_end(bench, capsys, caplog):
    caplog.set_level("INFO")
    out = bench / "out"
    command = [str(bench / "study.yaml"), "run=[batch_size=8]", "--output", str(out)]
    (bench / "broken").write_text("experiment=many_baseline batch_size=8 seed=1")
    assert main(command) == 1
    made = calls(bench)
    cells = [("gs2_ideal", 0), ("many_baseline", 0), ("gs2_ideal", 1), ("many_baseline", 1)]
    for words, (name, seed) in zip(made, cells, strict=True):
        folder = f"output_dir='{out}/{name}/seed{seed}'"
        given = f"experiment={name} batch_size=8 seed={seed} {folder} overwrite=true"
        assert words == ["grid_lines_workflow", *given.split()]
    assert "failed: many_baseline/seed1: grid_lines_workflow.py ended with exit code 1: err" in caplog.text
    text = (out / "results.md").read_text()
    assert "| 1 of 2 |" in text and "| 0.9050 (0.9000–0.9100) |" in text
    assert not (out / "gs2_ideal/seed0/datasets").exists()

    (bench / "broken").unlink()
    assert main([*command, "--report"]) == 0 and calls(bench) == []
    assert main(command) == 0
    assert [words[1:4:2] for words in calls(bench)] == [["experiment=many_baseline", "seed=1"]]
    assert main(command) == 0 and calls(bench) == []
    text = (out / "results.md").read_text()
    assert "1 of 2" not in text
    assert text.startswith(f"    python -m benchmarks.study {bench}/study.yaml 'run=[batch")
    assert imread(out / "comparison.png").std() > 0

    capsys.readouterr()
    assert main([command[0], "run=[batch_size=4]", *command[2:]]) == 2
    assert "was measured with other settings (batch_size: " in capsys.readouterr().err and calls(bench) == []
    assert main([*command, "--only", "gs2_ideal", "--report"]) == 0
    assert "many_baseline" not in (out / "results.md").read_text()
