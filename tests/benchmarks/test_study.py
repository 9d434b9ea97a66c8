"""Studies: cells without results, stored results, and the definitions of the repository."""

import pytest

from benchmarks.study.__main__ import HERE, KINDS
from benchmarks.study.framework import Cell, Store, load

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
