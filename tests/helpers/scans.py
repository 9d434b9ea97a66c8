"""A made-up scan, and files of several formats with it."""

import numpy as np

from ptycho.readers import raw_scan as stored

J, H, W = 7, 9, 12  # patterns, rows, columns: odd, and not square
M = (31, 34)  # of the object


def _complex(rng, shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


class Made:
    """A made-up scan, in the names of no format."""

    def __init__(self):
        rng = np.random.default_rng(5)
        self.counts = rng.poisson(40, (J, H, W)).astype(np.uint16)
        self.row, self.col = rng.uniform(4, 25, J), rng.uniform(6, 28, J)
        self.probe = _complex(rng, (2, H, W))
        self.object = _complex(rng, M)
        self.bad = rng.random((H, W)) < 0.2


SMALL = Made()


class Frames(stored.Frames):
    """Patterns in memory that count how many were read at once."""

    most = 0

    def read(self, index):
        self.most = max(self.most, len(self.array[index]))
        return super().read(index)


METRES = {"unit": "m", "energy_eV": 8000.0, "distance_m": 2.0, "detector_pixel_m": (75e-6, 75e-6)}


def raw_scan(frames, positions, /, **changes):
    """A scan in memory: counts, the zero frequency in the middle, positions in pixels; or as specified."""
    values = {"format": "made up", "domain": "counts", "zero_frequency": "centre", "unit": "px"}
    values |= {"patterns": Frames(np.asarray(frames)), "positions": positions}
    return stored.RawScan(**(values | changes))


def finding_on(scan, what):
    """The finding on ``what`` of an interpreted scan, or of a list of findings."""
    return next(finding for finding in getattr(scan, "findings", scan) if finding.what == what)


def save_npz(path, *, compressed=False, **arrays):
    """An NPZ file with some arrays."""
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return path


def pinn(**changes):
    """The keys of a PtychoPINN file; None takes one away."""
    arrays = {"xcoords": SMALL.col, "ycoords": SMALL.row, "diff3d": SMALL.counts}
    arrays |= {"probeGuess": SMALL.probe[0]}
    return {key: value for key, value in (arrays | changes).items() if value is not None}


def tike(**changes):
    corner = np.stack([SMALL.row, SMALL.col], axis=1).astype(np.float32)
    data = np.fft.ifftshift(SMALL.counts, axes=(1, 2))
    arrays = {"data": data[None], "scan": corner[None], "probe": SMALL.probe[None, None, None]}
    return {key: value for key, value in (arrays | changes).items() if value is not None}


def equal(source, wanted):
    """Assert that patterns are equal, read in slices and in any order."""
    assert source.shape == wanted.shape and source.dtype == wanted.dtype
    np.testing.assert_array_equal(source.read(slice(0, len(wanted))), wanted)
    np.testing.assert_array_equal(source.read(slice(2, 4)), wanted[2:4])
    np.testing.assert_array_equal(source.read(np.array([5, 0, 5])), wanted[[5, 0, 5]])
    assert source.read(slice(3, 3)).shape == (0, *wanted.shape[1:])
    source.close()
