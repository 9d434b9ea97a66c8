"""Patterns of one file and positions of another are paired by their numbers, with what goes with them."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.readers.places import join
from ptycho.readers.positions import Placement

PLACES = np.array([[0.0, 1], [2, 3], [4, 5], [6, 7]])


@pytest.fixture
def patterns():
    frames = np.arange(4 * 3 * 5).reshape(4, 3, 5)
    found = SimpleNamespace(label="patterns", key="p", shape=frames.shape, dtype=frames.dtype)
    found.read, found.order_for = lambda index: frames[index], lambda count, file: found
    return found


@pytest.fixture
def file():
    found = SimpleNamespace(warnings=[], notes=[], problems=[])
    found.complain = found.problems.append
    return found


def test_patterns_keep_their_order_and_those_without_a_position_are_left_out(file, patterns):
    values = {"scan_index": np.array([10, 20, 30, 40])}
    product = Placement(PLACES, "m", np.array([5, 2, 9, 4]))
    source, found = join(file, patterns, product, values, np.array([4, 7, 2, 5]))
    np.testing.assert_array_equal(source.read(slice(None)), patterns.read([0, 2, 3]))
    np.testing.assert_array_equal(found.positions, PLACES[[3, 1, 0]])
    assert found.unit == "m" and source.shape == (3, 3, 5)
    np.testing.assert_array_equal(values["numbers"], [4, 2, 5])
    np.testing.assert_array_equal(values["scan_index"], [10, 30, 40])
    assert file.warnings == ["1 of 4 patterns and 1 of 4 positions are excluded: no partner"]


def test_the_axis_of_the_patterns_is_known_before_they_are_paired(file, patterns):
    """Of an array (3, 5, 4) the last axis counts the patterns, as there are four positions."""
    given = SimpleNamespace(shape=(3, 5, 4), order_for=lambda count, file: patterns if count == 4 else None)
    source, found = join(file, given, Placement(PLACES, "m", np.array([3, 1, 2, 0])), {})
    assert source is patterns and not file.warnings
    np.testing.assert_array_equal(found.positions, PLACES[[3, 1, 2, 0]])
