"""What is done and said of positions that err by tens of pixels."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.likelihood import Scan

from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.sections import SolverConfig
from ptycho.evaluation.trust import ORIENTATION, POSITIONS, SCALE
from ptycho.methods import slips as method
from ptycho.methods.geometry import Geometry
from ptycho.reconstruction.slips import Slips
from ptycho.scan.comparison import Comparison

NOWHERE = np.zeros(9, bool)


@pytest.fixture
def corrected(monkeypatch):
    """What comes, of nine patterns, of moves that are found, of those explained nowhere, of keys."""
    data = Scan.of(np.random.default_rng(1), count=3).dataset()
    scan = SimpleNamespace(
        N=data.N,
        counts=True,
        fresnel=None,
        raw=SimpleNamespace(energy_eV=8000.0),
        detector=SimpleNamespace(good_pixels=np.ones((data.N, data.N), bool)),
    )

    def run(moves=0.0, unplaced=NOWHERE, doubts=(), again=(), position_slips=True, **solver):
        found = Slips(np.zeros((9, 2)) + moves, unplaced, Comparison(0.5, 0.1))
        monkeypatch.setattr(method, "find_slips", lambda *arguments: found)
        monkeypatch.setattr(method, "find_geometry", lambda *arguments: Geometry(doubts=again))
        section = DataConfig(file=("x",), position_slips=position_slips)
        config = ScanRunConfig(data=section, solver=SolverConfig(**solver))
        return data, *method.correct_slips(scan, data, config, list(doubts))

    return run


MOVES = np.zeros((9, 2))
MOVES[4] = 12, -5


def test_moves_are_made_and_told(corrected):
    told, data, findings, doubts = corrected(MOVES)
    change = data.positions - told.positions - MOVES
    np.testing.assert_allclose(change, np.broadcast_to(change[0], (9, 2)), atol=1e-4)
    assert data.object_size >= data.N + data.positions.max()
    assert str(findings[0]).startswith(
        "positions moved: 1 of 9 patterns by 13 to 13 px: slips (deviance × 0.607"
    )
    assert doubts == []


def test_right_positions_are_the_same_dataset(corrected):
    told, data, findings, doubts = corrected(doubts=[SCALE])
    assert data is told and not findings and doubts == [SCALE]


@pytest.mark.parametrize("keys", [{"position_slips": False}, {"positions": False}])
def test_who_asks_for_positions_as_they_are_gets_them(corrected, keys):
    told, data, findings, _ = corrected(MOVES, **keys)
    assert data is told and not findings


def test_positions_that_are_not_found_are_flagged(corrected):
    told, data, findings, doubts = corrected(unplaced=np.arange(9) < 2, doubts=[ORIENTATION])
    assert data is told and not findings and doubts == [ORIENTATION, POSITIONS]


def test_scale_and_rotation_are_looked_for_anew(corrected):
    assert corrected(MOVES, doubts=["few_measurements", SCALE])[3] == ["few_measurements"]
    assert corrected(MOVES, doubts=[SCALE], again=(ORIENTATION,))[3] == [ORIENTATION]
