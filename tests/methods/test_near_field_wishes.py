"""Which probe of a near field is found without being asked for: the one that nobody specified."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.waves import Fresnel
from ptycho.methods.solver import options_for

NEAR = Fresnel(12.0, 12.0)


@pytest.mark.parametrize(
    ("fresnel", "specified", "asked", "wish"),
    [
        (NEAR, False, None, True),
        (NEAR, False, False, False),
        (NEAR, True, None, None),
        (None, False, None, None),
    ],
)
def test_the_probe_that_nobody_specified(fresnel, specified, asked, wish):
    scan = SimpleNamespace(probe=np.ones((1, 16, 16)) if specified else None)
    prepared = SimpleNamespace(whole=SimpleNamespace(N=16, fresnel=fresnel), scan=scan)
    config = ScanRunConfig(data=DataConfig(file="scan"), probe=OwnProbe(learn=asked))
    assert options_for(prepared, config).probe is wish
