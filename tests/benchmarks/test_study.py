"""Studies: the definitions of the repository."""

import pytest

from benchmarks.study.__main__ import HERE, KINDS
from benchmarks.study.framework import load


@pytest.mark.parametrize(("name", "count"), [("grid_lines", 3 * 19), ("zero_shot", 63 * 2)])
def test_a_study_of_the_repository(name, count):
    """Every experiment is there and valid; of the zero-shot study, three scans are in two panels."""
    study = load(HERE / f"{name}.yaml", [], KINDS)
    cells = study.cells()
    assert len({cell.name for cell in cells}) == len(cells) == count
    study.check_due(cells[:2])
