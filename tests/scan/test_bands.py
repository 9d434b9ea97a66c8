"""Bands of rows: each row once, and sums as of the whole."""

import numpy as np
import pytest

from ptycho.scan.windows import bands, inner_product


@pytest.mark.parametrize("shape, halo", [((17, 5), 0), ((17, 5), 3), ((4, 5), 2), ((3, 10**7), 1)])
def test_each_row_belongs_to_one_band(shape, halo):
    parts = list(bands(shape, halo, 20))
    own = [row for part in parts for row in range(part.start + halo, part.stop - halo)]
    assert own == list(range(halo, shape[0] - halo))
    assert all(part.start >= 0 and part.stop <= shape[0] for part in parts)
    heights = [part.stop - part.start - 2 * halo for part in parts]
    assert all(height == 1 or height * np.prod(shape[1:]) <= 20 for height in heights)


def test_an_inner_product_does_not_lose_digits_of_single_precision():
    one, two = (np.full((2000, 2000), value, np.complex64) for value in (1 + 1e-3j, 1 - 1j))
    assert inner_product(one, two) == pytest.approx(4e6 * (1 - 1e-3j - 1j - 1e-3), rel=1e-7)
