"""Zingers, single pixels of single frames, are found and do not count; features of the object stay."""

import numpy as np
import pytest

from ptycho.files.file_array import FileArray
from ptycho.preparation.marks import Zingers

N, J = 24, 30


def speckles(seed=0, photons=200.0):
    """Counts of patterns whose speckles are two pixels wide, and differ from one to the next."""
    rng = np.random.default_rng(seed)
    side = N // 2
    waves = rng.normal(size=(J, side, side)) + 1j * rng.normal(size=(J, side, side))
    padded = np.zeros((J, N, N), complex)
    padded[:, :side, :side] = waves
    intensity = np.abs(np.fft.fft2(padded)) ** 2
    envelope = np.exp(-(np.hypot(*np.mgrid[-N // 2 : N // 2, -N // 2 : N // 2]) ** 2) / 60)
    intensity = intensity * envelope / (intensity * envelope).mean() * photons
    return rng.poisson(intensity).astype(float)


def marked(tmp_path, counts, good=None, blocks=7):
    copy = FileArray.temporary(tmp_path, counts.shape, np.float32)
    found = Zingers(N)
    for k in range(0, J, blocks):
        block = np.sqrt(counts[k : k + blocks]).astype(np.float32)
        copy[k : k + len(block)] = block
        found.add(block)
    finding = found.mark_in(copy, np.ones((N, N), bool) if good is None else good)
    return finding, copy[:].astype(float)


@pytest.mark.parametrize("blocks", [1, 7])
def test_zingers_are_marked_with_the_mean_of_their_neighbours(tmp_path, blocks):
    counts = speckles()
    hit = counts.copy()
    places = [(3, 2, 5), (3, 20, 20), (17, 0, 0), (29, 23, 11)]
    for place in places:
        hit[place] += 40_000
    finding, found = marked(tmp_path, hit, blocks=blocks)
    assert finding.value == "4 pixels of 3 frames" and "data.zingers=false" in finding.why
    for j, row, col in places:
        around = hit[j, max(row - 1, 0) : row + 2, max(col - 1, 0) : col + 2]
        mean = (around.sum() - hit[j, row, col]) / (around.size - 1)
        assert found[j, row, col] == pytest.approx(-np.sqrt(mean), rel=1e-5)
    others = np.ones(hit.shape, bool)
    others[tuple(np.transpose(places))] = False
    np.testing.assert_allclose(found[others], np.sqrt(counts[others]), rtol=1e-5)


def test_speckles_are_no_zingers(tmp_path):
    """Each is the brightest of its pixel in some frame; the scan may also become brighter once."""
    counts = speckles(1)
    counts[5] *= 30
    assert marked(tmp_path, counts)[0] is None
