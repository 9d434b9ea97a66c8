"""In a near field, the probe is refined by default only if none is specified."""

from types import SimpleNamespace

import numpy as np
import pytest

from ptycho.config import OwnProbe, ScanRunConfig
from ptycho.config.data import DataConfig
from ptycho.config.waves import Fresnel
from ptycho.methods.solver import options_for

NEAR = Fresnel(12.0, 12.0)


@pytest.mark.parametrize(
    ("fresnel", "specified", "learn", "refined"),
    [
        (NEAR, False, None, True),
        (NEAR, False, False, False),
        (NEAR, True, None, None),
        (None, False, None, None),
    ],
)
def test_a_missing_near_field_probe_is_refined_by_default(fresnel, specified, learn, refined):
    scan = SimpleNamespace(probe=np.ones((1, 16, 16)) if specified else None)
    prepared = SimpleNamespace(whole=SimpleNamespace(N=16, fresnel=fresnel), scan=scan)
    config = ScanRunConfig(data=DataConfig(file="scan"), probe=OwnProbe(learn=learn))
    assert options_for(prepared, config).probe is refined
