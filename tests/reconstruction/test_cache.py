"""Cached fits: a resumed run uses them, with the same bits, and only if nothing has changed."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.likelihood import Scan, likelihood_of
from helpers.quick import KNOWN

from ptycho.reconstruction.blocks import Blockwise
from ptycho.reconstruction.maximum_likelihood import solve
from ptycho.reconstruction.scan_likelihood import ScanLikelihood
from ptycho.reconstruction.solver import OBJECT_ALONE, Objective, fit
from ptycho.run.folder import FileCache


@pytest.fixture(scope="module")
def data():
    return Scan.of(np.random.default_rng(1), 3e4, count=6).dataset(np.random.default_rng(2))


@pytest.fixture
def evaluations(monkeypatch):
    """A counter of evaluations of a likelihood."""
    seen, evaluate = [], ScanLikelihood.evaluate

    def counted(self, *arguments):
        seen.append(1)
        return evaluate(self, *arguments)

    monkeypatch.setattr(ScanLikelihood, "evaluate", counted)
    return seen


def fitted(data, cache, steps=5, **changes):
    likelihood = likelihood_of(data, cache=cache)
    start = Scan.of(np.random.default_rng(1), 3e4, count=6).rough(likelihood.normalisation)
    return fit(Objective(likelihood, **changes), start, OBJECT_ALONE, steps)


def test_a_fit_that_is_kept_is_not_made_again(data, evaluations, tmp_path):
    fitted(data, FileCache(tmp_path, 1e6))
    assert not list(tmp_path.iterdir()), "short fits are not worth a file"
    made = fitted(data, FileCache(tmp_path, 0.0))
    count = len(evaluations)
    again = fitted(data, FileCache(tmp_path, 0.0))
    assert count > 5 and len(evaluations) == count
    np.testing.assert_array_equal(again.estimate.object, made.estimate.object)
    assert (again.course, again.evaluations) == (made.course, made.evaluations)
    assert again.converged == made.converged


def test_a_damaged_file_is_not_used(data, evaluations, tmp_path, caplog):
    fitted(data, FileCache(tmp_path, 0.0))
    (path,), count = tmp_path.glob("*.npz"), len(evaluations)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    fitted(data, FileCache(tmp_path, 0.0))
    assert len(evaluations) == 2 * count and "cannot be used" in caplog.text


def test_all_that_was_decided_is_taken_from_there(data, evaluations, tmp_path):
    """The second solution evaluates hardly any likelihood, and is the same."""
    options = replace(KNOWN, prior="edge_preserving", steps=8)
    first = solve(data, options, 0, blockwise=Blockwise(cache=FileCache(tmp_path, 0.0)))
    count = len(evaluations)
    again = solve(data, options, 0, blockwise=Blockwise(cache=FileCache(tmp_path, 0.0)))
    assert len(evaluations) - count < count / 4
    assert again.decisions == first.decisions
    np.testing.assert_array_equal(again.estimate.object, first.estimate.object)
