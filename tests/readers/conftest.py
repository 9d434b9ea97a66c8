"""The two made-up scans of these tests, and NPZ files."""

import pytest
from helpers import hdf5, scans


@pytest.fixture(scope="session")
def made():
    return hdf5.made_up()


@pytest.fixture(scope="session")
def small():
    return scans.Made()


@pytest.fixture
def npz(tmp_path):
    return lambda file="scan.npz", /, **arrays: scans.save_npz(tmp_path / file, **arrays)
