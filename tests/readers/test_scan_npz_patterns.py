"""Patterns in NPZ archives: every order of axes, little memory, damage; counts, intensity or amplitude."""

import numpy as np
import pytest
from helpers.scans import SMALL, equal, save_npz

from ptycho.config import ConfigError
from ptycho.files.npz import NpzFile
from ptycho.readers.npz import NpzPatterns
from ptycho.readers.values import tell_domain


@pytest.fixture
def npz(tmp_path):
    return lambda file="scan.npz", /, **arrays: save_npz(tmp_path / file, **arrays)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("order", ["phw", "hwp"])
@pytest.mark.parametrize("dtype", [">u2", "<f4"])
def test_patterns_are_read_in_every_order(npz, compressed, fortran, order, dtype):
    array = SMALL.counts.transpose([("phw").index(axis) for axis in order])
    array = np.require(array.astype(dtype), requirements="F" if fortran else "C")
    path = npz(compressed=compressed, a=array)
    with NpzFile(path) as archive:
        source = NpzPatterns(path, archive.header("a", "fiu"), order)
    equal(source, SMALL.counts.astype(np.dtype(dtype).newbyteorder("=")))


def test_no_room_for_a_copy(npz, tmp_path):
    path = npz(compressed=True, a=SMALL.counts)
    with NpzFile(path) as archive:
        source = NpzPatterns(path, archive.header("a", "fiu"), scratch=tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"no copy of 1512 bytes in .*nowhere: No such file.*TMPDIR"):
        source.read(slice(0, 1))


@pytest.mark.parametrize(
    ("array", "key", "domain", "why"),
    [
        (np.arange(9.0), "", "counts", "whole numbers"),
        (np.sqrt(np.arange(3000, dtype=np.float32)), "diff3d", "amplitude", "the squares of the patterns"),
        (np.linspace(0, 3, 50), "diff3d", None, "reach 3; perhaps data.domain=amplitude"),
        (np.linspace(0, 3, 50), "diffraction", "amplitude", "prepared files"),
        (np.arange(9, dtype=np.uint8), "diffamp", "amplitude", "diffamp"),
        (np.array([np.nan, 4, 3, 2]), "", "counts", "whole"),
    ],
)
def test_the_domain(array, key, domain, why):
    found = tell_domain(array.dtype, iter([array]), key)
    assert found.name == domain
    assert why in found.why
