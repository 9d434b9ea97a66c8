"""What is done and said of positions that err by tens of pixels, by slips or by a map of all."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

import ptycho
from ptycho.align import align_scan as method
from ptycho.align.align_scan import AlignedScan
from ptycho.align.geometry import Alternative, Geometry
from ptycho.align.position_jumps import Jumps
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.trust import FEW, ORIENTATION, POSITIONS, SCALE
from ptycho.scan.comparison import Comparison
from ptycho.scan.finding import Finding, flags_of, warnings_of

NOWHERE, STRETCH = np.zeros(9, bool), 1.5
MOVES = np.zeros((9, 2))
MOVES[4] = 12, -5


def slips(moves=0.0, unplaced=NOWHERE, deviance=None):
    found = np.zeros((9, 2)) + moves
    left = None if deviance is None else np.full(9, deviance)
    return Jumps(found, unplaced, Comparison(0.5, 0.1), left)


def other(drift=False, probe=None, doubts=(SCALE,)):
    finding = Finding("affine position correction", "a drift", "")
    kept = Finding.warning("the map explains more", *doubts)
    return Alternative(STRETCH * np.eye(2), probe, drift, finding, kept)


@pytest.fixture(scope="module")
def recorded():
    """Nine patterns, as they were settled."""
    data = Scan.of(np.random.default_rng(1), count=3).dataset()
    scan = ptycho.Scan.from_arrays(data.amplitudes[:] ** 2, data.positions, data.probe[0], counts=False)
    config = ScanRunConfig(data=DataConfig(file=("x",)))
    return AlignedScan(scan.geometry, data, config, (Finding.warning("few", FEW),))


@pytest.fixture
def corrected(monkeypatch, recorded):
    """What comes of slips that are found, without a map or behind one, under keys."""

    def run(alone=None, behind=None, other=None, again=None, position_jumps=True, **solver):
        def find(data, refine_probe):
            return alone if data is recorded.data else behind

        monkeypatch.setattr(method, "find_jumps", find)
        monkeypatch.setattr(method, "find_geometry", lambda *arguments: Geometry(alternative=again))
        section = DataConfig(file=("x",), position_jumps=position_jumps)
        config = ScanRunConfig(data=section, solver=SolverConfig(**solver))
        return method.correct_jumps(replace(recorded, alternative=other, config=config), None)

    return run


def moves_between(recorded, found):
    """Of the patterns, ``(J, 2)``, a constant aside."""
    change = found.data.positions - recorded.data.positions
    return change - change[0]


def test_moves_are_made_and_reported(recorded, corrected):
    found = corrected(slips(MOVES))
    np.testing.assert_allclose(moves_between(recorded, found), MOVES, atol=1e-4)
    assert found.data.object_size >= found.data.N + found.data.positions.max()
    assert str(found.steps[0]).startswith(
        "positions corrected: 1 of 9 patterns by 13 to 13 px: jumps (deviance × 0.607"
    )
    assert flags_of(found.decisions) == [FEW]


def test_right_positions_are_the_same_dataset(recorded, corrected):
    found = corrected(slips())
    assert found.data is recorded.data and not found.steps
    assert flags_of(found.decisions) == [FEW]


@pytest.mark.parametrize("keys", [{"position_jumps": False}, {"positions": False}])
def test_who_asks_for_positions_as_they_are_gets_them(recorded, corrected, keys):
    found = corrected(slips(MOVES), other=other(drift=True), **keys)
    assert found.data is recorded.data and not found.steps
    assert flags_of(found.decisions) == [FEW] and found.alternative.kept.flags == (
        SCALE,
    )  # judged when it is reconstructed


def test_positions_that_are_not_found_are_flagged(recorded, corrected):
    found = corrected(slips(unplaced=np.arange(9) < 2))
    assert found.data is recorded.data and flags_of(found.decisions) == [FEW, POSITIONS]


def test_a_drift_is_taken_and_reported(recorded, corrected):
    """With the probe that goes with it, and no flag, since it is corrected."""
    probe = np.full((recorded.data.N,) * 2, 2 + 1j, np.complex64)
    found = corrected(behind=slips(), other=other(True, probe))
    expected = (STRETCH - 1) * (recorded.data.positions - recorded.data.positions[0])
    np.testing.assert_allclose(moves_between(recorded, found), expected, atol=1e-4)
    np.testing.assert_array_equal(np.ptp(found.data.probe[0] / probe), 0)
    assert [one.what for one in found.steps] == ["affine position correction"] and flags_of(
        found.decisions
    ) == [FEW]
    assert warnings_of(found.decisions) == ["few"] and found.alternative is None


def test_another_scale_is_reported_and_nothing_is_moved(recorded, corrected):
    """Also where slips alone would explain more than positions as they are: they are not looked for."""
    found = corrected(behind=slips(), other=other())
    assert (
        found.data is recorded.data
        and flags_of(found.decisions) == [FEW]
        and found.alternative.kept.flags == (SCALE,)
    )


@pytest.mark.parametrize("drift", [True, False])
def test_of_slips_with_and_without_a_map_those_are_believed_that_explain_more(recorded, corrected, drift):
    both = corrected(slips(-MOVES, deviance=2), slips(MOVES, deviance=1), other(drift))
    alone = corrected(slips(-MOVES, deviance=1), slips(MOVES, deviance=2), other(drift))
    np.testing.assert_allclose(moves_between(recorded, alone), -MOVES, atol=1e-4)
    assert flags_of(alone.decisions) == [FEW]
    if drift:
        mapped = (STRETCH - 1) * (recorded.data.positions - recorded.data.positions[0])
        np.testing.assert_allclose(moves_between(recorded, both), MOVES + mapped, atol=1e-4)
        assert [one.what for one in both.steps] == ["affine position correction", "positions corrected"]
    else:
        assert (
            both.data is recorded.data
            and flags_of(both.decisions) == [FEW]
            and both.alternative.kept.flags == (SCALE,)
        )


@pytest.mark.parametrize("nowhere", [slips(), slips(unplaced=NOWHERE | True)])
def test_where_a_map_mends_nothing_slips_alone_may(recorded, corrected, nowhere):
    lost = slips(unplaced=NOWHERE | True)
    found = corrected(slips(MOVES), lost, other(True))
    np.testing.assert_allclose(moves_between(recorded, found), MOVES, atol=1e-4)
    found = corrected(nowhere, lost, other(True))
    assert found.data is recorded.data and flags_of(found.decisions) == [FEW, *[POSITIONS] * nowhere.lost]
    assert found.alternative.kept.flags == (SCALE,)


def test_scale_and_rotation_are_looked_for_anew(corrected):
    lost = slips(unplaced=NOWHERE | True)
    assert corrected(slips(MOVES), lost, other()).alternative is None
    still = corrected(slips(MOVES), lost, other(), again=other(doubts=(ORIENTATION,)))
    assert still.alternative.kept.flags == (ORIENTATION,)
