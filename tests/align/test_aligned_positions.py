"""Corrections and findings of position errors of tens of pixels: position jumps or an affine map."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.likelihood import N, Scan, intensity_of

import ptycho
from ptycho.align import align_scan as method
from ptycho.align.aligned import AlignedScan, RunContext
from ptycho.align.geometry import Alternative, Geometry
from ptycho.align.position_jumps import Jumps
from ptycho.config import ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.solver_config import SolverConfig
from ptycho.evaluation.trust import FEW, ORIENTATION, POSITIONS, SCALE
from ptycho.scan.comparison import Comparison
from ptycho.scan.finding import Finding, flags_of, warnings_of

LOST, STRETCH = np.ones(9, bool), 1.5
MOVES = np.zeros((9, 2))
MOVES[4] = 12, -5


def jumps(moves=0.0, unplaced=~LOST, deviance=None):
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


MAP, JUMPS = "affine position correction", "positions corrected"
# What is found without a map and behind one, and another map: steps that are made, and doubts that are left.
CASES = {
    "jumps": (dict(alone=jumps(MOVES)), [JUMPS], (), ()),
    "positions that are not found": (dict(alone=jumps(unplaced=np.arange(9) < 2)), [], (POSITIONS,), ()),
    "jumps, specified not to be": (
        dict(alone=jumps(MOVES), other=other(True), position_jumps=False),
        *([], (), (SCALE,)),
    ),
    "a drift": (dict(behind=jumps(), other=other(True)), [MAP], (), ()),
    "another scale, which is only reported": (dict(behind=jumps(), other=other()), [], (), (SCALE,)),
    "jumps behind a drift explain more": (
        dict(alone=jumps(-MOVES, deviance=2), behind=jumps(MOVES, deviance=1), other=other(True)),
        *([MAP, JUMPS], (), ()),
    ),
    "jumps alone explain more than behind a drift": (
        dict(alone=jumps(MOVES, deviance=1), behind=jumps(-MOVES, deviance=2), other=other(True)),
        *([JUMPS], (), ()),
    ),
    "nothing helps": (
        dict(alone=jumps(unplaced=LOST), behind=jumps(unplaced=LOST), other=other(True)),
        *([], (POSITIONS,), (SCALE,)),
    ),
    "scale and rotation are looked for anew after jumps": (
        dict(
            alone=jumps(MOVES), behind=jumps(unplaced=LOST), other=other(), again=other(doubts=(ORIENTATION,))
        ),
        *([JUMPS], (), (ORIENTATION,)),
    ),
}


@pytest.mark.parametrize("keys, steps, flags, doubts", CASES.values(), ids=CASES)
def test_which_positions_are_taken(recorded, corrected, keys, steps, flags, doubts):
    """A doubt is assessed when the scan is reconstructed."""
    found, before = corrected(**keys), recorded.data.positions
    assert [step.what for step in found.steps if not step.warns] == steps
    assert (found.data is recorded.data) == (not steps)
    assert flags_of(found.decisions) == [FEW, *flags] and warnings_of(found.decisions)[0] == "few"
    assert (() if found.alternative is None else found.alternative.kept.flags) == doubts
    change, expected = found.data.positions - before, np.zeros((9, 2))
    expected += (STRETCH - 1) * (before - before[0]) if MAP in steps else 0
    expected += MOVES if JUMPS in steps else 0
    np.testing.assert_allclose(change - change[0], expected, atol=1e-4)
    assert found.data.object_size >= found.data.N + found.data.positions.max()


def test_the_probe_of_a_map_is_taken_with_it(recorded, corrected):
    probe = np.full((recorded.data.N,) * 2, 2 + 1j, np.complex64)
    found = corrected(behind=jumps(), other=other(True, probe))
    np.testing.assert_array_equal(np.ptp(found.data.probe[0] / probe), 0)


def test_the_own_probe_is_reversed_with_the_positions(monkeypatch, recorded):
    """P*(−x), O*(−x) and −r give the patterns of P, O and r (by loops)."""
    geometry = Geometry(-np.eye(2), reversed_probe=True)
    monkeypatch.setattr(method, "find_geometry", lambda *arguments: geometry)
    turned = method.correct_positions(recorded, RunContext(Path()))
    rng, side = np.random.default_rng(4), recorded.data.object_size
    image = rng.normal(size=(side, side)) + 1j * rng.normal(size=(side, side))
    before, after = recorded.data.positions.astype(float), turned.data.positions.astype(float)
    np.testing.assert_allclose(after - after[0], before[0] - before, atol=1e-4)
    room = np.rint(before.max(axis=0)) + 2  # the object is reversed about a sample
    far = room.astype(int) + N
    reverse = np.conj(image[tuple(np.ix_(*((f - np.arange(side)) % side for f in far)))])
    for position in before:
        expected = intensity_of(image, recorded.data.probe, position)
        reversed_ = intensity_of(reverse, turned.data.probe, room - position)
        np.testing.assert_allclose(reversed_, expected, atol=5e-3 * expected.max())  # the sample that wraps
