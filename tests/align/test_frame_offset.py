"""Frames that are late or early by one: found where positions tell, and only there."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.phase_scans import N, scan_with
from helpers.scans import Frames

import ptycho
from ptycho.align import align_scan
from ptycho.align.aligned import RunContext, read
from ptycho.align.orientation import find_frame_offset
from ptycho.align.position_jumps import Jumps
from ptycho.config import ConfigError, ScanRunConfig, ZonePlateProbe
from ptycho.config.data import DataConfig
from ptycho.preparation.prepare import interpret, interpret_again
from ptycho.readers.raw_scan import RawScan
from ptycho.reconstruction.trial import TrialOptions
from ptycho.scan.probe import make_probe

FORTY = TrialOptions(patterns=40)
PLACES = np.array([[0.0, 0], [0, 5], [0, 11], [6, 11], [6, 4], [7, 0]])


@pytest.fixture(scope="module")
def scan():
    return scan_with(make_probe(ZonePlateProbe(), N))


def with_frames(scan, offset):
    """The scan whose frame j is what was measured at position j + offset."""
    return replace(scan, amplitudes=np.roll(scan.amplitudes[:], -offset, axis=0))


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_an_offset_is_found(scan, offset):
    found = find_frame_offset(with_frames(scan, offset), np.arange(64), FORTY)
    assert found is None if offset == 0 else found[0] == offset


def test_frames_that_were_dropped_have_no_position(scan):
    """Of frames 3 to 66 without number 20, 19 and 21 miss a neighbour; of every second frame, all do."""
    late = with_frames(scan, -1)
    numbers = np.delete(np.arange(3, 67), 17)
    kept = late.subset(np.delete(np.arange(64), 17), 1)
    assert find_frame_offset(kept, numbers, FORTY)[0] == -1
    assert find_frame_offset(late, 2 * np.arange(64), FORTY) is None


def test_a_common_shift_is_no_offset():
    """In a raster of equal steps a late frame is at a shifted position like all others."""
    raster = scan_with(make_probe(ZonePlateProbe(), N), side=9, jitter=0.0, step=4)
    assert find_frame_offset(with_frames(raster, -1), np.arange(81), TrialOptions(patterns=16)) is None


def raw(**changes):
    frames = np.random.default_rng(0).poisson(9.0, (len(PLACES), 16, 16)).astype(np.uint16)
    return replace(RawScan("keymap", Frames(frames), "counts", "centre", PLACES, "px"), **changes)


@pytest.mark.parametrize(("offset", "frames", "places"), [(1, "01234", "12345"), (-2, "2345", "0123")])
def test_a_file_is_read_with_an_offset(offset, frames, places):
    read = interpret(raw(), DataConfig(file=("x",), frame_offset=offset))
    assert read.frames.tolist() == [int(k) for k in frames]
    expected = PLACES[[int(k) for k in places]]
    np.testing.assert_array_equal(np.diff(read.positions, axis=0), np.diff(expected, axis=0))


def test_an_offset_stays_in_its_scan():
    two = raw(scan_index=np.array([0, 0, 0, 1, 1, 1]))
    assert interpret(two, DataConfig(file=("x",), frame_offset=1)).frames.tolist() == [0, 1, 3, 4]


def test_an_offset_beyond_all_positions():
    with pytest.raises(ConfigError, match=r"data\.frame_offset=6"):
        interpret(raw(), DataConfig(file=("x",), frame_offset=6))


@pytest.mark.parametrize("jumps", [False, True])
def test_an_offset_that_leaves_jumps_is_none(scan, tmp_path, monkeypatch, jumps):
    """A backlash of about a step looks like an offset; the jumps are then searched for as stored."""
    counts = np.rint(with_frames(scan, -1).amplitudes[:].astype(float) ** 2)
    given = ptycho.Scan.from_arrays(counts, scan.positions, scan.probe[0], counts=True)
    context = RunContext(tmp_path)
    moves = np.full((63, 2), 9.0 * jumps)
    monkeypatch.setattr(align_scan, "find_jumps", lambda *_: Jumps(moves, np.zeros(63, bool)))
    as_read = read(given.geometry, ScanRunConfig(data=given.data), context)
    aligned = align_scan.correct_frame_offset(as_read, context)
    if jumps:
        assert aligned is as_read
        return
    assert [finding.value for finding in aligned.steps] == ["data.frame_offset=-1"]
    assert aligned.config.data.frame_offset == -1 and len(aligned.data.positions) == 63
    true = scan.positions[:63] - scan.positions[0]
    np.testing.assert_array_equal(aligned.data.positions - aligned.data.positions[0], true)
    np.testing.assert_array_equal(aligned.data.amplitudes[:], scan.amplitudes[:63])


def test_a_pixel_that_is_stated_for_arrays_stays(scan):
    given = ptycho.Scan.from_arrays(
        np.rint(scan.amplitudes[:].astype(float) ** 2), scan.positions, counts=True, pixel_m=(2e-8, 3e-8)
    )
    late, turned = replace(given.data, frame_offset=-1), replace(given.data, transpose=True)
    assert interpret_again(given.geometry, late).pixel.metres == (2e-8, 3e-8)
    assert interpret_again(given.geometry, turned).pixel.metres == (3e-8, 2e-8)
