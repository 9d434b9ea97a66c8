"""A stored alignment is used without a fit, and only for the same scan."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan

import ptycho
from ptycho.align import align_scan as steps
from ptycho.align.aligned import RunContext
from ptycho.align.cached import align
from ptycho.align.geometry import Alternative
from ptycho.config import ScanRunConfig
from ptycho.run.folder import FileCache
from ptycho.scan.finding import Finding

APPLIED = Finding("affine position correction", "a drift", "deviance × 0.5")
KEPT = Finding.warning("another map", "scale_doubtful")
OTHER = Alternative(np.diag([1.5, 1.25]), np.full((16, 16), 2 + 1j, np.complex64), True, APPLIED, KEPT, 1.25)


def scan(seed=2):
    data = Scan.of(np.random.default_rng(1), 1e4, count=4).dataset(np.random.default_rng(seed))
    return ptycho.Scan.from_arrays(
        np.rint(data.amplitudes[:] ** 2), data.positions, data.probe[0], counts=True
    )


def stretched(aligned, context):
    """An aligned scan with a map, another probe, a decision, a warning and an alternative."""
    changed = aligned.mapped(np.diag([1.125, 1.0]), np.roll(aligned.data.probe[0], 1, 0))
    return replace(changed, alternative=OTHER).decided(APPLIED, KEPT)


@pytest.fixture
def calls(monkeypatch):
    seen = []
    step = steps.Step(lambda *a: seen.append(1) or stretched(*a), "geometry")
    monkeypatch.setattr(steps, "STEPS", (step,))
    return seen


def aligned_in(folder, given, **changes):
    config = replace(ScanRunConfig(data=given.data), **changes)
    return align(given.geometry, config, RunContext(folder, cache=FileCache(folder / "kept")))


def test_what_was_decided_is_taken_from_the_cache(tmp_path, calls):
    first, again = aligned_in(tmp_path, scan()), aligned_in(tmp_path, scan())
    assert len(calls) == 1
    np.testing.assert_array_equal(again.data.positions, first.data.positions)
    np.testing.assert_array_equal(again.data.probe, first.data.probe)
    np.testing.assert_array_equal(again.scan.positions, first.scan.positions)
    assert (again.data.object_size, again.scan.object_size) == (
        first.data.object_size,
        first.scan.object_size,
    )
    assert again.decisions == first.decisions
    assert (again.alternative.applied, again.alternative.kept) == (APPLIED, KEPT)
    np.testing.assert_array_equal(again.alternative.matrix, OTHER.matrix)
    assert again.alternative.deviance == OTHER.deviance
    np.testing.assert_array_equal(again.alternative.probe, OTHER.probe)


def test_another_scan_or_key_is_aligned_anew(tmp_path, calls):
    aligned_in(tmp_path, scan())
    aligned_in(tmp_path, scan(seed=3))
    given = scan()
    aligned_in(tmp_path, replace(given, data=replace(given.data, orientation="auto")))
    assert len(calls) == 3
