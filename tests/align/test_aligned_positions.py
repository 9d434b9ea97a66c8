"""Corrections and findings of position errors of tens of pixels: position jumps or an affine map."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

import ptycho
from ptycho.align import align_scan as method
from ptycho.align.align_scan import AlignedScan
from ptycho.align.context import RunContext
from ptycho.align.geometry import Alternative, Geometry
from ptycho.align.position_jumps import Jumps
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.trust import FEW, ORIENTATION, POSITIONS, SCALE
from ptycho.scan.comparison import Comparison
from ptycho.scan.coverage import values_per_parameter
from ptycho.scan.finding import Finding, flags_of, warnings_of

NOWHERE, STRETCH = np.zeros(9, bool), 1.5
MOVES = np.zeros((9, 2))
MOVES[4] = 12, -5


def jumps(moves=0.0, unplaced=NOWHERE, deviance=None):
    found = np.zeros((9, 2)) + moves
    left = None if deviance is None else np.full(9, deviance)
    return Jumps(found, unplaced, Comparison(0.5, 0.1), left)


def other(drift=False, probe=None, doubts=(SCALE,)):
    finding = Finding("affine position correction", "a drift", "")
    kept = Finding.warning("the map explains more", *doubts)
    return Alternative(STRETCH * np.eye(2), probe, drift, finding, kept)


@pytest.fixture(scope="module")
def recorded():
    """An aligned scan of nine patterns."""
    data = Scan.of(np.random.default_rng(1), count=3).dataset()
    scan = ptycho.Scan.from_arrays(data.amplitudes[:] ** 2, data.positions, data.probe[0], counts=False)
    config = ScanRunConfig(data=DataConfig(file=("x",)))
    return AlignedScan(scan.geometry, data, config, (Finding.warning("few", FEW),))


@pytest.fixture
def corrected(monkeypatch, recorded):
    """``corrected(alone, behind, …)``: the scan after jumps are found without a map, or behind one."""

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
    """Return the shifts of the patterns, ``(J, 2)``, apart from a constant."""
    change = found.data.positions - recorded.data.positions
    return change - change[0]


def test_moves_are_made_and_reported(recorded, corrected):
    found = corrected(jumps(MOVES))
    np.testing.assert_allclose(moves_between(recorded, found), MOVES, atol=1e-4)
    assert found.data.object_size >= found.data.N + found.data.positions.max()
    assert str(found.steps[0]).startswith(
        "positions corrected: 1 of 9 patterns by 13 to 13 px: jumps (deviance × 0.607"
    )
    assert flags_of(found.decisions) == [FEW]


def test_right_positions_are_the_same_dataset(recorded, corrected):
    found = corrected(jumps())
    assert found.data is recorded.data and not found.steps
    assert flags_of(found.decisions) == [FEW]


@pytest.mark.parametrize("keys", [{"position_jumps": False}, {"positions": False}])
def test_specified_positions_are_kept(recorded, corrected, keys):
    found = corrected(jumps(MOVES), other=other(drift=True), **keys)
    assert found.data is recorded.data and not found.steps
    assert flags_of(found.decisions) == [FEW] and found.alternative.kept.flags == (
        SCALE,
    )  # assessed when it is reconstructed


def test_positions_that_are_not_found_are_flagged(recorded, corrected):
    found = corrected(jumps(unplaced=np.arange(9) < 2))
    assert found.data is recorded.data and flags_of(found.decisions) == [FEW, POSITIONS]


def test_a_drift_is_taken_and_reported(recorded, corrected):
    """The probe of the map is used, too, and there is no flag, because the drift is corrected."""
    probe = np.full((recorded.data.N,) * 2, 2 + 1j, np.complex64)
    found = corrected(behind=jumps(), other=other(True, probe))
    expected = (STRETCH - 1) * (recorded.data.positions - recorded.data.positions[0])
    np.testing.assert_allclose(moves_between(recorded, found), expected, atol=1e-4)
    np.testing.assert_array_equal(np.ptp(found.data.probe[0] / probe), 0)
    assert [one.what for one in found.steps] == ["affine position correction"] and flags_of(
        found.decisions
    ) == [FEW]
    assert warnings_of(found.decisions) == ["few"] and found.alternative is None


def test_another_scale_is_reported_and_nothing_is_moved(recorded, corrected):
    """Jumps are not searched for, even if they would explain more than the nominal positions."""
    found = corrected(behind=jumps(), other=other())
    assert (
        found.data is recorded.data
        and flags_of(found.decisions) == [FEW]
        and found.alternative.kept.flags == (SCALE,)
    )


@pytest.mark.parametrize("drift", [True, False])
def test_jumps_with_or_without_a_map_are_taken_by_what_they_explain(recorded, corrected, drift):
    both = corrected(jumps(-MOVES, deviance=2), jumps(MOVES, deviance=1), other(drift))
    alone = corrected(jumps(-MOVES, deviance=1), jumps(MOVES, deviance=2), other(drift))
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


@pytest.mark.parametrize("nowhere", [jumps(), jumps(unplaced=NOWHERE | True)])
def test_jumps_alone_are_taken_where_a_map_does_not_help(recorded, corrected, nowhere):
    lost = jumps(unplaced=NOWHERE | True)
    found = corrected(jumps(MOVES), lost, other(True))
    np.testing.assert_allclose(moves_between(recorded, found), MOVES, atol=1e-4)
    found = corrected(nowhere, lost, other(True))
    assert found.data is recorded.data and flags_of(found.decisions) == [FEW, *[POSITIONS] * nowhere.lost]
    assert found.alternative.kept.flags == (SCALE,)


def test_scale_and_rotation_are_looked_for_anew(corrected):
    lost = jumps(unplaced=NOWHERE | True)
    assert corrected(jumps(MOVES), lost, other()).alternative is None
    still = corrected(jumps(MOVES), lost, other(), again=other(doubts=(ORIENTATION,)))
    assert still.alternative.kept.flags == (ORIENTATION,)


def test_few_patterns_close_together_are_aligned(tmp_path):
    """There are measured values enough, but three patterns cannot be split into fitted and held-out ones."""
    data = Scan.of(np.random.default_rng(1), count=3, step=1.5).dataset()
    counts, positions = data.amplitudes[:3] ** 2, data.positions[:3]
    scan = ptycho.Scan.from_arrays(counts, positions, data.probe[0], counts=False)
    config = ScanRunConfig(data=DataConfig(file=("x",)))
    read = AlignedScan(scan.geometry, data.subset(np.arange(3), 1), config, ())
    assert values_per_parameter(read.data) > 1.8
    aligned = method.align_scan(read, RunContext(tmp_path))
    np.testing.assert_array_equal(aligned.data.positions, read.data.positions)
